"""The clients of a consumer or stream: subscribers, pullers and publishers, with their
requests.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from time import monotonic
from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.model.clients.holding import ClientsFound, Listener
from natstui.model.clients.requests import Requester
from natstui.model.clients.words import anonymous_text, cost_text, idle_text
from natstui.model.columns.connections import IDENTITY_COLUMNS, ConnectionRow
from natstui.model.live.state import State
from natstui.model.records.system import ReadClients, StopReadingClients
from natstui.tui.connections.cells import words
from natstui.tui.connections.detail import ConnectionDetail
from natstui.tui.frame.action_keys import Target
from natstui.tui.frame.columns import ColumnSpec, Listed, Order
from natstui.tui.frame.live import NO_SERVER, ScreenPart
from natstui.tui.frame.requests import run_task
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.table.view import RowSelected
from natstui.tui.kit.text import safe
from natstui.units import UNKNOWN, bytes_text, count_text, counted, duration_text

_SHOWN_COUNT = 3


def listener(subscriber: Listener) -> Requester:
    """Return a subscriber as a client of this table, without requests."""
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


class AskerView(Listed[Requester]):
    """Clients, by row."""

    def __init__(self, askers: Sequence[Requester], pins: Sequence[str]) -> None:
        names = [
            asker.connection.called if asker.connection else asker.account or ""
            for asker in askers
        ]
        keys = [
            (name, one.connection.key if one.connection else asker)
            for asker, (name, one) in enumerate(zip(names, askers, strict=True))
        ]
        super().__init__(askers, keys, [_search_text(asker) for asker in askers])
        self.pins = pins

    @cached_property
    def delivered_msgs(self) -> int | None:
        """Return the messages delivered to all of them; None if unknown for any."""
        counts = [
            asker.delivered_msgs for asker in self.things if asker.delivered_msgs is not None
        ]
        return sum(counts) if len(counts) == len(self.things) else None

    def share(self, row: int) -> float | None:
        """Return the share of the delivered messages that a client received; None if unknown."""
        got_msgs = self.things[row].delivered_msgs
        total = self.delivered_msgs
        return got_msgs / total if total and got_msgs is not None else None


def _search_text(asker: Requester) -> str:
    connection = asker.connection
    texts = (
        (
            connection.name,
            connection.user,
            connection.address,
            connection.library,
            connection.server_name,
        )
        if connection
        else (asker.account,)
    )
    return " ".join(filter(None, (*texts, *asker.about)))


def _name(view: AskerView, row: int) -> Cell:
    """What the client calls itself; of another account only that is known."""
    asker = view.things[row]
    if asker.connection is None:
        return words(f"account {asker.account}" if asker.account else "another account", "dim")
    return words(asker.connection.name, "strong")


def _pulls(view: AskerView, row: int) -> Cell:
    """How many pulls it sent while this read."""
    return Cell(count_text(view.things[row].requests_count))


def _published(view: AskerView, row: int) -> Cell:
    """How many messages it published while this read."""
    return Cell(count_text(view.things[row].requests_count))


def _size(view: AskerView, row: int) -> Cell:
    """Their payloads together."""
    return Cell(bytes_text(view.things[row].request_bytes))


def _delivered(view: AskerView, row: int) -> Cell:
    """What was sent to it since it was found, status messages included; of a push consumer,
    since it subscribed."""
    return Cell(count_text(view.things[row].delivered_msgs))


def _share(view: AskerView, row: int) -> Cell:
    """Its part of what all of them got."""
    share = view.share(row)
    return Cell(UNKNOWN, "dim") if share is None else Cell(f"{share:.0%}")


def _about(view: AskerView, row: int) -> Cell:
    """How many messages its pulls ask for, or the subjects: the most frequent first."""
    about_texts = view.things[row].about
    more_count = len(about_texts) - _SHOWN_COUNT
    text = ", ".join(about_texts[:_SHOWN_COUNT]) + (f" +{more_count}" if more_count > 0 else "")
    return Cell(clean_line(text))


def _last(view: AskerView, row: int) -> Cell:
    """How long ago its last request came; of a listener, when it did anything last."""
    ago_s = max(0.0, time.time() - view.things[row].last_at_us / 1e6)
    return Cell(f"{duration_text(int(ago_s))} ago")


def _pinned(view: AskerView, row: int) -> Cell:
    """The id with which the consumer has pinned it."""
    pins = [pin for pin in view.pins if pin in view.things[row].pins]
    return Cell(clean_line(", ".join(pins)), "accent")


_by = AskerView.by
_text: Callable[..., ColumnSpec[AskerView]] = partial(ColumnSpec, align="left", descends=False)


def _place(key: str, width: int, priority: int, **layout: int) -> ColumnSpec[AskerView]:
    """Return a column about a client's connection, which is unknown for another account."""
    column = next(column for column in IDENTITY_COLUMNS if column.key == key)

    def value(asker: Requester) -> object:
        connection = asker.connection
        return None if connection is None else column.value(ConnectionRow(connection))

    def cell(view: AskerView, row: int) -> Cell:
        asker = view.things[row]
        if asker.connection is None or value(asker) is None:
            return words(None)
        return Cell(column.text(ConnectionRow(asker.connection)))

    cell.__doc__ = column.help
    return _text(key, column.title, width, priority, cell, _by(value), **layout)


