"""The screens of a consumer's subscribers and pulling clients, and of a stream's publishers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from time import monotonic
from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.model.clients.recipients import FoundClients, Listener
from natstui.model.clients.requests import Requester
from natstui.model.clients.text import anonymous_text, idle_text, tap_summary_text
from natstui.model.columns.connections import IDENTITY_COLUMNS, ConnectionRow
from natstui.model.live.state import State
from natstui.model.records.system import ReadClients, StopReadingClients
from natstui.tui.connections.cells import client_text_cell
from natstui.tui.connections.detail import ConnectionDetail
from natstui.tui.frame.action_keys import Target
from natstui.tui.frame.columns import ColumnSpec, ItemsView, SortAndFilter
from natstui.tui.frame.live import NO_SERVER, ScreenPart
from natstui.tui.frame.requests import run_task
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.table.view import RowSelected
from natstui.tui.kit.text import safe
from natstui.units import UNKNOWN, bytes_text, count_text, counted, duration_text
from natstui.values import replace

_MAX_SHOWN_BATCHES_OR_SUBJECTS = 3


def as_requester(subscriber: Listener) -> Requester:
    """Convert a subscriber to a row of the table of clients, with 0 requests."""
    return Requester(
        connection=subscriber.connection,
        account=None,
        requests_count=0,
        request_bytes=0,
        last_at_us=subscriber.connection.active_at_us,
        about=(subscriber.by.subject,),
        pins=(),
        longest_wait_s=None,
        delivered_msgs=subscriber.by.delivered_msgs,
    )


class ClientView(ItemsView[Requester]):
    """The rows of the table of clients."""

    def __init__(self, clients: Sequence[Requester], pin_ids: Sequence[str]) -> None:
        names = [
            client.connection.display_name if client.connection else client.account or ""
            for client in clients
        ]
        keys = [
            (name, client.connection.key if client.connection else index)
            for index, (name, client) in enumerate(zip(names, clients, strict=True))
        ]
        super().__init__(clients, keys, [_search_text(client) for client in clients])
        self.pin_ids = pin_ids

    @cached_property
    def delivered_msgs(self) -> int | None:
        """Return the number of messages delivered to all clients; None if unknown for any."""
        counts = [
            client.delivered_msgs for client in self.items if client.delivered_msgs is not None
        ]
        return sum(counts) if len(counts) == len(self.items) else None

    def delivered_share(self, row: int) -> float | None:
        """Return the share of the delivered messages that a client received; None if unknown."""
        received_msgs = self.items[row].delivered_msgs
        total = self.delivered_msgs
        return received_msgs / total if total and received_msgs is not None else None


def _search_text(client: Requester) -> str:
    connection = client.connection
    texts = (
        (
            connection.name,
            connection.user,
            connection.address,
            connection.library,
            connection.server_name,
        )
        if connection
        else (client.account,)
    )
    return " ".join(filter(None, (*texts, *client.about)))


def _name(view: ClientView, row: int) -> Cell:
    """Name that the client chose; for a client of another account, the account."""
    client = view.items[row]
    if client.connection is None:
        return client_text_cell(
            f"account {client.account}" if client.account else "another account", "dim"
        )
    return client_text_cell(client.connection.name, "strong")


def _pulls(view: ClientView, row: int) -> Cell:
    """Number of pulls that the client sent during this search."""
    return Cell(count_text(view.items[row].requests_count))


def _published_msgs(view: ClientView, row: int) -> Cell:
    """Number of messages that the client published during this search."""
    return Cell(count_text(view.items[row].requests_count))


def _published_bytes(view: ClientView, row: int) -> Cell:
    """Payload bytes of the messages that the client published during this search."""
    return Cell(bytes_text(view.items[row].request_bytes))


def _delivered_msgs(view: ClientView, row: int) -> Cell:
    """Number of messages, with status messages, sent to the client since it was found; for a push
    consumer, since the client subscribed."""
    return Cell(count_text(view.items[row].delivered_msgs))


def _delivered_share(view: ClientView, row: int) -> Cell:
    """Share of the client in the messages that were sent to all listed clients."""
    share = view.delivered_share(row)
    return Cell(UNKNOWN, "dim") if share is None else Cell(f"{share:.0%}")


def _batches_or_subjects(view: ClientView, row: int) -> Cell:
    """Batch sizes of the client's pulls, or subjects, the most frequent first."""
    about_texts = view.items[row].about
    more_count = len(about_texts) - _MAX_SHOWN_BATCHES_OR_SUBJECTS
    text = ", ".join(about_texts[:_MAX_SHOWN_BATCHES_OR_SUBJECTS]) + (
        f" +{more_count}" if more_count > 0 else ""
    )
    return Cell(clean_line(text))


