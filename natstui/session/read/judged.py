"""The findings of a recording: those it holds, or what the live rules find in an older one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from natstui.model.clients.watch import ConnectionsRead
from natstui.model.findings.evaluate import judged_after
from natstui.model.findings.recorded import Teller
from natstui.model.live.snapshot import Snapshot
from natstui.model.live.state import State
from natstui.model.records.findings import FindingsChanged, FindingTold
from natstui.model.records.record import kind_of
from natstui.model.servers.watch import ServersRead
from natstui.session.files.layout import EVENTS, KEYFRAME
from natstui.session.files.segment import readable
from natstui.session.read.recording import Recording


def told_findings(folder: Path) -> list[FindingTold]:
    """Return the findings that a recording holds, each as it was told last, without its polls.

    None of a recording that does not hold them. Raises SessionError.
    """
    recording, told = Recording(folder, salvage=True), dict[tuple[object, ...], FindingTold]()
    for number, span in enumerate(recording.spans):
        if number and not span.index.records_count.get(kind_of(FindingsChanged)):
            continue
        content = recording.part(span, (KEYFRAME, EVENTS))
        known = content.keyframe.findings if content.keyframe and number == 0 else None
        many = [] if known is None else [known.findings]
        for entry in content.entries:
            record = readable(entry) if entry.kind == kind_of(FindingsChanged) else None
            if isinstance(record, FindingsChanged):
                many.append(record.findings)
        for finding in (finding for findings in many for finding in findings):
            entity = (finding.stream, finding.consumer, finding.created_at_us, finding.part)
            told[(finding.code, *entity, finding.since_at_us)] = finding
    return list(told.values())


def judged_moments(folder: Path) -> Iterator[State]:
    """Yield the state after every poll and what was found by it; raises SessionError."""
    state, polled = State(), False
    for record in Recording(folder, salvage=True).records():
        # A recording tells what it found after the poll, and what was read meanwhile.
        if polled and not isinstance(record, FindingsChanged | ServersRead | ConnectionsRead):
            yield state
            polled = False
        state = judged_after(state, record)
        polled = polled or isinstance(record, Snapshot)
    if polled:
        yield state


def changes_of(folder: Path) -> Iterator[FindingsChanged]:
    """Yield every change of the findings of a recording that does not hold them."""
    state, teller = State(), Teller()
    for record in Recording(folder, salvage=True).records():
        before, state = state, judged_after(state, record)
        if state.findings is not before.findings:
            changed = teller.changes(state.findings, state.now_at_us)
            if changed is not None:
                yield changed
