"""The watched systems: switching, adding and removing them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

from msgspec import Struct
from textual.binding import Binding, BindingType
from textual.screen import Screen

from natstui.clean import clean_line
from natstui.errors import NatstuiError, UsageError
from natstui.tui.app.controls.live import PollingControls, RecordingControls
from natstui.tui.app.controls.part import AppPart
from natstui.tui.app.engines import Engines
from natstui.tui.app.guarded import GuardedApp
from natstui.tui.app.link import Link
from natstui.tui.app.live_system import OpenSystem
from natstui.tui.app.screens import close_upper_screens, describe_running_work
from natstui.tui.frame.head.several import find_silence_reason
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import run_task
from natstui.tui.frame.systems import system_of
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.pick import PickDialog
from natstui.tui.kit.text import safe_copy


class Contexts(Struct, frozen=True):
    """The contexts of the NATS CLI and the profiles that can be added."""

    names: Callable[[], Sequence[str]]
    """Returns the names of all contexts and profiles."""
    connect: Callable[[str], Callable[..., Link]]
    """Returns the function that starts the engine of a context, by the name of the context."""
    opened_system: str = ""
    """The name of the system that the app was opened on; empty to use the engine's target."""


def _refuse_context(name: str) -> Callable[..., Link]:
    raise UsageError(f"{clean_line(name)}: this screen watches only one system")


NO_CONTEXTS = Contexts(lambda: (), _refuse_context)
_STOP_WATCHING_OPTION = "stop watching"
_SWITCH_OPTION = "go to"


