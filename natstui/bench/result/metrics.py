"""The names of a result's figures: the same in assertions, JSON, on the screen and in analyses.

Counts are messages, rates messages per second, `fairness` 0 … 1, latencies nanoseconds.
"""

from __future__ import annotations

from statistics import median

from natstui.model.bench.counts import LATENCY_FIELDS, Latencies
from natstui.model.bench.latency import PERCENTILES, LatencyCounts
from natstui.model.bench.result import BenchmarkResult

Metrics = dict[str, float | None]

COUNTS = (
    "sent",
    "acked",
    "repeats_refused",
    "refused",
    "unanswered",
    "retried",
    "stored",
    "received",
    "lost",
    "duplicates",
    "out_of_order",
    "redelivered",
    "foreign",
    "missed",
    "responses",
    "unresponded",
    "publish_rate",
    "receive_rate",
    "fairness",
)
LATENCIES = ("ack", "e2e", "store", "rtt", "response", "late")
_UNSCHEDULED = frozenset(n for n in LATENCIES if f"{n}_uncorrected" not in LATENCY_FIELDS)
"""What begins with an event, not with a due time."""


def metrics(result: BenchmarkResult) -> Metrics:
    """Return every figure of a result by its name; None where it does not apply."""
    books = result.accounting
    found: Metrics = {
        "sent": books.sent_msgs,
        "acked": books.acked_msgs,
        "repeats_refused": books.duplicate_acked_msgs,
        "refused": books.refused_msgs,
        "unanswered": books.unanswered_msgs,
        "retried": books.retried_msgs,
        "stored": books.stored_msgs,
        "received": books.received_msgs,
        "lost": books.lost_msgs,
        "duplicates": books.duplicate_msgs,
        "out_of_order": books.out_of_order_msgs,
        "redelivered": books.redelivered_msgs,
        "foreign": books.foreign_msgs,
        "missed": books.missed_msgs,
        "responses": books.responses_msgs,
        "unresponded": books.unresponded_msgs,
        "publish_rate": result.publish_per_s,
        "receive_rate": result.receive_per_s,
        "fairness": result.fairness_ratio,
    }
    return found | latency_metrics(result.latencies)


def latency_metrics(latencies: Latencies) -> Metrics:
    """Return the figures of histograms by their names."""
    found: Metrics = {}
    for name in LATENCIES:
        found |= _latency(name, getattr(latencies, name))
        if name not in _UNSCHEDULED:
            uncorrected = getattr(latencies, f"{name}_uncorrected")
            found |= _latency(f"{name}.uncorrected", uncorrected)
    return found


def _latency(name: str, histogram: LatencyCounts) -> Metrics:
    found: Metrics = {
        f"{name}.{part}": histogram.percentile_ns(percent) for part, percent in PERCENTILES.items()
    }
    return found | {f"{name}.max": histogram.max_ns, f"{name}.mean": histogram.mean_ns}


def medians(many: list[Metrics]) -> Metrics:
    """Return the median of each figure over repetitions; of lost messages, the most."""
    together: Metrics = {}
    for name in many[0]:
        values = [one[name] for one in many]
        known = [value for value in values if value is not None]
        together[name] = median(known) if known else None
    # One repetition that loses messages, among three that do not, is no run without loss.
    lost = [one["lost"] for one in many]
    together["lost"] = None if None in lost else max(value or 0 for value in lost)
    return together


def metrics_names() -> tuple[str, ...]:
    """Return the names of all figures."""
    parts = (*PERCENTILES, "max", "mean")
    kinds = [
        k for n in LATENCIES for k in ((n,) if n in _UNSCHEDULED else (n, f"{n}.uncorrected"))
    ]
    return (*COUNTS, *(f"{kind}.{part}" for kind in kinds for part in parts))
