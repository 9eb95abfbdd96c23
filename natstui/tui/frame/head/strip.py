"""Two lines at the top of every screen, and one more where its asset is gone."""

from __future__ import annotations

from collections.abc import Callable

from textual.content import Content
from textual.widgets import Static

from natstui.model.live.state import State
from natstui.tui.frame.action_keys import Target, made_at_us, replaced_text
from natstui.tui.frame.head.several import all_parts, one_parts, total_parts
from natstui.tui.frame.head.status_text import account_parts, joined, link_parts
from natstui.tui.frame.systems import Where
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.text import safe

PAUSED = Cell(" PAUSED ", "strong warn")
"""The user stopped polling."""


class StatusStrip(Static):
    """Connection and server; account, API and the monitor's own cost."""

    DEFAULT_CSS = """
    StatusStrip {
        dock: top; height: 2; margin: 1 0 0 0; padding: 0 1;
        background: $surface; color: $foreground;
    }
    """

    def __init__(self, second_line: Callable[[], list[Cell] | None]) -> None:
        """`second_line` returns what a screen shows in the place of the account; None: nothing."""
        super().__init__(markup=False)
        self._second_line = second_line
        self._where = Where()
        self._paused = False

    def show(self, where: Where, *, paused: bool = False) -> None:
        """Show all systems, or the one that the keys of the screen act on."""
        self._where, self._paused = where, paused
        self._draw()

    def on_resize(self) -> None:
        """Choose again what fits."""
        self._draw()

    def _draw(self) -> None:
        width = max(10, self.size.width - 2)
        systems, one = self._where.systems, self._where.acting
        if self._where.joins:
            lines = [all_parts(one, systems), total_parts(systems)]
        else:
            first = one_parts(one, systems) if systems else link_parts(one.state, one.late_us)
            lines = [first, account_parts(one.state, one.late_us)]
        if self._paused:
            # In front of everything: whatever stands behind it is of an earlier moment.
            lines[0] = [PAUSED, *lines[0]]
        if (own := self._second_line()) is not None:
            lines[1] = own
        self.update(Content("\n").join([joined(parts, width) for parts in lines]))


class AssetNote(Static):
    """A line shown only when what the screen is about was deleted or recreated."""

    DEFAULT_CSS = """
    AssetNote { height: auto; padding: 0 1; background: $error 20%; color: $text-error; }
    """

    def __init__(self, asset: Callable[[], Target | None], newest: Callable[[], State]) -> None:
        """`asset` returns what the screen is about now, `newest` the state it shows."""
        super().__init__(markup=False)
        self.display = False
        self._asset, self._newest = asset, newest
        self._opened_on: Target | None = None
        """What the screen is about, as it was first seen."""
        self._shown = ""

    @property
    def became(self) -> str:
        """Whether the asset was deleted or recreated since it was opened; empty if not."""
        state = self._newest()
        # In a recording people also go back in time.
        if self._opened_on is None or state.replay is not None:
            return ""
        return replaced_text(state, self._opened_on)

    def reopen(self) -> None:
        """Take what has the name now as what the screen is about."""
        self._opened_on = None
        self.keep_up()

    def keep_up(self) -> None:
        """Show what became of the asset until now, or nothing."""
        asset = self._asset()
        if asset is not None and (
            self._opened_on is None or self._opened_on.created_at_us is None
        ):
            made_us = asset.created_at_us or made_at_us(self._newest(), asset)
            self._opened_on = asset._replace(created_at_us=made_us)
        if (text := self.became) != self._shown:
            self._shown = text
            self.update(safe(text))
            self.display = bool(text)
