"""The events table: newest events first."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property, partial

from natstui.model.columns.view import View
from natstui.model.live.state import EVENTS_KEPT, Happening, State
from natstui.tui.frame.columns import ColumnSpec
from natstui.tui.frame.happenings import brief_text, event_text, kind_text, look, where_text
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
        """Return an object that is another one after every new event."""
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
        """Return the event itself as its identity: it never changes."""
        return (self.at(row).at_us, id(self.at(row)))

    def stale_s(self, row: int) -> float | None:
        """Return None: events do not become stale."""
        return None

    def has_problem(self, row: int) -> bool:
        """Return whether the event is a problem."""
        return look(self.at(row)) in ("bad", "warn")

    def search_text(self, row: int) -> str:
        """Return all its texts, which a filter searches."""
        event = self.at(row)
        texts = (kind_text(event), where_text(event), brief_text(event), event_text(event))
        return " ".join(texts)


class FoldedEvents(EventView):
    """Events in which similar ones are one row, with their number."""

    def __init__(self, state: State, late_us: int, most_count: int = EVENTS_KEPT) -> None:
        """Fold the newest `most_count` events."""
        super().__init__(state, late_us)
        self._alike: dict[int, list[int]] = {}
        """Row of the newest → times of it and similar ones."""
        newest: dict[tuple[str, str], int] = {}
        for row in range(min(len(self), most_count)):
            event = self.at(row)
            first = newest.setdefault((kind_text(event), where_text(event)), row)
            self._alike.setdefault(first, []).append(event.at_us)

    @cached_property
    def times_count(self) -> dict[int, int]:
        """Return row → number of similar events."""
        return {row: len(at_us) for row, at_us in self._alike.items()}

    def rows(self) -> Sequence[int]:
        """Return the newest of each group, newest first."""
        return list(self._alike)

    def key(self, row: int) -> Hashable:
        """Return the common identity of a row's events: another one may be the newest soon."""
        event = self.at(row)
        return (kind_text(event), where_text(event))

    def last_minute(self, row: int) -> list[float | None]:
        """Return the number of events in each slice of the last minute, oldest first."""
        counts = [0.0] * TREND_WIDTH
        for at_us in self._alike.get(row, ()):
            slices_ago = (self.now_at_us - at_us) * TREND_WIDTH // 60_000_000
            if 0 <= slices_ago < TREND_WIDTH:
                counts[-1 - slices_ago] += 1
        return [*counts]


def _time(view: EventView, row: int) -> Cell:
    """When it happened: local time of day."""
    return Cell(local_text(view.at(row).at_us, digits=3), "dim")


def _kind(view: EventView, row: int) -> Cell:
    """What kind of event: advisories of the server, and what the monitor itself saw."""
    event = view.at(row)
    return Cell(kind_text(event), look(event))


def _times_count(view: EventView, row: int) -> int:
    return view.times_count.get(row, 1) if isinstance(view, FoldedEvents) else 1


def _times(view: EventView, row: int) -> Cell:
    """How often the same happened, where repeats are folded."""
    times_count = _times_count(view, row)
    return Cell(f"×{times_count:,}" if times_count > 1 else "", look(view.at(row)))


def _trend(view: EventView, row: int) -> Cell:
    """How often the same happened in the last minute."""
    if not isinstance(view, FoldedEvents) or _times_count(view, row) == 1:
        return Cell("")
    return Cell(sparkline(view.last_minute(row), TREND_WIDTH), "accent")


def _where(view: EventView, row: int) -> Cell:
    """Stream and consumer, or the API, it is about."""
    return Cell(where_text(view.at(row)), "strong")


def _text(view: EventView, row: int) -> Cell:
    """What happened."""
    return Cell(brief_text(view.at(row)), look(view.at(row)))


def _by(text: Callable[[Happening], str]) -> Callable[[EventView], Sequence[object]]:
    """Return a sort function over a text of every event, including folded ones."""
    return lambda view: [text(view.at(row)) for row in range(len(view))]


def _by_time(view: EventView) -> Sequence[object]:
    return [view.at(row).at_us for row in range(len(view))]


_words: Callable[..., ColumnSpec[EventView]] = partial(ColumnSpec, align="left", descends=False)

EVENT_COLUMNS: tuple[ColumnSpec[EventView], ...] = (
    _words("time", "TIME", 12, 0, _time, _by_time),
    _words("kind", "KIND", 17, 4, _kind, _by(kind_text)),
    ColumnSpec(
        "times",
        "TIMES",
        6,
        3,
        _times,
        lambda view: [_times_count(view, row) for row in range(len(view))],
    ),
    _words("where", "WHERE", 22, 1, _where, _by(where_text), flex=1),
    _words(
        "trend",
        "LAST 1m",
        TREND_WIDTH,
        5,
        _trend,
        _by_time,
        from_width=100,
    ),
    _words(
        "text",
        "WHAT",
        30,
        2,
        _text,
        _by(event_text),
        flex=3,
        max_width=400,
    ),
)
