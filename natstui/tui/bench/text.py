"""A benchmark as text and series: workers, throughput, latencies, progress, account, log."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import pairwise

from natstui.clean import clean_line
from natstui.model.bench.counts import LATENCY_FIELDS, total_counts
from natstui.model.bench.latency import PERCENTILES, SHOWN_PERCENTILES, bucket_low_ns
from natstui.model.bench.plan import BenchmarkPlan
from natstui.model.bench.view import BenchmarkView, WorkerKey, WorkerPoint
from natstui.tui.kit.chart.frame import ChartData, Series
from natstui.tui.kit.sections import Line, Section, line
from natstui.tui.kit.sparkline import sparkline
from natstui.units import UNKNOWN, count_text, duration_text, local_text, rate_text

SLOT_US = 100_000
"""Width of a slot of the throughput lines; reports come a little more often."""
NOW_S = 1.0
"""A rate of now is the mean of the last second."""
SPARK_WIDTH = 20
_BESIDE_SPARK = 25
"""Cells of an act beside its sparkline: label, rate and total."""
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


def worker_sections(view: BenchmarkView, width: int) -> list[Section]:
    """Return a panel per role: its workers, each act with a sparkline, the rate and the total.

    In panels of little `width` the sparklines are shorter, so that each act is one line.
    """
    spark_cells = max(4, min(SPARK_WIDTH, width - _BESIDE_SPARK))
    roles: dict[str, list[WorkerKey]] = {}
    for key in view.series:
        roles.setdefault(key[0], []).append(key)
    return [_role(view, role, sorted(keys), spark_cells) for role, keys in roles.items()]


def _role(view: BenchmarkView, role: str, keys: list[WorkerKey], spark_cells: int) -> Section:
    lines: list[Line] = []
    for key in keys:
        points, counts = view.series[key], view.totals[key]
        cpu = points[-1].cpu_ratio
        busy = f"worker {key[1]}  CPU {cpu:.0%}"
        lines.append(line("", busy, "warn" if cpu > 0.9 else "dim"))
        for act, name in _ACTS:
            total = getattr(counts, name)
            if total:
                text = sparkline(_rates(points[-10 * SPARK_WIDTH :], name), spark_cells)
                rate = rate_text(_now_per_s(points, name))
                lines.append(line(act, f"{text} {rate:>5}/s {count_text(total):>5}"))
    return Section(f"{clean_line(role).upper()} ({len(keys)})", tuple(lines))


def summed_workers(view: BenchmarkView, name: str) -> list[WorkerKey]:
    """Return the workers whose counts are added up: of a plan with senders, not who answers."""
    plan = view.planned.plan if view.planned is not None else None
    roles = plan.roles if plan is not None else ()
    left_out = {role.name for role in roles if not role.traits.is_summed(name)}
    return [key for key in view.totals if key[0] not in left_out] or [*view.totals]


def added_up(view: BenchmarkView, name: str) -> list[float]:
    """Return messages of all workers so far, a value per slot, oldest first.

    Between two reports a worker's count grows evenly; the last value is the sum of all reports.
    """
    ends = [points[-1].at_us for points in view.series.values() if points]
    starts = [
        points[0].at_us - round(points[0].interval_s * 1e6)
        for points in view.series.values()
        if points
    ]
    if not ends:
        return []
    first_us, slots = min(starts), (max(ends) - min(starts)) // SLOT_US + 2
    total = [0.0] * slots
    for key in summed_workers(view, name):
        points = view.series[key]
        grown = _grown(points, name, getattr(view.totals[key], name), first_us, slots)
        total = [a + b for a, b in zip(total, grown, strict=True)]
    return total


def _grown(
    points: Sequence[WorkerPoint], name: str, whole: int, first_us: int, slots: int
) -> list[float]:
    """Return one worker's count at the end of each slot, by interpolation between reports."""
    # What points no longer kept counted stands at the beginning.
    at_us = points[0].at_us - round(points[0].interval_s * 1e6)
    count = float(whole - sum(getattr(point, name) for point in points))
    values: list[float] = []
    for point in points:
        more, span_us = getattr(point, name), max(1, point.at_us - at_us)
        while len(values) < slots and (slot_us := first_us + len(values) * SLOT_US) <= point.at_us:
            values.append(count + more * max(0, slot_us - at_us) / span_us)
        at_us, count = max(at_us, point.at_us), count + more
    return values + [count] * (slots - len(values))


