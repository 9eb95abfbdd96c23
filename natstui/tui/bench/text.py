"""A benchmark as text and series: workers, throughput, latencies, progress, account, log."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from natstui.clean import clean_line
from natstui.model.bench.counts import LATENCY_FIELDS, LATENCY_WORDS, total_counts
from natstui.model.bench.latency import PERCENTILES, SHOWN_PERCENTILES, bucket_low_ns
from natstui.model.bench.plan import BenchmarkPlan
from natstui.model.bench.view import BenchmarkView, WorkerKey, WorkerPoint
from natstui.tui.bench.charts import main_latency, summed_workers
from natstui.tui.kit.sections import Section, line
from natstui.tui.kit.sparkline import sparkline
from natstui.units import UNKNOWN, count_text, duration_text, local_text, rate_text

NOW_S = 1.0
"""A rate of now is the mean of the last second."""
SPARK_WIDTH = 20
_NARROW = 100
_SUMMARY_LABEL = 13
"""Where values of a summary begin."""


def title_text(view: BenchmarkView, width: int = 120) -> str:
    """Return title, phase, progress and time left, a shorter bar where there is little room."""
    if view.planned is None:
        return "no benchmark has run"
    progress = view.progress
    parts = [clean_line(view.planned.plan.title), view.phase]
    if progress is not None and view.finished is None:
        if progress.done_ratio is not None:
            cells = 20 if width >= _NARROW else 8
            parts.append(f"{bar(progress.done_ratio, cells)} {progress.done_ratio:.0%}")
        parts.append(duration_text(progress.elapsed_s))
        if progress.left_s is not None:
            parts.append(f"{duration_text(progress.left_s)} left")
    if view.finished is not None:
        result = view.finished.result
        parts.append(f"{result.verdict}{' · PARTIAL' if result.partial else ''}")
    return "  ·  ".join(parts)


def bar(ratio: float, width: int = 20) -> str:
    """Return a progress bar."""
    full = round(max(0.0, min(1.0, ratio)) * width)
    return "█" * full + "░" * (width - full)


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


def worker_sections(view: BenchmarkView, width: int) -> list[Section]:
    """Return a panel per role: its workers in as many columns as `width` has room for.

    Of each: what it does a second now, after a picture of the last seconds, and how much of a
    core it takes; where there is room, its share of all that the role did, and what came again.
    In panels of little width the pictures are shorter.
    """
    roles: dict[str, list[WorkerKey]] = {}
    for key in view.series:
        roles.setdefault(key[0], []).append(key)
    return [_role(view, role, sorted(keys), width) for role, keys in roles.items()]


def _role(view: BenchmarkView, role: str, keys: list[WorkerKey], width: int) -> Section:
    acts = [
        (act, name) for act, name in _ACTS if any(getattr(view.totals[key], name) for key in keys)
    ]
    beside = len(str(keys[-1][1])) + 5 + _RATE_CELLS * len(acts)
    columns = max(1, min(len(keys), (width + _BETWEEN) // (beside + SPARK_WIDTH // 2 + _BETWEEN)))
    room = (width + _BETWEEN) // columns - _BETWEEN
    sums = _sums(view, keys, acts) if room >= beside + SPARK_WIDTH // 2 + _SUMS_CELLS else {}
    sums_cells = sum(len(head) for head in next(iter(sums.values()), {}))
    spark_cells = max(0, min(SPARK_WIDTH, room - beside - sums_cells - 1))
    heads = "".join(f"{act}/s".rjust(_RATE_CELLS) for act, _ in acts)
    head = " " * (beside + spark_cells - len(heads) - 4) + " CPU" + heads
    head += "".join(next(iter(sums.values()), {}))
    title = f"{clean_line(role).upper()} ({len(keys)})"
    texts = [
        _worker(view, key, acts, spark_cells, len(str(keys[-1][1])))
        + "".join(text.rjust(len(head)) for head, text in sums.get(key, {}).items())
        for key in keys
    ]
    rows = -(-len(texts) // columns)
    lines = [line("", (" " * _BETWEEN).join([head] * columns), "dim")]
    for row in range(rows):
        busy = any(_is_busy(view, key) for key in keys[row::rows])
        lines.append(line("", (" " * _BETWEEN).join(texts[row::rows]), "warn" if busy else ""))
    return Section(title, tuple(lines))


def _sums(
    view: BenchmarkView, keys: list[WorkerKey], acts: Sequence[tuple[str, str]]
) -> dict[WorkerKey, dict[str, str]]:
    """Return by worker, under their heads, its share of the role's work and its redeliveries."""
    if len(keys) < 2 or not acts:
        return {}
    does = acts[0][1]
    whole = sum(getattr(view.totals[key], does) for key in keys)
    sums = {key: {_SHARE: f"{getattr(view.totals[key], does) / whole:.0%}"} for key in keys}
    if any(view.totals[key].redelivered_msgs for key in keys):
        for key, texts in sums.items():
            texts[_AGAIN] = count_text(view.totals[key].redelivered_msgs)
    return sums


