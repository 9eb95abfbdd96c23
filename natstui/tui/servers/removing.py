"""Taking a server that is gone out of the meta group: which one, the risks, its name typed."""

from __future__ import annotations

from collections.abc import Callable

from natstui.model.records.system import RemoveServer
from natstui.model.servers.server import Meta, Servers
from natstui.model.servers.words import removable, removal_question
from natstui.tui.frame.action_keys import REMOVE_SERVER
from natstui.tui.frame.allowed import allowed
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import Announced, next_command_id
from natstui.tui.frame.screen_part import ScreenPart
from natstui.tui.kit.pick import Pick
from natstui.tui.kit.prompt import Prompt


class Removing(ScreenPart):
    """The key that removes a member of the meta group which nobody hears of."""

    def __init__(self, screen: LiveScreen, seen: Callable[[], Servers | None]) -> None:
        """`seen` returns the servers, as far as they are known."""
        self._screen, self._seen = screen, seen

    def may(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Grey the key read-only; a recording has no servers."""
        state = self._screen.state
        if state.replay is not None:
            return False
        return True if allowed(state, REMOVE_SERVER.name) else None

    def action_remove(self) -> None:
        """Let one of those that are gone be picked, ask for its name, and remove it."""
        seen, system = self._seen(), self._screen.where.system
        answering = {one.name for one in seen.rows} if seen is not None else set()
        gone = {
            name: meta
            for meta in (seen.metas if seen is not None else ())
            for name in removable(meta, answering)
        }
        if not gone:
            text = "no member of a meta group is gone: only such a one can be removed"
            self._screen.notify(text, severity="warning", timeout=6)
            return
        words = [(name, f"of {meta.cluster}; not heard of") for name, meta in gone.items()]
        self._screen.app.push_screen(
            Pick("Which server is gone for good?", words),
            lambda name: self._ask(gone[name], name, system) if name else None,
        )

    def _ask(self, meta: Meta, name: str, system: str | None) -> None:
        def typed(word: str | None) -> None:
            if word is not None:
                message = Announced(RemoveServer(next_command_id(), name, word), f"remove {name}")
                message.system = system
                self._screen.app.post_message(message)

        question = f"{removal_question(meta, name)}. Type {name} to do it"
        self._screen.app.push_screen(Prompt(question, word=name), typed)
