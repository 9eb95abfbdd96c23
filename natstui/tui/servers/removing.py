"""Taking a server that is gone out of the meta group: which one, the risks, its name typed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from natstui.model.records.system import RemoveServer
from natstui.model.servers.server import Meta, Servers
from natstui.model.servers.words import removable, removal_question
from natstui.tui.frame.action_keys import REMOVE_SERVER
from natstui.tui.frame.allowed import allowed
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import SystemEngine, run_task
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
        seen = self._seen()
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
        run_task(self._screen, self._remove, self._screen.engine, gone)

    async def _remove(self, engine: SystemEngine, gone: Mapping[str, Meta]) -> None:
        app = self._screen.app
        options = [(name, f"of {meta.cluster}; not heard of") for name, meta in gone.items()]
        name = await app.push_screen_wait(Pick("Which server is gone for good?", options))
        if not name:
            return
        question = f"{removal_question(gone[name], name)}. Type {name} to do it"
        typed = await app.push_screen_wait(Prompt(question, word=name))
        if typed is not None:
            engine.start(RemoveServer(0, name, typed), f"remove {name}")
