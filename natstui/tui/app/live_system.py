"""A watched system: its engine is read, and another one started when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter

from natstui.defects import contained
from natstui.errors import NatstuiError
from natstui.lines import BadLine
from natstui.model.records.analysis import AnalysisFinished
from natstui.model.records.benchmark import BenchmarkSummed
from natstui.model.records.link import LinkChanged
from natstui.model.records.record import EngineStarted, Record
from natstui.tui.app.follower import Follower
from natstui.tui.app.guarded import GuardedApp
from natstui.tui.app.link import Link
from natstui.tui.kit.text import safe_copy
from natstui.units import counted

_RESTART_S = 2.0
_MUCH_S = 0.004
_REST_S = 0.01
"""Pause between the steps of a large poll, so that a key is drawn between them."""


@dataclass(frozen=True, slots=True)
class OpenSystem:
    """A system whose engine is running."""

    name: str
    started: EngineStarted
    link: Link
    connect: Callable[..., Link]
    """Starts another engine for it; accepts arguments that are added to the command line."""


@dataclass(frozen=True, slots=True)
class EngineCallbacks:
    """Callbacks for the records of an engine."""

    said: Callable[[Record, Follower], None]
    """Called with every record, after it was folded."""
    newer: Callable[[Follower], None]
    """Called when there is a newer state."""
    lost: Callable[[Follower], None]
    """Called when the engine has ended unexpectedly."""


async def follow(app: GuardedApp, follower: Follower, callbacks: EngineCallbacks) -> None:
    """Fold an engine's records until it ends."""

    def left_out(error: BadLine, count: int) -> None:
        """Report the first unreadable line, then the tenth, and so on."""
        if str(count).strip("0") == "1":
            text = f"{counted(count, 'line')} of the engine left out: {error}"
            app.notify(text, severity="warning")

    try:
        async for record in follower.link.records(left_out):
            newer = False
            with contained("reading the engine's output", app.report_defect):
                newer = await _taken(follower, record)
                callbacks.said(record, follower)
                follower.prefer(record)
            if newer:
                callbacks.newer(follower)
    except NatstuiError as error:
        app.notify(str(error), severity="error", markup=False)
    if not follower.closed:
        callbacks.lost(follower)


async def _taken(follower: Follower, record: Record) -> bool:
    """Fold a record with its findings; return whether there is a newer state."""
    began_s = perf_counter()
    newer = follower.take(record)
    is_live = follower.state.replay is None
    is_slow = is_live and perf_counter() - began_s > _MUCH_S
    if is_slow:
        await asyncio.sleep(_REST_S)
    for _ in follower.judging():
        if is_live:
            await asyncio.sleep(_REST_S)
    if is_slow:
        await asyncio.sleep(_REST_S)
    return newer


class LiveSystem:
    """The engine of a server, or of the recording that the app was opened on."""

    def __init__(
        self, app: GuardedApp, open_system: OpenSystem, callbacks: EngineCallbacks
    ) -> None:
        """Create without reading; `callbacks.lost` is not called, as it restarts the engine
        itself.
        """
        self.name = open_system.name
        self.follower = Follower(open_system.link, open_system.started)
        self._app, self.connect = app, open_system.connect
        self._heard = replace(callbacks, said=self._said, lost=self._lost)
        self._tell = callbacks
        self._resuming = False
        """An engine was started to continue a recording, and has not reported anything yet."""

    def start(self) -> None:
        """Start reading the engine's records."""
        self._app.run_worker(follow(self._app, self.follower, self._heard))

    def _said(self, record: Record, follower: Follower) -> None:
        if isinstance(record, EngineStarted):
            self._resuming = False
        self._tell.said(record, follower)

    def _lost(self, follower: Follower) -> None:
        words = follower.link.last_stderr_line() or "the engine ended"
        follower.link.close()
        reason = f"{words}; starting another"
        follower.fold(LinkChanged(follower.state.now_at_us, "failed", reason))
        self._interrupt_recording(words)
        self._end_runs(words)
        self._tell.newer(follower)
        self._app.set_timer(_RESTART_S, self._restart)

    def _interrupt_recording(self, reason: str) -> None:
        """Report that nothing is recorded now; end the recording if it could not be resumed."""
        recording = self.follower.state.recording
        if recording is None or not recording.on:
            return
        status = "the recording ended" if self._resuming else "not recording"
        interrupted = replace(recording, on=not self._resuming, reason=f"{status}: {reason}")
        self._resuming = False
        self.follower.fold(interrupted)
        self._tell.said(interrupted, self.follower)

    def _end_runs(self, reason: str) -> None:
        """Report that the benchmark and the analysis in the engine have ended with it."""
        state = self.follower.state
        if state.benchmark is not None and state.benchmark.is_running:
            text = f"the benchmark ended without a result: {reason}"
            self.follower.fold(BenchmarkSummed(state.now_at_us, text, failed=True))
        if state.analysis is not None and (progress := state.analysis.running) is not None:
            text = f"the analysis ended without a result: {reason}"
            analysis_end = AnalysisFinished(
                state.now_at_us, progress.run_id, progress.session, "failed", text
            )
            self.follower.fold(analysis_end)
            self._tell.said(analysis_end, self.follower)

    def _restart(self) -> None:
        if self.follower.closed:
            return
        recording = self.follower.state.recording
        self._resuming = recording is not None and recording.on and recording.folder is not None
        folder = recording.folder if recording is not None else None
        resuming = ("--resume-recording", folder) if self._resuming else ()
        try:
            self.follower.link = self.connect(*resuming)
        except NatstuiError as error:
            self._app.notify(safe_copy(f"{self.name}: {error}"), severity="error")
            self._app.set_timer(_RESTART_S, self._restart)
            return
        self.start()
