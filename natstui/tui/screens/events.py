"""What happened: advisories, configuration changes, connection, notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from natstui.tui.present.columns import ColumnSpec, Order
from natstui.tui.present.events import EVENT_COLUMNS, EventView
from natstui.tui.table_screen import TableScreen


class EventsScreen(TableScreen):
    """The events table, newest first."""

    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = EVENT_COLUMNS
    NOUN = "events"
    START = Order("time", reverse=True)

    def view(self) -> EventView:
        """Return the events of the present state."""
        return EventView(self.state, self.late_us)
