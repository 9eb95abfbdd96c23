"""What stands under a benchmark's charts: its latencies, where its messages are, what happened."""

from __future__ import annotations

from collections.abc import Sequence

from natstui.model.benchmark_counts import LATENCY_FIELDS, total_counts
from natstui.model.benchmark_view import BenchmarkView
from natstui.model.latency import bucket_low_ns
from natstui.tui.present.sections import Section, line
from natstui.units import UNKNOWN, count_text, local_text

LOG_SHOWN = 200

_PERCENTS = (("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9))
_FIGURE_WIDTH = 5


def latency_section(view: BenchmarkView) -> Section:
    """Return a table of percentiles of every latency that was measured, each also uncorrected."""
    lines, latencies = [], view.latencies
    for name in LATENCY_FIELDS:
        histogram = getattr(latencies, name)
        if histogram.total_count:
            values = [histogram.percentile_ns(percent) for _, percent in _PERCENTS]
            texts = [_ms(value) for value in (*values, histogram.max_ns)]
            look = "dim" if name.endswith("_uncorrected") else ""
            lines.append(line(name.replace("_uncorrected", " unc."), _columns(texts), look))
    if not lines:
        return Section("LATENCY", (line("", "nothing measured yet", "dim"),))
    lines.sort(key=lambda one: one.label)
    head = line("ms", _columns([*(name for name, _ in _PERCENTS), "max"]), "dim")
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


def flow_section(view: BenchmarkView) -> Section:
    """Return the sums so far and what the server holds; at the end, what the result says of it."""
    counts = total_counts(view.totals.values())
    lines = [
        line("sent", f"{counts.sent_msgs:,}"),
        line("acked", f"{counts.acked_msgs:,}"),
        line("received", f"{counts.received_msgs:,}"),
        line(
            "redelivered",
            f"{counts.redelivered_msgs:,}",
            "warn" if counts.redelivered_msgs else "",
        ),
    ]
    held = _held_msgs(view).items()
    lines += [line(label, UNKNOWN if n is None else f"{n:,}") for label, n in held]
    return Section("MESSAGES", tuple(lines))


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
