"""A watched system: reads its engine, and starts another engine when that one ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter

from msgspec import Struct

from natstui.defects import report_defects
from natstui.errors import NatstuiError
from natstui.lines import BadLine
from natstui.model.records.benchmark import BenchmarkSummed
from natstui.model.records.link import LinkChanged
from natstui.model.records.record import (
    Command,
    EngineStarted,
    Record,
    SetInterval,
    SetPolling,
    SetViewedRows,
)
from natstui.tui.app.follower import Follower
from natstui.tui.app.guarded import GuardedApp
from natstui.tui.app.link import Link
from natstui.tui.kit.text import safe_copy
from natstui.units import counted
from natstui.values import replace

_LASTING_COMMANDS = SetInterval | SetPolling | SetViewedRows
"""Commands that change how an engine polls from then on."""
_RESTART_DELAY_S = 2.0
_SLOW_UPDATE_S = 0.004
_FINDINGS_STEP_PAUSE_S = 0.01
"""Pause between the steps of evaluating findings, so that a key is drawn between them."""


class OpenSystem(Struct, frozen=True):
    """A system whose engine is running."""

    name: str
    started: EngineStarted
    link: Link
    connect: Callable[..., Link]
    """Starts another engine for the system; its arguments are added to the command line."""


class EngineCallbacks(Struct, frozen=True):
    """Callbacks for the records of an engine."""

    on_record: Callable[[Record, Follower], None]
    """Called with every record, after the state was updated with it."""
    on_newer_state: Callable[[Follower], None]
    """Called when there is a newer state."""
    on_end: Callable[[Follower], None]
    """Called when the engine has ended unexpectedly."""


async def follow_engine(app: GuardedApp, follower: Follower, callbacks: EngineCallbacks) -> None:
    """Update the state with each record of an engine, and call the callbacks, until the engine
    ends.
    """

    def report_bad_line(error: BadLine, count: int) -> None:
        """Report the first unreadable line, then the tenth, and so on."""
        if str(count).strip("0") == "1":
            text = f"{counted(count, 'line')} of the engine left out: {error}"
            app.notify(text, severity="warning")

    try:
        async for record in follower.link.records(report_bad_line):
            has_newer_state = False
            with report_defects("reading the engine's output", app.report_defect):
                has_newer_state = await _update_state(follower, record)
                callbacks.on_record(record, follower)
                follower.request_preferred_consumers(record)
            if has_newer_state:
                callbacks.on_newer_state(follower)
    except NatstuiError as error:
        app.notify(str(error), severity="error", markup=False)
    if not follower.was_closed_by_app:
        callbacks.on_end(follower)


async def _update_state(follower: Follower, record: Record) -> bool:
    """Update the state with a record and evaluate its findings; return whether a newer state
    exists.

    For a live server, the app can process key presses between the steps.
    """
    started_at_s = perf_counter()
    has_newer_state = follower.fold_without_findings(record)
    is_live = follower.state.replay is None
    is_slow = is_live and perf_counter() - started_at_s > _SLOW_UPDATE_S
    if is_slow:
        await asyncio.sleep(_FINDINGS_STEP_PAUSE_S)
    for _ in follower.update_findings_in_steps():
        if is_live:
            await asyncio.sleep(_FINDINGS_STEP_PAUSE_S)
    if is_slow:
        await asyncio.sleep(_FINDINGS_STEP_PAUSE_S)
    return has_newer_state


class LiveSystem:
    """A watched system: its engine reads a server, or the recording that the app was opened on."""

    def __init__(
        self, app: GuardedApp, open_system: OpenSystem, callbacks: EngineCallbacks
    ) -> None:
        """Create the system without reading its engine; `callbacks.on_end` is not called, because
        the system restarts its engine.
        """
        self.name = open_system.name
        self.follower = Follower(open_system.link, open_system.started)
        self._app, self.connect = app, open_system.connect
        self._system_callbacks = replace(callbacks, on_record=self._on_record, on_end=self._on_end)
        self._callbacks = callbacks
        self._lasting_command_by_type: dict[type, Command] = {}
        """The last command of each kind in `_LASTING_COMMANDS`, to send to another engine."""
        self._is_resuming_recording = False
        """Whether an engine was started to continue a recording and has not reported its start."""

    def start(self) -> None:
        """Start reading the engine's records."""
        self._app.run_worker(follow_engine(self._app, self.follower, self._system_callbacks))

    def send(self, command: Command) -> None:
        """Send a command to the engine; one that changes how it polls is also sent to the next
        engine.
        """
        if isinstance(command, _LASTING_COMMANDS):
            self._lasting_command_by_type[type(command)] = command
        self.follower.link.send(command)

    def _on_record(self, record: Record, follower: Follower) -> None:
        if isinstance(record, EngineStarted):
            self._is_resuming_recording = False
            for command in self._lasting_command_by_type.values():
                follower.link.send(command)
        self._callbacks.on_record(record, follower)

    def _on_end(self, follower: Follower) -> None:
        follower.link.close()
        end_reason = follower.link.engine.end_reason()
        reason = f"{end_reason}; starting another"
        follower.fold(LinkChanged(follower.state.now_at_us, "failed", reason))
        self._interrupt_recording(end_reason)
        self._report_ended_benchmark(end_reason)
        self._callbacks.on_newer_state(follower)
        self._app.set_timer(_RESTART_DELAY_S, self._restart_engine)

    def _interrupt_recording(self, reason: str) -> None:
        """Report that the recording is interrupted, or that it has ended if resuming it failed."""
        recording = self.follower.state.recording
        if recording is None or not recording.on:
            return
        status = "the recording ended" if self._is_resuming_recording else "not recording"
        recording_change = replace(
            recording, on=not self._is_resuming_recording, reason=f"{status}: {reason}"
        )
        self._is_resuming_recording = False
        self.follower.fold(recording_change)
        self._callbacks.on_record(recording_change, self.follower)

    def _report_ended_benchmark(self, reason: str) -> None:
        """Report that a running benchmark has ended with the engine."""
        state = self.follower.state
        if state.benchmark is not None and state.benchmark.is_running:
            text = f"the benchmark ended without a result: {reason}"
            self.follower.fold(BenchmarkSummed(state.now_at_us, text, failed=True))

    def _restart_engine(self) -> None:
        if self.follower.was_closed_by_app:
            return
        recording = self.follower.state.recording
        self._is_resuming_recording = (
            recording is not None and recording.on and recording.folder is not None
        )
        folder = recording.folder if recording is not None else None
        resume_options = ("--resume-recording", folder) if self._is_resuming_recording else ()
        try:
            self.follower.link = self.connect(*resume_options)
        except NatstuiError as error:
            self._app.notify(safe_copy(f"{self.name}: {error}"), severity="error")
            self._app.set_timer(_RESTART_DELAY_S, self._restart_engine)
            return
        self.start()