def throughput(view: BenchmarkView, name: str) -> list[float | None]:
    """Return messages per second of all workers together, a value per slot, oldest first."""
    counts = added_up(view, name)
    if not any(counts):
        return []
    # The newest slots are not full while a worker has yet to report.
    return [(b - a) * 1e6 / SLOT_US for a, b in pairwise(counts[:-2])]


def cumulative_chart(view: BenchmarkView) -> ChartData | None:
    """Return sent against received, added up over time."""
    sent, received = added_up(view, "sent_msgs"), added_up(view, "received_msgs")
    if len(sent) < 2:
        return None
    step_s = SLOT_US / 1e6
    return ChartData(
        title="Sent and received",
        unit="msgs",
        at_s=[(at - len(sent) + 1) * step_s for at in range(len(sent))],
        series=(Series("sent", sent), Series("received", received)),
        window_s=max(5.0, len(sent) * step_s),
    )


def latency_chart(view: BenchmarkView) -> ChartData | None:
    """Return p50 and p99 over time of the latency that matters most, corrected."""
    latencies = view.latencies
    name = next(
        (n for n in ("e2e", "rtt", "ack", "store") if getattr(latencies, n).total_count), None
    )
    if name is None or len(view.seconds) < 2:
        return None
    newest_us = view.seconds[-1].at_us
    return ChartData(
        title=f"Latency {name}",
        unit="s",
        at_s=[(point.at_us - newest_us) / 1e6 for point in view.seconds],
        series=(
            Series("p50", [_s(point.p50_ns.get(name)) for point in view.seconds]),
            Series("p99", [_s(point.p99_ns.get(name)) for point in view.seconds]),
        ),
        window_s=max(5.0, (newest_us - view.seconds[0].at_us) / 1e6),
    )


def _s(latency_ns: int | None) -> float | None:
    return None if latency_ns is None else latency_ns / 1e9


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
    return Section("LATENCY since due; unc.: since sent", (head, *lines))


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


def histogram_section(view: BenchmarkView, width: int = 28) -> Section:
    """Return the distribution of the latency that matters most, in powers of two."""
    latencies = view.latencies
    for name in ("e2e", "rtt", "ack", "store"):
        histogram = getattr(latencies, name)
        if histogram.total_count:
            break
    else:
        return Section("", ())
    groups: dict[int, int] = {}
    for bucket, count in zip(histogram.buckets, histogram.counts, strict=True):
        power = max(0, bucket_low_ns(bucket)).bit_length()
        groups[power] = groups.get(power, 0) + count
    most = max(groups.values())
    lines = [
        line(
            f"< {_ms(1 << power)}",
            "█" * max(1, round(width * groups[power] / most)) + f" {count_text(groups[power])}",
        )
        for power in range(min(groups), max(groups) + 1)
        if power in groups
    ]
    return Section(f"DISTRIBUTION of {name} in ms", tuple(lines))


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
    lines = [
        line("sent", f"{sent:,}"),
        line("acked", f"{counts.acked_msgs:,}"),
        *(
            line(label, f"{count:,}", "warn")
            for label, name in _NOT_STORED
            if (count := getattr(counts, name))
        ),
        line("received", f"{received:,}"),
        *((line("responses", f"{responses:,}"),) if responses else ()),
        line(
            "redelivered",
            f"{counts.redelivered_msgs:,}",
            "warn" if counts.redelivered_msgs else "",
        ),
    ]
    held = _held_msgs(view).items()
    lines += [line(label, UNKNOWN if n is None else f"{n:,}") for label, n in held]
    return Section("MESSAGES", tuple(lines))


def _sum(view: BenchmarkView, name: str) -> int:
    return sum(getattr(view.totals[key], name) for key in summed_workers(view, name))


def _held_msgs(view: BenchmarkView) -> dict[str, int | None]:
    """Return what the server holds: of a run that is over, its result, as polls end before it."""
    if view.finished is not None:
        books = view.finished.result.accounting
        return {"stored": books.stored_msgs, "lost": books.lost_msgs}
    if view.progress is None:
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
