"""Closing a connection: which one, what becomes of it, and its name typed."""

from __future__ import annotations

from collections.abc import Callable

from natstui.model.clients.connection import ClientConnection
from natstui.model.clients.words import kick_question
from natstui.model.records.system import KickConnection
from natstui.tui.frame.action_keys import KICK
from natstui.tui.frame.allowed import allowed
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import SystemEngine, run_task
from natstui.tui.frame.screen_part import ScreenPart
from natstui.tui.kit.prompt import Prompt


class Kicking(ScreenPart):
    """The key that closes the connection under the cursor, or the one shown in full."""

    def __init__(self, screen: LiveScreen, chosen: Callable[[], ClientConnection | None]) -> None:
        self._screen, self._chosen = screen, chosen

    def may(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Offer the key live, on a connection that is open; grey it read-only."""
        state, connection = self._screen.state, self._chosen()
        if state.replay is not None or connection is None or connection.stopped_at_us is not None:
            return False
        return True if allowed(state, KICK.name) else None

    def action_kick(self) -> None:
        """Ask for its name, and close it."""
        if (connection := self._chosen()) is not None:
            # The cursor may be on a row of another system when the name is typed.
            run_task(self._screen, _kick, self._screen, self._screen.engine, connection)


async def _kick(screen: LiveScreen, engine: SystemEngine, connection: ClientConnection) -> None:
    called = connection.called
    question = f"{kick_question(connection)}. Type {called} to confirm"
    typed = await screen.app.push_screen_wait(Prompt(question, word=called))
    if typed is not None:
        server_id, number = connection.server_id, connection.connection_id
        command = KickConnection(0, server_id, number, connection.started_at_us, typed)
        engine.start(command, f"kick {called}")
