"""The streams table: every column's place and order, and its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter

from natstui.model.rates import rate_column
from natstui.tui.present import stream_cells as cells
from natstui.tui.present.columns import ColumnSpec
from natstui.tui.present.view import StreamView

Sort = Callable[[StreamView], Sequence[object]]


def _by(column: str) -> Sort:
    return attrgetter(f"columns.{column}")


def _by_age(column: str) -> Sort:
    return lambda view: [None if at is None else -at for at in getattr(view.columns, column)]


def _by_rate(view: StreamView) -> Sequence[object]:
    return rate_column(view.state.stream_history, "last_seq")


def _by_config(name: str) -> Sort:
    return lambda view: view.configured(attrgetter(name))


def _by_used(which: str) -> Sort:
    return lambda view: [cells.limit_percents(view, row).get(which) for row in range(len(view))]


def _by_full(view: StreamView) -> Sequence[object]:
    return [cells.full_s(view, row) for row in range(len(view))]


def _by_rates(name: str) -> Sort:
    return lambda view: [getattr(view.rates(row), name) for row in range(len(view))]


_number: Callable[..., ColumnSpec[StreamView]] = ColumnSpec
_words: Callable[..., ColumnSpec[StreamView]] = partial(ColumnSpec, align="left", descends=False)

STREAM_COLUMNS: tuple[ColumnSpec[StreamView], ...] = (
    _words("name", "STREAM", 18, 0, cells.name, _by("name"), flex=2),
    _words("kind", "KIND", 6, 11, cells.kind, _by_config("kind")),
    _words("subjects", "SUBJECTS", 14, 14, cells.subjects, _by_config("subjects"), flex=3),
    _words("storage", "STORE", 6, 17, cells.storage, _by_config("storage")),
    _words("retention", "RETAINS", 9, 13, cells.retention, _by_config("retention")),
    _number("msgs", "MSGS", 6, 1, cells.msgs, _by("stored_msgs")),
    _number("bytes", "BYTES", 8, 3, cells.size, _by("stored_bytes")),
    _number("in", "IN/s", 6, 2, cells.in_rate, _by_rate),
    _number("in_bytes", "B/s", 9, 6, cells.in_bytes, _by_rates("in_bytes_per_s")),
    _number("removed", "OUT/s", 6, 5, cells.removed, _by_rates("removed_msgs_per_s")),
    _words("trend", "INGEST 1m", cells.TREND_WIDTH, 4, cells.trend, _by_rate),
    _number("consumers", "CONS", 5, 7, cells.consumers, _by("consumers_count")),
    _number("first_seq", "FIRST SEQ", 10, 15, cells.first_seq, _by("first_seq")),
    _number("first_age", "OLDEST", 7, 8, cells.first_age, _by_age("first_at_us")),
    _number("last_seq", "LAST SEQ", 10, 12, cells.last_seq, _by("last_seq")),
    _number("last_age", "NEWEST", 7, 9, cells.last_age, _by_age("last_at_us")),
    _number("msgs_used", "MSG%", 5, 18, cells.msgs_used, _by_used("msgs")),
    _number("bytes_used", "BYTE%", 6, 10, cells.bytes_used, _by_used("bytes")),
    _number("age_used", "AGE%", 5, 20, cells.age_used, _by_used("age")),
    _number("full", "FULL IN", 7, 16, cells.full, _by_full, descends=False),
    _number("holes", "HOLES", 8, 19, cells.holes, _by("deleted_msgs")),
    _words("leader", "LEADER", 12, 21, cells.leader, _by("leader"), flex=1),
)
