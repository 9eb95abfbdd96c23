"""What was wrong during a recording, and what of it could not be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from natstui.clean import clean_line
from natstui.model.findings.evaluate import judged_after
from natstui.model.findings.finding import Finding
from natstui.model.findings.recorded import found
from natstui.model.live.state import State
from natstui.model.records.findings import FindingsChanged, FindingsSoFar
from natstui.session.read.recording import Recording
from natstui.session.share.verify import verify


def recorded_findings(
    folder: Path, step: Callable[[int, int], None]
) -> tuple[State, list[Finding], list[str]]:
    """Return the last state, every finding that was over by then, and what could not be read.

    Raises SessionError when nothing can be read.
    """
    recording, over, state = Recording(folder, salvage=True), list[Finding](), State()
    unknown = set[str]()
    span_us = max(1, recording.end_us - recording.start_us)
    for record in recording.records():
        if isinstance(record, FindingsChanged | FindingsSoFar):
            unknown.update(finding.code for finding in record.findings if found(finding) is None)
        before, state = state, judged_after(state, record)
        if state.findings is not before.findings:
            over += state.findings.ended
        step(min(span_us, max(0, state.now_at_us - recording.start_us)), span_us)
    checked = verify(folder)
    unread = [finding.text for finding in checked.findings if finding.damage]
    if not checked.polls_count:
        unread.append("it holds no poll: nothing was looked at")
    if unknown:
        codes = ", ".join(sorted(map(clean_line, unknown))[:5])
        unread.append(f"findings with codes unknown to this natstui: {codes}")
    return state, over, unread
