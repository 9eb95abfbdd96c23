"""The engine the app was opened on, that of a replay that may cover it, and what they report."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from textual.app import App
from textual.notifications import SeverityLevel

from natstui.defects import contained
from natstui.errors import NatstuiError
from natstui.lines import BadLine
from natstui.model.live.state import State
from natstui.model.records.messages import Answered
from natstui.model.records.record import (
    Command,
    EngineStarted,
    LinkChanged,
    Outcome,
    Record,
    Watch,
)
from natstui.model.records.recording import (
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
from natstui.tui.app.follower import Follower
from natstui.tui.app.guarded import GuardedApp
from natstui.tui.app.link import Link
from natstui.tui.frame.live import NO_SERVER
from natstui.tui.kit.text import safe_copy
from natstui.units import counted

_REPLAY_COMMANDS = (
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
"""What the engine of a replay understands."""

_RESTART_S = 2.0


class Announcements:
    """Shows the answers to commands of the app itself, and troubles of a recording or replay."""

    def __init__(self, app: App[int]) -> None:
        self._app = app
        self._titles: dict[int, str | None] = {}
        """Commands whose answer is awaited → the title of its toast, if it is shown as one."""
        self._refused: dict[int, Callable[[str], None]] = {}

    def expect(
        self,
        command_id: int,
        title: str | None,
        refused: Callable[[str], None] | None = None,
    ) -> None:
        """Show the answer to this command when it comes, whatever screen is in view then.

        `refused` gets the reason when it cannot be done.
        """
        self._titles[command_id] = title
        if refused is not None:
            self._refused[command_id] = refused

    def show(self, record: Record, *, of_replay: bool) -> None:
        """Show a record as a toast if somebody waits for it or should know."""
        match record:
            case RecordingChanged(reason=str() as reason):
                self._app.notify(safe_copy(reason), title="recording", severity="warning")
            case Outcome() | Answered() if record.command_id in self._titles:
                self._show_awaited(record)
            case Answered(status="refused" | "failed") if of_replay:
                self._app.notify(safe_copy(record.text), severity="warning", timeout=3)
            case _:
                pass

    def _show_awaited(self, answer: Answered | Outcome) -> None:
        title = self._titles.pop(answer.command_id)
        refused = self._refused.pop(answer.command_id, None)
        if refused is not None and answer.status != "done":
            refused(answer.text)
        elif title is not None:
            timeout = 15 if isinstance(answer, Answered) else None
            self._app.notify(
                safe_copy(answer.text), title=title, severity=_severity(answer), timeout=timeout
            )


def _severity(answer: Answered | Outcome) -> SeverityLevel:
    return "information" if answer.status == "done" else "error"


class Engines:
    """Reads what engines say, sends them commands, and starts another when one is lost."""

    def __init__(
        self,
        app: GuardedApp,
        home: Follower,
        connect: Callable[..., Link],
        open_replay: Callable[[str], Link] | None,
        show_soon: Callable[[], None],
        announcements: Announcements,
    ) -> None:
        """`connect` and `open_replay` start engines; `show_soon` is called for a newer state."""
        self._app = app
        self.home = self.shown = home
        """`home` is what the app was opened on: a live server, or a recording."""
        self._connect = connect
        self._open_replay = open_replay
        self.show_soon = show_soon
        self._announcements = announcements
        self._resuming = False
        """An engine was started to continue a recording, and has not reported anything yet."""

        self.closing: set[asyncio.Task[int]] = set()
        """Engines of replays that were left and are about to end."""

    @property
    def state(self) -> State:
        """The newest whole state of what is shown."""
        return self.shown.state

    @property
    def replaying(self) -> bool:
        """A recording is shown, not a live server."""
        return self.state.replay is not None

    def send(self, command: Command) -> None:
        """Send a command to the engine shown, unless it is one that only a server can answer."""
        if not self.replaying or isinstance(command, _REPLAY_COMMANDS):
            self.shown.link.send(command)
        elif not isinstance(command, Watch):
            self._app.notify(NO_SERVER, severity="warning")

    def start(self) -> None:
        """Begin to read what the app was opened on."""
        self._app.run_worker(self._follow(self.home))

    async def _follow(self, follower: Follower) -> None:
        """Fold an engine's records; when it ends without being asked, start another."""
        try:
            async for record in follower.link.records(self._say_left_out):
                newer = False
                with contained("taking in what the engine said", self._app.report_defect):
                    newer = follower.fold(record)
                    self._announce(record, follower)
                    follower.prefer(record)
                if newer and follower is self.shown:
                    self.show_soon()
        except NatstuiError as error:
            self._app.notify(str(error), severity="error", markup=False)
        if not follower.closed:
            self._lost(follower)

    def _say_left_out(self, error: BadLine, count: int) -> None:
        """Say that a line of the engine was left out: the first one, then the tenth, and so on."""
        if str(count).strip("0") == "1":
            lines = counted(count, "line")
            text = f"{lines} of the engine left out: {error}"
            self._app.notify(text, severity="warning")

    def _announce(self, record: Record, follower: Follower) -> None:
        if isinstance(record, EngineStarted) and follower is self.home:
            self._resuming = False
        self._announcements.show(record, of_replay=follower.state.replay is not None)

    def _lost(self, follower: Follower) -> None:
        words = follower.link.last_stderr_line() or "the engine ended"
        follower.link.close()
        if follower is not self.home:
            self._app.notify(safe_copy(f"the replay ended: {words}"), severity="error")
            self.show_home()
            return
        reason = f"{words}; starting another"
        follower.fold(LinkChanged(follower.state.now_at_us, "failed", reason))
        self._interrupt_recording(words)
        self.show_soon()
        self._app.set_timer(_RESTART_S, self._restart)

    def _interrupt_recording(self, words: str) -> None:
        """Report that nothing is recorded now; end the recording if it could not be resumed."""
        recording = self.home.state.recording
        if recording is None or not recording.on:
            return
        what = "the recording ended" if self._resuming else "not recording"
        changed = replace(recording, on=not self._resuming, reason=f"{what}: {words}")
        self._resuming = False
        self.home.fold(changed)
        self._announce(changed, self.home)

    def _restart(self) -> None:
        recording = self.home.state.recording
        self._resuming = recording is not None and recording.on and recording.folder is not None
        folder = recording.folder if recording is not None else None
        resuming = ("--resume-recording", folder) if self._resuming else ()
        try:
            self.home.link = self._connect(*resuming)
        except NatstuiError as error:
            self._app.notify(str(error), severity="error")
            self._app.set_timer(_RESTART_S, self._restart)
            return
        self.start()

    def replay_session(self, folder: str) -> None:
        """Show a recording from a replay engine of its own; the live engine goes on behind it."""
        self._app.run_worker(self._replay_session(folder), group="replay", exclusive=True)

    async def _replay_session(self, folder: str) -> None:
        if self._open_replay is None:
            return
        link = await asyncio.to_thread(self._open_replay, folder)
        try:
            started = await asyncio.to_thread(link.wait_started)
        except NatstuiError as error:
            await link.close_aside()
            self._app.notify(safe_copy(str(error)), severity="error")
            return
        self.close_replay()
        self.shown = Follower(link, started)
        self._app.run_worker(self._follow(self.shown))

    def show_home(self) -> None:
        """Go back from a replay to what the app was opened on."""
        self.close_replay()
        self.show_soon()

    def close_replay(self) -> None:
        """End the replay that covers what the app was opened on, if there is one."""
        follower, self.shown = self.shown, self.home
        if follower is not self.home:
            follower.closed = True
            closing = asyncio.create_task(follower.link.close_aside())
            self.closing.add(closing)
            closing.add_done_callback(self.closing.discard)
