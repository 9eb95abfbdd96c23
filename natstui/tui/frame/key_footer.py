"""The keys of a screen on its last line: as many as fit, and a mark for the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from rich.cells import cell_len
from textual import events
from textual.binding import Binding
from textual.content import Content
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widget import Widget

from natstui.clean import clean_line
from natstui.tui.kit.looks import footer_styles
from natstui.tui.kit.text import safe

_MORE = "…"
_OWN, _QUIT = "own", "quit"
_ORDER = (
    "help", _OWN, "replay.play", "replay.seek", "replay.mark", "replay.compare", _QUIT, "command"
)  # fmt: skip
"""Order of the keys: help, then the keys of this screen, then those of all screens."""


class _Key(NamedTuple):
    """A key and its label."""

    rank: int
    key: str
    shown: str
    word: str
    enabled: bool

    @property
    def width(self) -> int:
        """Return its width in cells, with the gap behind it."""
        return cell_len(f"{self.shown} {self.word} ")

    def text(self, *, pointed_at: bool) -> Content:
        """Return it as drawn; a disabled key is dim."""
        key, label_style = footer_styles(is_enabled=self.enabled, pointed_at=pointed_at)
        return Content.assemble(
            Content.styled(clean_line(self.shown), key),
            Content.styled(clean_line(f" {self.word}"), label_style),
        )


class KeyFooter(Widget, can_focus=False):
    """Draws as many complete keys as fit; the help lists all of them.

    One widget draws all keys. Textual's footer has a widget for each, and creates all of them
    again with every dialog, list and move of the focus, which cost more than all the rest.
    """

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    KeyFooter {
        dock: bottom; height: 1; text-wrap: nowrap;
        color: $footer-foreground; background: $footer-background;
    }
    """

    def __init__(self, label: Callable[[Binding], str]) -> None:
        """Create the footer; `label` returns the current label of a key."""
        super().__init__()
        self._label = label
        self._keys: list[_Key] | None = None
        """The keys to draw; None: they must be read again."""
        self._pointed_at: _Key | None = None

    def on_mount(self) -> None:
        """Subscribe to changes of the active bindings."""
        self.screen.bindings_updated_signal.subscribe(self, self._look_up)

    def _look_up(self, screen: Screen[object]) -> None:
        # A window without the focus takes no keys: those from before stay.
        if screen.app.app_focus:
            self._keys = None
            self.refresh()

    def render(self) -> Content:
        """Return the keys that fit."""
        line = Content()
        for key in self._fitting():
            gap = " " if line else ""
            line = Content.assemble(line, gap, key.text(pointed_at=key == self._pointed_at))
        if len(self._fitting()) < len(self._all()):
            line = Content.assemble(line, " ", safe(_MORE, "dim"))
        return line

    def _all(self) -> list[_Key]:
        """Return all active keys, first those that only this screen has."""
        if self._keys is None:
            by_label: dict[str, _Key] = {}
            for key, action in self._found():
                by_label.setdefault(action, key)
            # What cannot be pressed now takes no room from what can.
            self._keys = sorted(by_label.values(), key=lambda key: (not key.enabled, key.rank))
        return self._keys

    def _found(self) -> Iterator[tuple[_Key, str]]:
        for node, binding, enabled, _tooltip in self.screen.active_bindings.values():
            if binding.show:
                key_text = self.app.get_key_display(binding)
                rank = self._rank(node, binding.id)
                label = self._label(binding)
                yield _Key(rank, binding.key, key_text, label, enabled), binding.action

    def _rank(self, node: DOMNode, binding_id: str | None) -> int:
        if binding_id in _ORDER:
            return _ORDER.index(binding_id)
        return len(_ORDER) if node is self.app else _ORDER.index(_OWN)

    def _fitting(self) -> list[_Key]:
        """Return the keys that fit, always with the key to quit; the last has no gap."""
        keys, room = self._all(), self.size.width + 1
        if _width(keys) <= room:
            return keys
        quit_rank = _ORDER.index(_QUIT)
        leaving = [key for key in keys if key.rank == quit_rank]
        room -= len(_MORE) + _width(leaving)
        other_keys = [key for key in keys if key.rank != quit_rank]
        fitting = [
            key for index, key in enumerate(other_keys) if _width(other_keys[: index + 1]) <= room
        ]
        return [key for key in keys if key in fitting or key in leaving]

    def _at(self, x: int) -> _Key | None:
        """Return the key at a column."""
        for key in self._fitting():
            if 0 <= x < key.width - 1:
                return key
            x -= key.width
        return None

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Execute the clicked key."""
        key = self._at(event.x)
        if key is not None and key.enabled:
            self.app.simulate_key(key.key)
        elif key is not None:
            self.app.bell()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Highlight the key under the pointer."""
        self._point_at(self._at(event.x))

    def on_leave(self) -> None:
        """Remove the highlight."""
        self._point_at(None)

    def _point_at(self, key: _Key | None) -> None:
        if key != self._pointed_at:
            self._pointed_at = key
            self.refresh()


def _width(keys: Iterable[_Key]) -> int:
    return sum(key.width for key in keys)
