"""The events table: what happened, newest first."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial

from natstui.clean import clean_line
from natstui.model.live.state import Happening
from natstui.model.records.record import (
    Advisory,
    Configured,
    LinkChanged,
    Noted,
    Outcome,
    Restored,
    Unavailable,
)
from natstui.model.records.recording import ClockStepped, Gap
from natstui.tui.frame.columns import ColumnSpec
from natstui.tui.frame.view import View
from natstui.tui.kit.table.rows import Cell
from natstui.units import local_text

_BAD = {
    "max_deliver",
    "stream_quorum_lost",
    "consumer_quorum_lost",
    "server_out_of_space",
    "stream_rolled_back",
}
_WARN = {"nak", "terminated", "stream_leader_elected", "consumer_leader_elected"}


class EventView(View):
    """What happened, by row; row 0 is the newest."""

    @property
    def happenings(self) -> tuple[Happening, ...]:
        """The newest events, oldest first."""
        return self.state.happenings

    def __len__(self) -> int:
        return len(self.happenings)

    def rows(self) -> Sequence[int]:
        """Return all rows."""
        return range(len(self))

    def at(self, row: int) -> Happening:
        """Return the event of a row."""
        return self.happenings[-1 - row]

    def key(self, row: int) -> Hashable:
        """Return the event itself: it never changes."""
        return (self.at(row).at_us, id(self.at(row)))

    def stale_s(self, row: int) -> float | None:
        """Return None: what happened does not grow stale."""
        return None

    def problem(self, row: int) -> bool:
        """Tell whether the event is bad news."""
        return look(self.at(row)) in ("bad", "warn")

    def search_text(self, row: int) -> str:
        """Return everything a person reads of it, and the whole sentence."""
        event = self.at(row)
        texts = (kind_text(event), where_text(event), brief_text(event), event_text(event))
        return " ".join(texts)


def kind_text(event: Happening) -> str:
    """Return the kind of an event in a word or two."""
    match event:
        case Advisory():
            return clean_line(event.type.replace("_", " "))
        case LinkChanged():
            return "connection"
        case Noted():
            return "note"
        case Outcome():
            return event.status
        case Unavailable():
            return "unavailable"
        case Restored():
            return "restored"
        case Configured():
            return "configuration"
        case Gap():
            return "gap"
        case ClockStepped():
            return "clock"


def where_text(event: Happening) -> str:
    """Return the stream, and the consumer, an event is about."""
    if isinstance(event, Advisory):
        return clean_line(" › ".join(part for part in (event.stream, event.consumer) if part))
    if isinstance(event, Unavailable | Restored):
        return clean_line(event.what)
    return ""


def brief_text(event: Happening) -> str:
    """Return what happened without the names that stand beside it, so that it fits."""
    if not isinstance(event, Advisory):
        return event_text(event)
    text = event.text
    if event.consumer:
        asset = f"consumer {event.consumer} on {event.stream}"
        text = text.replace(f" of {asset}", "", 1).replace(asset, "consumer", 1)
    elif event.stream:
        text = text.replace(f"stream {event.stream} ", "stream ", 1)
    return clean_line(text.replace(" was ", " ", 1))


def event_text(event: Happening) -> str:
    """Return what happened in one sentence."""
    match event:
        case Advisory() | Noted() | Outcome():
            return clean_line(event.text)
        case LinkChanged():
            return clean_line(event.state + (f": {event.reason}" if event.reason else ""))
        case Unavailable():
            return clean_line(event.reason)
        case Restored():
            return "can be read again"
        case Configured():
            streams = [it.name for it in event.streams]
            consumers = [f"{it.stream} › {it.name}" for it in event.consumers]
            return clean_line("changed: " + ", ".join((streams + consumers)[:20]))
        case Gap() | ClockStepped():
            return gap_text(event)


def gap_text(event: Gap | ClockStepped) -> str:
    """Return what a recording does not hold, or how the clock moved."""
    if isinstance(event, Gap):
        return clean_line(event.reason)
    return f"the wall clock was set by {event.step_us / 1e6:+.3f} s"


def look(event: Happening) -> str:
    """Return how an event looks."""
    match event:
        case Advisory():
            return "bad" if event.type in _BAD else "warn" if event.type in _WARN else ""
        case LinkChanged():
            return {"connected": "ok", "connecting": "dim"}.get(event.state, "bad")
        case Unavailable():
            return "warn"
        case Outcome():
            return "dim" if event.status == "done" else "bad"
        case Noted():
            return "accent"
        case _:
            return ""


def _time(view: EventView, row: int) -> Cell:
    """When it happened: local time of day."""
    return Cell(local_text(view.at(row).at_us, digits=3), "dim")


def _kind(view: EventView, row: int) -> Cell:
    """What kind of event: advisories of the server, and what the monitor itself saw."""
    return Cell(kind_text(view.at(row)), look(view.at(row)))


def _where(view: EventView, row: int) -> Cell:
    """Stream and consumer, or the API, it is about."""
    return Cell(where_text(view.at(row)), "strong")


def _text(view: EventView, row: int) -> Cell:
    """What happened."""
    return Cell(brief_text(view.at(row)), look(view.at(row)))


_words: Callable[..., ColumnSpec[EventView]] = partial(ColumnSpec, align="left", descends=False)

EVENT_COLUMNS: tuple[ColumnSpec[EventView], ...] = (
    _words("time", "TIME", 12, 0, _time, lambda v: [v.at(r).at_us for r in v.rows()]),
    _words("kind", "KIND", 16, 3, _kind, lambda v: [kind_text(v.at(r)) for r in v.rows()]),
    _words(
        "where", "WHERE", 22, 1, _where, lambda v: [where_text(v.at(r)) for r in v.rows()], flex=1
    ),
    _words(
        "text", "WHAT", 40, 2, _text, lambda v: [event_text(v.at(r)) for r in v.rows()], flex=3
    ),
)
