"""Who holds a consumer, and who publishes to a stream: their connections, and what they ask."""

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
from natstui.model.clients.requests import Asker
from natstui.model.clients.words import anonymous_text, cost_text, idle_text
from natstui.model.columns.connections import PLACE_COLUMNS, ConnectionRow
from natstui.model.live.state import State
from natstui.model.records.system import ReadClients, StopReadingClients
from natstui.tui.connections.cells import words
from natstui.tui.connections.detail import ConnectionDetail
from natstui.tui.frame.action_keys import Target
from natstui.tui.frame.columns import ColumnSpec, Listed, Order
from natstui.tui.frame.live import NO_SERVER
from natstui.tui.frame.requests import run_task
from natstui.tui.frame.screen_part import ScreenPart
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.table.view import RowSelected
from natstui.tui.kit.text import safe
from natstui.units import UNKNOWN, bytes_text, count_text, counted, duration_text

_SHOWN_COUNT = 3


def listener(one: Listener) -> Asker:
    """Return who listens as a client of this table: it asks nothing."""
    return Asker(
        connection=one.connection,
        account=None,
        requests_count=0,
        request_bytes=0,
        last_at_us=one.connection.active_at_us,
        about=(one.by.subject,),
        pins=(),
        longest_wait_s=None,
        delivered_msgs=one.by.delivered_msgs,
    )


class AskerView(Listed[Asker]):
    """Clients, by row."""

    def __init__(self, found: Sequence[Asker], pins: Sequence[str]) -> None:
        names = [one.connection.called if one.connection else one.account or "" for one in found]
        keys = [
            (name, one.connection.key if one.connection else at)
            for at, (name, one) in enumerate(zip(names, found, strict=True))
        ]
        super().__init__(found, keys, [_search_text(one) for one in found])
        self.pins = pins

    @cached_property
    def delivered_msgs(self) -> int | None:
        """What all of them got; None where it is not known of one."""
        known = [thing.delivered_msgs for thing in self.things if thing.delivered_msgs is not None]
        return sum(known) if len(known) == len(self.things) else None

    def share(self, row: int) -> float | None:
        """Return which part of what all of them got went to one; None where that is not known."""
        got_msgs = self.things[row].delivered_msgs
        total = self.delivered_msgs
        return got_msgs / total if total and got_msgs is not None else None


def _search_text(one: Asker) -> str:
    at = one.connection
    known = (at.name, at.user, at.address, at.library, at.server_name) if at else (one.account,)
    return " ".join(filter(None, (*known, *one.about)))


def _name(view: AskerView, row: int) -> Cell:
    """What the client calls itself; of another account only that is known."""
    one = view.things[row]
    if one.connection is None:
        return words(f"account {one.account}" if one.account else "another account", "dim")
    return words(one.connection.name, "strong")


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
    about = view.things[row].about
    more = len(about) - _SHOWN_COUNT
    text = ", ".join(about[:_SHOWN_COUNT]) + (f" +{more}" if more > 0 else "")
    return Cell(clean_line(text))


def _last(view: AskerView, row: int) -> Cell:
    """How long ago its last request came; of a listener, when it did anything last."""
    ago_s = max(0.0, time.time() - view.things[row].last_at_us / 1e6)
    return Cell(f"{duration_text(int(ago_s))} ago")


def _pinned(view: AskerView, row: int) -> Cell:
    """The id with which the consumer has pinned it."""
    pins = [pin for pin in view.pins if pin in view.things[row].pins]
    return Cell(clean_line(", ".join(pins)), "accent")


def _by(get: Callable[[Asker], object]) -> Callable[[AskerView], Sequence[object]]:
    return lambda view: [get(thing) for thing in view.things]


_text: Callable[..., ColumnSpec[AskerView]] = partial(ColumnSpec, align="left", descends=False)


