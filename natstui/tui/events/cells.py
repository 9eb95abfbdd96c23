"""The events table: newest events first."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property, partial

from natstui.model.columns.view import View
from natstui.model.live.state import EVENTS_KEPT, Happening, State
from natstui.tui.frame.columns import ColumnSpec
from natstui.tui.frame.happenings import asset_text, brief_text, event_style, event_text, kind_text
from natstui.tui.frame.view import TREND_WIDTH
from natstui.tui.kit.sparkline import sparkline
from natstui.tui.kit.table.rows import Cell
from natstui.units import local_text


class EventView(View):
    """Events, by row; row 0 is the newest."""

    @property
    def happenings(self) -> tuple[Happening, ...]:
        """Return the newest events, oldest first."""
        return self.state.happenings

    @property
    def roster(self) -> object:
        """Return an object that identifies the set of rows: another one after every new event."""
        return self.happenings

    def __len__(self) -> int:
        return len(self.happenings)

    def rows(self) -> Sequence[int]:
        """Return all rows."""
        return range(len(self))

    def at(self, row: int) -> Happening:
        """Return the event in a row."""
        return self.happenings[-1 - row]

    def key(self, row: int) -> Hashable:
        """Return the time and object id of an event as its identity."""
        return (self.at(row).at_us, id(self.at(row)))

    def stale_s(self, row: int) -> float | None:
        """Return None: events never become stale."""
        return None

    def has_problem(self, row: int) -> bool:
        """Return whether the event is a problem."""
        return event_style(self.at(row)) in ("bad", "warn")

    def search_text(self, row: int) -> str:
        """Return the texts of the event in which a filter searches."""
        event = self.at(row)
        texts = (kind_text(event), asset_text(event), brief_text(event), event_text(event))
        return " ".join(texts)


class FoldedEvents(EventView):
    """Events, by row; similar events are folded into the row of the newest."""

    def __init__(self, state: State, poll_age_us: int, max_events: int = EVENTS_KEPT) -> None:
        """Fold the newest `max_events` events."""
        super().__init__(state, poll_age_us)
        self._times_by_row: dict[int, list[int]] = {}
        """Row → times of the events folded into it, UTC µs."""
        newest: dict[tuple[str, str], int] = {}
        for row in range(min(len(self), max_events)):
            event = self.at(row)
            first = newest.setdefault((kind_text(event), asset_text(event)), row)
            self._times_by_row.setdefault(first, []).append(event.at_us)

    @cached_property
    def times_count(self) -> dict[int, int]:
        """Return row → number of the events folded into it."""
        return {row: len(at_us) for row, at_us in self._times_by_row.items()}

    def rows(self) -> Sequence[int]:
        """Return the rows to show, one per group of similar events, newest first."""
        return list(self._times_by_row)

    def key(self, row: int) -> Hashable:
        """Return the identity of the group in a row: the kind and asset of its events."""
        event = self.at(row)
        return (kind_text(event), asset_text(event))

    def last_minute(self, row: int) -> list[float | None]:
        """Return the number of a row's events in each slice of the last minute, oldest first."""
        counts = [0.0] * TREND_WIDTH
        for at_us in self._times_by_row.get(row, ()):
            slices_ago = (self.now_at_us - at_us) * TREND_WIDTH // 60_000_000
            if 0 <= slices_ago < TREND_WIDTH:
                counts[-1 - slices_ago] += 1
        return [*counts]


def _time(view: EventView, row: int) -> Cell:
    """Local time of the event."""
    return Cell(local_text(view.at(row).at_us, digits=3), "dim")


def _kind(view: EventView, row: int) -> Cell:
    """Kind of event: an advisory of the server, or an observation of natstui."""
    event = view.at(row)
    return Cell(kind_text(event), event_style(event))


def _times_count(view: EventView, row: int) -> int:
    return view.times_count.get(row, 1) if isinstance(view, FoldedEvents) else 1


def _times(view: EventView, row: int) -> Cell:
    """Number of similar events, where they are folded."""
    times_count = _times_count(view, row)
    return Cell(f"×{times_count:,}" if times_count > 1 else "", event_style(view.at(row)))


def _trend(view: EventView, row: int) -> Cell:
    """Number of similar events over the last minute."""
    if not isinstance(view, FoldedEvents) or _times_count(view, row) == 1:
        return Cell("")
    return Cell(sparkline(view.last_minute(row), TREND_WIDTH), "accent")


def _asset(view: EventView, row: int) -> Cell:
    """Stream and consumer of the event, or the API."""
    return Cell(asset_text(view.at(row)), "strong")


def _text(view: EventView, row: int) -> Cell:
    """Text of the event."""
    return Cell(brief_text(view.at(row)), event_style(view.at(row)))


def _sort_by(text: Callable[[Happening], str]) -> Callable[[EventView], Sequence[object]]:
    """Return a function that returns the sort keys of all rows: a text of each event."""
    return lambda view: [text(view.at(row)) for row in range(len(view))]


def _by_time(view: EventView) -> Sequence[object]:
    return [view.at(row).at_us for row in range(len(view))]


_text_column: Callable[..., ColumnSpec[EventView]] = partial(
    ColumnSpec, align="left", descends=False
)

EVENT_COLUMNS: tuple[ColumnSpec[EventView], ...] = (
    _text_column("time", "TIME", 12, 0, _time, _by_time),
    _text_column("kind", "KIND", 17, 4, _kind, _sort_by(kind_text)),
    ColumnSpec(
        "times",
        "TIMES",
        6,
        3,
        _times,
        lambda view: [_times_count(view, row) for row in range(len(view))],
    ),
    _text_column("where", "WHERE", 22, 1, _asset, _sort_by(asset_text), flex=1),
    _text_column(
        "trend",
        "LAST 1m",
        TREND_WIDTH,
        5,
        _trend,
        _by_time,
        from_width=100,
    ),
    _text_column(
        "text",
        "WHAT",
        30,
        2,
        _text,
        _sort_by(event_text),
        flex=3,
        max_width=400,
    ),
)
