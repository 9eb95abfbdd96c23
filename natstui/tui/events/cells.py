"""The events table: what happened, newest first."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial

from natstui.model.live.state import Happening
from natstui.tui.frame.columns import ColumnSpec
from natstui.tui.frame.happenings import brief_text, event_text, kind_text, look, where_text
from natstui.tui.frame.view import View
from natstui.tui.kit.table.rows import Cell
from natstui.units import local_text


class EventView(View):
    """What happened, by row; row 0 is the newest."""

    @property
    def happenings(self) -> tuple[Happening, ...]:
        """The newest events, oldest first."""
        return self.state.happenings

    @property
    def roster(self) -> object:
        """Another one when something happened."""
        return self.happenings

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
        """Return whether the event is bad news."""
        return look(self.at(row)) in ("bad", "warn")

    def search_text(self, row: int) -> str:
        """Return everything a person reads of it, and the whole sentence."""
        event = self.at(row)
        texts = (kind_text(event), where_text(event), brief_text(event), event_text(event))
        return " ".join(texts)


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
        "text",
        "WHAT",
        40,
        2,
        _text,
        lambda v: [event_text(v.at(r)) for r in v.rows()],
        flex=3,
        max_width=400,
    ),
)