def _last_activity(view: ClientView, row: int) -> Cell:
    """Time since the client's last request; for a subscriber, since its last activity."""
    since_activity_s = max(0.0, time.time() - view.items[row].last_at_us / 1e6)
    return Cell(f"{duration_text(int(since_activity_s))} ago")


def _pin_ids(view: ClientView, row: int) -> Cell:
    """Id with which the consumer has pinned the client."""
    pin_ids = [pin_id for pin_id in view.pin_ids if pin_id in view.items[row].pins]
    return Cell(clean_line(", ".join(pin_ids)), "accent")


_sort_by = ClientView.sort_by
_text_column: Callable[..., ColumnSpec[ClientView]] = partial(
    ColumnSpec, align="left", descends=False
)


def _connection_column(
    key: str, width: int, priority: int, **layout: int
) -> ColumnSpec[ClientView]:
    """Return a column about a client's connection, which is unknown for another account."""
    column = next(column for column in IDENTITY_COLUMNS if column.key == key)

    def value(client: Requester) -> object:
        connection = client.connection
        return None if connection is None else column.value(ConnectionRow(connection))

    def cell(view: ClientView, row: int) -> Cell:
        client = view.items[row]
        if client.connection is None or value(client) is None:
            return client_text_cell(None)
        return Cell(column.text(ConnectionRow(client.connection)))

    cell.__doc__ = column.help
    return _text_column(key, column.title, width, priority, cell, _sort_by(value), **layout)


_CONNECTION_COLUMNS: tuple[ColumnSpec[ClientView], ...] = (
    replace(_connection_column("name", 18, 0, flex=3), cell=_name),
    _connection_column("user", 8, 6, flex=1, max_width=20),
    _connection_column("address", 15, 4, flex=1),
    _connection_column("client", 14, 7, flex=1),
    _connection_column("server", 8, 3, max_width=20),
)
_DELIVERY_COLUMNS: tuple[ColumnSpec[ClientView], ...] = (
    ColumnSpec(
        "delivered",
        "DELIVERED",
        9,
        1,
        _delivered_msgs,
        _sort_by(lambda client: client.delivered_msgs),
    ),
    ColumnSpec(
        "share", "SHARE", 6, 2, _delivered_share, _sort_by(lambda client: client.delivered_msgs)
    ),
)
_LAST_ACTIVITY_COLUMN = ColumnSpec(
    "last", "LAST", 8, 5, _last_activity, _sort_by(lambda client: client.last_at_us)
)
PULLER_COLUMNS: tuple[ColumnSpec[ClientView], ...] = (
    *_CONNECTION_COLUMNS,
    ColumnSpec("pulls", "PULLS", 6, 1, _pulls, _sort_by(lambda client: client.requests_count)),
    *_DELIVERY_COLUMNS,
    _text_column(
        "batch",
        "BATCH",
        8,
        5,
        _batches_or_subjects,
        _sort_by(lambda client: client.about),
        max_width=20,
    ),
    _LAST_ACTIVITY_COLUMN,
    _text_column(
        "pinned", "PINNED", 8, 8, _pin_ids, _sort_by(lambda client: client.pins), max_width=24
    ),
)
LISTENER_COLUMNS: tuple[ColumnSpec[ClientView], ...] = (
    *_CONNECTION_COLUMNS,
    *_DELIVERY_COLUMNS,
    _text_column(
        "subject",
        "LISTENS TO",
        12,
        5,
        _batches_or_subjects,
        _sort_by(lambda client: client.about),
        flex=1,
    ),
    _LAST_ACTIVITY_COLUMN,
)
PUBLISHER_COLUMNS: tuple[ColumnSpec[ClientView], ...] = (
    *_CONNECTION_COLUMNS,
    ColumnSpec(
        "msgs", "MSGS", 6, 1, _published_msgs, _sort_by(lambda client: client.requests_count)
    ),
    ColumnSpec(
        "size", "SIZE", 8, 2, _published_bytes, _sort_by(lambda client: client.request_bytes)
    ),
    _text_column(
        "subjects",
        "SUBJECTS",
        14,
        2,
        _batches_or_subjects,
        _sort_by(lambda client: client.about),
        flex=2,
    ),
    _LAST_ACTIVITY_COLUMN,
)


