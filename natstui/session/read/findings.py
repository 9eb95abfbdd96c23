"""The findings of a recording: the recorded ones, or those of the live rules in an older one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from natstui.model.clients.watch import ConnectionsRead
from natstui.model.findings.evaluate import apply_and_evaluate
from natstui.model.findings.recorded import FindingsRecorder
from natstui.model.live.snapshot import Snapshot
from natstui.model.live.state import State
from natstui.model.records.findings import FindingReport, FindingsChanged
from natstui.model.records.record import kind_of
from natstui.model.records.recording import Gap
from natstui.model.servers.watch import ServersRead
from natstui.session.files.layout import EVENTS_MEMBER, KEYFRAME_MEMBER
from natstui.session.files.segment import decode_or_none
from natstui.session.read.recording import Recording, find_initial_gap
from natstui.values import replace


def read_findings(folder: Path) -> list[FindingReport]:
    """Return the last report of each finding in a recording, without reading its polls.

    A finding that is not in the keyframe after a loss ended before the loss. Empty for a recording
    without findings. Raises SessionError if the folder is no readable recording.
    """
    recording = Recording(folder, skips_unreadable_parts=True)
    report_by_key = dict[_FindingKey, FindingReport]()
    for number, span in enumerate(recording.spans):
        counts = span.index.records_count
        if number and not (counts.get(kind_of(FindingsChanged)) or counts.get(kind_of(Gap))):
            continue
        content = recording.read_members(span, (KEYFRAME_MEMBER, EVENTS_MEMBER))
        loss = find_initial_gap(content)
        if content.keyframe and content.keyframe.findings and (number == 0 or loss is not None):
            open_findings = content.keyframe.findings.findings
            if loss is not None:
                open_keys = {_finding_key(finding) for finding in open_findings}
                _end_lost_findings(report_by_key, open_keys, loss)
            report_by_key |= {_finding_key(finding): finding for finding in open_findings}
        for entry in content.entries:
            record = decode_or_none(entry) if entry.kind == kind_of(FindingsChanged) else None
            if isinstance(record, FindingsChanged):
                report_by_key |= {_finding_key(finding): finding for finding in record.findings}
    return list(report_by_key.values())


class _FindingKey(NamedTuple):
    """The fields that all reports of one finding share."""

    code: str
    stream: str
    consumer: str
    created_at_us: int
    part: str
    since_at_us: int


def _finding_key(finding: FindingReport) -> _FindingKey:
    return _FindingKey(
        finding.code,
        finding.stream,
        finding.consumer,
        finding.created_at_us,
        finding.part,
        finding.since_at_us,
    )


def _end_lost_findings(
    report_by_key: dict[_FindingKey, FindingReport], open_keys: set[_FindingKey], loss: Gap
) -> None:
    """End the open findings that are not in `open_keys`, at the last record before the loss."""
    for key, report in report_by_key.items():
        if report.until_at_us is None and key not in open_keys:
            until_us = max(loss.from_at_us, report.since_at_us)
            report_by_key[key] = replace(report, until_at_us=until_us)


def iterate_states(folder: Path) -> Iterator[State]:
    """Yield the state after every poll of a recording, with its findings.

    Raises SessionError if the folder is no readable recording.
    """
    state, has_poll = State(), False
    for record in Recording(folder, skips_unreadable_parts=True).records():
        # The findings of a poll, and readings during it, are recorded after the poll.
        if has_poll and not isinstance(record, FindingsChanged | ServersRead | ConnectionsRead):
            yield state
            has_poll = False
        state = apply_and_evaluate(state, record)
        has_poll = has_poll or isinstance(record, Snapshot)
    if has_poll:
        yield state


def compute_changes(folder: Path) -> Iterator[FindingsChanged]:
    """Yield every change of findings, computed for a recording that does not contain findings."""
    state, findings_recorder = State(), FindingsRecorder()
    for record in Recording(folder, skips_unreadable_parts=True).records():
        previous_state, state = state, apply_and_evaluate(state, record)
        if state.findings is not previous_state.findings:
            change = findings_recorder.find_changes(state.findings, state.now_at_us)
            if change is not None:
                yield change
