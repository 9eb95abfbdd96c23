"""What happened: advisories, configuration changes, connection, notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual import on

from natstui.model.live.state import EVENTS_KEPT
from natstui.model.records.record import Advisory
from natstui.tui.events.cells import EVENT_COLUMNS, EventView
from natstui.tui.frame.columns import ColumnSpec, Order
from natstui.tui.frame.messages import Open
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.table.view import RowSelected
from natstui.tui.kit.text import safe_copy
from natstui.units import local_text


class EventsScreen(TableScreen):
    """The events table, newest first."""

    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = EVENT_COLUMNS
    NOUN = "events"
    START = Order("time", reverse=True)

    @on(RowSelected)
    def _open(self, message: RowSelected) -> None:
        """Go to the consumer, else the stream, that the event is about."""
        view = self.view()
        event = next((view.at(row) for row in view.rows() if view.key(row) == message.key), None)
        if not isinstance(event, Advisory) or not event.stream:
            self.notify("this event belongs to no stream", timeout=2)
        elif (event.stream, event.consumer) in {
            key[:2] for key in self.state.consumers.roster.keys
        }:
            self.app.post_message(Open("consumer", event.stream, event.consumer))
        elif event.stream in {key[0] for key in self.state.streams.roster.keys}:
            self.app.post_message(Open("stream", event.stream))
        else:
            self.notify(f"stream {safe_copy(event.stream)} is gone", markup=False, timeout=2)

    def caption_text(self, shown: int, total: int) -> str:
        """Return the line above the table; what is not kept any more is no quiet time."""
        text = super().caption_text(shown, total)
        if total < EVENTS_KEPT:
            return text
        since = local_text(self.state.happenings[0].at_us)
        return f"{text}  ·  kept since {since}"

    def view(self) -> EventView:
        """Return the events of the present state."""
        return EventView(self.state, self.late_us)