def _place(key: str, width: int, priority: int, **layout: int) -> ColumnSpec[AskerView]:
    """Return a column of the connection of a client, which is not known of another account."""
    column = next(column for column in PLACE_COLUMNS if column.key == key)

    def value(asker: Asker) -> object:
        at = asker.connection
        return None if at is None else column.value(ConnectionRow(at))

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
    ColumnSpec("delivered", "DELIVERED", 9, 1, _delivered, _by(lambda one: one.delivered_msgs)),
    ColumnSpec("share", "SHARE", 6, 2, _share, _by(lambda one: one.delivered_msgs)),
)
_LAST = ColumnSpec("last", "LAST", 8, 5, _last, _by(lambda one: one.last_at_us))
PULLER_COLUMNS: tuple[ColumnSpec[AskerView], ...] = (
    *_PLACE,
    ColumnSpec("pulls", "PULLS", 6, 1, _pulls, _by(lambda one: one.requests_count)),
    *_SHARES,
    _text("batch", "BATCH", 8, 5, _about, _by(lambda one: one.about), max_width=20),
    _LAST,
    _text("pinned", "PINNED", 8, 8, _pinned, _by(lambda one: one.pins), max_width=24),
)
LISTENER_COLUMNS: tuple[ColumnSpec[AskerView], ...] = (
    *_PLACE,
    *_SHARES,
    _text("subject", "LISTENS TO", 12, 5, _about, _by(lambda one: one.about), flex=1),
    _LAST,
)
PUBLISHER_COLUMNS: tuple[ColumnSpec[AskerView], ...] = (
    *_PLACE,
    ColumnSpec("msgs", "MSGS", 6, 1, _published, _by(lambda one: one.requests_count)),
    ColumnSpec("size", "SIZE", 8, 2, _size, _by(lambda one: one.request_bytes)),
    _text("subjects", "SUBJECTS", 14, 2, _about, _by(lambda one: one.about), flex=2),
    _LAST,
)


_decoder = decoder_of(ClientsFound)
PULLS_FOR_S, PUBLISHES_FOR_S = 30.0, 10.0
"""How long is read: most clients ask again within this time."""


