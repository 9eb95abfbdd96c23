"""The findings of a recording: the recorded ones, or those of the live rules in an older one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from natstui.model.clients.watch import ConnectionsRead
from natstui.model.findings.evaluate import apply_and_evaluate
from natstui.model.findings.recorded import FindingsRecorder
from natstui.model.live.snapshot import Snapshot
from natstui.model.live.state import State
from natstui.model.records.findings import FindingReport, FindingsChanged
from natstui.model.records.record import kind_of
from natstui.model.servers.watch import ServersRead
from natstui.session.files.layout import EVENTS_MEMBER, KEYFRAME_MEMBER
from natstui.session.files.segment import decode_or_none
from natstui.session.read.recording import Recording


def read_findings(folder: Path) -> list[FindingReport]:
    """Return the last report of each finding in a recording, without reading its polls.

    Empty for a recording without findings. Raises SessionError.
    """
    recording, report_by_key = (
        Recording(folder, salvage=True),
        dict[tuple[object, ...], FindingReport](),
    )
    for number, span in enumerate(recording.spans):
        if number and not span.index.records_count.get(kind_of(FindingsChanged)):
            continue
        content = recording.read_members(span, (KEYFRAME_MEMBER, EVENTS_MEMBER))
        keyframe_findings = content.keyframe.findings if content.keyframe and number == 0 else None
        finding_groups = [] if keyframe_findings is None else [keyframe_findings.findings]
        for entry in content.entries:
            record = decode_or_none(entry) if entry.kind == kind_of(FindingsChanged) else None
            if isinstance(record, FindingsChanged):
                finding_groups.append(record.findings)
        for finding in (finding for findings in finding_groups for finding in findings):
            entity = (finding.stream, finding.consumer, finding.created_at_us, finding.part)
            report_by_key[(finding.code, *entity, finding.since_at_us)] = finding
    return list(report_by_key.values())


def iterate_states(folder: Path) -> Iterator[State]:
    """Yield the state after every poll of a recording, with its findings; raises SessionError."""
    state, has_poll = State(), False
    for record in Recording(folder, salvage=True).records():
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
    for record in Recording(folder, salvage=True).records():
        before, state = state, apply_and_evaluate(state, record)
        if state.findings is not before.findings:
            change = findings_recorder.find_changes(state.findings, state.now_at_us)
            if change is not None:
                yield change
