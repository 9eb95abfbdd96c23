"""The events screen: advisories, configuration changes, connection, notes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType

from natstui.model.live.state import EVENTS_KEPT, EventRecord
from natstui.model.records.record import Advisory
from natstui.tui.events.cells import EVENT_COLUMNS, EventView, FoldedEvents
from natstui.tui.frame.columns import ColumnSpec, SortAndFilter
from natstui.tui.frame.messages import Open, StateChanged
from natstui.tui.frame.recent_events import event_kind_text
from natstui.tui.frame.selection import post_for_row
from natstui.tui.frame.systems import find_system_row, join_views
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.table.view import RowSelected
from natstui.tui.kit.text import safe_copy
from natstui.units import local_text, parse_moment

_DURATION_PATTERN = re.compile(r"\d[\d.]*\s*[a-zµ]+")
_TIME_OF_DAY_PATTERN = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?")


def moment_us(text: str, now_us: int) -> int:
    """Return the moment of a text such as `2m ago`, `2m` or `14:30`, in Unix µs; raises
    ValueError.

    A time of day is the last one before now. The error explains the format.
    """
    text, now = text.strip(), datetime.fromtimestamp(now_us / 1e6, UTC)
    try:
        if match := _TIME_OF_DAY_PATTERN.fullmatch(text):
            return round(_last_time_of_day(match, now.astimezone()).timestamp() * 1e6)
        if _DURATION_PATTERN.match(text):
            text = f"{text.removesuffix('ago').strip()} ago"
        return round(parse_moment(text, now).timestamp() * 1e6)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text!r} is not a time: write it as 2m ago or 14:30") from error


def describe_moment(text: str, now_us: int) -> str:
    """Return the moment of a text as local time; empty for a bad text."""
    try:
        return local_text(moment_us(text, now_us), "%Y-%m-%d %H:%M:%S")
    except ValueError:
        return ""


def _last_time_of_day(match: re.Match[str], now: datetime) -> datetime:
    hour, minute, second = (int(part or 0) for part in match.groups())
    moment_today = now.replace(hour=hour, minute=minute, second=second, microsecond=999_999)
    return (
        moment_today
        if moment_today <= now.replace(microsecond=999_999)
        else moment_today - timedelta(days=1)
    )


class EventsScreen(TableScreen):
    """The events table, newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "time", "Time", id="events.time"),
        Binding("f", "fold", "Fold", id="events.fold"),
    ]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = EVENT_COLUMNS
    NOUN = "events"
    DEFAULT_ORDER = SortAndFilter("time", reverse=True)
    ROW_ACTIONS: ClassVar[frozenset[str]] = frozenset({"time", "fold"})

    def __init__(self) -> None:
        super().__init__()
        self.scope.get_target_keys = lambda: {self.table.cursor_key} if self.is_mounted else ()
        self._requested_time_text = ""
        """The typed time, until the next state arrives; empty without one."""
        self._requested_at_us: int | None = None
        """The moment to move to as soon as each event has a row; None without one."""
        self._folding_enabled = True
        """Whether similar events are one row, unless a filter is set."""
        self._counted_events: tuple[Sequence[EventRecord], ...] = ()
        self._count_by_kind: Counter[str] = Counter()
        """Kind → number of events, at the last count."""

    def find_event(self) -> EventRecord | None:
        """Return the event under the cursor; None in an empty table."""
        rows, position = self.rows, self.table.cursor
        if rows is None or position >= len(rows.order):
            return None
        view, row = find_system_row(rows.view, rows.order[position])
        event: EventRecord = view.at(row)
        return event

    @on(RowSelected)
    def _open_asset(self) -> None:
        """Open the consumer of the event under the cursor, else its stream."""
        event = self.find_event()
        if not isinstance(event, Advisory) or not event.stream:
            self.notify("this event does not belong to a stream", timeout=2)
        elif (event.stream, event.consumer) in {
            key[:2] for key in self.state.consumers.roster.keys
        }:
            post_for_row(self, Open("consumer", event.stream, event.consumer))
        elif event.stream in {key[0] for key in self.state.streams.roster.keys}:
            post_for_row(self, Open("stream", event.stream))
        else:
            self.notify(
                f"stream {safe_copy(event.stream)} does not exist any more",
                markup=False,
                timeout=2,
            )

    def action_time(self) -> None:
        """Prompt for a time, and move to the events at that time."""

        def time_error(text: str) -> str:
            try:
                moment_us(text, self.state.now_at_us)
            except ValueError as error:
                return str(error)
            return ""

        def store_requested_time(text: str | None) -> None:
            self._requested_time_text = text or ""
            self._folding_enabled = self._folding_enabled and not text

        def meaning(text: str) -> str:
            return describe_moment(text, self.state.now_at_us)

        title = "When? For example 2m ago, or 14:30"
        self.app.push_screen(
            Prompt(title, refusal=time_error, meaning=meaning), store_requested_time
        )

    def action_fold(self) -> None:
        """Switch between a row for each event, and one for similar events."""
        self._folding_enabled = not self._folding_enabled
        self._requested_at_us = None
        self.refresh_state()

    @property
    def _is_folded(self) -> bool:
        return self._folding_enabled and not self.ordering.order.pattern

    def on_state_changed(self, message: StateChanged) -> None:
        """Move the cursor to the typed time, if any; `2m ago` is relative to the time of this
        state.
        """
        text, self._requested_time_text = self._requested_time_text, ""
        if text:
            self._requested_at_us = moment_us(text, message.acting.state.now_at_us)
            # In a paused replay, the base class does not show the same state again.
            self.call_next(self.refresh_state)

    def _show(self, view: Any, row_order: Sequence[int]) -> None:
        super()._show(view, row_order)
        # A thread sorts many events: the folded rows stay until it has finished.
        is_folded = bool(row_order) and isinstance(
            find_system_row(view, row_order[0])[0], FoldedEvents
        )
        if self._requested_at_us is not None and not is_folded:
            at_us, self._requested_at_us = self._requested_at_us, None
            self._move_to_moment(at_us)

    def _move_to_moment(self, at_us: int) -> None:
        """Move the cursor to the newest event up to a moment, else to the oldest one."""
        if self.rows is None or not self.rows.order:
            return
        events = (find_system_row(self.rows.view, row) for row in self.rows.order)
        times_and_positions = [
            (view.at(row).at_us, table_position)
            for table_position, (view, row) in enumerate(events)
        ]
        earlier_times_and_positions = [
            time_and_position
            for time_and_position in times_and_positions
            if time_and_position[0] <= at_us
        ]
        event_at_us, table_position = (
            max(earlier_times_and_positions)
            if earlier_times_and_positions
            else min(times_and_positions)
        )
        self.table.move(table_position)
        if not earlier_times_and_positions:
            self.notify(f"the oldest event here is from {local_text(event_at_us)}", timeout=4)

    def caption_text(self, shown: int, total: int) -> str:
        """Return the caption, with the time since which all events are kept, and a hint."""
        text = super().caption_text(shown, total)
        events_by_system = (system.state.recent_events for system in self.scope.shown_systems)
        oldest_events_us = [
            events[0].at_us for events in events_by_system if len(events) >= EVENTS_KEPT
        ]
        # From this time on, the events of every system are complete.
        text = (
            f"{text}  ·  kept since {local_text(max(oldest_events_us))}"
            if oldest_events_us
            else text
        )
        return f"{text}  ·  {hint}" if (hint := self._view_hint()) else text

    def _view_hint(self) -> str:
        """Return the hint how to unfold events, or how to hide a kind that most events have; empty
        without one.
        """
        if self._is_folded:
            key = key_of(self, "events.fold")
            return f"repeats are folded: {key} shows each" if key else ""
        if self.ordering.order.pattern or self.ordering.order.problems_only:
            return ""
        events_by_system = tuple(system.state.recent_events for system in self.scope.shown_systems)
        if events_by_system != self._counted_events:
            self._counted_events = events_by_system
            self._count_by_kind = Counter(
                map(event_kind_text, chain.from_iterable(events_by_system))
            )
        kind, count = next(iter(self._count_by_kind.most_common(1)), ("", 0))
        if len(self._count_by_kind) < 2 or 2 * count < self._count_by_kind.total():
            return ""
        return f"{count} are {kind}: /!{kind} shows the others"

    def empty_hint(self) -> str:
        """Return the text of an empty table: which events appear here."""
        if self.state.replay is not None:
            return "none was recorded before this moment"
        return "advisories, changes and notes appear here when they happen"

    def view(self) -> Any:
        """Return the events of the current state, of all systems."""
        systems = self.scope.shown_systems
        view_class = FoldedEvents if self._is_folded else EventView
        return join_views(
            systems, [view_class(system.state, system.poll_age_us) for system in systems]
        )
