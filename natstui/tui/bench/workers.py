"""Texts about the workers of a benchmark: rates, share of CPU and latencies. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from rich.cells import cell_len

from natstui.clean import clean_line
from natstui.model.bench.counts import LATENCIES_BY_IMPORTANCE, in_flight_msgs
from natstui.model.bench.view import BenchmarkView, WorkerKey
from natstui.tui.bench.charts import rate_now_per_s, recent_values
from natstui.tui.bench.text import ms_text
from natstui.tui.kit.sections import Line, Section, line
from natstui.tui.kit.sparkline import sparkline, tall_sparkline
from natstui.tui.kit.text import fit
from natstui.units import UNKNOWN, count_text, rate_text

SPARK_WIDTH = 20


def _recent_rates(
    view: BenchmarkView, key: WorkerKey, name: str, cells: int
) -> list[float | None]:
    """Return the rates of a worker in the last seconds, one value per cell."""
    rates = [
        (point.at_us, getattr(point, name) / point.interval_s if point.interval_s > 0 else None)
        for point in view.series[key]
    ]
    return recent_values(view, rates, cells)


def _now_text(view: BenchmarkView, key: WorkerKey, name: str) -> str:
    return rate_text(rate_now_per_s(view, name, [key]))


_ACTIVITIES = (
    ("sent", "sent_msgs"),
    ("acked", "acked_msgs"),
    ("received", "received_msgs"),
    ("acks", "acks_sent_msgs"),
)
_RATE_CELLS = 11
"""Width of a column of rates; its title is the activity with `/s`."""
_GAP_CELLS = 3
_MIN_BUSY_RATIO = 0.9
"""Share of a core above which the speed of a worker itself limits the result."""


def worker_sections(
    view: BenchmarkView, width: int, height: int = 0, colors: Sequence[str] = ()
) -> list[Section]:
    """Return a frame per worker, in columns that fit into `width`, else a table per role.

    The frame's title has the worker's name and current rate; its lower edge has the share of a
    core, and with enough space latency, share of the role, redelivered and in-flight messages.
    Each role has the next of `colors`. Tables replace frames that are higher than `height` rows.
    """
    roles: dict[str, list[WorkerKey]] = {}
    for key in view.series:
        roles.setdefault(key[0], []).append(key)
    panels = [
        _Panel(view, role, sorted(keys), colors[index % len(colors)] if colors else "")
        for index, (role, keys) in enumerate(roles.items())
    ]
    frames_section = _frames_section(panels, width, height)
    return [frames_section] if frames_section else [panel.section(width, ()) for panel in panels]


_FRAME_CELLS = 19
"""Minimum width of a worker's frame."""
_MAX_FRAME_CELLS = 48
_MAX_SPARK_ROWS = 7


