"""Closing a connection: which one, what becomes of it, and its name typed."""

from __future__ import annotations

from collections.abc import Callable

from natstui.model.clients.connection import ClientConnection
from natstui.model.clients.words import kick_question
from natstui.model.records.system import KickConnection
from natstui.tui.frame.action_keys import KICK
from natstui.tui.frame.allowed import allowed
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import Announced, next_command_id
from natstui.tui.frame.screen_part import ScreenPart
from natstui.tui.kit.prompt import Prompt


class Kicking(ScreenPart):
    """The key that closes the connection under the cursor, or the one shown in full."""

    def __init__(self, screen: LiveScreen, chosen: Callable[[], ClientConnection | None]) -> None:
        self._screen, self._chosen = screen, chosen

    def may(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Grey the key read-only; a recording has no connections."""
        state = self._screen.state
        if state.replay is not None:
            return False
        return True if allowed(state, KICK.name) else None

    def action_kick(self) -> None:
        """Ask for its name, and close it."""
        one = self._chosen()
        if one is None or one.stopped_at_us is not None:
            text = "there is no connection under the cursor" if one is None else "it has ended"
            self._screen.notify(text, severity="warning", timeout=2)
            return
        seen, system = one, self._screen.where.system

        def typed(name: str | None) -> None:
            if name is None:
                return
            command = KickConnection(
                next_command_id(), seen.server_id, seen.connection_id, seen.started_at_us, name
            )
            message = Announced(command, f"kick {seen.called}")
            message.system = system
            self._screen.app.post_message(message)

        question = f"{kick_question(seen)}. Type {seen.called} to do it"
        self._screen.app.push_screen(Prompt(question, word=seen.called), typed)
