"""The findings of a recording, and the parts of it that could not be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from natstui.clean import clean_line
from natstui.model.findings.evaluate import judged_after
from natstui.model.findings.finding import Finding
from natstui.model.findings.recorded import finding_of
from natstui.model.live.state import State
from natstui.model.records.findings import FindingsChanged, FindingsSoFar
from natstui.session.read.recording import Recording
from natstui.session.share.verify import verify


def recorded_findings(
    folder: Path, step: Callable[[int, int], None]
) -> tuple[State, list[Finding], list[str]]:
    """Return the last state, the findings that had ended by then, and what could not be read.

    Raises SessionError when nothing can be read.
    """
    recording, ended_findings, state = Recording(folder, salvage=True), list[Finding](), State()
    unknown = set[str]()
    span_us = max(1, recording.end_us - recording.start_us)
    for record in recording.records():
        if isinstance(record, FindingsChanged | FindingsSoFar):
            unknown.update(
                finding.code for finding in record.findings if finding_of(finding) is None
            )
        before, state = state, judged_after(state, record)
        if state.findings is not before.findings:
            ended_findings += state.findings.ended
        step(min(span_us, max(0, state.now_at_us - recording.start_us)), span_us)
    unread = unread_texts(folder)
    if unknown:
        codes = ", ".join(sorted(map(clean_line, unknown))[:5])
        unread.append(f"findings with codes unknown to this natstui: {codes}")
    return state, ended_findings, unread


def unread_texts(folder: Path) -> list[str]:
    """Return what of a recording cannot be judged: its damage, or that it has no poll."""
    verdict = verify(folder)
    texts = [finding.text for finding in verdict.findings if finding.damage]
    if not verdict.polls_count:
        texts.append("it holds no poll: nothing was looked at")
    return texts