_PLACE: tuple[ColumnSpec[AskerView], ...] = (
    replace(_place("name", 18, 0, flex=3), cell=_name),
    _place("user", 8, 6, flex=1, max_width=20),
    _place("address", 15, 4, flex=1),
    _place("client", 14, 7, flex=1),
    _place("server", 8, 3, max_width=20),
)
_SHARES: tuple[ColumnSpec[AskerView], ...] = (
    ColumnSpec(
        "delivered", "DELIVERED", 9, 1, _delivered, _by(lambda asker: asker.delivered_msgs)
    ),
    ColumnSpec("share", "SHARE", 6, 2, _share, _by(lambda asker: asker.delivered_msgs)),
)
_LAST = ColumnSpec("last", "LAST", 8, 5, _last, _by(lambda asker: asker.last_at_us))
PULLER_COLUMNS: tuple[ColumnSpec[AskerView], ...] = (
    *_PLACE,
    ColumnSpec("pulls", "PULLS", 6, 1, _pulls, _by(lambda asker: asker.requests_count)),
    *_SHARES,
    _text("batch", "BATCH", 8, 5, _about, _by(lambda asker: asker.about), max_width=20),
    _LAST,
    _text("pinned", "PINNED", 8, 8, _pinned, _by(lambda asker: asker.pins), max_width=24),
)
LISTENER_COLUMNS: tuple[ColumnSpec[AskerView], ...] = (
    *_PLACE,
    *_SHARES,
    _text("subject", "LISTENS TO", 12, 5, _about, _by(lambda asker: asker.about), flex=1),
    _LAST,
)
PUBLISHER_COLUMNS: tuple[ColumnSpec[AskerView], ...] = (
    *_PLACE,
    ColumnSpec("msgs", "MSGS", 6, 1, _published, _by(lambda asker: asker.requests_count)),
    ColumnSpec("size", "SIZE", 8, 2, _size, _by(lambda asker: asker.request_bytes)),
    _text("subjects", "SUBJECTS", 14, 2, _about, _by(lambda asker: asker.about), flex=2),
    _LAST,
)


_decoder = decoder_of(ClientsFound)
PULLS_FOR_S, PUBLISHES_FOR_S = 30.0, 10.0
"""How long is read: most clients ask again within this time."""


