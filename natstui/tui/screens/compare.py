"""What changed between two moments of a recording."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from natstui.model.compare import differences
from natstui.model.state import State, shown_at_us
from natstui.tui.present.columns import ColumnSpec, Order
from natstui.tui.present.compare import COMPARE_COLUMNS, CompareView
from natstui.tui.table_screen import TableScreen
from natstui.units import local_text


class CompareScreen(TableScreen):
    """A at the left, the moment shown at the right; it follows the replay."""

    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = COMPARE_COLUMNS
    NOUN = "changes"
    START = Order("where")

    def __init__(self, marked_a: State) -> None:
        super().__init__()
        self._a = marked_a

    def view(self) -> CompareView:
        """Return what changed from A until the moment shown."""
        return CompareView(differences(self._a, self.state))

    def caption_text(self, shown: int, total: int) -> str:
        """Return the line above the table: which moments, and how many changes."""
        moments = f"A {local_text(shown_at_us(self._a))} → {local_text(shown_at_us(self.state))}"
        return f"{moments}  ·  {super().caption_text(shown, total)}"
