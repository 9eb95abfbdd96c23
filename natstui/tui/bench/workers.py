"""The workers of a benchmark as text: rates, share of CPU, and latencies. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from rich.cells import cell_len

from natstui.clean import clean_line
from natstui.model.bench.counts import TELLING_LATENCIES, in_flight_msgs
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
    """Return the rates of a worker in the last seconds, one value a cell."""
    rates = [
        (point.at_us, getattr(point, name) / point.interval_s if point.interval_s > 0 else None)
        for point in view.series[key]
    ]
    return recent_values(view, rates, cells)


def _now_text(view: BenchmarkView, key: WorkerKey, name: str) -> str:
    return rate_text(rate_now_per_s(view, name, [key]))


_ACTS = (
    ("sent", "sent_msgs"),
    ("acked", "acked_msgs"),
    ("received", "received_msgs"),
    ("acks", "acks_sent_msgs"),
)
_RATE_CELLS = 11
"""Width of a worker's rate; its name with `/s` is the column title."""
_BETWEEN = 3
_BUSY_RATIO = 0.9
"""Share of a core above which a worker's own speed limits the result."""


def worker_sections(
    view: BenchmarkView, width: int, height: int = 0, colors: Sequence[str] = ()
) -> list[Section]:
    """Return a framed view of each worker, in as many columns as fit into `width`.

    The frame's title has the worker's name and current rate; below are its share of a core, and if
    there is space, latency, share of the role, redelivered and in-flight messages. Each role has
    the next of `colors`. Where `height` rows are not enough for frames, a worker has a line of a
    table.
    """
    roles: dict[str, list[WorkerKey]] = {}
    for key in view.series:
        roles.setdefault(key[0], []).append(key)
    panels = [
        _Panel(view, role, sorted(keys), colors[index % len(colors)] if colors else "")
        for index, (role, keys) in enumerate(roles.items())
    ]
    framed_section = _framed(panels, width, height)
    return [framed_section] if framed_section else [panel.section(width, ()) for panel in panels]


_FRAME_CELLS = 19
"""Minimum width of a worker's frame."""
_MOST_FRAME_CELLS = 48
_MOST_SPARK_ROWS = 7


