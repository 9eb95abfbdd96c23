"""Whom the app follows: its own engine, and a replay that may lie on top of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from natstui.errors import NatstuiError
from natstui.model.record import Command, EngineStarted, LinkChanged, Outcome, Record, Watch
from natstui.model.recording import (
    ChangeSession,
    ExportSelection,
    ListSessions,
    PauseReplay,
    Play,
    RecordingChanged,
    SeekMark,
    SeekTo,
    SetSpeed,
    Step,
)
from natstui.model.state import State
from natstui.model.tail import Answered
from natstui.tui.follower import Follower
from natstui.tui.guarded_app import GuardedApp
from natstui.tui.link import Link
from natstui.tui.text import safe_copy

_OF_A_REPLAY = (
    Play
    | PauseReplay
    | Step
    | SeekTo
    | SeekMark
    | SetSpeed
    | ListSessions
    | ExportSelection
    | ChangeSession
)

_RESTART_S = 2.0


class Following(GuardedApp):
    """Part of the app: folds records, and shows the follower on top."""

    def __init__(
        self,
        started: EngineStarted,
        connect: Callable[[], Link],
        link: Link,
        replay: Callable[[str], Link] | None,
    ) -> None:
        super().__init__(ascii_only=started.ascii_only)
        self.home = self.shown = Follower(link, started)
        """`home` is what the app was opened on."""
        self._started = started
        self._connect = connect
        self._replay = replay
        self.recording_ids: set[int] = set()
        """Commands whose outcome is told at once."""
        self.told_titles: dict[int, str] = {}
        """Commands whose answer is told at once, under these titles."""

    @property
    def state(self) -> State:
        """The newest whole state of what is shown."""
        return self.shown.state

    @property
    def link(self) -> Link:
        """The link of what is shown."""
        return self.shown.link

    @property
    def replaying(self) -> bool:
        """A recording is shown, not a live server."""
        return self.state.replay is not None

    def send(self, command: Command) -> None:
        """Ask the engine; what only a live server can do is not asked of a recording."""
        if not self.replaying or isinstance(command, _OF_A_REPLAY):
            self.link.send(command)
        elif not isinstance(command, Watch):
            self.notify("this is a recording: there is no server behind it", severity="warning")

    def show_soon(self) -> None:
        """Hand the state to the screen in view, soon."""

    async def follow(self, follower: Follower) -> None:
        """Fold an engine's records; when it ends without being asked, start another."""
        try:
            async for record in follower.link.records():
                newer = follower.take(record)
                self._tell(record, follower)
                if newer and follower is self.shown:
                    self.show_soon()
        except NatstuiError as error:
            self.notify(str(error), severity="error", markup=False)
        if not follower.left:
            self._lost(follower)

    def _lost(self, follower: Follower) -> None:
        words = follower.link.last_words() or "the engine ended"
        follower.link.close()
        if follower is not self.home:
            self.notify(safe_copy(f"the replay ended: {words}"), severity="error")
            self.show_home()
            return
        reason = f"{words}; starting another"
        follower.take(LinkChanged(follower.state.now_at_us, "failed", reason))
        self.show_soon()
        self.set_timer(_RESTART_S, self._restart)

    def _restart(self) -> None:
        try:
            self.home.link = self._connect()
        except NatstuiError as error:
            self.notify(str(error), severity="error")
            self.set_timer(_RESTART_S, self._restart)
            return
        self.run_worker(self.follow(self.home))

    def _tell(self, record: Record, follower: Follower) -> None:
        """Say at once what nobody should miss, whatever is shown."""
        match record:
            case RecordingChanged(reason=str() as reason):
                self.notify(safe_copy(reason), title="recording", severity="warning")
            case Outcome() if record.command_id in (self.recording_ids | self.told_titles.keys()):
                self.recording_ids.discard(record.command_id)
                self.told_titles.pop(record.command_id, None)
                bad = record.status != "done"
                self.notify(safe_copy(record.text), severity="error" if bad else "information")
            case Answered() if record.command_id in self.told_titles:
                title = self.told_titles.pop(record.command_id)
                bad = record.status != "done"
                self.notify(
                    safe_copy(record.text),
                    title=title,
                    severity="error" if bad else "information",
                    timeout=15,
                )
            case Answered(status="refused" | "failed") if follower.state.replay is not None:
                self.notify(safe_copy(record.text), severity="warning", timeout=3)

    async def replay_session(self, folder: str) -> None:
        """Show a recording instead, from a replay engine of its own; the live one goes on."""
        if self._replay is None:
            return
        link = await asyncio.to_thread(self._replay, folder)
        try:
            started = await asyncio.to_thread(link.wait_started)
        except NatstuiError as error:
            link.close()
            self.notify(safe_copy(str(error)), severity="error")
            return
        self.close_replay()
        self.shown = Follower(link, started)
        self.run_worker(self.follow(self.shown))

    def show_home(self) -> None:
        """Go back from a replay to what the app was opened on."""
        self.close_replay()
        self.show_soon()

    def close_replay(self) -> None:
        """End the replay on top, if there is one."""
        follower, self.shown = self.shown, self.home
        if follower is not self.home:
            follower.left = True
            with contextlib.suppress(NatstuiError):
                follower.link.close()
