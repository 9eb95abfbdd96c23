"""Who holds a consumer, and who publishes to a stream: their connections, and what they ask."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from time import monotonic
from typing import Any, ClassVar

from textual import getters, on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.model.clients.holding import ClientsFound
from natstui.model.clients.words import anonymous_text, cost_text, idle_text
from natstui.model.live.state import State
from natstui.model.records.system import ReadClients, StopReadingClients
from natstui.tui.connections.asker_cells import (
    LISTENER_COLUMNS,
    PUBLISHER_COLUMNS,
    PULLER_COLUMNS,
    AskerView,
    listener,
)
from natstui.tui.connections.detail import ConnectionDetail
from natstui.tui.frame.action_keys import Target
from natstui.tui.frame.columns import ColumnSpec, Order
from natstui.tui.frame.live import NO_SERVER
from natstui.tui.frame.messages import Asked, answer_to, next_command_id
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.table.view import RowSelected
from natstui.tui.kit.text import safe
from natstui.units import counted, duration_text

_decoder = decoder_of(ClientsFound)
PULLS_FOR_S, PUBLISHES_FOR_S = 30.0, 10.0
"""How long is read: most clients ask again within this time."""


class ClientsScreen(TableScreen):
    """Asks when it is opened, and again when it is told to."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("W", "again", "Again", id="clients.again"),
        Binding("s", "stop", "End now", id="clients.stop"),
    ]
    DEFAULT_CSS = "ClientsScreen #note { height: auto; color: $text-muted; padding: 0 1; }"
    NOUN = "clients"
    START = Order("name")
    ASKS: ClassVar[str] = "who holds"
    READS: ClassVar[str] = ""
    """What of the clients is read meanwhile; empty: nothing has to be."""
    FOR_S: ClassVar[float] = 0.0

    note_line = getters.query_one("#note", Static)

    def __init__(self, stream: str, consumer: str | None) -> None:
        super().__init__()
        self.stream, self.consumer = stream, consumer
        self._asked_id, self._asked_s = -1, 0.0
        self._found: ClientsFound | None = None
        self._problem = ""

    def asset(self) -> Target | None:
        """Return what is held or published to."""
        return Target(self.stream, self.consumer)

    def body(self) -> Iterable[Widget]:
        """The table, and below it what it cannot tell and what it cost."""
        yield from super().body()
        yield Static(id="note", markup=False)

    def on_mount(self) -> None:
        """Ask, and tell every second how long it still takes."""
        self.action_again()
        self.set_interval(1.0, self._tick)

    def on_unmount(self) -> None:
        """Have nothing read that nobody will see."""
        self.action_stop()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to end only what goes on."""
        if action == "stop":
            return self._asked_id >= 0 and bool(self.READS)
        if action == "again":
            return self._asked_id < 0 and self.state.replay is None
        return super().check_action(action, parameters)

    def action_again(self) -> None:
        """Ask anew."""
        if self.state.replay is None and self._asked_id < 0:
            self._asked_id, self._asked_s = next_command_id(), monotonic()
            asked = ReadClients(self._asked_id, self.stream, self.consumer, self.FOR_S)
            self.app.post_message(Asked(asked))
            self._show_asking()

    def action_stop(self) -> None:
        """Show what was found until now."""
        if self._asked_id >= 0 and self.READS:
            self.app.post_message(Asked(StopReadingClients(next_command_id())))

    def _tick(self) -> None:
        if self._asked_id >= 0 and self.is_current:
            self.refresh_state()

    def _show_asking(self) -> None:
        self.refresh_bindings()
        self.refresh_state()

    def refresh_state(self) -> None:
        """Take the answer when it has come, and show what is known."""
        answer = answer_to(self.state, self._asked_id)
        if answer is not None:
            self._asked_id = -1
            self.refresh_bindings()
            self._problem = ""
            if answer.status != "done" or answer.body_json is None:
                self._problem = clean_line(answer.text)
            else:
                self._found = _decoder.decode(answer.body_json)
        self.note_line.update(safe("; ".join(self._notes())))
        super().refresh_state()

    def view(self) -> AskerView:
        """Return the clients, as far as they are known."""
        found = self._found
        if found is None:
            return AskerView((), ())
        pins = found.consumer.pins if found.consumer is not None else ()
        if found.heard is not None:
            return AskerView(found.heard.askers, pins)
        return AskerView([listener(one) for one in found.listeners], pins)

    def empty_text(self, total: int) -> str:
        """Return why there are no rows."""
        if total:
            return super().empty_text(total)
        if self.state.replay is not None:
            return NO_SERVER
        if self._problem:
            return self._problem
        if self._asked_id >= 0 or self._found is None:
            return "asking every server …"
        return "no client was found"

    def caption_text(self, shown: int, total: int) -> str:
        """Return the line above the table: whose clients, and how far it is."""
        return "  ·  ".join(filter(None, [*self._parts(), super().caption_text(shown, total)]))

    def _parts(self) -> list[str]:
        whose = f"{self.stream} › {self.consumer}" if self.consumer else self.stream
        parts = [clean_line(f"{self.ASKS} {whose}"), self._problem]
        if self._asked_id >= 0 and self.READS:
            so_far = duration_text(int(monotonic() - self._asked_s))
            parts.append(f"reading {self.READS}: {so_far} of {duration_text(self.FOR_S)}")
        return parts

    def _notes(self) -> list[str]:
        """Return what the table cannot tell, and what it cost."""
        if self.READS and self._found is None:
            return [f"each is read once more while this reads: {self.READS}"]
        return []

    @on(RowSelected)
    def _open(self) -> None:
        """Show everything about the connection under the cursor."""
        rows, at = self.rows, self.table.cursor
        if rows is None or at >= len(rows.order):
            return
        connection = rows.view.things[rows.order[at]].connection
        if connection is None:
            self.notify("connections of other accounts are not told", timeout=3)
        else:
            self.app.push_screen(ConnectionDetail(connection))


class ListenersScreen(ClientsScreen):
    """Who gets what a push consumer delivers."""

    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = LISTENER_COLUMNS

    def _notes(self) -> list[str]:
        consumer = self._found.consumer if self._found is not None else None
        if consumer is None:
            return []
        group = f" in the group {consumer.deliver_group}" if consumer.deliver_group else ""
        return [clean_line(f'who listens to "{consumer.deliver_subject}"{group}')]


class PullersScreen(ClientsScreen):
    """Who pulls from a consumer, how often and how much."""

    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = PULLER_COLUMNS
    READS = "its pulls"
    FOR_S = PULLS_FOR_S

    def _notes(self) -> list[str]:
        found = self._found
        if found is None or found.heard is None or found.consumer is None:
            return super()._notes()
        notes = [f"{counted(found.consumer.waiting_count, 'pull')} waiting in the server"]
        seen = {pin for one in found.heard.askers for pin in one.pins}
        notes += [
            f"pinned: {clean_line(pin)}, which sent no pull meanwhile"
            for pin in found.consumer.pins
            if pin not in seen
        ]
        return [*notes, idle_text(found.heard), cost_text(found.heard, "pull")]


class PublishersScreen(ClientsScreen):
    """Who publishes to a stream and waits for its answer."""

    NOUN = "publishers"
    ASKS = "who publishes to"
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = PUBLISHER_COLUMNS
    READS = "what is published"
    FOR_S = PUBLISHES_FOR_S

    def _notes(self) -> list[str]:
        heard = self._found.heard if self._found is not None else None
        if heard is None:
            return super()._notes()
        notes = [anonymous_text(heard)] if heard.anonymous_msgs else []
        return [*notes, cost_text(heard, "message")]


def clients_screen(state: State, stream: str, consumer: str | None) -> ClientsScreen:
    """Return the screen of the clients of a consumer, or without one of a stream's publishers."""
    if consumer is None:
        return PublishersScreen(stream, None)
    config = state.consumer_configurations.get((stream, consumer))
    pushed = config is not None and config.deliver_subject is not None
    return ListenersScreen(stream, consumer) if pushed else PullersScreen(stream, consumer)
