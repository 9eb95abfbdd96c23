"""A running benchmark as text and series: workers, throughput, latencies, progress, log."""

from __future__ import annotations

from collections.abc import Sequence

from natstui.clean import clean_line
from natstui.model.benchmark_counts import LATENCY_FIELDS, total_counts
from natstui.model.benchmark_role import RECEIVERS, BenchmarkPlan
from natstui.model.benchmark_view import BenchmarkView, WorkerKey, WorkerPoint
from natstui.model.latency import bucket_low_ns
from natstui.tui.present.events import clock_text
from natstui.tui.present.sections import Line, Section, line
from natstui.tui.spark import sparkline
from natstui.tui.widgets.plot_frame import ChartData, Series
from natstui.units import UNKNOWN, count_text, duration_text, rate_text

SLOT_US = 100_000
"""Width of a slot of the throughput lines; reports come a little more often."""
NOW_S = 1.0
"""A rate of now is the mean of the last second."""
SPARK_WIDTH = 16
LOG_SHOWN = 200


def title_text(view: BenchmarkView) -> str:
    """Return title, phase, progress and time left."""
    if view.planned is None:
        return "no benchmark has run"
    progress = view.progress
    parts = [clean_line(view.planned.plan.title), view.phase]
    if progress is not None and view.finished is None:
        if progress.done_ratio is not None:
            parts.append(bar(progress.done_ratio) + f" {progress.done_ratio:.0%}")
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
    ("acknowledged", "acked_msgs"),
    ("received", "received_msgs"),
    ("acks", "acks_sent_msgs"),
)


def worker_sections(view: BenchmarkView) -> list[Section]:
    """Return a panel per role: its workers, each act with a sparkline, the rate and the total."""
    roles: dict[str, list[WorkerKey]] = {}
    for key in view.series:
        roles.setdefault(key[0], []).append(key)
    return [_role(view, role, sorted(keys)) for role, keys in roles.items()]


def _role(view: BenchmarkView, role: str, keys: list[WorkerKey]) -> Section:
    lines: list[Line] = []
    for key in keys:
        points, counts = view.series[key], view.totals[key]
        cpu = points[-1].cpu_ratio
        busy = f"worker {key[1]}  CPU {cpu:.0%}"
        lines.append(line("", busy, "warn" if cpu > 0.9 else "dim"))
        for act, name in _ACTS:
            total = getattr(counts, name)
            if total:
                text = sparkline(_rates(points[-10 * SPARK_WIDTH :], name), SPARK_WIDTH)
                rate = rate_text(_now_per_s(points, name))
                lines.append(line(act, f"{text} {rate:>6}/s {count_text(total):>6}"))
    return Section(f"{clean_line(role).upper()} ({len(keys)})", tuple(lines))


def throughput(view: BenchmarkView, name: str) -> list[float | None]:
    """Return messages per second of all workers together, a value per slot, oldest first."""
    slots: dict[int, float] = {}
    for points in view.series.values():
        for point in points:
            # A report counts for the slots its interval covers, so that none doubles or lacks.
            end, left = point.at_us, max(point.interval_s, 1e-3)
            per_s = getattr(point, name) / left
            for slot in range(round((end - left * 1e6) / SLOT_US), round(end / SLOT_US)):
                slots[slot] = slots.get(slot, 0.0) + per_s
    if not slots:
        return []
    first, last = min(slots), max(slots)
    # The newest slot is not full while a worker has yet to report.
    return [slots.get(slot) for slot in range(first, last)]


def cumulative_chart(view: BenchmarkView) -> ChartData | None:
    """Return sent against received, added up over time."""
    sent, received = throughput(view, "sent_msgs"), throughput(view, "received_msgs")
    length = max(len(sent), len(received))
    if length < 2:
        return None
    step_s = SLOT_US / 1e6
    return ChartData(
        title="Sent and received",
        unit="msgs",
        at_s=[(at - length + 1) * step_s for at in range(length)],
        series=(
            Series("sent", _added_up(sent, length)),
            Series("received", _added_up(received, length)),
        ),
        window_s=max(5.0, length * step_s),
    )


def _added_up(rates: Sequence[float | None], length: int) -> list[float]:
    total, values = 0.0, []
    for rate in [0.0] * (length - len(rates)) + list(rates):
        total += (rate or 0.0) * SLOT_US / 1e6
        values.append(total)
    return values


def latency_chart(view: BenchmarkView) -> ChartData | None:
    """Return p50 and p99 over time of the latency that matters most, corrected."""
    name = next((n for n in ("e2e", "rtt", "ack", "store") if getattr(view.latencies, n).total_count),
                None)
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


_PERCENTS = (("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9))


def latency_section(view: BenchmarkView) -> Section:
    """Return percentiles of every latency that was measured, corrected and uncorrected."""
    lines = []
    for name in LATENCY_FIELDS:
        histogram = getattr(view.latencies, name)
        if not histogram.total_count:
            continue
        values = [f"{p} {_ms(histogram.percentile_ns(percent))}" for p, percent in _PERCENTS]
        values.append(f"max {_ms(histogram.max_ns)}")
        lines.append(line(name.replace("_", " "), "  ".join(values)))
    title = "LATENCY in ms, from when each message was due; uncorrected: from when it was sent"
    return Section(title, tuple(lines) or (line("", "nothing measured yet", "dim"),))


def _ms(latency_ns: int | None) -> str:
    return UNKNOWN if latency_ns is None else f"{latency_ns / 1e6:.3g}"


def histogram_section(view: BenchmarkView, width: int = 28) -> Section:
    """Return the distribution of the latency that matters most, in powers of two."""
    for name in ("e2e", "rtt", "ack", "store"):
        histogram = getattr(view.latencies, name)
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
        line(f"< {_ms(1 << power)}", "█" * max(1, round(width * groups[power] / most)) +
             f" {count_text(groups[power])}")
        for power in range(min(groups), max(groups) + 1)
        if power in groups
    ]
    return Section(f"DISTRIBUTION of {name} in ms", tuple(lines))


def flow_section(view: BenchmarkView) -> Section:
    """Return what the server holds and the sums so far."""
    counts, progress = total_counts(view.totals.values()), view.progress
    lines = [
        line("sent", f"{counts.sent_msgs:,}"),
        line("acknowledged", f"{counts.acked_msgs:,}"),
        line("received", f"{counts.received_msgs:,}"),
        line("redelivered", f"{counts.redelivered_msgs:,}", "warn" if counts.redelivered_msgs
             else ""),
    ]
    if progress is not None:
        for label, value in (
            ("stored", progress.stored_msgs),
            ("pending", progress.pending_msgs),
            ("ack pending", progress.ack_pending_msgs),
        ):
            lines.append(line(label, UNKNOWN if value is None else f"{value:,}"))
    return Section("MESSAGES", tuple(lines))


def log_section(view: BenchmarkView) -> Section:
    """Return what happened, newest first."""
    lines = [
        line(clock_text(it.at_us)[:8], (f"{it.worker}: " if it.worker else "") + it.text)
        for it in reversed(view.log[-LOG_SHOWN:])
    ]
    return Section("LOG", tuple(lines) or (line("", "nothing yet", "dim"),))


def steered_role(plan: BenchmarkPlan) -> str | None:
    """Return the role that add and kill act on: the first that receives, else the first."""
    receiving = [role.name for role in plan.roles if role.pattern in RECEIVERS]
    return next(iter(receiving or [role.name for role in plan.roles]), None)