class ClientSearch(ScreenPart):
    """The clients that are searched, for how long, and the result."""

    def __init__(self, screen: ClientsScreen, for_s: float) -> None:
        """Create a search; `for_s` is its duration, 0 for an immediate reply."""
        self._screen, self.for_s = screen, for_s
        self.goes_on = False
        """Whether a reply is still to come."""
        self._asked_s = 0.0
        self.found: ClientsFound | None = None
        self.problem = ""

    @property
    def elapsed_s(self) -> float:
        """Return the time since the request."""
        return monotonic() - self._asked_s

    def may(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Return whether an action is offered: stop during a search, repeat after it."""
        if action == "stop":
            return self.goes_on and bool(self.for_s)
        return not self.goes_on and self._screen.state.replay is None

    def action_again(self) -> None:
        """Search again."""
        if self.may("again", ()):
            self.goes_on, self._asked_s = True, monotonic()
            run_task(self._screen, self._read)
            self._screen.refresh_bindings()
            self._screen.refresh_state()

    async def _read(self) -> None:
        screen = self._screen
        command = ReadClients(0, screen.stream, screen.consumer, self.for_s)
        reply = await screen.engine.request(command)
        self.goes_on, self.problem = False, ""
        if reply.status == "done" and reply.body_json is not None:
            self.found = _decoder.decode(reply.body_json)
        else:
            self.problem = clean_line(reply.text)
        screen.refresh_bindings()
        screen.refresh_state()

    def action_stop(self) -> None:
        """Stop the search, and show its results so far."""
        if self.may("stop", ()):
            self._screen.engine.send(StopReadingClients(0))


class ClientsScreen(TableScreen):
    """The clients of a consumer or stream; searches when it is opened, and on request."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("W", "part('asking', 'again')", "Again", id="clients.again"),
        Binding("ctrl+x", "part('asking', 'stop')", "End now", id="clients.stop"),
    ]
    DEFAULT_CSS = "ClientsScreen #note { height: auto; color: $text-muted; padding: 0 1; }"
    NOUN = "clients"
    START = Order("name")
    ASKS: ClassVar[str] = "who holds"
    READS: ClassVar[str] = ""
    """What the search records; empty if nothing."""
    FOR_S: ClassVar[float] = 0.0
    NOBODY: ClassVar[str] = "no client subscribes to the subject that it delivers to"

    def __init__(self, stream: str, consumer: str | None) -> None:
        super().__init__()
        self.stream, self.consumer = stream, consumer
        self.asking = ClientSearch(self, self.FOR_S)

    def asset(self) -> Target | None:
        """Return the consumer or stream."""
        return Target(self.stream, self.consumer)

    def body(self) -> Iterable[Widget]:
        """Yield the table, with its limits and cost below."""
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
        """Show the results."""
        result = self.asking.found
        notes = self.notes(result) if result is not None else []
        if self.READS and result is None:
            notes = [f"natstui receives a copy of each one: {self.READS}"]
        self.query_one("#note", Static).update(safe("; ".join(notes)))
        super().refresh_state()

    def view(self) -> AskerView:
        """Return the clients that are known so far."""
        result = self.asking.found
        if result is None:
            return AskerView((), ())
        pins = result.consumer.pins if result.consumer is not None else ()
        if result.heard is not None:
            return AskerView(result.heard.requesters, pins)
        return AskerView([listener(subscriber) for subscriber in result.listeners], pins)

    def empty_text(self, total: int) -> str:
        """Return why there are no rows."""
        if total:
            return super().empty_text(total)
        if self.state.replay is not None:
            return NO_SERVER
        if self.asking.goes_on and self.READS and not self.asking.problem:
            return "the clients appear when the time is over, or when you stop"
        is_searching = self.asking.goes_on or self.asking.found is None
        return self.asking.problem or ("asking every server …" if is_searching else self.NOBODY)

    def caption_text(self, shown: int, total: int) -> str:
        """Return the caption: the consumer or stream, and the progress."""
        owner_text = f"{self.stream} › {self.consumer}" if self.consumer else self.stream
        parts = [clean_line(f"{self.ASKS} {owner_text}"), self.asking.problem]
        if self.asking.goes_on and self.READS:
            so_far = duration_text(int(self.asking.elapsed_s))
            parts.append(f"reading {self.READS}: {so_far} of {duration_text(self.FOR_S)}")
        return "  ·  ".join(filter(None, [*parts, super().caption_text(shown, total)]))

    def notes(self, result: ClientsFound) -> list[str]:
        """Return what the table does not contain, and the cost."""
        return []

    @on(RowSelected)
    def _open(self) -> None:
        """Open the connection under the cursor."""
        rows, position = self.rows, self.table.cursor
        if rows is None or position >= len(rows.order):
            return
        connection = rows.view.things[rows.order[position]].connection
        if connection is None:
            self.notify("connections of other accounts are not visible to this user", timeout=3)
        else:
            self.app.push_screen(ConnectionDetail(connection))


class ListenersScreen(ClientsScreen):
    """The subscribers of a push consumer's deliver subject."""

    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = LISTENER_COLUMNS

    def notes(self, result: ClientsFound) -> list[str]:
        """Return the deliver subject."""
        consumer = result.consumer
        if consumer is None:
            return []
        group = f" in the group {consumer.deliver_group}" if consumer.deliver_group else ""
        return [clean_line(f'who listens to "{consumer.deliver_subject}"{group}')]


class PullersScreen(ClientsScreen):
    """The clients that pull from a consumer, with their requests."""

    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = PULLER_COLUMNS
    READS = "its pulls"
    FOR_S = PULLS_FOR_S
    NOBODY = "no client pulled from it meanwhile"

    def notes(self, result: ClientsFound) -> list[str]:
        """Return the waiting pulls, pinned clients without a request, and the cost."""
        if result.heard is None or result.consumer is None:
            return []
        notes = [f"{counted(result.consumer.waiting_count, 'pull')} open"]
        seen_pins = {pin for asker in result.heard.requesters for pin in asker.pins}
        notes += [
            f"pinned: {clean_line(pin)}, sent no pull during this time"
            for pin in result.consumer.pins
            if pin not in seen_pins
        ]
        return [*notes, idle_text(result.heard), cost_text(result.heard, "pull")]


class PublishersScreen(ClientsScreen):
    """The clients that publish to a stream and wait for its acks."""

    NOUN = "publishers"
    ASKS = "who publishes to"
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = PUBLISHER_COLUMNS
    READS = "what is published"
    FOR_S = PUBLISHES_FOR_S
    NOBODY = "no client published to it meanwhile"

    def notes(self, result: ClientsFound) -> list[str]:
        """Return the anonymous publishers, and the cost."""
        observed = result.heard
        if observed is None:
            return []
        notes = [anonymous_text(observed)] if observed.anonymous_msgs else []
        return [*notes, cost_text(observed, "message")]


def clients_screen(state: State, stream: str, consumer: str | None) -> ClientsScreen:
    """Return the clients screen of a consumer, or of a stream's publishers."""
    if consumer is None:
        return PublishersScreen(stream, None)
    config = state.consumer_configurations.get((stream, consumer))
    is_push = config is not None and config.deliver_subject is not None
    return ListenersScreen(stream, consumer) if is_push else PullersScreen(stream, consumer)
