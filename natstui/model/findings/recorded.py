"""Conversion of findings to records of a recording, and back. Pure except for `FindingsRecorder`.

A recording with findings is not evaluated again: a replay shows its findings with their exact
start.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from natstui.model.findings.catalogue.every import KINDS, successor_of
from natstui.model.findings.finding import (
    MAX_ENDED_FINDINGS,
    Entity,
    Finding,
    Findings,
    WatchedCondition,
)
from natstui.model.records.findings import FindingReport, FindingsChanged, FindingsSoFar
from natstui.values import replace

FINDING_TEXT_INTERVAL_US = 10_000_000
"""Minimum time between two recorded texts of an open finding."""

_MAX_FINDINGS_AT_START = 2_000
_CodeAndEntity = tuple[str, Entity]


def make_report(finding: Finding) -> FindingReport:
    """Return the record of a finding."""
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
    """Return the finding of a record; None if this version does not know its code."""
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


class _RecordedFinding(NamedTuple):
    """A finding, and the time at which it was recorded."""

    finding: Finding
    at_us: int


class FindingsRecorder:
    """The findings that a recording has, from which the changes to record are determined."""

    def __init__(self) -> None:
        self._recorded_findings: dict[_CodeAndEntity, _RecordedFinding] = {}
        self._previous_conditions: Mapping[Entity, tuple[WatchedCondition, ...]] = {}

    def mark_as_recorded(self, findings: Findings, at_us: int) -> None:
        """Remember the open findings as recorded; `find_changes` then returns later changes."""
        self._recorded_findings = {
            _key(finding): _RecordedFinding(finding, at_us)
            for finding in findings.iterate_open_findings()
        }

    def find_changes(self, findings: Findings, at_us: int) -> FindingsChanged | None:
        """Return the record of the changes since the previous call; None without any."""
        reports = [
            make_report(finding)
            for finding in findings.ended
            if self._recorded_findings.pop(_key(finding), None)
        ]
        for entity, conditions in findings.conditions.items():
            if self._previous_conditions.get(entity) is not conditions:
                reports += [
                    make_report(condition.finding)
                    for condition in conditions
                    if condition.is_raised and self._needs_recording(condition, at_us)
                ]
        self._previous_conditions = findings.conditions
        return FindingsChanged(at_us, tuple(reports)) if reports else None

    def _needs_recording(self, condition: WatchedCondition, at_us: int) -> bool:
        """Return whether an open finding must be recorded now; if so, remember it as recorded."""
        finding, key = condition.finding, _key(condition.finding)
        before = self._recorded_findings.get(key)
        if before is not None:
            recorded_finding, recorded_us = before
            is_unchanged = (recorded_finding.text, recorded_finding.sequences) == (
                finding.text,
                finding.sequences,
            )
            if is_unchanged or at_us - recorded_us < FINDING_TEXT_INTERVAL_US:
                return False
        self._recorded_findings[key] = _RecordedFinding(finding, at_us)
        return True


def _key(finding: Finding) -> _CodeAndEntity:
    return finding.kind.code, finding.entity


def apply_finding_changes(findings: Findings, record: FindingsChanged | FindingsSoFar) -> Findings:
    """Return the findings updated by a record of changes, or replaced by one of all findings."""
    is_complete = isinstance(record, FindingsSoFar)
    conditions = {} if is_complete else dict(findings.conditions)
    ended: list[Finding] = []
    for report in record.findings:
        finding = finding_of(report)
        if finding is None:
            continue
        other_conditions = tuple(
            condition
            for condition in conditions.get(finding.entity, ())
            if condition.finding.kind is not finding.kind
        )
        if finding.until_us is not None:
            ended.append(finding)
        else:
            other_conditions = (*other_conditions, WatchedCondition(finding, 0, is_raised=True))
        if other_conditions:
            conditions[finding.entity] = other_conditions
        else:
            conditions.pop(finding.entity, None)
    resolved = (*findings.resolved, *ended)[-MAX_ENDED_FINDINGS:] if ended else findings.resolved
    return replace(
        findings,
        conditions=MappingProxyType(conditions),
        resolved=resolved,
        ended=tuple(ended),
        are_from_recording=True,
        counts=None,
    )


def make_open_findings(findings: Findings, at_us: int) -> FindingsSoFar:
    """Return the worst 2,000 open findings, as the first record of a recording."""
    findings_to_record = [*findings.list_open_findings(), *findings.list_silenced_findings()]
    return FindingsSoFar(
        at_us,
        tuple(make_report(finding) for finding in findings_to_record[:_MAX_FINDINGS_AT_START]),
    )


def make_keyframe_findings(findings: Findings, at_us: int) -> FindingsSoFar | None:
    """Return the open findings for a keyframe; None if the recording has no findings."""
    if not findings.are_from_recording:
        return None
    return FindingsSoFar(
        at_us, tuple(make_report(finding) for finding in findings.list_open_findings())
    )
