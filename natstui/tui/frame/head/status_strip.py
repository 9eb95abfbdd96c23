"""The two lines at the top of a screen, and a third if its stream or consumer was deleted."""

from __future__ import annotations

from collections.abc import Callable

from textual.content import Content
from textual.widgets import Static

from natstui.model.live.state import State
from natstui.tui.frame.action_keys import Target, find_created_at_us, replacement_text
from natstui.tui.frame.head.several import acting_system_parts, all_systems_parts, total_parts
from natstui.tui.frame.head.status_text import account_parts, fit_parts, link_parts
from natstui.tui.frame.systems import SystemScope
from natstui.tui.kit.fixed_text import FixedText
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.text import safe

PAUSED_CELL = Cell(" PAUSED ", "strong warn")
"""Shown while the user has paused polling."""


class StatusStrip(FixedText):
    """The status strip: connection and server; account, API and natstui's own requests."""

    DEFAULT_CSS = """
    StatusStrip {
        dock: top; height: 2; margin: 1 0 0 0; padding: 0 1;
        background: $surface; color: $foreground;
    }
    """

    def __init__(self, second_line: Callable[[], list[Cell] | None]) -> None:
        """Create the strip; `second_line` returns the screen's second line, None for the line of
        the account.
        """
        super().__init__(markup=False)
        self._second_line = second_line
        self._scope = SystemScope()
        self._is_paused = False

    def show(self, scope: SystemScope, *, paused: bool = False) -> None:
        """Show the status of all systems, or of the one on which the screen's keys act; with
        `paused`, a sign that polling is paused.
        """
        self._scope, self._is_paused = scope, paused
        self._draw()

    def on_resize(self) -> None:
        """Draw the parts that fit the new width."""
        self._draw()

    def _draw(self) -> None:
        width = max(10, self.size.width - 2)
        systems, acting = tuple(self._scope.systems.values()), self._scope.acting
        if self._scope.is_joined:
            lines = [all_systems_parts(acting, systems), total_parts(systems)]
        else:
            first_line_parts = (
                acting_system_parts(acting, systems)
                if systems
                else link_parts(acting.state, acting.poll_age_us)
            )
            lines = [first_line_parts, account_parts(acting.state, acting.poll_age_us)]
        if self._is_paused:
            # First: everything after it is of an earlier moment.
            lines[0] = [PAUSED_CELL, *lines[0]]
        if (second_line := self._second_line()) is not None:
            lines[1] = second_line
        self.update(Content("\n").join([fit_parts(parts, width) for parts in lines]))


class AssetNote(Static):
    """A line that is shown only if the screen's stream or consumer was deleted or recreated."""

    DEFAULT_CSS = """
    AssetNote { height: auto; padding: 0 1; background: $error 20%; color: $text-error; }
    """

    def __init__(self, asset: Callable[[], Target | None], get_state: Callable[[], State]) -> None:
        """Create a hidden line; `asset` returns the stream or consumer of the screen, `get_state`
        the shown state.
        """
        super().__init__(markup=False)
        self.display = False
        self._asset, self._get_state = asset, get_state
        self._opened_asset: Target | None = None
        """The stream or consumer of the screen when it was opened."""
        self._shown_text = ""

    @property
    def replacement_note(self) -> str:
        """Return a sentence if the stream or consumer was deleted or recreated since the screen
        was opened, else an empty text; always empty in a replay.
        """
        state = self._get_state()
        # A replay can also seek backwards.
        if self._opened_asset is None or state.replay is not None:
            return ""
        return replacement_text(state, self._opened_asset)

    def accept_replacement(self) -> None:
        """Show the current stream or consumer of the same name from now on."""
        self._opened_asset = None
        self.refresh_note()

    def refresh_note(self) -> None:
        """Update the line for the current state."""
        asset = self._asset()
        if asset is not None and (
            self._opened_asset is None or self._opened_asset.created_at_us is None
        ):
            created_at_us = asset.created_at_us or find_created_at_us(self._get_state(), asset)
            self._opened_asset = asset._replace(created_at_us=created_at_us)
        if (text := self.replacement_note) != self._shown_text:
            self._shown_text = text
            self.update(safe(text))
            self.display = bool(text)
