"""One system that is watched: its engine is read, and another started when it is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter

from natstui.defects import contained
from natstui.errors import NatstuiError
from natstui.lines import BadLine
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
"""A poll of many rows takes tens of milliseconds in some steps: a key is drawn between them."""


@dataclass(frozen=True, slots=True)
class OpenSystem:
    """A system whose engine has started."""

    name: str
    started: EngineStarted
    link: Link
    connect: Callable[..., Link]
    """Starts another engine on it; takes words that are added to the command line."""


@dataclass(frozen=True, slots=True)
class EngineCallbacks:
    """Who is told what an engine says."""

    said: Callable[[Record, Follower], None]
    """Every record, after it was folded."""
    newer: Callable[[Follower], None]
    """There is a newer state."""
    lost: Callable[[Follower], None]
    """The engine has ended, and nobody asked it to."""


async def follow(app: GuardedApp, follower: Follower, heard: EngineCallbacks) -> None:
    """Fold an engine's records until it ends."""

    def left_out(error: BadLine, count: int) -> None:
        """Say it of the first line, then of the tenth, and so on."""
        if str(count).strip("0") == "1":
            text = f"{counted(count, 'line')} of the engine left out: {error}"
            app.notify(text, severity="warning")

    try:
        async for record in follower.link.records(left_out):
            newer = False
            with contained("reading the engine's output", app.report_defect):
                newer = await _taken(follower, record)
                heard.said(record, follower)
                follower.prefer(record)
            if newer:
                heard.newer(follower)
    except NatstuiError as error:
        app.notify(str(error), severity="error", markup=False)
    if not follower.closed:
        heard.lost(follower)


async def _taken(follower: Follower, record: Record) -> bool:
    """Take a record and judge what it tells; return whether there is a newer state."""
    began_s = perf_counter()
    newer = follower.take(record)
    is_live = follower.state.replay is None
    is_much = is_live and perf_counter() - began_s > _MUCH_S
    if is_much:
        await asyncio.sleep(_REST_S)
    for _ in follower.judging():
        if is_live:
            await asyncio.sleep(_REST_S)
    if is_much:
        await asyncio.sleep(_REST_S)
    return newer


class LiveSystem:
    """A server's engine, or that of the recording the app was opened on."""

    def __init__(self, app: GuardedApp, opened: OpenSystem, heard: EngineCallbacks) -> None:
        """`heard.lost` is not called: it starts another engine itself."""
        self.name = opened.name
        self.follower = Follower(opened.link, opened.started)
        self._app, self.connect = app, opened.connect
        self._heard = replace(heard, said=self._said, lost=self._lost)
        self._tell = heard
        self._resuming = False
        """An engine was started to continue a recording, and has not reported anything yet."""

    def start(self) -> None:
        """Begin to read what its engine says."""
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
        self._tell.newer(follower)
        self._app.set_timer(_RESTART_S, self._restart)

    def _interrupt_recording(self, words: str) -> None:
        """Report that nothing is recorded now; end the recording if it could not be resumed."""
        recording = self.follower.state.recording
        if recording is None or not recording.on:
            return
        what = "the recording ended" if self._resuming else "not recording"
        changed = replace(recording, on=not self._resuming, reason=f"{what}: {words}")
        self._resuming = False
        self.follower.fold(changed)
        self._tell.said(changed, self.follower)

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
