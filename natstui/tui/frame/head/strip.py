"""Two lines at the top of every screen, and a third when its stream or consumer was deleted."""

from __future__ import annotations

from collections.abc import Callable

from textual.content import Content
from textual.widgets import Static

from natstui.model.live.state import State
from natstui.tui.frame.action_keys import Target, made_at_us, replaced_text
from natstui.tui.frame.head.several import all_parts, one_parts, total_parts
from natstui.tui.frame.head.status_text import account_parts, joined, link_parts
from natstui.tui.frame.systems import Where
from natstui.tui.kit.fixed_text import FixedText
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.text import safe

PAUSED = Cell(" PAUSED ", "strong warn")
"""Shown while the user has paused polling."""


class StatusStrip(FixedText):
    """The status strip: connection and server; account, API and the monitor's own cost."""

    DEFAULT_CSS = """
    StatusStrip {
        dock: top; height: 2; margin: 1 0 0 0; padding: 0 1;
        background: $surface; color: $foreground;
    }
    """

    def __init__(self, second_line: Callable[[], list[Cell] | None]) -> None:
        """Create the strip; `second_line` returns the screen's own second line, None for the
        account's.
        """
        super().__init__(markup=False)
        self._second_line = second_line
        self._where = Where()
        self._paused = False

    def show(self, where: Where, *, paused: bool = False) -> None:
        """Show all systems, or the acting one."""
        self._where, self._paused = where, paused
        self._draw()

    def on_resize(self) -> None:
        """Choose again which parts fit."""
        self._draw()

    def _draw(self) -> None:
        width = max(10, self.size.width - 2)
        systems, acting = self._where.systems, self._where.acting
        if self._where.joins:
            lines = [all_parts(acting, systems), total_parts(systems)]
        else:
            first = (
                one_parts(acting, systems) if systems else link_parts(acting.state, acting.late_us)
            )
            lines = [first, account_parts(acting.state, acting.late_us)]
        if self._paused:
            # In front of everything: whatever stands behind it is of an earlier moment.
            lines[0] = [PAUSED, *lines[0]]
        if (own_line := self._second_line()) is not None:
            lines[1] = own_line
        self.update(Content("\n").join([joined(parts, width) for parts in lines]))


class AssetNote(Static):
    """A line that is shown only when the stream or consumer of the screen was deleted or
    recreated.
    """

    DEFAULT_CSS = """
    AssetNote { height: auto; padding: 0 1; background: $error 20%; color: $text-error; }
    """

    def __init__(self, asset: Callable[[], Target | None], newest: Callable[[], State]) -> None:
        """Create hidden; `asset` returns the current subject of the screen, `newest` the shown
        state.
        """
        super().__init__(markup=False)
        self.display = False
        self._asset, self._newest = asset, newest
        self._opened_on: Target | None = None
        """The subject of the screen when it was opened."""
        self._shown = ""

    @property
    def became(self) -> str:
        """Return that the asset was deleted or recreated since it was opened; empty if not."""
        state = self._newest()
        # In a recording people also go back in time.
        if self._opened_on is None or state.replay is not None:
            return ""
        return replaced_text(state, self._opened_on)

    def reopen(self) -> None:
        """Accept the current asset of the same name as the subject of the screen."""
        self._opened_on = None
        self.keep_up()

    def keep_up(self) -> None:
        """Update the line for the current state."""
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
