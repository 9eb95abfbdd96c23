"""The events table: newest events first."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property, partial

from natstui.model.columns.view import View
from natstui.model.live.state import EVENTS_KEPT, EventRecord, State
from natstui.tui.frame.columns import ColumnSpec
from natstui.tui.frame.recent_events import (
    event_asset_text,
    event_kind_text,
    event_style,
    event_text,
    short_event_text,
)
from natstui.tui.frame.shared_cells import TREND_WIDTH
from natstui.tui.kit.sparkline import sparkline
from natstui.tui.kit.table.rows import Cell
from natstui.units import local_text


class EventView(View):
    """Events, by row; row 0 is the newest."""

    @property
    def recent_events(self) -> tuple[EventRecord, ...]:
        """Return the newest events, oldest first."""
        return self.state.recent_events

    @property
    def roster(self) -> object:
        """Return an object that identifies the set of rows: another one after every new event."""
        return self.recent_events

    def __len__(self) -> int:
        return len(self.recent_events)

    def rows(self) -> Sequence[int]:
        """Return all rows."""
        return range(len(self))

    def at(self, row: int) -> EventRecord:
        """Return the event in a row."""
        return self.recent_events[-1 - row]

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
        texts = (
            event_kind_text(event),
            event_asset_text(event),
            short_event_text(event),
            event_text(event),
        )
        return " ".join(texts)


class FoldedEvents(EventView):
    """Events, by row; similar events are folded into the row of the newest."""

    def __init__(self, state: State, poll_age_us: int, max_events: int = EVENTS_KEPT) -> None:
        """Fold the newest `max_events` events."""
        super().__init__(state, poll_age_us)
        self._event_times_by_row: dict[int, list[int]] = {}
        """Row → times of the events folded into it, UTC µs."""
        newest_row_by_group: dict[tuple[str, str], int] = {}
        for row in range(min(len(self), max_events)):
            event = self.at(row)
            newest_row = newest_row_by_group.setdefault(
                (event_kind_text(event), event_asset_text(event)), row
            )
            self._event_times_by_row.setdefault(newest_row, []).append(event.at_us)

    @cached_property
    def events_count_by_row(self) -> dict[int, int]:
        """Return row → number of the events folded into it."""
        return {row: len(at_us) for row, at_us in self._event_times_by_row.items()}

    @property
    def roster(self) -> object:
        """Return an object that identifies the set of rows; never equal to that of the same events
        in an `EventView`.
        """
        return ("folded", self.recent_events)

    def rows(self) -> Sequence[int]:
        """Return the rows to show, one per group of similar events, newest first."""
        return list(self._event_times_by_row)

    def key(self, row: int) -> Hashable:
        """Return the identity of the group in a row: the kind and asset of its events."""
        event = self.at(row)
        return (event_kind_text(event), event_asset_text(event))

    def last_minute_counts(self, row: int) -> list[float | None]:
        """Return the number of a row's events in each slice of the last minute, oldest first."""
        counts = [0.0] * TREND_WIDTH
        for at_us in self._event_times_by_row.get(row, ()):
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
    return Cell(event_kind_text(event), event_style(event))


def _folded_count(view: EventView, row: int) -> int:
    return view.events_count_by_row.get(row, 1) if isinstance(view, FoldedEvents) else 1


def _times(view: EventView, row: int) -> Cell:
    """Number of similar events, where they are folded."""
    folded_count = _folded_count(view, row)
    return Cell(f"×{folded_count:,}" if folded_count > 1 else "", event_style(view.at(row)))


def _trend(view: EventView, row: int) -> Cell:
    """Number of similar events over the last minute."""
    if not isinstance(view, FoldedEvents) or _folded_count(view, row) == 1:
        return Cell("")
    return Cell(sparkline(view.last_minute_counts(row), TREND_WIDTH), "accent")


def _asset(view: EventView, row: int) -> Cell:
    """Stream and consumer of the event, or the API."""
    return Cell(event_asset_text(view.at(row)), "strong")


def _text(view: EventView, row: int) -> Cell:
    """Text of the event."""
    return Cell(short_event_text(view.at(row)), event_style(view.at(row)))


def _sort_by(get_text: Callable[[EventRecord], str]) -> Callable[[EventView], Sequence[object]]:
    """Return a function that returns the sort keys of all rows: a text of each event."""
    return lambda view: [get_text(view.at(row)) for row in range(len(view))]


def _time_sort_values(view: EventView) -> Sequence[object]:
    return [view.at(row).at_us for row in range(len(view))]


_text_column: Callable[..., ColumnSpec[EventView]] = partial(
    ColumnSpec, align="left", descends=False
)

EVENT_COLUMNS: tuple[ColumnSpec[EventView], ...] = (
    _text_column("time", "TIME", 12, 0, _time, _time_sort_values),
    _text_column("kind", "KIND", 17, 4, _kind, _sort_by(event_kind_text)),
    ColumnSpec(
        "times",
        "TIMES",
        6,
        3,
        _times,
        lambda view: [_folded_count(view, row) for row in range(len(view))],
    ),
    _text_column("where", "WHERE", 22, 1, _asset, _sort_by(event_asset_text), flex=1),
    _text_column(
        "trend",
        "LAST 1m",
        TREND_WIDTH,
        5,
        _trend,
        _time_sort_values,
        min_table_width=100,
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