class ClientSearch(ScreenPart):
    """Who is looked for and for how long, and what was found."""

    def __init__(self, screen: ClientsScreen, for_s: float) -> None:
        """`for_s` is how long is read; 0 where nothing has to be."""
        self._screen, self.for_s = screen, for_s
        self.goes_on = False
        """Whether a reply is still to come."""
        self._asked_s = 0.0
        self.found: ClientsFound | None = None
        self.problem = ""

    @property
    def elapsed_s(self) -> float:
        """How long ago it was asked."""
        return monotonic() - self._asked_s

    def may(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Offer to end only what goes on, and to ask again only once it is over."""
        if action == "stop":
            return self.goes_on and bool(self.for_s)
        return not self.goes_on and self._screen.state.replay is None

    def action_again(self) -> None:
        """Ask anew."""
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
        """Have shown what was found until now."""
        if self.may("stop", ()):
            self._screen.engine.send(StopReadingClients(0))


class ClientsScreen(TableScreen):
    """Asks when it is opened, and again when it is told to."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("W", "part('asking', 'again')", "Again", id="clients.again"),
        Binding("ctrl+x", "part('asking', 'stop')", "End now", id="clients.stop"),
    ]
    DEFAULT_CSS = "ClientsScreen #note { height: auto; color: $text-muted; padding: 0 1; }"
    NOUN = "clients"
    START = Order("name")
    ASKS: ClassVar[str] = "who holds"
    READS: ClassVar[str] = ""
    """What of the clients is read meanwhile; empty: nothing has to be."""
    FOR_S: ClassVar[float] = 0.0
    NOBODY: ClassVar[str] = "no client subscribes to the subject that it delivers to"

    def __init__(self, stream: str, consumer: str | None) -> None:
        super().__init__()
        self.stream, self.consumer = stream, consumer
        self.asking = ClientSearch(self, self.FOR_S)

    def asset(self) -> Target | None:
        """Return what is held or published to."""
        return Target(self.stream, self.consumer)

    def body(self) -> Iterable[Widget]:
        """The table, and below it what it cannot tell and what it cost."""
        yield from super().body()
        yield Static(id="note", markup=False)

    def on_mount(self) -> None:
        """Ask, and tell every second how long it still takes."""
        self.asking.action_again()
        self.set_interval(1.0, self.refresh_state)

    def on_unmount(self) -> None:
        """Have nothing read that nobody will see."""
        self.asking.action_stop()

    def refresh_state(self) -> None:
        """Show what is known."""
        found = self.asking.found
        notes = self.notes(found) if found is not None else []
        if self.READS and found is None:
            notes = [f"natstui receives a copy of each one: {self.READS}"]
        self.query_one("#note", Static).update(safe("; ".join(notes)))
        super().refresh_state()

    def view(self) -> AskerView:
        """Return the clients, as far as they are known."""
        found = self.asking.found
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
        if self.asking.goes_on and self.READS and not self.asking.problem:
            return "the clients appear when the time is over, or when you stop"
        asks = self.asking.goes_on or self.asking.found is None
        return self.asking.problem or ("asking every server …" if asks else self.NOBODY)

    def caption_text(self, shown: int, total: int) -> str:
        """Return the line above the table: whose clients, and how far it is."""
        whose = f"{self.stream} › {self.consumer}" if self.consumer else self.stream
        parts = [clean_line(f"{self.ASKS} {whose}"), self.asking.problem]
        if self.asking.goes_on and self.READS:
            so_far = duration_text(int(self.asking.elapsed_s))
            parts.append(f"reading {self.READS}: {so_far} of {duration_text(self.FOR_S)}")
        return "  ·  ".join(filter(None, [*parts, super().caption_text(shown, total)]))

    def notes(self, found: ClientsFound) -> list[str]:
        """Return what the table cannot tell, and what it cost."""
        return []

    @on(RowSelected)
    def _open(self) -> None:
        """Show everything about the connection under the cursor."""
        rows, at = self.rows, self.table.cursor
        if rows is None or at >= len(rows.order):
            return
        connection = rows.view.things[rows.order[at]].connection
        if connection is None:
            self.notify("connections of other accounts are not visible to this user", timeout=3)
        else:
            self.app.push_screen(ConnectionDetail(connection))


class ListenersScreen(ClientsScreen):
    """Who gets what a push consumer delivers."""

    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = LISTENER_COLUMNS

    def notes(self, found: ClientsFound) -> list[str]:
        """Return where they listen."""
        consumer = found.consumer
        if consumer is None:
            return []
        group = f" in the group {consumer.deliver_group}" if consumer.deliver_group else ""
        return [clean_line(f'who listens to "{consumer.deliver_subject}"{group}')]


class PullersScreen(ClientsScreen):
    """Who pulls from a consumer, how often and how much."""

    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = PULLER_COLUMNS
    READS = "its pulls"
    FOR_S = PULLS_FOR_S
    NOBODY = "no client pulled from it meanwhile"

    def notes(self, found: ClientsFound) -> list[str]:
        """Return what waits in the server, who was not heard, and the cost."""
        if found.heard is None or found.consumer is None:
            return []
        notes = [f"{counted(found.consumer.waiting_count, 'pull')} open"]
        seen = {pin for asker in found.heard.askers for pin in asker.pins}
        notes += [
            f"pinned: {clean_line(pin)}, sent no pull during this time"
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
    NOBODY = "no client published to it meanwhile"

    def notes(self, found: ClientsFound) -> list[str]:
        """Return what is anonymous, and the cost."""
        heard = found.heard
        if heard is None:
            return []
        notes = [anonymous_text(heard)] if heard.anonymous_msgs else []
        return [*notes, cost_text(heard, "message")]


def clients_screen(state: State, stream: str, consumer: str | None) -> ClientsScreen:
    """Return the screen of the clients of a consumer, or without one of a stream's publishers."""
    if consumer is None:
        return PublishersScreen(stream, None)
    config = state.consumer_configurations.get((stream, consumer))
    pushed = config is not None and config.deliver_subject is not None
    return ListenersScreen(stream, consumer) if pushed else PullersScreen(stream, consumer)
