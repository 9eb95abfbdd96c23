"""Which systems are watched: the list of contexts, one more, one less, and the current one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.screen import Screen

from natstui.clean import clean_line
from natstui.errors import NatstuiError, UsageError
from natstui.tui.app.controls.live import Polling
from natstui.tui.app.controls.part import Part
from natstui.tui.app.engines import Engines
from natstui.tui.app.guarded import GuardedApp
from natstui.tui.app.link import Link
from natstui.tui.app.live_system import OpenSystem
from natstui.tui.app.screens import close_covering
from natstui.tui.frame.head.several import trouble_of
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import run_task
from natstui.tui.frame.systems import system_of
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.pick import Pick
from natstui.tui.kit.text import safe_copy


@dataclass(frozen=True, slots=True)
class Contexts:
    """What could be watched besides: contexts of the NATS CLI and profiles."""

    names: Callable[[], Sequence[str]]
    """Every one that there is now."""
    connect: Callable[[str], Callable[..., Link]]
    """Return what starts an engine on one of them."""
    own: str = ""
    """The name of what the app was opened on; empty: what its engine calls it."""


def _none_known(name: str) -> Callable[..., Link]:
    raise UsageError(f"{clean_line(name)}: this screen watches only one system")


NO_CONTEXTS = Contexts(lambda: (), _none_known)
_REMOVE = "stop watching"
_GO = "go to"


class Systems(Part):
    """Goes from one system to the next, adds and removes one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("X", "part('systems', 'next')", "System", show=True, id="system.next"),
    ]

    def __init__(
        self, app: GuardedApp, engines: Engines, contexts: Contexts, polling: Polling
    ) -> None:
        self._app, self._engines, self._contexts = app, engines, contexts
        self._polling = polling

    def may(self, action: str, *, typing: bool) -> bool:
        """Offer the key where one of several systems is shown, and others could be."""
        screen = self._app.screen
        one_shown = (
            isinstance(screen, LiveScreen)
            and screen.where.bound is None
            and screen.where.meant is None
        )
        return one_shown and not typing and bool(self._engines.several())

    def action_next(self) -> None:
        """Show the next system."""
        names = list(self._engines.systems)
        at = names.index(self._engines.acting.name)
        self._show(names[(at + 1) % len(names)])

    def keep_in_view(self) -> None:
        """Let the system of the screen in view be the current one, before another is shown."""
        self._engines.current = self._engines.acting.name

    def bind(self, screen: Screen[object], system: str | None) -> None:
        """Let a screen that lies on another one stay with the system it was opened on."""
        if isinstance(screen, LiveScreen) and len(self._app.screen_stack) > 1:
            screen.where.bound = screen.where.bound or system or self._engines.current

    def _show(self, name: str) -> None:
        self._engines.current = name
        self._engines.show_soon()

    async def go_to(self, name: str) -> None:
        """Let a system be the current one; one that is not watched yet is added."""
        if name not in self._engines.systems:
            await self._add(name)
            return
        if not await close_covering(self._app):
            return
        screen = self._app.screen
        if not isinstance(screen, TableScreen) or not screen.where.joins:
            self._show(name)
        elif not _go_to_row_of(screen, name):
            self._app.notify(f"{clean_line(name)} has no rows here", timeout=3)
            self._show(name)
            self._app.switch_mode("server")

    async def go_to_account(self, account: str) -> None:
        """Let another account of the current system stand beside it, and be the current one."""
        acting = self._engines.acting
        # Another system may have its name.
        taken = account in self._engines.systems and not self._is_account(account)
        name = f"{account}@{acting.name}" if taken else account
        if name in self._engines.systems:
            await self.go_to(name)
        else:
            await self._add(name, lambda: partial(acting.connect, "--account", account))

    def _is_account(self, system: str) -> bool:
        started = self._engines.systems[system].follower.state.started
        return started is not None and started.account is not None

    async def _add(
        self, name: str, connecting: Callable[[], Callable[..., Link]] | None = None
    ) -> None:
        if self._engines.replaying:
            raise UsageError("a recording is shown: :live leads back to the server")
        try:
            connect = self._contexts.connect(name) if connecting is None else connecting()
            link = await asyncio.to_thread(connect)
            try:
                tell = partial(self._app.notify, severity="warning")
                started = await asyncio.to_thread(link.wait_started, tell)
            except NatstuiError:
                await link.close_aside()
                raise
        except NatstuiError as error:
            self._app.notify(safe_copy(str(error)), severity="error", timeout=10)
            return
        self._engines.add(OpenSystem(name, started, link, connect))
        self._polling.tell(name)
        self._app.refresh_bindings()

    def remove(self, name: str) -> None:
        """Watch a system no longer; raises UsageError for the last one."""
        self._engines.remove(name)
        self._app.refresh_bindings()

    def ask(self) -> None:
        """List what is watched and what could be, and go to one, add or remove it."""
        watched = self._engines.systems
        states = {one.name: one for one in self._engines.several()}
        acting = self._engines.acting.name
        words = []
        for name in (*watched, *(one for one in self._contexts.names() if one not in watched)):
            if name not in watched:
                says = "add it"
            elif name in states and (trouble := trouble_of(states[name])):
                says = f"watched: {trouble}"
            else:
                says = "watched, and keys act on this system" if name == acting else "watched"
            words.append((name, says))
        run_task(self._app, self._choose, words)

    async def _choose(self, options: list[tuple[str, str]]) -> None:
        name = await self._app.push_screen_wait(Pick("Systems", options))
        if name is None:
            return
        action: str | None = _GO
        if name in self._engines.systems and len(self._engines.systems) > 1:
            remove = "stop watching this system; nothing changes on its server"
            actions = ((_GO, "keys act on this system"), (_REMOVE, remove))
            action = await self._app.push_screen_wait(Pick(name, actions))
        if action == _GO:
            await self.go_to(name)
        elif action == _REMOVE:
            self.remove(name)


def _go_to_row_of(screen: TableScreen, system: str) -> bool:
    """Put the cursor on the first row of a system; return whether there is one."""
    rows = screen.rows
    found = [] if rows is None else [system_of(rows.key(row)) == system for row in rows.order]
    if True in found:
        screen.table.move(found.index(True))
    return True in found
