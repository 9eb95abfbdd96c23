"""Texts about the workers of a benchmark: rates, share of CPU and latencies. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from msgspec import Struct
from rich.cells import cell_len

from natstui.clean import clean_line
from natstui.model.bench.counts import LATENCIES_BY_IMPORTANCE, in_flight_msgs
from natstui.model.bench.result import BUSY_WORKER_CPU_RATIO
from natstui.model.bench.view import BenchmarkView, RoleAndWorkerId
from natstui.tui.bench.charts import rate_now_per_s, recent_values
from natstui.tui.bench.text import ms_text
from natstui.tui.kit.sections import Line, Section, line
from natstui.tui.kit.sparkline import sparkline, tall_sparkline
from natstui.tui.kit.text import fit
from natstui.units import UNKNOWN, count_text, rate_text
from natstui.values import replace

MAX_SPARKLINE_CELLS = 20


def _recent_rates(
    view: BenchmarkView, key: RoleAndWorkerId, count_name: str, cells: int
) -> list[float | None]:
    """Return the rates of a worker in the last seconds, one value per cell."""
    rates = [
        (
            point.at_us,
            getattr(point, count_name) / point.interval_s if point.interval_s > 0 else None,
        )
        for point in view.series[key]
    ]
    return recent_values(view, rates, cells)


def _current_rate_text(view: BenchmarkView, key: RoleAndWorkerId, count_name: str) -> str:
    return rate_text(rate_now_per_s(view, count_name, [key]))


class _Activity(NamedTuple):
    label: str
    count_name: str


_ACTIVITIES = (
    _Activity("sent", "sent_msgs"),
    _Activity("acked", "acked_msgs"),
    _Activity("received", "received_msgs"),
    _Activity("acks", "acks_sent_msgs"),
)
_RATE_CELLS = 11
"""Width of a column of rates; its title is the activity with `/s`."""
_GAP_CELLS = 3


def worker_sections(
    view: BenchmarkView, width: int, height: int = 0, colors: Sequence[str] = ()
) -> list[Section]:
    """Return a frame per worker, in columns that fit into `width`, else a table per role.

    The frame's title has the worker's name and current rate; its lower edge has the share of a
    core, and with enough space latency, share of the role, redelivered and in-flight messages.
    Each role has the next of `colors`. Tables replace frames that are higher than `height` rows.
    """
    keys_by_role: dict[str, list[RoleAndWorkerId]] = {}
    for key in view.series:
        keys_by_role.setdefault(key[0], []).append(key)
    panels = [
        _RolePanel(view, role, sorted(keys), colors[index % len(colors)] if colors else "")
        for index, (role, keys) in enumerate(keys_by_role.items())
    ]
    frames_section = _frames_section(panels, width, height)
    return [frames_section] if frames_section else [panel.section(width, ()) for panel in panels]


_MIN_FRAME_CELLS = 19
"""Minimum width of a worker's frame."""
_MAX_FRAME_CELLS = 48
_MAX_SPARKLINE_ROWS = 7


