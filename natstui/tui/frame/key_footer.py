"""The keys of a screen on its last line: as many as fit whole, and a mark for the others."""

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
"""The help, which lists all keys; then the keys of this screen; then those of all screens."""


class _Key(NamedTuple):
    """One key and what it does, in a word."""

    rank: int
    key: str
    shown: str
    word: str
    enabled: bool

    @property
    def width(self) -> int:
        """How many cells it takes, with the gap behind it."""
        return cell_len(f"{self.shown} {self.word} ")

    def text(self, *, pointed_at: bool) -> Content:
        """Return it as it is drawn; one that cannot be pressed now is dim."""
        key, word = footer_styles(enabled=self.enabled, pointed_at=pointed_at)
        return Content.assemble(
            Content.styled(clean_line(self.shown), key),
            Content.styled(clean_line(f" {self.word}"), word),
        )


class KeyFooter(Widget, can_focus=False):
    """Only whole words are shown: a key that does not fit is in the help.

    One widget draws all keys. Textual's footer has a widget for each, and makes all of them again
    with every dialog, every list and every move of the focus, which cost more than all the rest.
    """

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    KeyFooter {
        dock: bottom; height: 1; text-wrap: nowrap;
        color: $footer-foreground; background: $footer-background;
    }
    """

    def __init__(self, label: Callable[[Binding], str]) -> None:
        """`label` returns what a key does now, in a word."""
        super().__init__()
        self._label = label
        self._keys: list[_Key] | None = None
        """None: they have to be looked up."""
        self._pointed_at: _Key | None = None

    def on_mount(self) -> None:
        """Learn when other keys work."""
        self.screen.bindings_updated_signal.subscribe(self, self._look_up)

    def _look_up(self, screen: Screen[object]) -> None:
        # A window without the focus takes no keys: those from before stay.
        if screen.app.app_focus:
            self._keys = None
            self.refresh()

    def render(self) -> Content:
        """Return keys while there is room."""
        line = Content()
        for key in self._fitting():
            gap = " " if line else ""
            line = Content.assemble(line, gap, key.text(pointed_at=key == self._pointed_at))
        if len(self._fitting()) < len(self._all()):
            line = Content.assemble(line, " ", safe(_MORE, "dim"))
        return line

    def _all(self) -> list[_Key]:
        """Return what can be pressed, the keys first which the user knows from no other screen."""
        if self._keys is None:
            one_each: dict[str, _Key] = {}
            for key, action in self._found():
                one_each.setdefault(action, key)
            # What cannot be pressed now takes no room from what can.
            self._keys = sorted(one_each.values(), key=lambda key: (not key.enabled, key.rank))
        return self._keys

    def _found(self) -> Iterator[tuple[_Key, str]]:
        for node, binding, enabled, _tooltip in self.screen.active_bindings.values():
            if binding.show:
                shown = self.app.get_key_display(binding)
                rank = self._rank(node, binding.id)
                word = self._label(binding)
                yield _Key(rank, binding.key, shown, word, enabled), binding.action

    def _rank(self, node: DOMNode, binding_id: str | None) -> int:
        if binding_id in _ORDER:
            return _ORDER.index(binding_id)
        return len(_ORDER) if node is self.app else _ORDER.index(_OWN)

    def _fitting(self) -> list[_Key]:
        """Return the keys there is room for, always the one that leaves; the last has no gap."""
        keys, room = self._all(), self.size.width + 1
        if _width(keys) <= room:
            return keys
        quit_rank = _ORDER.index(_QUIT)
        leaving = [key for key in keys if key.rank == quit_rank]
        room -= len(_MORE) + _width(leaving)
        others = [key for key in keys if key.rank != quit_rank]
        fitting = [key for at, key in enumerate(others) if _width(others[: at + 1]) <= room]
        return [key for key in keys if key in fitting or key in leaving]

    def _at(self, x: int) -> _Key | None:
        """Return the key that is drawn in a column."""
        for key in self._fitting():
            if 0 <= x < key.width - 1:
                return key
            x -= key.width
        return None

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Press the key that was clicked."""
        key = self._at(event.x)
        if key is not None and key.enabled:
            self.app.simulate_key(key.key)
        elif key is not None:
            self.app.bell()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Show which key the pointer is on."""
        self._point_at(self._at(event.x))

    def on_leave(self) -> None:
        """The pointer is on no key any more."""
        self._point_at(None)

    def _point_at(self, key: _Key | None) -> None:
        if key != self._pointed_at:
            self._pointed_at = key
            self.refresh()


def _width(keys: Iterable[_Key]) -> int:
    return sum(key.width for key in keys)