_decoder = decoder_of(FoundClients)
PULLS_SEARCH_S, PUBLISHERS_SEARCH_S = 30.0, 10.0
"""Duration of the reads: most clients pull or publish again within this time."""


class ClientSearch(ScreenPart):
    """A search for clients: its duration, whether it is running, and its result."""

    def __init__(self, screen: ClientsScreen, duration_s: float) -> None:
        """Create a search that lasts `duration_s` seconds, 0 for an immediate reply."""
        self._screen, self.duration_s = screen, duration_s
        self.is_running = False
        """Whether the search has no reply yet."""
        self._started_at_s = 0.0
        self.result: FoundClients | None = None
        self.error_text = ""

    @property
    def elapsed_s(self) -> float:
        """Return the seconds since the start of the search."""
        return monotonic() - self._started_at_s

    def is_offered(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Return whether an action is offered: `stop` during a search with a duration, `again` on
        a live server after a search.
        """
        if action == "stop":
            return self.is_running and bool(self.duration_s)
        return not self.is_running and self._screen.state.replay is None

    def action_again(self) -> None:
        """Search the clients again."""
        if self.is_offered("again", ()):
            self.is_running, self._started_at_s = True, monotonic()
            run_task(self._screen, self._read_clients)
            self._screen.refresh_bindings()
            self._screen.refresh_state()

    async def _read_clients(self) -> None:
        screen = self._screen
        command = ReadClients(0, screen.stream, screen.consumer, self.duration_s)
        reply = await screen.engine.request(command)
        self.is_running, self.error_text = False, ""
        if reply.status == "done" and reply.body_json is not None:
            self.result = _decoder.decode(reply.body_json)
        else:
            self.error_text = clean_line(reply.text)
        screen.refresh_bindings()
        screen.refresh_state()

    def action_stop(self) -> None:
        """Stop the search, and show its results so far."""
        if self.is_offered("stop", ()):
            self._screen.engine.send(StopReadingClients(0))


class ClientsScreen(TableScreen):
    """The clients of a consumer or stream; the search starts when the screen is opened."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("W", "part('asking', 'again')", "Again", id="clients.again"),
        Binding("ctrl+x", "part('asking', 'stop')", "End now", id="clients.stop"),
    ]
    DEFAULT_CSS = "ClientsScreen #note { height: auto; color: $text-muted; padding: 0 1; }"
    NOUN = "clients"
    DEFAULT_ORDER = SortAndFilter("name")
    CAPTION_START: ClassVar[str] = "clients of"
    SEARCHED_MESSAGES_TEXT: ClassVar[str] = ""
    """What the search reads, as text; empty if it reads no messages."""
    SEARCH_DURATION_S: ClassVar[float] = 0.0
    NO_CLIENT_TEXT: ClassVar[str] = "no client subscribes to the subject that it delivers to"

    def __init__(self, stream: str, consumer: str | None) -> None:
        super().__init__()
        self.stream, self.consumer = stream, consumer
        self.asking = ClientSearch(self, self.SEARCH_DURATION_S)

    def asset(self) -> Target | None:
        """Return the consumer or stream whose clients are shown."""
        return Target(self.stream, self.consumer)

    def body(self) -> Iterable[Widget]:
        """Yield the table, and the notes below it."""
        yield from super().body()
        yield Static(id="note", markup=False)

    def on_mount(self) -> None:
        """Start the search, and show its remaining time every second."""
        self.asking.action_again()
        self.set_interval(1.0, self.refresh_state)

    def on_unmount(self) -> None:
        """Stop the search."""
        self.asking.action_stop()

    def refresh_state(self) -> None:
        """Show the result of the search, with notes below the table."""
        result = self.asking.result
        notes = self.notes(result) if result is not None else []
        if self.SEARCHED_MESSAGES_TEXT and result is None:
            notes = [f"natstui receives a copy of each one: {self.SEARCHED_MESSAGES_TEXT}"]
        self.query_one("#note", Static).update(safe("; ".join(notes)))
        super().refresh_state()

    def view(self) -> ClientView:
        """Return a view of the clients of the last result."""
        result = self.asking.result
        if result is None:
            return ClientView((), ())
        pin_ids = result.consumer.pins if result.consumer is not None else ()
        if result.heard is not None:
            return ClientView(result.heard.requesters, pin_ids)
        return ClientView([as_requester(subscriber) for subscriber in result.listeners], pin_ids)

    def empty_text(self, total: int) -> str:
        """Return the text that explains an empty table."""
        if total:
            return super().empty_text(total)
        if self.state.replay is not None:
            return NO_SERVER
        if self.asking.is_running and self.SEARCHED_MESSAGES_TEXT and not self.asking.error_text:
            return "the clients appear when the time is over, or when you stop"
        is_searching = self.asking.is_running or self.asking.result is None
        return self.asking.error_text or (
            "querying every server …" if is_searching else self.NO_CLIENT_TEXT
        )

    def caption_text(self, shown: int, total: int) -> str:
        """Return the caption: the consumer or stream, and the progress."""
        owner_text = f"{self.stream} › {self.consumer}" if self.consumer else self.stream
        parts = [clean_line(f"{self.CAPTION_START} {owner_text}"), self.asking.error_text]
        if self.asking.is_running and self.SEARCHED_MESSAGES_TEXT:
            elapsed_text = duration_text(int(self.asking.elapsed_s))
            time_text = f"{elapsed_text} of {duration_text(self.SEARCH_DURATION_S)}"
            parts.append(f"reading {self.SEARCHED_MESSAGES_TEXT}: {time_text}")
        return "  ·  ".join(filter(None, [*parts, super().caption_text(shown, total)]))

    def notes(self, result: FoundClients) -> list[str]:
        """Return notes about what the table does not contain, and about the cost."""
        return []

    @on(RowSelected)
    def _open_connection(self) -> None:
        """Open the screen of the connection under the cursor."""
        rows, position = self.rows, self.table.cursor
        if rows is None or position >= len(rows.order):
            return
        connection = rows.view.items[rows.order[position]].connection
        if connection is None:
            self.notify("connections of other accounts are not visible to this user", timeout=3)
        else:
            self.app.push_screen(ConnectionDetail(connection))


