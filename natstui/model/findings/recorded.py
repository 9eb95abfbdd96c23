"""Conversion of findings to records of a recording, and back. Pure except for `Teller`.

A recording with findings is not evaluated again: its own findings are shown, with their exact
start.
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
from natstui.model.records.findings import FindingReport, FindingsChanged, FindingsSoFar

TOLD_AGAIN_US = 10_000_000
"""Interval after which the changed text of an open finding is recorded again."""

_KNOWN_MOST = 2_000
_Key = tuple[str, Entity]


def record_of(finding: Finding) -> FindingReport:
    """Return a finding in its recorded form."""
    entity = finding.entity
    return FindingReport(
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


def finding_of(record: FindingReport) -> Finding | None:
    """Return a recorded finding; None for a code that this version does not know."""
    kind = KINDS.get(successor_of(record.code))
    if kind is None:
        return None
    entity = Entity(record.stream, record.consumer, record.created_at_us, record.part)
    numbers = record.numbers or {}
    return Finding(
        kind,
        entity,
        record.since_at_us,
        record.text,
        record.sequences,
        numbers,
        record.until_at_us,
    )


class Teller:
    """Stores the recorded texts of open findings, and returns what has changed since."""

    def __init__(self) -> None:
        self._told: dict[_Key, tuple[Finding, int]] = {}
        self._watched: Mapping[Entity, tuple[Watched, ...]] = {}

    def know(self, findings: Findings, at_us: int) -> None:
        """Store the findings at the start of the recording as recorded."""
        self._told = {_key(finding): (finding, at_us) for finding in findings.told()}

    def changes(self, findings: Findings, at_us: int) -> FindingsChanged | None:
        """Return the changes by an evaluation; None without any."""
        changed = [
            record_of(finding) for finding in findings.ended if self._told.pop(_key(finding), None)
        ]
        for entity, watched in findings.watched.items():
            if self._watched.get(entity) is not watched:
                changed += [
                    record_of(w.finding) for w in watched if w.raised and self._news(w, at_us)
                ]
        self._watched = findings.watched
        return FindingsChanged(at_us, tuple(changed)) if changed else None

    def _news(self, watched: Watched, at_us: int) -> bool:
        """Return whether an open finding is to be recorded now, and store that it is."""
        finding, key = watched.finding, _key(watched.finding)
        before = self._told.get(key)
        if before is not None:
            last, recorded_us = before
            same = (last.text, last.sequences) == (finding.text, finding.sequences)
            if same or at_us - recorded_us < TOLD_AGAIN_US:
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
    for entry in record.findings:
        finding = finding_of(entry)
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
    """Return the open findings for a new recording; of very many, the worst."""
    every = [*findings.open(), *findings.silenced()]
    return FindingsSoFar(at_us, tuple(record_of(finding) for finding in every[:_KNOWN_MOST]))


def findings_so_far(findings: Findings, at_us: int) -> FindingsSoFar | None:
    """Return the findings for a keyframe; None if findings are not recorded."""
    if not findings.recorded:
        return None
    return FindingsSoFar(at_us, tuple(record_of(finding) for finding in findings.open()))
