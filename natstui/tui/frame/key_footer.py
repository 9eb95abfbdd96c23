"""The keys of a screen on its last line: as many as fit, then `…` if there are more."""

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
from natstui.tui.kit.styles import footer_styles
from natstui.tui.kit.text import safe

_MORE_MARK = "…"
_SCREEN_KEYS_ID, _QUIT_BINDING_ID = "own", "quit"
_KEY_ORDER = (
    "help", _SCREEN_KEYS_ID, "replay.play", "replay.seek", "replay.mark", "replay.compare",
    _QUIT_BINDING_ID, "command",
)  # fmt: skip
"""Order of the keys: help, then the keys of this screen, then the keys of all screens."""


class _Key(NamedTuple):
    """A key in the footer, with its label and its rank in the order of the footer."""

    rank: int
    key: str
    key_text: str
    label: str
    is_enabled: bool

    @property
    def width(self) -> int:
        """Return the width in cells, including the gap after the key."""
        return cell_len(f"{self.key_text} {self.label} ")

    def text(self, *, is_hovered: bool) -> Content:
        """Return the drawn key; a disabled key is dim."""
        key, label_style = footer_styles(is_enabled=self.is_enabled, is_hovered=is_hovered)
        return Content.assemble(
            Content.styled(clean_line(self.key_text), key),
            Content.styled(clean_line(f" {self.label}"), label_style),
        )


class KeyFooter(Widget, can_focus=False):
    """Draws as many complete keys as fit; the help lists all of them.

    One widget draws all keys. Textual's footer has a widget for each key, and creates all of them
    again with every dialog, list and move of the focus, which is slow.
    """

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    KeyFooter {
        dock: bottom; height: 1; text-wrap: nowrap;
        color: $footer-foreground; background: $footer-background;
    }
    """

    def __init__(self, get_label: Callable[[Binding], str]) -> None:
        """Create the footer; `get_label` returns the current label of a key."""
        super().__init__()
        self._get_label = get_label
        self._keys: list[_Key] | None = None
        """The keys to draw; None if they must be read again."""
        self._hovered_key: _Key | None = None

    def on_mount(self) -> None:
        """Subscribe to changes of the active bindings."""
        self.screen.bindings_updated_signal.subscribe(self, self._reset_keys)

    def _reset_keys(self, screen: Screen[object]) -> None:
        # A window without the focus has no active keys: the previous keys stay.
        if screen.app.app_focus:
            self._keys = None
            self.refresh()

    def render(self) -> Content:
        """Return the line with the keys that fit."""
        line = Content()
        for key in self._fitting_keys():
            gap = " " if line else ""
            line = Content.assemble(line, gap, key.text(is_hovered=key == self._hovered_key))
        if len(self._fitting_keys()) < len(self._sorted_keys()):
            line = Content.assemble(line, " ", safe(_MORE_MARK, "dim"))
        return line

    def _sorted_keys(self) -> list[_Key]:
        """Return all active keys in the order of their ranks, disabled keys last."""
        if self._keys is None:
            key_by_action: dict[str, _Key] = {}
            for key, action in self._active_keys():
                key_by_action.setdefault(action, key)
            # Disabled keys must not use the space of enabled ones.
            self._keys = sorted(
                key_by_action.values(), key=lambda key: (not key.is_enabled, key.rank)
            )
        return self._keys

    def _active_keys(self) -> Iterator[tuple[_Key, str]]:
        for node, binding, enabled, _tooltip in self.screen.active_bindings.values():
            if binding.show:
                key_text = self.app.get_key_display(binding)
                rank = self._key_rank(node, binding.id)
                label = self._get_label(binding)
                yield _Key(rank, binding.key, key_text, label, enabled), binding.action

    def _key_rank(self, node: DOMNode, binding_id: str | None) -> int:
        if binding_id in _KEY_ORDER:
            return _KEY_ORDER.index(binding_id)
        return len(_KEY_ORDER) if node is self.app else _KEY_ORDER.index(_SCREEN_KEYS_ID)

    def _fitting_keys(self) -> list[_Key]:
        """Return the keys that fit the width, always including the key to quit."""
        keys, free_cells = self._sorted_keys(), self.size.width + 1
        if _total_cells(keys) <= free_cells:
            return keys
        quit_rank = _KEY_ORDER.index(_QUIT_BINDING_ID)
        quit_keys = [key for key in keys if key.rank == quit_rank]
        free_cells -= len(_MORE_MARK) + _total_cells(quit_keys)
        other_keys = [key for key in keys if key.rank != quit_rank]
        fitting_keys = [
            key
            for index, key in enumerate(other_keys)
            if _total_cells(other_keys[: index + 1]) <= free_cells
        ]
        return [key for key in keys if key in fitting_keys or key in quit_keys]

    def _key_at(self, x: int) -> _Key | None:
        """Return the key at column `x`; None if there is no key."""
        for key in self._fitting_keys():
            if 0 <= x < key.width - 1:
                return key
            x -= key.width
        return None

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Execute the clicked key, or ring the bell if it is disabled."""
        key = self._key_at(event.x)
        if key is not None and key.is_enabled:
            self.app.simulate_key(key.key)
        elif key is not None:
            self.app.bell()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Highlight the key under the pointer."""
        self._set_hovered_key(self._key_at(event.x))

    def on_leave(self) -> None:
        """Remove the highlight when the pointer leaves the footer."""
        self._set_hovered_key(None)

    def _set_hovered_key(self, key: _Key | None) -> None:
        if key != self._hovered_key:
            self._hovered_key = key
            self.refresh()


def _total_cells(keys: Iterable[_Key]) -> int:
    return sum(key.width for key in keys)