class ListenersScreen(ClientsScreen):
    """The subscribers of a push consumer's deliver subject."""

    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = LISTENER_COLUMNS

    def notes(self, result: FoundClients) -> list[str]:
        """Return a note with the deliver subject."""
        consumer = result.consumer
        if consumer is None:
            return []
        group_note = f" in the group {consumer.deliver_group}" if consumer.deliver_group else ""
        return [clean_line(f'subscribers of "{consumer.deliver_subject}"{group_note}')]


class PullersScreen(ClientsScreen):
    """The clients that pull from a consumer, with their requests."""

    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = PULLER_COLUMNS
    SEARCHED_MESSAGES_TEXT = "its pulls"
    SEARCH_DURATION_S = PULLS_SEARCH_S
    NO_CLIENT_TEXT = "no client pulled from it meanwhile"

    def notes(self, result: FoundClients) -> list[str]:
        """Return notes about open pulls, pinned clients without a request, and the cost."""
        if result.heard is None or result.consumer is None:
            return []
        notes = [f"{counted(result.consumer.waiting_count, 'pull')} open"]
        pulling_pin_ids = {pin_id for client in result.heard.requesters for pin_id in client.pins}
        notes += [
            f"pinned: {clean_line(pin_id)}, sent no pull during this time"
            for pin_id in result.consumer.pins
            if pin_id not in pulling_pin_ids
        ]
        return [*notes, idle_text(result.heard), tap_summary_text(result.heard, "pull")]


class PublishersScreen(ClientsScreen):
    """The clients that publish to a stream and wait for its acks."""

    NOUN = "publishers"
    CAPTION_START = "publishers of"
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = PUBLISHER_COLUMNS
    SEARCHED_MESSAGES_TEXT = "what is published"
    SEARCH_DURATION_S = PUBLISHERS_SEARCH_S
    NO_CLIENT_TEXT = "no client published to it meanwhile"

    def notes(self, result: FoundClients) -> list[str]:
        """Return notes about anonymous publishers and the cost."""
        publisher_requests = result.heard
        if publisher_requests is None:
            return []
        notes = [anonymous_text(publisher_requests)] if publisher_requests.anonymous_msgs else []
        return [*notes, tap_summary_text(publisher_requests, "message")]


def create_clients_screen(state: State, stream: str, consumer: str | None) -> ClientsScreen:
    """Create the screen of a consumer's clients; without a consumer, of a stream's publishers."""
    if consumer is None:
        return PublishersScreen(stream, None)
    config = state.consumer_configurations.get((stream, consumer))
    is_push = config is not None and config.deliver_subject is not None
    return ListenersScreen(stream, consumer) if is_push else PullersScreen(stream, consumer)