def _framed(panels: Sequence[_Panel], width: int, height: int) -> Section | None:
    """Return the frames of all workers, or None if they do not fit."""
    count = sum(len(panel.keys) for panel in panels)
    if not count or width < _FRAME_CELLS:
        return None
    rows = -(-count // min(count, width // _FRAME_CELLS))
    if 3 * rows > height:
        return None
    # As even as can be: three and three rather than four and two.
    columns = -(-count // rows)
    cells = min(_MOST_FRAME_CELLS, width // columns)
    spark_rows = min(_MOST_SPARK_ROWS, height // rows - 2)
    frames = [panel.frame(key, cells, spark_rows) for panel in panels for key in panel.keys]
    lines: list[Line] = []
    for first in range(0, count, columns):
        frames_in_row = frames[first : first + columns]
        lines += [_beside(parts) for parts in zip(*frames_in_row, strict=True)]
    return Section("", tuple(lines))


Looks = Sequence[tuple[str, str]]
"""Texts side by side, each with its look."""


def _toned(row: str, color: str, rows: int) -> Iterator[tuple[str, str]]:
    """Yield a line of a sparkline; of several rows the top one is brighter."""
    for is_full, letters in groupby(row, key=lambda letter: letter == "█" and rows > 1):
        yield "".join(letters), f"{color} 55%" if is_full and color.startswith("#") else color


def _beside(frames: Sequence[Looks]) -> Line:
    """Return a row of frames as one line."""
    parts: list[tuple[int, int, str]] = []
    text = ""
    for frame in frames:
        for words, look in frame:
            parts.append((len(text), len(text) + len(words), look))
            text += words
    return Line("", text, parts=tuple(part for part in parts if part[2]))


@dataclass(frozen=True, slots=True)
class _Extra:
    """An optional column, as wide as its title."""

    head: str
    texts: Mapping[WorkerKey, str]
    rank: int
    """Columns with the highest rank are hidden first."""


class _Panel:
    """The workers of one role."""

    def __init__(self, view: BenchmarkView, role: str, keys: list[WorkerKey], color: str) -> None:
        self._view, self._role, self.keys, self._color = view, role, keys, color
        self._acts = [
            (act, name)
            for act, name in _ACTS
            if any(getattr(view.totals[key], name) for key in keys)
        ]
        self._number_cells = len(str(keys[-1][1]))
        self._beside = self._number_cells + 5 + _RATE_CELLS * len(self._acts)
        self.extras = tuple(_extras(view, keys, self._acts))

    def frame(self, key: WorkerKey, cells: int, spark_rows: int) -> list[Looks]:
        """Return the lines of a worker's frame."""
        inner, has_ended = cells - 2, _is_over(self._view, key)
        color = "dim" if has_ended else self._color
        number, name = str(key[1]), self._acts[0][1] if self._acts else ""
        now = "off" if has_ended else f"{_now_text(self._view, key, name)}/s" if name else ""
        # A role whose name needs it takes the second blank before what the worker does now.
        room = inner - len(number) - len(now) - (4 if now else 3)
        role = fit(clean_line(self._role), max(1, room)).rstrip()
        title = f" {role} {number} "
        now = f" {now} " if now else ""
        now = now.removeprefix(" ") if cell_len(title) + len(now) > inner else now
        dashes = inner - cell_len(title) - len(now)
        ends = "─" if dashes > 2 else ""
        top: Looks = [
            ("╭" + ends, "frame"),
            (title, color),
            ("─" * (dashes - 2 * len(ends)), "frame"),
            (now, "dim" if has_ended else "strong"), (ends + "╮", "frame"),
        ]  # fmt: skip
        rates = _recent_rates(self._view, key, name, inner) if name else []
        sparks = tall_sparkline(rates, inner, spark_rows)
        middle: list[Looks] = [
            [("│", "frame"), *_toned(row, color, spark_rows), ("│", "frame")] for row in sparks
        ]
        below = self._below(key, inner - 2)
        look = "warn" if _is_busy(self._view, key) else "dim"
        bottom: Looks = [
            ("╰─", "frame"), (below, look), ("─" * (inner - 2 - len(below)) + "─╯", "frame"),
        ]  # fmt: skip
        return [top, *middle, bottom]

    def _below(self, key: WorkerKey, room: int) -> str:
        """Return the text of a frame's lower edge; the least important parts are left out."""
        points = self._view.series[key]
        parts = (
            [f"CPU {points[-1].cpu_ratio:.0%}"] if points and not _is_over(self._view, key) else []
        )
        parts += [
            f"{one.head.strip()} {one.texts[key]}"
            for one in sorted(self.extras, key=lambda extra: extra.rank)
        ]
        if not _is_over(self._view, key):
            parts += [
                f"{act} {_now_text(self._view, key, name)}/s" for act, name in self._acts[1:]
            ]
        text = ""
        for part in parts:
            longer = f"{text} · {part}" if text else part
            if len(longer) + 2 <= room:
                text = longer
        return f" {text} " if text else ""

    def section(self, width: int, required: Sequence[_Extra]) -> Section:
        """Return the panel with at least the `required` extras, and others that fit."""
        keys, acts = self.keys, self._acts
        least = self._beside + SPARK_WIDTH // 2
        cells_each = least + _cells(required) + _BETWEEN
        columns = max(1, min(len(keys), (width + _BETWEEN) // cells_each))
        room = (width + _BETWEEN) // columns - _BETWEEN
        extras = _fitting(self.extras, room - least)
        spark_cells = max(0, min(SPARK_WIDTH, room - self._beside - _cells(extras) - 1))
        heads = "".join(f"{act}/s".rjust(_RATE_CELLS) for act, _ in acts)
        head = " " * (self._beside + spark_cells - len(heads) - 4) + " CPU" + heads
        head += "".join(extra.head for extra in extras)
        texts = [
            _worker(self._view, key, acts, spark_cells, self._number_cells)
            + "".join(extra.texts[key].rjust(len(extra.head)) for extra in extras)
            for key in keys
        ]
        rows = -(-len(texts) // columns)
        lines = [line("", (" " * _BETWEEN).join([head] * columns), "dim")]
        for row in range(rows):
            busy = any(_is_busy(self._view, key) for key in keys[row::rows])
            texts_in_row = texts[row::rows]
            starts = [index * (len(texts[0]) + _BETWEEN) for index in range(len(texts_in_row))]
            first = self._number_cells + 1
            parts = tuple(
                (start + first, start + first + spark_cells, self._color) for start in starts
            )
            look = "warn" if busy else ""
            text = (" " * _BETWEEN).join(texts_in_row)
            lines.append(replace(line("", text, look), parts=parts if self._color else ()))
        return Section(self._title(extras), tuple(lines))

    def _title(self, extras: Sequence[_Extra]) -> str:
        title = f"{clean_line(self._role).upper()} ({len(self.keys)})"
        has_latency = any(extra.head in (_P50, _P99) for extra in extras)
        name = _latency_name(self._view, self.keys)
        return f"{title}, {name} in ms" if has_latency else title


def _cells(extras: Sequence[_Extra]) -> int:
    return sum(len(extra.head) for extra in extras)


def _fitting(extras: Sequence[_Extra], room: int) -> list[_Extra]:
    """Return the columns that fit, in their order; the least important are left out first."""
    fitting = list(extras)
    while fitting and _cells(fitting) > room:
        fitting.remove(max(fitting, key=lambda extra: extra.rank))
    return fitting


_SHARE, _AGAIN, _UNDER_WAY, _P50, _P99 = "  share", "   again", "  in flight", "    p50", "    p99"


def _extras(
    view: BenchmarkView, keys: list[WorkerKey], acts: Sequence[tuple[str, str]]
) -> Iterator[_Extra]:
    """Yield the optional columns that have values."""
    totals = {key: view.totals[key] for key in keys}
    if len(keys) > 1 and acts:
        counts_by_key = {key: getattr(counts, acts[0][1]) for key, counts in totals.items()}
        total = sum(counts_by_key.values())
        yield _Extra(
            _SHARE, {key: f"{count / total:.0%}" for key, count in counts_by_key.items()}, 0
        )
    if any(counts.redelivered_msgs for counts in totals.values()):
        redelivered = {key: count_text(counts.redelivered_msgs) for key, counts in totals.items()}
        yield _Extra(_AGAIN, redelivered, 1)
    plan = view.planned.plan if view.planned is not None else None
    role = next((role for role in plan.roles if role.name == keys[0][0]), None) if plan else None
    if role is not None:
        in_flight = {key: in_flight_msgs(role, counts) for key, counts in totals.items()}
        if any(msgs is not None for msgs in in_flight.values()):
            texts = {key: count_text(msgs) for key, msgs in in_flight.items()}
            yield _Extra(_UNDER_WAY, texts, 3)
    name = _latency_name(view, keys)
    if name is not None:
        for head, percent, rank in ((_P50, 50, 4), (_P99, 99, 2)):
            yield _Extra(head, {key: _latency(view, key, name, percent) for key in keys}, rank)


def _latency_name(view: BenchmarkView, keys: Sequence[WorkerKey]) -> str | None:
    """Return the name of the latency in which the workers of a role are compared."""
    names = {view.measured[key].name for key in keys if key in view.measured}
    return next((name for name in TELLING_LATENCIES if name in names), None)


def _latency(view: BenchmarkView, key: WorkerKey, name: str, percent: float) -> str:
    histogram = view.measured.get(key)
    if histogram is None or histogram.name != name:
        return UNKNOWN
    return ms_text(histogram.whole.percentile_ns(percent))


_SILENT_US = 2_000_000
"""Time without a report after which a worker counts as ended, if others have reported."""


def _is_over(view: BenchmarkView, key: WorkerKey) -> bool:
    """Return whether a worker has ended or died while others continue: it is `off`."""
    newest_us = max((points[-1].at_us for points in view.series.values() if points), default=0)
    points = view.series[key]
    return bool(points) and newest_us - points[-1].at_us > _SILENT_US


def _is_busy(view: BenchmarkView, key: WorkerKey) -> bool:
    points = view.series[key]
    return bool(points) and points[-1].cpu_ratio > _BUSY_RATIO and not _is_over(view, key)


def _worker(
    view: BenchmarkView,
    key: WorkerKey,
    acts: Sequence[tuple[str, str]],
    spark_cells: int,
    number_cells: int,
) -> str:
    """Return one worker: number, sparkline of the first act, share of a core, current rates."""
    points = view.series[key]
    rates = "".join(_now_text(view, key, name).rjust(_RATE_CELLS) for _, name in acts)
    has_ended = _is_over(view, key)
    if has_ended:
        # Its last rates would be taken for those of now.
        rates = "–".rjust(_RATE_CELLS) * len(acts)
    spark = ""
    if acts and spark_cells:
        spark = sparkline(_recent_rates(view, key, acts[0][1], spark_cells), spark_cells)
    cpu = f"{points[-1].cpu_ratio:.0%}" if points else UNKNOWN
    cpu = "off" if has_ended else cpu
    return f"{key[1]:>{number_cells}} {spark.rjust(spark_cells)}{cpu:>4}{rates}"