def _frames_section(panels: Sequence[_RolePanel], width: int, height: int) -> Section | None:
    """Return a section with the frames of all workers; None if they do not fit."""
    count = sum(len(panel.keys) for panel in panels)
    if not count or width < _MIN_FRAME_CELLS:
        return None
    rows = -(-count // min(count, width // _MIN_FRAME_CELLS))
    if 3 * rows > height:
        return None
    # Rows of equal length: three and three rather than four and two.
    columns = -(-count // rows)
    cells = min(_MAX_FRAME_CELLS, width // columns)
    spark_rows = min(_MAX_SPARKLINE_ROWS, height // rows - 2)
    frames = [panel.frame(key, cells, spark_rows) for panel in panels for key in panel.keys]
    lines: list[Line] = []
    for first_index in range(0, count, columns):
        frames_in_row = frames[first_index : first_index + columns]
        lines += [_join_frames(parts) for parts in zip(*frames_in_row, strict=True)]
    return Section("", tuple(lines))


TextsAndStyles = Sequence[tuple[str, str]]
"""Texts side by side, each with its style."""


def _color_sparkline(row: str, color: str, rows: int) -> Iterator[tuple[str, str]]:
    """Yield text and style of the parts of a sparkline's row; if it has several rows, full cells
    are dimmed.
    """
    for is_full, letters in groupby(row, key=lambda letter: letter == "█" and rows > 1):
        yield "".join(letters), f"{color} 55%" if is_full and color.startswith("#") else color


def _join_frames(frames: Sequence[TextsAndStyles]) -> Line:
    """Return the same line of several frames, side by side, as one line."""
    parts: list[tuple[int, int, str]] = []
    text = ""
    for frame in frames:
        for part_text, style_name in frame:
            parts.append((len(text), len(text) + len(part_text), style_name))
            text += part_text
    return Line("", text, parts=tuple(part for part in parts if part[2]))


class _OptionalColumn(Struct, frozen=True):
    """An optional column of workers, as wide as its title."""

    title: str
    texts: Mapping[RoleAndWorkerId, str]
    rank: int
    """Columns with the highest rank are hidden first."""


class _RolePanel:
    """The frames, or the table, of the workers of one role."""

    def __init__(
        self, view: BenchmarkView, role: str, keys: list[RoleAndWorkerId], color: str
    ) -> None:
        self._view, self._role, self.keys, self._color = view, role, keys, color
        self._activities = [
            activity
            for activity in _ACTIVITIES
            if any(getattr(view.totals[key], activity.count_name) for key in keys)
        ]
        self._number_cells = len(str(keys[-1][1]))
        self._label_cells = self._number_cells + 5 + _RATE_CELLS * len(self._activities)
        self.optional_columns = tuple(_list_optional_columns(view, keys, self._activities))

    def frame(self, key: RoleAndWorkerId, cells: int, spark_rows: int) -> list[TextsAndStyles]:
        """Return the lines of a worker's frame."""
        inner_cells, has_ended = cells - 2, _has_ended(self._view, key)
        color = "dim" if has_ended else self._color
        worker_number = str(key[1])
        count_name = self._activities[0].count_name if self._activities else ""
        current_rate = (
            "off"
            if has_ended
            else f"{_current_rate_text(self._view, key, count_name)}/s"
            if count_name
            else ""
        )
        # One blank before the current rate is enough for a role with a long name.
        available_cells = (
            inner_cells - len(worker_number) - len(current_rate) - (4 if current_rate else 3)
        )
        role = fit(clean_line(self._role), max(1, available_cells)).rstrip()
        title = f" {role} {worker_number} "
        current_rate = f" {current_rate} " if current_rate else ""
        current_rate = (
            current_rate.removeprefix(" ")
            if cell_len(title) + len(current_rate) > inner_cells
            else current_rate
        )
        dash_count = inner_cells - cell_len(title) - len(current_rate)
        corner_dash = "─" if dash_count > 2 else ""
        top_texts: TextsAndStyles = [
            ("╭" + corner_dash, "frame"),
            (title, color),
            ("─" * (dash_count - 2 * len(corner_dash)), "frame"),
            (current_rate, "dim" if has_ended else "strong"), (corner_dash + "╮", "frame"),
        ]  # fmt: skip
        rates = _recent_rates(self._view, key, count_name, inner_cells) if count_name else []
        sparkline_rows = tall_sparkline(rates, inner_cells, spark_rows)
        middle_texts: list[TextsAndStyles] = [
            [("│", "frame"), *_color_sparkline(row, color, spark_rows), ("│", "frame")]
            for row in sparkline_rows
        ]
        bottom_text = self._bottom_text(key, inner_cells - 2)
        style_name = "warn" if _is_busy(self._view, key) else "dim"
        bottom_texts: TextsAndStyles = [
            ("╰─", "frame"),
            (bottom_text, style_name),
            ("─" * (inner_cells - 2 - len(bottom_text)) + "─╯", "frame"),
        ]  # fmt: skip
        return [top_texts, *middle_texts, bottom_texts]

    def _bottom_text(self, key: RoleAndWorkerId, available_cells: int) -> str:
        """Return the text in a frame's lower edge; parts that do not fit are left out."""
        points = self._view.series[key]
        parts = (
            [f"CPU {points[-1].cpu_ratio:.0%}"]
            if points and not _has_ended(self._view, key)
            else []
        )
        parts += [
            f"{column.title.strip()} {column.texts[key]}"
            for column in sorted(self.optional_columns, key=lambda column: column.rank)
        ]
        if not _has_ended(self._view, key):
            parts += [
                f"{activity.label} {_current_rate_text(self._view, key, activity.count_name)}/s"
                for activity in self._activities[1:]
            ]
        text = ""
        for part in parts:
            longer_text = f"{text} · {part}" if text else part
            if len(longer_text) + 2 <= available_cells:
                text = longer_text
        return f" {text} " if text else ""

    def section(self, width: int, required_columns: Sequence[_OptionalColumn]) -> Section:
        """Return a table of the role's workers, with the optional columns that fit.

        Side by side are as many workers as fit with the columns of `required_columns`.
        """
        keys, activities = self.keys, self._activities
        min_cells = self._label_cells + MAX_SPARKLINE_CELLS // 2
        cells_per_worker = min_cells + _total_cells(required_columns) + _GAP_CELLS
        columns = max(1, min(len(keys), (width + _GAP_CELLS) // cells_per_worker))
        available_cells = (width + _GAP_CELLS) // columns - _GAP_CELLS
        optional_columns = _fit_optional_columns(
            self.optional_columns, available_cells - min_cells
        )
        spark_cells = max(
            0,
            min(
                MAX_SPARKLINE_CELLS,
                available_cells - self._label_cells - _total_cells(optional_columns) - 1,
            ),
        )
        rate_titles = "".join(f"{activity.label}/s".rjust(_RATE_CELLS) for activity in activities)
        header = (
            " " * (self._label_cells + spark_cells - len(rate_titles) - 4) + " CPU" + rate_titles
        )
        header += "".join(column.title for column in optional_columns)
        texts = [
            _worker_text(self._view, key, activities, spark_cells, self._number_cells)
            + "".join(column.texts[key].rjust(len(column.title)) for column in optional_columns)
            for key in keys
        ]
        rows = -(-len(texts) // columns)
        lines = [line("", (" " * _GAP_CELLS).join([header] * columns), "dim")]
        for row in range(rows):
            is_busy = any(_is_busy(self._view, key) for key in keys[row::rows])
            texts_in_row = texts[row::rows]
            column_starts = [
                index * (len(texts[0]) + _GAP_CELLS) for index in range(len(texts_in_row))
            ]
            spark_start = self._number_cells + 1
            parts = tuple(
                (start + spark_start, start + spark_start + spark_cells, self._color)
                for start in column_starts
            )
            style_name = "warn" if is_busy else ""
            text = (" " * _GAP_CELLS).join(texts_in_row)
            lines.append(replace(line("", text, style_name), parts=parts if self._color else ()))
        return Section(self._title(optional_columns), tuple(lines))

    def _title(self, optional_columns: Sequence[_OptionalColumn]) -> str:
        title = f"{clean_line(self._role).upper()} ({len(self.keys)})"
        has_latency = any(column.title in (_P50_TITLE, _P99_TITLE) for column in optional_columns)
        name = _latency_name(self._view, self.keys)
        return f"{title}, {name} in ms" if has_latency else title


def _total_cells(optional_columns: Sequence[_OptionalColumn]) -> int:
    return sum(len(column.title) for column in optional_columns)


def _fit_optional_columns(
    optional_columns: Sequence[_OptionalColumn], available_cells: int
) -> list[_OptionalColumn]:
    """Return the optional columns that fit, in order; the highest rank is left out first."""
    fitting_columns = list(optional_columns)
    while fitting_columns and _total_cells(fitting_columns) > available_cells:
        fitting_columns.remove(max(fitting_columns, key=lambda column: column.rank))
    return fitting_columns


_SHARE_TITLE, _REDELIVERED_TITLE, _IN_FLIGHT_TITLE, _P50_TITLE, _P99_TITLE = (
    "  share",
    "   again",
    "  in flight",
    "    p50",
    "    p99",
)


def _list_optional_columns(
    view: BenchmarkView, keys: list[RoleAndWorkerId], activities: Sequence[_Activity]
) -> Iterator[_OptionalColumn]:
    """Yield the optional columns that have values."""
    totals_by_worker = {key: view.totals[key] for key in keys}
    if len(keys) > 1 and activities:
        first_activity_counts = {
            key: getattr(counts, activities[0].count_name)
            for key, counts in totals_by_worker.items()
        }
        total_count = sum(first_activity_counts.values())
        yield _OptionalColumn(
            _SHARE_TITLE,
            {key: f"{count / total_count:.0%}" for key, count in first_activity_counts.items()},
            0,
        )
    if any(counts.redelivered_msgs for counts in totals_by_worker.values()):
        redelivered_texts = {
            key: count_text(counts.redelivered_msgs) for key, counts in totals_by_worker.items()
        }
        yield _OptionalColumn(_REDELIVERED_TITLE, redelivered_texts, 1)
    plan = view.planned.plan if view.planned is not None else None
    role = next((role for role in plan.roles if role.name == keys[0][0]), None) if plan else None
    if role is not None:
        in_flight_msgs_by_worker = {
            key: in_flight_msgs(role, counts) for key, counts in totals_by_worker.items()
        }
        if any(msgs is not None for msgs in in_flight_msgs_by_worker.values()):
            texts = {key: count_text(msgs) for key, msgs in in_flight_msgs_by_worker.items()}
            yield _OptionalColumn(_IN_FLIGHT_TITLE, texts, 3)
    name = _latency_name(view, keys)
    if name is not None:
        for title, percent, rank in ((_P50_TITLE, 50, 4), (_P99_TITLE, 99, 2)):
            yield _OptionalColumn(
                title, {key: _latency_text(view, key, name, percent) for key in keys}, rank
            )


def _latency_name(view: BenchmarkView, keys: Sequence[RoleAndWorkerId]) -> str | None:
    """Return the name of the latency by which the workers of a role are compared, or None."""
    names = {view.measured[key].name for key in keys if key in view.measured}
    return next((name for name in LATENCIES_BY_IMPORTANCE if name in names), None)


def _latency_text(view: BenchmarkView, key: RoleAndWorkerId, name: str, percent: float) -> str:
    histogram = view.measured.get(key)
    if histogram is None or histogram.name != name:
        return UNKNOWN
    return ms_text(histogram.total.percentile_ns(percent))


_ENDED_WITHOUT_REPORT_US = 2_000_000
"""Time without a report after which a worker counts as ended, while others report."""


def _has_ended(view: BenchmarkView, key: RoleAndWorkerId) -> bool:
    """Return whether a worker has ended or died while others continue; it is shown as `off`."""
    newest_us = max((points[-1].at_us for points in view.series.values() if points), default=0)
    points = view.series[key]
    return bool(points) and newest_us - points[-1].at_us > _ENDED_WITHOUT_REPORT_US


def _is_busy(view: BenchmarkView, key: RoleAndWorkerId) -> bool:
    points = view.series[key]
    return (
        bool(points) and points[-1].cpu_ratio > BUSY_WORKER_CPU_RATIO and not _has_ended(view, key)
    )


def _worker_text(
    view: BenchmarkView,
    key: RoleAndWorkerId,
    activities: Sequence[_Activity],
    spark_cells: int,
    number_cells: int,
) -> str:
    """Return the table row of a worker: number, sparkline of the first activity, share of a core,
    current rates.
    """
    points = view.series[key]
    rates_text = "".join(
        _current_rate_text(view, key, activity.count_name).rjust(_RATE_CELLS)
        for activity in activities
    )
    has_ended = _has_ended(view, key)
    if has_ended:
        # The last rates of the worker would be mistaken for current ones.
        rates_text = "–".rjust(_RATE_CELLS) * len(activities)
    sparkline_text = ""
    if activities and spark_cells:
        sparkline_text = sparkline(
            _recent_rates(view, key, activities[0].count_name, spark_cells), spark_cells
        )
    cpu_text = f"{points[-1].cpu_ratio:.0%}" if points else UNKNOWN
    cpu_text = "off" if has_ended else cpu_text
    return f"{key[1]:>{number_cells}} {sparkline_text.rjust(spark_cells)}{cpu_text:>4}{rates_text}"
