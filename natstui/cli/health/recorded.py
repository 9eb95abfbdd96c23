"""The findings of a recording: what the live rules would have told while it was made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from natstui.model.findings.evaluate import judged_after
from natstui.model.findings.finding import RESOLVED_KEPT, Finding
from natstui.model.live.snapshot import Snapshot
from natstui.model.live.state import State
from natstui.session.read.recording import Recording


def recorded_findings(
    folder: Path, step: Callable[[int, int], None]
) -> tuple[State, list[Finding], list[str]]:
    """Return the last state, every finding that was over by then, and what could not be read.

    Raises SessionError when nothing can be read.
    """
    recording, over, state = Recording(folder, salvage=True), list[Finding](), State()
    span_us = max(1, recording.end_us - recording.start_us)
    for record in recording.records():
        before = state.findings.resolved
        state = judged_after(state, record)
        over += _new(before, state.findings.resolved)
        step(min(span_us, max(0, state.now_at_us - recording.start_us)), span_us)
    return state, over, [mark.text for mark in recording.damage()]


def judged_moments(folder: Path) -> Iterator[State]:
    """Yield the state after every poll of a recording, judged; raises SessionError."""
    state = State()
    for record in Recording(folder, salvage=True).records():
        state = judged_after(state, record)
        if isinstance(record, Snapshot):
            yield state


def _new(before: tuple[Finding, ...], after: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return what was added to the findings that are over; only the newest are kept there."""
    if before is after:
        return ()
    count = len(after) - len(before)
    if len(after) == RESOLVED_KEPT and before:
        last = next((n for n in reversed(range(len(after))) if after[n] is before[-1]), -1)
        count = len(after) - 1 - last
    return after[len(after) - count :] if count else ()
