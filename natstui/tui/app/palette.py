"""The command palette: commands, streams and consumers by a few letters."""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Protocol, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from natstui.model.live.state import State
from natstui.tui.app.commands import COMMANDS
from natstui.tui.app.key_words import words_of
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import Open, Typed
from natstui.tui.kit.text import safe

SHOWN_COUNT = 50


class _ShowsState(Protocol):
    """What the palette needs of the app."""

    @property
    def state(self) -> State:
        """The newest state."""


class NatstuiCommands(Provider):
    """Commands that need no argument, and every stream and consumer by name."""

    async def discover(self) -> Hits:
        """Offer the keys of the screen and the commands before anything is typed."""
        for text, says, do in self._keys():
            yield DiscoveryHit(text, do, help=says)
        for word in COMMANDS:
            if not word.usage or word.usage.startswith("["):
                run = partial(self.app.post_message, Typed(word.names[0]))
                yield DiscoveryHit(f":{word.names[0]}", run, help=word.help)

    async def search(self, query: str) -> Hits:
        """Offer what contains these letters in this order, best match first."""
        matcher = self.matcher(query)
        for text, says, do in self._keys():
            if score := matcher.match(text):
                yield Hit(score, matcher.highlight(text), do, help=says)
        for word in COMMANDS:
            if not word.usage and (score := matcher.match(word.names[0])):
                run = partial(self.app.post_message, Typed(word.names[0]))
                yield Hit(score, matcher.highlight(word.names[0]), run, help=word.help)
        letters = [letter.lower() for letter in query if not letter.isspace()]
        # Matching costs microseconds a name: only names with all the letters get that far.
        found = (
            (matcher.match(text), text, message)
            for text, message in self._assets()
            if _contains(text.lower(), letters)
        )
        best = heapq.nlargest(
            SHOWN_COUNT, (hit for hit in found if hit[0]), key=lambda hit: hit[0]
        )
        for score, text, message in best:
            yield Hit(score, safe(text), partial(self.app.post_message, message))

    def _keys(self) -> Iterator[tuple[str, str, Callable[[], Awaitable[object]]]]:
        """Yield of each key in the footer: its name, what it does, and its action."""
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if binding.show and active.enabled and active.node is self.screen:
                shown = binding.key_display or self.app.get_key_display(binding)
                says = "  ·  ".join(filter(None, (words_of(binding), f"key {shown}")))
                run = partial(self.app.run_action, binding.action, self.screen)
                yield binding.description, says, run

    def _assets(self) -> Iterator[tuple[str, Open]]:
        screen = self.screen
        several = screen.where.systems if isinstance(screen, LiveScreen) else ()
        for one in several:
            yield from (
                (f"{one.name}: {text}", it) for text, it in _assets_of(one.state, one.name)
            )
        if not several:
            yield from _assets_of(cast("_ShowsState", self.app).state, None)


def _assets_of(state: State, system: str | None) -> Iterator[tuple[str, Open]]:
    """Yield every stream and consumer of a system: its words, and what goes there."""
    for name, _created in state.streams.roster.keys:
        yield str(name), _of(system, Open("stream", str(name)))
    for stream, name, _created in state.consumers.roster.keys:
        yield f"{stream} › {name}", _of(system, Open("consumer", str(stream), str(name)))


def _of(system: str | None, message: Open) -> Open:
    message.system = system
    return message


def _contains(text: str, letters: list[str]) -> bool:
    """Tell whether the letters occur in this order."""
    at = 0
    for letter in letters:
        at = text.find(letter, at) + 1
        if at == 0:
            return False
    return True