class SystemControls(AppPart):
    """Switches between systems, and adds and removes them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("X", "part('systems', 'next')", "System", show=True, id="system.next"),
    ]

    def __init__(
        self,
        app: GuardedApp,
        engines: Engines,
        contexts: Contexts,
        polling: PollingControls,
        recording: RecordingControls,
    ) -> None:
        self._app, self._engines, self._contexts = app, engines, contexts
        self._polling, self._recording = polling, recording
        self._names_being_added: set[str] = set()

    def is_offered(self, action: str, *, is_typing: bool) -> bool:
        """Return whether the key is offered: several systems are watched, and the screen in view
        shows only one.
        """
        screen = self._app.screen
        shows_single_system = (
            isinstance(screen, LiveScreen)
            and screen.scope.bound_system is None
            and screen.scope.get_target_keys is None
        )
        return shows_single_system and not is_typing and bool(self._engines.system_states())

    def action_next(self) -> None:
        """Show the next system."""
        names = list(self._engines.systems)
        index = names.index(self._engines.acting_system.name)
        self._show_system(names[(index + 1) % len(names)])

    def make_viewed_system_current(self) -> None:
        """Make the system of the screen in view the current one, unless it was removed; to be
        called before another screen is opened.
        """
        if (name := self._engines.acting_system.name) in self._engines.systems:
            self._engines.current_name = name

    def assign_system(self, screen: Screen[object], system: str | None) -> None:
        """Bind a screen that is above another screen to a system, by default to the current one.

        A screen that is already bound keeps its system.
        """
        if isinstance(screen, LiveScreen) and len(self._app.screen_stack) > 1:
            screen.scope.bound_system = (
                screen.scope.bound_system or system or self._engines.current_name
            )

    def _show_system(self, name: str) -> None:
        self._engines.current_name = name
        self._engines.show_state_soon()

    async def switch_to(self, name: str) -> None:
        """Make a system the current one; a system that is not watched yet is added."""
        if name not in self._engines.systems:
            await self._add_system(name)
            return
        if not await close_upper_screens(self._app):
            return
        screen = self._app.screen
        if not isinstance(screen, TableScreen) or not screen.scope.is_joined:
            self._show_system(name)
        elif not _move_to_system(screen, name):
            self._app.notify(f"{clean_line(name)} has no rows here", timeout=3)
            self._show_system(name)
            self._app.switch_mode("server")

    async def switch_to_account(self, account: str) -> None:
        """Add another account of the current system as a system, and make it the current one."""
        acting_system = self._engines.acting_system
        # Another system may have its name.
        is_name_taken = account in self._engines.systems and not self._is_account_system(account)
        name = f"{account}@{acting_system.name}" if is_name_taken else account
        if name in self._engines.systems:
            await self.switch_to(name)
        else:
            await self._add_system(
                name, lambda: partial(acting_system.connect, "--account", account)
            )

    def _is_account_system(self, system: str) -> bool:
        engine_started = self._engines.systems[system].follower.state.started
        return engine_started is not None and engine_started.account is not None

    async def _add_system(
        self, name: str, get_connect_function: Callable[[], Callable[..., Link]] | None = None
    ) -> None:
        if self._engines.is_replaying:
            raise UsageError("a recording is shown: :live leads back to the server")
        if name in self._names_being_added:
            raise UsageError(f"{clean_line(name)} is being added: its engine has not started yet")
        self._names_being_added.add(name)
        try:
            await self._start_engine_and_add(name, get_connect_function)
        finally:
            self._names_being_added.discard(name)

    async def _start_engine_and_add(
        self, name: str, get_connect_function: Callable[[], Callable[..., Link]] | None
    ) -> None:
        try:
            connect = (
                self._contexts.connect(name)
                if get_connect_function is None
                else get_connect_function()
            )
            link = await asyncio.to_thread(connect)
            notify = partial(self._app.notify, severity="warning")
            engine_started = await link.wait_started_in_thread(notify)
        except NatstuiError as error:
            self._app.notify(safe_copy(str(error)), severity="error", timeout=10)
            return
        self._engines.add(OpenSystem(name, engine_started, link, connect))
        self._polling.send_polling_settings(name)
        self._app.refresh_bindings()

    def describe_running_work(self, name: str) -> list[str]:
        """Return descriptions of the running work that would end with the engine of a system."""
        follower = self._engines.find_system(name).follower
        return describe_running_work(
            follower.state,
            follower.link.pending_commands,
            includes_recording=name in self._recording.user_recorded_systems,
        )

    def remove(self, name: str) -> None:
        """Stop watching a system, after a prompt if running work would end; raises UsageError for
        the last system.
        """
        running_work_texts = self.describe_running_work(name)
        if running_work_texts and len(self._engines.systems) > 1:
            run_task(self._app, self._confirm_removal, name, running_work_texts)
        else:
            self._remove_system(name)

    async def _confirm_removal(self, name: str, running_work_texts: list[str]) -> None:
        title = clean_line(f"{name}: {' and '.join(dict.fromkeys(running_work_texts))}")
        options = (("stay", "go on watching it"), ("remove", "running work ends now"))
        if await self._app.push_screen_wait(PickDialog(title, options)) == "remove":
            self._remove_system(name)

    def _remove_system(self, name: str) -> None:
        self._engines.remove(name)
        self._recording.user_recorded_systems.discard(name)
        self._app.refresh_bindings()

    def show_systems(self) -> None:
        """Show the watched and available systems, and switch to, add or remove the picked one."""
        watched_systems = self._engines.systems
        state_by_name = self._engines.system_states()
        acting_system_name = self._engines.acting_system.name
        options = []
        for name in (
            *watched_systems,
            *(name for name in self._contexts.names() if name not in watched_systems),
        ):
            if name not in watched_systems:
                description = "add it"
            elif name in state_by_name and (
                error_text := find_silence_reason(state_by_name[name])
            ):
                description = f"watched: {error_text}"
            else:
                description = (
                    "watched, and keys act on this system"
                    if name == acting_system_name
                    else "watched"
                )
            options.append((name, description))
        run_task(self._app, self._pick_system, options)

    async def _pick_system(self, options: list[tuple[str, str]]) -> None:
        name = await self._app.push_screen_wait(PickDialog("Systems", options))
        if name is None:
            return
        action: str | None = _SWITCH_OPTION
        if name in self._engines.systems and len(self._engines.systems) > 1:
            remove = "stop watching this system; nothing changes on its server"
            action_options = (
                (_SWITCH_OPTION, "keys act on this system"),
                (_STOP_WATCHING_OPTION, remove),
            )
            action = await self._app.push_screen_wait(PickDialog(name, action_options))
        if action == _SWITCH_OPTION:
            await self.switch_to(name)
        elif action == _STOP_WATCHING_OPTION:
            self.remove(name)


def _move_to_system(screen: TableScreen, system: str) -> bool:
    """Move the cursor to the first row of a system; return whether the system has a row."""
    rows = screen.rows
    is_system_row = (
        [] if rows is None else [system_of(rows.key(row)) == system for row in rows.order]
    )
    if True in is_system_row:
        screen.table.move(is_system_row.index(True))
    return True in is_system_row
