"""The tables of clients: those that pull, those that listen, those that publish."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial

from natstui.clean import clean_line
from natstui.model.clients.holding import Listener
from natstui.model.clients.requests import Asker
from natstui.model.columns.connections import PLACE_COLUMNS, ConnectionRow
from natstui.tui.connections.cells import words
from natstui.tui.frame.columns import ColumnSpec, Listed
from natstui.tui.kit.table.rows import Cell
from natstui.units import UNKNOWN, bytes_text, count_text, duration_text

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
