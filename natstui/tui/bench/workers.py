"""The workers of a benchmark as text: what each does, its share, and how long it takes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from natstui.clean import clean_line
from natstui.model.bench.counts import TELLING_LATENCIES
from natstui.model.bench.in_flight import in_flight_msgs
from natstui.model.bench.view import BenchmarkView, WorkerKey, WorkerPoint
from natstui.tui.bench.text import ms_text
from natstui.tui.kit.sections import Section, line
from natstui.tui.kit.sparkline import sparkline
from natstui.units import UNKNOWN, count_text, rate_text

NOW_S = 1.0
"""A rate of now is the mean of the last second."""
SPARK_WIDTH = 20


def _rates(points: Sequence[WorkerPoint], name: str) -> list[float]:
    return [getattr(p, name) / p.interval_s if p.interval_s > 0 else 0.0 for p in points]


def _now_per_s(points: Sequence[WorkerPoint], name: str) -> float | None:
    """Return the mean rate of the last second of reports."""
    msgs, elapsed_s = 0, 0.0
    for point in reversed(points):
        msgs += getattr(point, name)
        elapsed_s += point.interval_s
        if elapsed_s >= NOW_S:
            break
    return msgs / elapsed_s if elapsed_s > 0 else None


_ACTS = (
    ("sent", "sent_msgs"),
    ("acked", "acked_msgs"),
    ("received", "received_msgs"),
    ("acks", "acks_sent_msgs"),
)
_RATE_CELLS = 11
"""Cells of an act of a worker: its name with `/s` stands above it."""
_BETWEEN = 3
_BUSY_RATIO = 0.9
"""Of a core; a worker above it measures itself."""


def worker_sections(
    view: BenchmarkView, width: int, height: int = 0, colors: Sequence[str] = ()
) -> list[Section]:
    """Return a panel per role: its workers in as many columns as `width` has room for.

    Of each: what it does a second now, after a picture of the last seconds, and how much of a
    core it takes; where there is room, its share of all that the role did, what came again, what
    is in flight, and how long it took. Where `height` rows are enough for it, all of that has
    room, and there are fewer columns. In panels of little width the pictures are shorter. Those
    of each role have the next of `colors`.
    """
    roles: dict[str, list[WorkerKey]] = {}
    for key in view.series:
        roles.setdefault(key[0], []).append(key)
    panels = [
        _Panel(view, role, sorted(keys), colors[at % len(colors)] if colors else "")
        for at, (role, keys) in enumerate(roles.items())
    ]
    whole = [panel.section(width, panel.extras) for panel in panels]
    fits = all(len(line.text) <= width for section in whole for line in section.lines)
    if fits and sum(len(section.lines) + 2 for section in whole) - 1 <= height:
        return whole
    return [panel.section(width, ()) for panel in panels]


@dataclass(frozen=True, slots=True)
class _Extra:
    """A column that is shown where there is room, as wide as its head."""

    head: str
    texts: Mapping[WorkerKey, str]
    rank: int
    """Which goes first where there is little room: the highest."""


class _Panel:
    """The workers of one role."""

    def __init__(self, view: BenchmarkView, role: str, keys: list[WorkerKey], color: str) -> None:
        self._view, self._role, self._keys, self._color = view, role, keys, color
        self._acts = [
            (act, name)
            for act, name in _ACTS
            if any(getattr(view.totals[key], name) for key in keys)
        ]
        self._number_cells = len(str(keys[-1][1]))
        self._beside = self._number_cells + 5 + _RATE_CELLS * len(self._acts)
        self.extras = tuple(_extras(view, keys, self._acts))

    def section(self, width: int, wanted: Sequence[_Extra]) -> Section:
        """Return the panel with room for at least these extras; others where they fit."""
        keys, acts = self._keys, self._acts
        least = self._beside + SPARK_WIDTH // 2
        each = least + _cells(wanted) + _BETWEEN
        columns = max(1, min(len(keys), (width + _BETWEEN) // each))
        room = (width + _BETWEEN) // columns - _BETWEEN
        extras = _fitting(self.extras, room - least)
        spark_cells = max(0, min(SPARK_WIDTH, room - self._beside - _cells(extras) - 1))
        heads = "".join(f"{act}/s".rjust(_RATE_CELLS) for act, _ in acts)
        head = " " * (self._beside + spark_cells - len(heads) - 4) + " CPU" + heads
        head += "".join(one.head for one in extras)
        texts = [
            _worker(self._view, key, acts, spark_cells, self._number_cells)
            + "".join(one.texts[key].rjust(len(one.head)) for one in extras)
            for key in keys
        ]
        rows = -(-len(texts) // columns)
        lines = [line("", (" " * _BETWEEN).join([head] * columns), "dim")]
        for row in range(rows):
            busy = any(_is_busy(self._view, key) for key in keys[row::rows])
            beside = texts[row::rows]
            starts = [at * (len(texts[0]) + _BETWEEN) for at in range(len(beside))]
            first = self._number_cells + 1
            parts = tuple((at + first, at + first + spark_cells, self._color) for at in starts)
            look = "warn" if busy else ""
            text = (" " * _BETWEEN).join(beside)
            lines.append(replace(line("", text, look), parts=parts if self._color else ()))
        return Section(self._title(extras), tuple(lines))

    def _title(self, extras: Sequence[_Extra]) -> str:
        title = f"{clean_line(self._role).upper()} ({len(self._keys)})"
        timed = any(one.head in (_P50, _P99) for one in extras)
        name = _latency_name(self._view, self._keys)
        return f"{title}, {name} in ms" if timed else title


def _cells(extras: Sequence[_Extra]) -> int:
    return sum(len(one.head) for one in extras)


def _fitting(extras: Sequence[_Extra], room: int) -> list[_Extra]:
    """Return those that fit, in their order; the least telling go first."""
    kept = list(extras)
    while kept and _cells(kept) > room:
        kept.remove(max(kept, key=lambda one: one.rank))
    return kept


_SHARE, _AGAIN, _UNDER_WAY, _P50, _P99 = "  share", "   again", "  in flight", "    p50", "    p99"


def _extras(
    view: BenchmarkView, keys: list[WorkerKey], acts: Sequence[tuple[str, str]]
) -> Iterator[_Extra]:
    """Yield the columns beside the rates that have something to say."""
    totals = {key: view.totals[key] for key in keys}
    if len(keys) > 1 and acts:
        done = {key: getattr(counts, acts[0][1]) for key, counts in totals.items()}
        whole = sum(done.values())
        yield _Extra(_SHARE, {key: f"{one / whole:.0%}" for key, one in done.items()}, 0)
    if any(counts.redelivered_msgs for counts in totals.values()):
        again = {key: count_text(counts.redelivered_msgs) for key, counts in totals.items()}
        yield _Extra(_AGAIN, again, 1)
    plan = view.planned.plan if view.planned is not None else None
    role = next((one for one in plan.roles if one.name == keys[0][0]), None) if plan else None
    if role is not None:
        under_way = {key: in_flight_msgs(role, counts) for key, counts in totals.items()}
        if any(one is not None for one in under_way.values()):
            texts = {key: count_text(one) for key, one in under_way.items()}
            yield _Extra(_UNDER_WAY, texts, 3)
    name = _latency_name(view, keys)
    if name is not None:
        for head, percent, rank in ((_P50, 50, 4), (_P99, 99, 2)):
            yield _Extra(head, {key: _latency(view, key, name, percent) for key in keys}, rank)


def _latency_name(view: BenchmarkView, keys: Sequence[WorkerKey]) -> str | None:
    """Return the latency that the workers of a role are compared by."""
    names = {view.measured[key].name for key in keys if key in view.measured}
    return next((name for name in TELLING_LATENCIES if name in names), None)


def _latency(view: BenchmarkView, key: WorkerKey, name: str, percent: float) -> str:
    measured = view.measured.get(key)
    if measured is None or measured.name != name:
        return UNKNOWN
    return ms_text(measured.whole.percentile_ns(percent))


_SILENT_US = 2_000_000
"""Who has not reported for so long when others have does nothing any more."""


def _is_over(view: BenchmarkView, key: WorkerKey) -> bool:
    """Tell whether a worker is done or dead while others go on: it is `off`."""
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
    """Return one worker: number, picture of the first act, share of a core, rates of now."""
    points = view.series[key]
    rates = "".join(rate_text(_now_per_s(points, name)).rjust(_RATE_CELLS) for _, name in acts)
    is_over = _is_over(view, key)
    if is_over:
        # Its last rates would be taken for those of now.
        rates = "–".rjust(_RATE_CELLS) * len(acts)
    spark = ""
    if acts and spark_cells:
        spark = sparkline(_rates(points[-10 * SPARK_WIDTH :], acts[0][1]), spark_cells)
    cpu = f"{points[-1].cpu_ratio:.0%}" if points else UNKNOWN
    cpu = "off" if is_over else cpu
    return f"{key[1]:>{number_cells}} {spark.rjust(spark_cells)}{cpu:>4}{rates}"
