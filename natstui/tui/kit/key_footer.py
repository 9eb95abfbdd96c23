"""The keys of a screen on its last line: as many as fit whole, and a mark for the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.widget import Widget
from textual.widgets import Footer, Static

_MORE = "…"
_OWN = "own"
_ORDER = (
    "help", _OWN, "replay.play", "replay.seek", "replay.mark", "replay.compare", "quit", "command"
)  # fmt: skip
"""The help, where all keys are told; what only this screen has; what all of them have."""


class KeyFooter(Footer):
    """Half a word at the edge helps nobody: what does not fit stands in the help alone."""

    DEFAULT_CSS = """
    KeyFooter > #more { width: auto; color: $text-muted; }
    """

    def __init__(self) -> None:
        super().__init__(show_command_palette=False, compact=True)
        self._composed_for = 0
        """The width the keys were chosen for, in cells."""

    async def recompose(self) -> None:
        """Make the keys anew, and drop the old ones from those to be told of a change.

        Textual keeps every key it ever showed: about a megabyte for each dialog opened.
        """
        await super().recompose()
        # Whoever is told of a change is first checked for being there still.
        self.mutate_reactive(Footer.compact)

    def compose(self) -> ComposeResult:
        """Yield keys while there is room."""
        self._composed_for = self.size.width
        keys = self._in_order(super().compose())
        fits = sum(map(_width, keys)) <= self.size.width + 1
        room = self.size.width + 1 if fits else self.size.width - len(_MORE)
        for key in keys:
            room -= _width(key)
            if room < 0:
                yield Static(_MORE, id="more")
                return
            yield key

    def _in_order(self, keys: Iterable[Widget]) -> list[Widget]:
        """Return the keys so that those are left out which the user knows from other screens."""
        ranks: dict[str, int] = {}
        for node, binding, *_ in self.screen.active_bindings.values():
            if binding.id in _ORDER:
                ranks[binding.key] = _ORDER.index(binding.id)
            elif node is not self.app:
                ranks[binding.key] = _ORDER.index(_OWN)
        return sorted(keys, key=lambda key: ranks.get(getattr(key, "key", ""), len(_ORDER)))

    async def on_resize(self, event: events.Resize) -> None:
        """Choose again when there is more room, or less."""
        if event.size.width != self._composed_for and self.is_attached:
            await self.recompose()


def _width(key: Any) -> int:
    """Return how many cells a key takes, with the gap behind it."""
    return cell_len(f"{key.key_display} {key.description} ")