def _frames_section(panels: Sequence[_Panel], width: int, height: int) -> Section | None:
    """Return a section with the frames of all workers; None if they do not fit."""
    count = sum(len(panel.keys) for panel in panels)
    if not count or width < _FRAME_CELLS:
        return None
    rows = -(-count // min(count, width // _FRAME_CELLS))
    if 3 * rows > height:
        return None
    # Rows of equal length: three and three rather than four and two.
    columns = -(-count // rows)
    cells = min(_MAX_FRAME_CELLS, width // columns)
    spark_rows = min(_MAX_SPARK_ROWS, height // rows - 2)
    frames = [panel.frame(key, cells, spark_rows) for panel in panels for key in panel.keys]
    lines: list[Line] = []
    for first in range(0, count, columns):
        frames_in_row = frames[first : first + columns]
        lines += [_join_frames(parts) for parts in zip(*frames_in_row, strict=True)]
    return Section("", tuple(lines))


StyledTexts = Sequence[tuple[str, str]]
"""Texts side by side, each with its style."""


def _color_sparkline(row: str, color: str, rows: int) -> Iterator[tuple[str, str]]:
    """Yield the parts of a sparkline's row; in a tall sparkline, full cells are dimmed."""
    for is_full, letters in groupby(row, key=lambda letter: letter == "█" and rows > 1):
        yield "".join(letters), f"{color} 55%" if is_full and color.startswith("#") else color


def _join_frames(frames: Sequence[StyledTexts]) -> Line:
    """Return parts of frames side by side as one line."""
    parts: list[tuple[int, int, str]] = []
    text = ""
    for frame in frames:
        for part_text, style_name in frame:
            parts.append((len(text), len(text) + len(part_text), style_name))
            text += part_text
    return Line("", text, parts=tuple(part for part in parts if part[2]))


@dataclass(frozen=True, slots=True)
class _Extra:
    """An optional column of workers, as wide as its title."""

    head: str
    texts: Mapping[WorkerKey, str]
    rank: int
    """Columns with the highest rank are hidden first."""


class _Panel:
    """The workers of one role."""

    def __init__(self, view: BenchmarkView, role: str, keys: list[WorkerKey], color: str) -> None:
        self._view, self._role, self.keys, self._color = view, role, keys, color
        self._activities = [
            (activity, name)
            for activity, name in _ACTIVITIES
            if any(getattr(view.totals[key], name) for key in keys)
        ]
        self._number_cells = len(str(keys[-1][1]))
        self._label_cells = self._number_cells + 5 + _RATE_CELLS * len(self._activities)
        self.extras = tuple(_list_extras(view, keys, self._activities))

    def frame(self, key: WorkerKey, cells: int, spark_rows: int) -> list[StyledTexts]:
        """Return the lines of a worker's frame."""
        inner, has_ended = cells - 2, _has_ended(self._view, key)
        color = "dim" if has_ended else self._color
        number, name = str(key[1]), self._activities[0][1] if self._activities else ""
        now = "off" if has_ended else f"{_now_text(self._view, key, name)}/s" if name else ""
        # One blank before the current rate is enough for a role with a long name.
        available_cells = inner - len(number) - len(now) - (4 if now else 3)
        role = fit(clean_line(self._role), max(1, available_cells)).rstrip()
        title = f" {role} {number} "
        now = f" {now} " if now else ""
        now = now.removeprefix(" ") if cell_len(title) + len(now) > inner else now
        dash_count = inner - cell_len(title) - len(now)
        ends = "─" if dash_count > 2 else ""
        top: StyledTexts = [
            ("╭" + ends, "frame"),
            (title, color),
            ("─" * (dash_count - 2 * len(ends)), "frame"),
            (now, "dim" if has_ended else "strong"), (ends + "╮", "frame"),
        ]  # fmt: skip
        rates = _recent_rates(self._view, key, name, inner) if name else []
        sparks = tall_sparkline(rates, inner, spark_rows)
        middle: list[StyledTexts] = [
            [("│", "frame"), *_color_sparkline(row, color, spark_rows), ("│", "frame")]
            for row in sparks
        ]
        below = self._bottom_text(key, inner - 2)
        style_name = "warn" if _is_busy(self._view, key) else "dim"
        bottom: StyledTexts = [
            ("╰─", "frame"), (below, style_name), ("─" * (inner - 2 - len(below)) + "─╯", "frame"),
        ]  # fmt: skip
        return [top, *middle, bottom]

    def _bottom_text(self, key: WorkerKey, available_cells: int) -> str:
        """Return the text in a frame's lower edge; parts that do not fit are left out."""
        points = self._view.series[key]
        parts = (
            [f"CPU {points[-1].cpu_ratio:.0%}"]
            if points and not _has_ended(self._view, key)
            else []
        )
        parts += [
            f"{extra.head.strip()} {extra.texts[key]}"
            for extra in sorted(self.extras, key=lambda extra: extra.rank)
        ]
        if not _has_ended(self._view, key):
            parts += [
                f"{activity} {_now_text(self._view, key, name)}/s"
                for activity, name in self._activities[1:]
            ]
        text = ""
        for part in parts:
            longer = f"{text} · {part}" if text else part
            if len(longer) + 2 <= available_cells:
                text = longer
        return f" {text} " if text else ""

    def section(self, width: int, required: Sequence[_Extra]) -> Section:
        """Return a table of the role's workers, with the optional columns that fit.

        Side by side are as many workers as fit with the `required` columns.
        """
        keys, activities = self.keys, self._activities
        min_cells = self._label_cells + SPARK_WIDTH // 2
        cells_each = min_cells + _extras_cells(required) + _GAP_CELLS
        columns = max(1, min(len(keys), (width + _GAP_CELLS) // cells_each))
        available_cells = (width + _GAP_CELLS) // columns - _GAP_CELLS
        extras = _fit_extras(self.extras, available_cells - min_cells)
        spark_cells = max(
            0, min(SPARK_WIDTH, available_cells - self._label_cells - _extras_cells(extras) - 1)
        )
        heads = "".join(f"{activity}/s".rjust(_RATE_CELLS) for activity, _ in activities)
        head = " " * (self._label_cells + spark_cells - len(heads) - 4) + " CPU" + heads
        head += "".join(extra.head for extra in extras)
        texts = [
            _worker_text(self._view, key, activities, spark_cells, self._number_cells)
            + "".join(extra.texts[key].rjust(len(extra.head)) for extra in extras)
            for key in keys
        ]
        rows = -(-len(texts) // columns)
        lines = [line("", (" " * _GAP_CELLS).join([head] * columns), "dim")]
        for row in range(rows):
            busy = any(_is_busy(self._view, key) for key in keys[row::rows])
            texts_in_row = texts[row::rows]
            starts = [index * (len(texts[0]) + _GAP_CELLS) for index in range(len(texts_in_row))]
            first = self._number_cells + 1
            parts = tuple(
                (start + first, start + first + spark_cells, self._color) for start in starts
            )
            style_name = "warn" if busy else ""
            text = (" " * _GAP_CELLS).join(texts_in_row)
            lines.append(replace(line("", text, style_name), parts=parts if self._color else ()))
        return Section(self._title(extras), tuple(lines))

    def _title(self, extras: Sequence[_Extra]) -> str:
        title = f"{clean_line(self._role).upper()} ({len(self.keys)})"
        has_latency = any(extra.head in (_P50, _P99) for extra in extras)
        name = _latency_name(self._view, self.keys)
        return f"{title}, {name} in ms" if has_latency else title


def _extras_cells(extras: Sequence[_Extra]) -> int:
    return sum(len(extra.head) for extra in extras)


def _fit_extras(extras: Sequence[_Extra], available_cells: int) -> list[_Extra]:
    """Return the optional columns that fit, in order; the highest rank is left out first."""
    fitting = list(extras)
    while fitting and _extras_cells(fitting) > available_cells:
        fitting.remove(max(fitting, key=lambda extra: extra.rank))
    return fitting


_SHARE, _REDELIVERED, _IN_FLIGHT, _P50, _P99 = (
    "  share",
    "   again",
    "  in flight",
    "    p50",
    "    p99",
)


def _list_extras(
    view: BenchmarkView, keys: list[WorkerKey], activities: Sequence[tuple[str, str]]
) -> Iterator[_Extra]:
    """Yield the optional columns that have values."""
    totals = {key: view.totals[key] for key in keys}
    if len(keys) > 1 and activities:
        counts_by_key = {key: getattr(counts, activities[0][1]) for key, counts in totals.items()}
        total = sum(counts_by_key.values())
        yield _Extra(
            _SHARE, {key: f"{count / total:.0%}" for key, count in counts_by_key.items()}, 0
        )
    if any(counts.redelivered_msgs for counts in totals.values()):
        redelivered = {key: count_text(counts.redelivered_msgs) for key, counts in totals.items()}
        yield _Extra(_REDELIVERED, redelivered, 1)
    plan = view.planned.plan if view.planned is not None else None
    role = next((role for role in plan.roles if role.name == keys[0][0]), None) if plan else None
    if role is not None:
        in_flight = {key: in_flight_msgs(role, counts) for key, counts in totals.items()}
        if any(msgs is not None for msgs in in_flight.values()):
            texts = {key: count_text(msgs) for key, msgs in in_flight.items()}
            yield _Extra(_IN_FLIGHT, texts, 3)
    name = _latency_name(view, keys)
    if name is not None:
        for head, percent, rank in ((_P50, 50, 4), (_P99, 99, 2)):
            yield _Extra(
                head, {key: _latency_text(view, key, name, percent) for key in keys}, rank
            )


def _latency_name(view: BenchmarkView, keys: Sequence[WorkerKey]) -> str | None:
    """Return the name of the latency by which the workers of a role are compared, or None."""
    names = {view.measured[key].name for key in keys if key in view.measured}
    return next((name for name in LATENCIES_BY_IMPORTANCE if name in names), None)


def _latency_text(view: BenchmarkView, key: WorkerKey, name: str, percent: float) -> str:
    histogram = view.measured.get(key)
    if histogram is None or histogram.name != name:
        return UNKNOWN
    return ms_text(histogram.total.percentile_ns(percent))


_SILENT_US = 2_000_000
"""Time without a report after which a worker counts as ended, while others report."""


def _has_ended(view: BenchmarkView, key: WorkerKey) -> bool:
    """Return whether a worker has ended or died while others continue; it is shown as `off`."""
    newest_us = max((points[-1].at_us for points in view.series.values() if points), default=0)
    points = view.series[key]
    return bool(points) and newest_us - points[-1].at_us > _SILENT_US


def _is_busy(view: BenchmarkView, key: WorkerKey) -> bool:
    points = view.series[key]
    return bool(points) and points[-1].cpu_ratio > _MIN_BUSY_RATIO and not _has_ended(view, key)


def _worker_text(
    view: BenchmarkView,
    key: WorkerKey,
    activities: Sequence[tuple[str, str]],
    spark_cells: int,
    number_cells: int,
) -> str:
    """Return a worker: number, sparkline of the first activity, share of a core, current rates."""
    points = view.series[key]
    rates = "".join(_now_text(view, key, name).rjust(_RATE_CELLS) for _, name in activities)
    has_ended = _has_ended(view, key)
    if has_ended:
        # The last rates of the worker would be mistaken for current ones.
        rates = "–".rjust(_RATE_CELLS) * len(activities)
    spark = ""
    if activities and spark_cells:
        spark = sparkline(_recent_rates(view, key, activities[0][1], spark_cells), spark_cells)
    cpu = f"{points[-1].cpu_ratio:.0%}" if points else UNKNOWN
    cpu = "off" if has_ended else cpu
    return f"{key[1]:>{number_cells}} {spark.rjust(spark_cells)}{cpu:>4}{rates}"
