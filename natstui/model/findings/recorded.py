"""Findings on their way into a recording, and back out of it. Pure but for what was told last.

A recording that holds its findings is not judged again: what is shown of it is what was found
while it was made, since exactly when.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from natstui.model.findings.catalogue.every import KINDS, successor_of
from natstui.model.findings.finding import (
    RESOLVED_KEPT,
    Entity,
    Finding,
    Findings,
    Watched,
)
from natstui.model.records.findings import FindingsChanged, FindingsSoFar, FindingTold

TOLD_AGAIN_US = 10_000_000
"""What an open finding tells is written again after this long, if it tells something else."""

_KNOWN_MOST = 2_000
_Key = tuple[str, Entity]


def told(finding: Finding) -> FindingTold:
    """Return a finding as it is recorded."""
    entity = finding.entity
    return FindingTold(
        code=finding.kind.code,
        stream=entity.stream,
        consumer=entity.consumer,
        created_at_us=entity.created_at_us,
        part=entity.part,
        since_at_us=finding.since_us,
        text=finding.text,
        sequences=finding.sequences,
        numbers=dict(finding.numbers) or None,
        until_at_us=finding.until_us,
    )


def found(one: FindingTold) -> Finding | None:
    """Return a recorded finding; None for a code that this version does not know."""
    kind = KINDS.get(successor_of(one.code))
    if kind is None:
        return None
    entity = Entity(one.stream, one.consumer, one.created_at_us, one.part)
    numbers = one.numbers or {}
    return Finding(
        kind, entity, one.since_at_us, one.text, one.sequences, numbers, one.until_at_us
    )


class Teller:
    """Knows what was told of the open findings, and tells what changed since."""

    def __init__(self) -> None:
        self._told: dict[_Key, tuple[Finding, int]] = {}
        self._watched: Mapping[Entity, tuple[Watched, ...]] = {}

    def know(self, findings: Findings, at_us: int) -> None:
        """Take what the recording begins with as told."""
        self._told = {_key(one): (one, at_us) for one in findings.told()}

    def changes(self, findings: Findings, at_us: int) -> FindingsChanged | None:
        """Return what changed by a judgement at a moment; None when nothing did."""
        changed = [told(one) for one in findings.ended if self._told.pop(_key(one), None)]
        for entity, watched in findings.watched.items():
            if self._watched.get(entity) is not watched:
                changed += [told(w.finding) for w in watched if w.raised and self._news(w, at_us)]
        self._watched = findings.watched
        return FindingsChanged(at_us, tuple(changed)) if changed else None

    def _news(self, watched: Watched, at_us: int) -> bool:
        """Return whether an open finding is told now, and remember that it is."""
        finding, key = watched.finding, _key(watched.finding)
        before = self._told.get(key)
        if before is not None:
            known, told_us = before
            same = (known.text, known.sequences) == (finding.text, finding.sequences)
            if same or at_us - told_us < TOLD_AGAIN_US:
                return False
        self._told[key] = (finding, at_us)
        return True


def _key(finding: Finding) -> _Key:
    return finding.kind.code, finding.entity


def findings_after(findings: Findings, record: FindingsChanged | FindingsSoFar) -> Findings:
    """Return the findings after those of a recording."""
    whole = isinstance(record, FindingsSoFar)
    watched = {} if whole else dict(findings.watched)
    over: list[Finding] = []
    for one in record.findings:
        finding = found(one)
        if finding is None:
            continue
        others = tuple(
            each
            for each in watched.get(finding.entity, ())
            if each.finding.kind is not finding.kind
        )
        if finding.until_us is not None:
            over.append(finding)
        else:
            others = (*others, Watched(finding, 0, raised=True))
        if others:
            watched[finding.entity] = others
        else:
            watched.pop(finding.entity, None)
    resolved = (*findings.resolved, *over)[-RESOLVED_KEPT:] if over else findings.resolved
    return replace(
        findings,
        watched=MappingProxyType(watched),
        resolved=resolved,
        ended=tuple(over),
        recorded=True,
        counts=None,
    )


def known_so_far(findings: Findings, at_us: int) -> FindingsSoFar:
    """Return what is open, for a recording that begins now; of very many, the worst."""
    every = [*findings.open(), *findings.silenced()]
    return FindingsSoFar(at_us, tuple(told(one) for one in every[:_KNOWN_MOST]))


def findings_so_far(findings: Findings, at_us: int) -> FindingsSoFar | None:
    """Return what a keyframe repeats; None where findings are not recorded."""
    if not findings.recorded:
        return None
    return FindingsSoFar(at_us, tuple(told(one) for one in findings.open()))