_SHARE, _AGAIN = "  share", "   again"
_SUMS_CELLS = len(_SHARE) + len(_AGAIN)
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


def hanging(text: str, width: int) -> str:
    """Return a summary with lines too long for `width` cells continued below their value."""
    indent = " " * min(_SUMMARY_LABEL, width // 3)
    lines = []
    for one in text.splitlines():
        lines += textwrap.wrap(one, max(width, 20), subsequent_indent=indent) or [""]
    return "\n".join(lines)


def steered_role(plan: BenchmarkPlan) -> str | None:
    """Return the role that add and kill act on: the first that receives, else the first."""
    receiving = [role.name for role in plan.roles if role.traits.receives]
    return next(iter(receiving or [role.name for role in plan.roles]), None)


LOG_SHOWN = 200

_PERCENTS = tuple(PERCENTILES[name] for name in SHOWN_PERCENTILES)
_FIGURE_WIDTH = 5


def latency_section(view: BenchmarkView) -> Section:
    """Return a table of percentiles of every latency that was measured, each also uncorrected."""
    lines, latencies = [], view.latencies
    for name in LATENCY_FIELDS:
        histogram = getattr(latencies, name)
        if histogram.total_count:
            values = [histogram.percentile_ns(percent) for percent in _PERCENTS]
            texts = [_ms(value) for value in (*values, histogram.max_ns)]
            look = "dim" if name.endswith("_uncorrected") else ""
            lines.append(line(name.replace("_uncorrected", " unc."), _columns(texts), look))
    if not lines:
        return Section("LATENCY", (line("", "nothing measured yet", "dim"),))
    lines.sort(key=lambda one: one.label)
    head = line("ms", _columns([*(f"p{percent:g}" for percent in _PERCENTS), "max"]), "dim")
    words = [
        line(one.label, LATENCY_WORDS[one.label], "dim")
        for one in lines
        if one.label in LATENCY_WORDS
    ]
    return Section("LATENCY since due; unc.: since sent", (head, *lines, *words))


def _columns(texts: Sequence[str]) -> str:
    return " ".join(text.rjust(_FIGURE_WIDTH) for text in texts)


def _ms(latency_ns: int | None) -> str:
    """Return milliseconds in at most five cells, never as a power of ten."""
    if latency_ns is None:
        return UNKNOWN
    ms = latency_ns / 1e6
    if ms >= 99_999.5:
        return f"{ms / 1000:.0f} s"
    return f"{ms:.0f}" if ms >= 99.95 else f"{ms:.1f}" if ms >= 9.995 else f"{ms:.2f}"


def distribution_section(view: BenchmarkView, width: int, most_rows: int = 64) -> Section:
    """Return how many messages had which latency, in powers of two, percentiles marked.

    Where there are fewer rows than powers, the quickest share the first row.

    Bars go by powers of ten: a tail of one in ten thousand is seen beside the many.
    """
    main = main_latency(view)
    if main is None:
        return Section("", ())
    name, histogram = main
    groups: dict[int, int] = {}
    for bucket, count in zip(histogram.buckets, histogram.counts, strict=True):
        power = _power(bucket_low_ns(bucket))
        groups[power] = groups.get(power, 0) + count
    first, quick = min(groups), 0
    while first < max(groups) and (
        max(groups) - first >= most_rows
        # Of those that were quicker than nearly all, one row says enough.
        or quick + groups.get(first, 0) <= histogram.total_count // 100
    ):
        quick += groups.get(first, 0)
        first += 1
    groups[first] = groups.get(first, 0) + quick
    marks: dict[int, list[str]] = {}
    for mark in SHOWN_PERCENTILES:
        at_ns = histogram.percentile_ns(PERCENTILES[mark])
        if at_ns is not None:
            marks.setdefault(max(first, _power(at_ns)), []).append(f"p{PERCENTILES[mark]:g}")
    most = math.log10(max(groups.values()) + 1)
    room = max(4, width - _BESIDE_BAR)
    lines = []
    for power in range(first, max(groups) + 1):
        count = groups.get(power, 0)
        bar_text = "█" * round(room * math.log10(count + 1) / most)
        told = f"{bar_text.ljust(room)} {count_text(count):>5}"
        lines.append(line(f"< {_ms(1 << power)}", f"{told}  {_together(marks.get(power, []))}"))
    return Section(f"DISTRIBUTION {name}, ms; log bars", tuple(lines))


def _together(marks: Sequence[str]) -> str:
    """Return the percentiles in one row: there is room for two."""
    return " ".join(marks) if len(marks) <= 2 else f"{marks[0]}…{marks[-1]}"


_BESIDE_BAR = 28
"""Cells of a row of the distribution beside its bar: limit, count and two percentiles."""


def _power(latency_ns: int) -> int:
    """Return the power of two that a latency is below."""
    return max(0, latency_ns).bit_length()


_NOT_STORED = (
    ("repeats", "duplicate_acked_msgs"),
    ("refused", "refused_msgs"),
    ("unanswered", "unanswered_msgs"),
    ("sent again", "retried_msgs"),
)
"""Where else a message that was sent may be; `repeats` are those the stream had already."""


def flow_section(view: BenchmarkView) -> Section:
    """Return the sums so far and what the server holds; at the end, what the result says of it."""
    counts = total_counts(view.totals.values())
    sent, received = _sum(view, "sent_msgs"), _sum(view, "received_msgs")
    responses = counts.received_msgs - received
    stores = view.planned is None or view.planned.plan.stream is not None
    lines = [
        line("sent", f"{sent:,}"),
        *((line("acked", f"{counts.acked_msgs:,}"),) if stores else ()),
        *(
            line(label, f"{count:,}", "warn")
            for label, name in _NOT_STORED
            if (count := getattr(counts, name))
        ),
        line("received", f"{received:,}"),
        *((line("responses", f"{responses:,}"),) if responses else ()),
    ]
    if stores:
        again = counts.redelivered_msgs
        lines.append(line("redelivered", f"{again:,}", "warn" if again else ""))
    held = _held_msgs(view, stores=stores).items()
    lines += [line(label, UNKNOWN if n is None else f"{n:,}") for label, n in held]
    return Section("MESSAGES", tuple(lines))


def _sum(view: BenchmarkView, name: str) -> int:
    return sum(getattr(view.totals[key], name) for key in summed_workers(view, name))


def _held_msgs(view: BenchmarkView, *, stores: bool) -> dict[str, int | None]:
    """Return what the server holds: of a run that is over, its result, as polls end before it."""
    if view.finished is not None:
        books = view.finished.result.accounting
        stored: dict[str, int | None] = {"stored": books.stored_msgs} if stores else {}
        return stored | {"lost": books.lost_msgs}
    if view.progress is None or not stores:
        return {}
    now = view.progress
    return {
        "stored": now.stored_msgs,
        "pending": now.pending_msgs,
        "ack pending": now.ack_pending_msgs,
    }


def log_section(view: BenchmarkView) -> Section:
    """Return what happened, newest first."""
    lines = [
        line(local_text(it.at_us), (f"{it.worker}: " if it.worker else "") + it.text)
        for it in reversed(view.log[-LOG_SHOWN:])
    ]
    return Section("LOG", tuple(lines) or (line("", "nothing yet", "dim"),))
