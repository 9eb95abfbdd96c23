"""The watched systems, a replay that may be shown instead, and toasts about their records."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from textual.app import App

from natstui.clean import clean_line
from natstui.errors import ActionRefusal, NatstuiError, UsageError
from natstui.model.live.state import State
from natstui.model.records.analysis import AnalysisCommand
from natstui.model.records.link import LinkChanged
from natstui.model.records.messages import Answered
from natstui.model.records.record import Command, HostCommand, Record, SetViewedRows
from natstui.model.records.recording import (
    ChangeSession,
    ChangeSpeed,
    ExportSelection,
    ListSessions,
    PauseReplay,
    Play,
    RecordingChanged,
    SeekMark,
    SeekTo,
    Step,
)
from natstui.tui.app.follower import Follower
from natstui.tui.app.guarded import GuardedApp, remove_toast
from natstui.tui.app.link import Link
from natstui.tui.app.live_system import EngineCallbacks, LiveSystem, OpenSystem, follow_engine
from natstui.tui.frame.head.status_text import PROFILE_COLOUR_PATTERN
from natstui.tui.frame.live import NO_SERVER, LiveScreen
from natstui.tui.frame.requests import HOST_CHANGE_REFUSED, PendingRequest
from natstui.tui.frame.systems import SystemState
from natstui.tui.kit.styles import series_colors
from natstui.tui.kit.text import safe_copy

_COMMANDS_ALLOWED_IN_REPLAY = (
    Play
    | PauseReplay
    | Step
    | SeekTo
    | SeekMark
    | ChangeSpeed
    | ListSessions
    | ExportSelection
    | ChangeSession
    | AnalysisCommand
)
"""Commands that the engine of a replay accepts."""
_MAX_LOADING_TOAST_S = 600.0
"""Maximum time of the loading toast; it is removed when the replay is ready."""


class Engines:
    """The watched systems, each with its own engine, and the replay that is shown instead, if
    any.
    """

    def __init__(
        self,
        app: GuardedApp,
        open_systems: Sequence[OpenSystem],
        open_replay: Callable[[str], Link] | None,
        show_state_soon: Callable[[], None],
        *,
        may_change_host: bool,
    ) -> None:
        """Create the engines of the opened systems; `open_replay` starts a replay engine.

        `show_state_soon` is called for a newer state. Without `may_change_host`, a `HostCommand`
        is refused.
        """
        self._app = app
        self._open_replay = open_replay
        self.show_state_soon = show_state_soon
        self._may_change_host = may_change_host
        self._replay_follower: Follower | None = None
        self._replay_loaded = asyncio.Event()
        """Set when the replay has a first state, or was closed."""
        self._callbacks = EngineCallbacks(
            self._show_toast, self._show_newer_state, self._close_ended_replay
        )
        self.systems: dict[str, LiveSystem] = {}
        """Systems of the start and added systems, by name, in the order of the screen."""
        for system in open_systems:
            self.systems[system.name] = LiveSystem(app, system, self._callbacks)
        self._removed_systems: dict[str, LiveSystem] = {}
        """Removed systems by name: screens that are bound to them show their last state."""
        self.current_name = open_systems[0].name
        """The name of the system that screens act on unless they are bound to another one."""
        self.closing_tasks: set[asyncio.Task[int]] = set()
        """Tasks that end engines of removed systems."""

    def find_system(self, system: str | None) -> LiveSystem:
        """Return a system by its name, for None the one that the screen in view acts on; raises
        UsageError for a system that is not watched.
        """
        if system is None:
            return self.acting_system
        if system not in self.systems:
            raise UsageError(f"{clean_line(system)} is no longer watched")
        return self.systems[system]

    def is_watched(self, system: str) -> bool:
        """Return whether a system is watched: removed systems are not."""
        return system in self.systems

    def shown_follower_of(self, system: LiveSystem) -> Follower:
        """Return what follows the records of a system's engine, or of the replay shown instead."""
        return self._replay_follower or system.follower

    @property
    def acting_system(self) -> LiveSystem:
        """Return the system on which actions of the screen in view are executed."""
        name = find_system_in_view(self._app) or self.current_name
        return (
            self.systems.get(name)
            or self._removed_systems.get(name)
            or self.systems[self.current_name]
        )

    @property
    def shown_follower(self) -> Follower:
        """Return the follower with the shown state: that of an open replay, else of the system
        that the screen in view acts on.
        """
        return self.shown_follower_of(self.acting_system)

    @property
    def acting_follower(self) -> Follower:
        """Return what follows the engine that executes requests: in a replay its own, while it
        loads and otherwise that of the system that the screen in view acts on.
        """
        return self.shown_follower if self.is_replaying else self.acting_system.follower

    @property
    def state(self) -> State:
        """Return the newest complete state of the open replay, else of the system that the screen
        in view acts on.
        """
        return self.shown_follower.state

    @property
    def is_replaying(self) -> bool:
        """Return whether a recording is shown, not a live server."""
        return self.state.replay is not None

    @property
    def has_opened_replay(self) -> bool:
        """Return whether a replay that was opened here is shown; the app may be opened on a
        recording instead.
        """
        return self._replay_follower is not None

    @property
    def links(self) -> list[Link]:
        """Return the links of all engines, that of the shown state first."""
        systems = [system.follower.link for system in self.systems.values()]
        return list(dict.fromkeys((self.shown_follower.link, *systems)))

    def system_states(self) -> dict[str, SystemState]:
        """Return the state of each watched system by name; empty with a single system or a
        replay.
        """
        if len(self.systems) < 2 or self.has_opened_replay:
            return {}
        followers = [system.follower for system in self.systems.values()]
        colours = series_colors(dark=self._app.current_theme.dark)
        return {
            name: SystemState(
                name, system_style(index, system.state, colours), system.state, system.poll_age_us
            )
            for index, (name, system) in enumerate(zip(self.systems, followers, strict=True))
        }

    def check_host_change(self) -> None:
        """Raise ActionRefusal unless screens may write files and start programs on the machine of
        natstui.
        """
        if not self._may_change_host:
            raise ActionRefusal(HOST_CHANGE_REFUSED)

    def send(self, command: Command, system: str | None = None) -> None:
        """Send a command to an engine; in a replay, a command that needs a server only shows a
        toast.

        Raises ActionRefusal for a `HostCommand` that is not allowed.
        """
        if isinstance(command, HostCommand):
            self.check_host_change()
        if not self.is_replaying:
            self.find_system(system).send(command)
        elif isinstance(command, _COMMANDS_ALLOWED_IN_REPLAY):
            self.shown_follower.link.send(command)
        elif not isinstance(command, SetViewedRows):
            self._app.notify(NO_SERVER, severity="warning")

    def request(self, command: Command, system: str | None = None) -> PendingRequest:
        """Send a command with a new id; in a replay, a request that needs a server fails at once.

        Raises UsageError for a system that is no longer watched, and ActionRefusal for a
        `HostCommand` that is not allowed.
        """
        if isinstance(command, HostCommand):
            self.check_host_change()
        if not self.is_replaying:
            target = self.find_system(system)
            request = target.follower.link.request(command)
            request.system = target.name if len(self.systems) > 1 else ""
            return request
        if isinstance(command, _COMMANDS_ALLOWED_IN_REPLAY):
            return self.shown_follower.link.request(command)
        request = PendingRequest()
        request.fail(NO_SERVER)
        return request

    def send_to_all(self, command: Command) -> None:
        """Send a command to the engines of all systems, or only to that of a replay."""
        if self.is_replaying:
            self.send(command)
            return
        for system in self.systems.values():
            system.send(command)

    def start(self) -> None:
        """Start reading the records of the systems' engines."""
        for system in self.systems.values():
            system.start()

    def add(self, open_system: OpenSystem) -> None:
        """Add a system, start reading its engine, and make the system the current one."""
        self._removed_systems.pop(open_system.name, None)
        self.systems[open_system.name] = LiveSystem(self._app, open_system, self._callbacks)
        self.systems[open_system.name].start()
        self.current_name = open_system.name
        self.show_state_soon()

    def remove(self, system: str) -> None:
        """Remove a system, and end its engine; raises UsageError for the only one."""
        if len(self.systems) == 1:
            raise UsageError(f"{clean_line(system)} is the only system: to leave natstui, press q")
        self._removed_systems[system] = self.find_system(system)
        del self.systems[system]
        if self.current_name == system:
            self.current_name = next(iter(self.systems))
        follower = self._removed_systems[system].follower
        self._close_engine(follower)
        follower.fold(LinkChanged(follower.state.now_at_us, "closed", "no longer watched"))
        self.show_state_soon()

    def _show_newer_state(self, follower: Follower) -> None:
        if follower is self._replay_follower and self.is_replaying:
            self._replay_loaded.set()
        if self._replay_follower is None or follower is self._replay_follower:
            self.show_state_soon()

    def _show_toast(self, record: Record, follower: Follower) -> None:
        """Show a toast for a record of a recording error or a replay error; ignore others."""
        match record:
            case RecordingChanged(reason=str() as reason):
                names = (
                    system.name for system in self.systems.values() if system.follower is follower
                )
                name = next(names, "") if len(self.systems) > 1 else ""
                title = f"{name} recording".strip()
                self._app.notify(safe_copy(reason), title=title, severity="warning")
            case Answered(status="refused" | "failed") if follower.state.replay is not None:
                self._app.notify(safe_copy(record.text), severity="warning", timeout=3)
            case _:
                pass

    def _close_ended_replay(self, follower: Follower) -> None:
        follower.link.close()
        reason = follower.link.engine.end_reason()
        self._app.notify(safe_copy(f"the replay ended: {reason}"), severity="error")
        self.leave_replay()

    def replay_session(self, folder: str, prepare_overview: Callable[[], Awaitable[bool]]) -> None:
        """Show a recording with its own replay engine, instead of the live systems.

        `prepare_overview` is called when the replay is ready, and returns whether it may be shown.
        """
        replay_coroutine = self._replay_session(folder, prepare_overview)
        self._app.run_worker(replay_coroutine, group="replay", exclusive=True)

    async def _replay_session(
        self, folder: str, prepare_overview: Callable[[], Awaitable[bool]]
    ) -> None:
        if self._open_replay is None:
            return
        toast_text = safe_copy(f"loading {Path(folder).name} …")
        self._app.notify(toast_text, title="replay", timeout=_MAX_LOADING_TOAST_S)
        try:
            await self._load_replay(self._open_replay, folder, prepare_overview)
        finally:
            remove_toast(self._app, toast_text)

    async def _load_replay(
        self,
        open_replay: Callable[[str], Link],
        folder: str,
        prepare_overview: Callable[[], Awaitable[bool]],
    ) -> None:
        """Start a replay engine, show the replay, and wait for its first state."""
        link = await asyncio.to_thread(open_replay, folder)
        try:
            engine_started = await link.wait_started_in_thread(
                partial(self._app.notify, severity="warning")
            )
        except NatstuiError as error:
            self._app.notify(safe_copy(str(error)), severity="error")
            return
        if not await prepare_overview():
            await link.close_in_thread()
            return
        self.close_replay()
        self._replay_loaded.clear()
        self._replay_follower = follower = Follower(link, engine_started)
        self._app.run_worker(follow_engine(self._app, follower, self._callbacks))
        await self._replay_loaded.wait()

    def leave_replay(self) -> None:
        """Close the shown replay, and show the state of the system behind it again."""
        self.close_replay()
        self.show_state_soon()

    def close_replay(self) -> None:
        """Close the shown replay, if any, without updating the screen."""
        follower, self._replay_follower = self._replay_follower, None
        self._replay_loaded.set()
        if follower is not None:
            self._close_engine(follower)

    def _close_engine(self, follower: Follower) -> None:
        follower.was_closed_by_app = True
        closing_task = asyncio.create_task(follower.link.close_in_thread())
        self.closing_tasks.add(closing_task)
        closing_task.add_done_callback(self.closing_tasks.discard)


def system_style(index: int, state: State, colours: Sequence[str]) -> str:
    """Return the style of a system: the colour of its profile, else the colour for its index."""
    color = state.started.colour if state.started is not None else None
    if color and PROFILE_COLOUR_PATTERN.fullmatch(color):
        return f"on {color}"
    return colours[index % len(colours)]


def find_system_in_view(app: App[int]) -> str | None:
    """Return the name of the system that keys of the screen in view act on; None for the current
    one.
    """
    live_screens = (
        screen for screen in reversed(app.screen_stack) if isinstance(screen, LiveScreen)
    )
    # A screen without a system acts on the one of the screen below it.
    return next(filter(None, (screen.scope.system for screen in live_screens)), None)
