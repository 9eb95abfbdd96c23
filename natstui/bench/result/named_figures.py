"""The figures of a result by name, for assertions, JSON, the screen and analyses.

Counts are messages, rates messages per second, `fairness` 0 … 1, latencies nanoseconds.
"""

from __future__ import annotations

from statistics import median

from natstui.model.bench.counts import LATENCY_FIELDS, Latencies
from natstui.model.bench.latency import PERCENTILES, LatencyCounts
from natstui.model.bench.result import BenchmarkResult

Metrics = dict[str, float | None]

COUNT_AND_RATE_NAMES = (
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
LATENCY_NAMES = ("ack", "e2e", "store", "rtt", "response", "late")
_LATENCIES_WITHOUT_DUE_TIME = frozenset(
    name for name in LATENCY_NAMES if f"{name}_uncorrected" not in LATENCY_FIELDS
)
"""Latencies that start with an event, not with a due time."""


def metrics(result: BenchmarkResult) -> Metrics:
    """Return the figures of a result by name; None if a figure does not apply.

    Rates are per second, latencies in ns.
    """
    accounting = result.accounting
    figures: Metrics = {
        "sent": accounting.sent_msgs,
        "acked": accounting.acked_msgs,
        "repeats_refused": accounting.duplicate_acked_msgs,
        "refused": accounting.refused_msgs,
        "unanswered": accounting.unanswered_msgs,
        "retried": accounting.retried_msgs,
        "stored": accounting.stored_msgs,
        "received": accounting.received_msgs,
        "lost": accounting.lost_msgs,
        "duplicates": accounting.duplicate_msgs,
        "out_of_order": accounting.out_of_order_msgs,
        "redelivered": accounting.redelivered_msgs,
        "foreign": accounting.foreign_msgs,
        "missed": accounting.missed_msgs,
        "responses": accounting.responses_msgs,
        "unresponded": accounting.unresponded_msgs,
        "publish_rate": result.publish_per_s,
        "receive_rate": result.receive_per_s,
        "fairness": result.fairness_ratio,
    }
    return figures | latency_metrics(result.latencies)


def latency_metrics(latencies: Latencies) -> Metrics:
    """Return percentiles, maximum and mean of each histogram in ns, by the name of the figure."""
    figures: Metrics = {}
    for name in LATENCY_NAMES:
        figures |= _latency_figures(name, getattr(latencies, name))
        if name not in _LATENCIES_WITHOUT_DUE_TIME:
            uncorrected_counts = getattr(latencies, f"{name}_uncorrected")
            figures |= _latency_figures(f"{name}.uncorrected", uncorrected_counts)
    return figures


def _latency_figures(name: str, histogram: LatencyCounts) -> Metrics:
    figures: Metrics = {
        f"{name}.{percentile_name}": histogram.percentile_ns(percent)
        for percentile_name, percent in PERCENTILES.items()
    }
    return figures | {f"{name}.max": histogram.max_ns, f"{name}.mean": histogram.mean_ns}


def medians(repetitions: list[Metrics]) -> Metrics:
    """Return the median of each figure over repetitions; of lost messages, the maximum."""
    median_figures: Metrics = {}
    for name in repetitions[0]:
        values = [figures[name] for figures in repetitions]
        present_values = [value for value in values if value is not None]
        median_figures[name] = median(present_values) if present_values else None
    # One repetition that loses messages, among three that do not, is no run without loss.
    lost_counts = [figures["lost"] for figures in repetitions]
    median_figures["lost"] = (
        None if None in lost_counts else max(value or 0 for value in lost_counts)
    )
    return median_figures


def metric_names() -> tuple[str, ...]:
    """Return the names of all figures."""
    figure_parts = (*PERCENTILES, "max", "mean")
    histogram_names = [
        latency_key
        for latency_name in LATENCY_NAMES
        for latency_key in (
            (latency_name,)
            if latency_name in _LATENCIES_WITHOUT_DUE_TIME
            else (latency_name, f"{latency_name}.uncorrected")
        )
    ]
    return (
        *COUNT_AND_RATE_NAMES,
        *(f"{name}.{figure_part}" for name in histogram_names for figure_part in figure_parts),
    )
