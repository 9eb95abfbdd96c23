"""The figures of a benchmark that are read first: what flows now, and what came of it. Pure."""

from __future__ import annotations

from typing import NamedTuple

from natstui.model.bench.counts import main_latency, total_counts
from natstui.model.bench.view import BenchmarkView
from natstui.tui.bench.charts import smoothed, throughput
from natstui.tui.bench.text import ms_text
from natstui.tui.kit.sparkline import sparkline
from natstui.units import count_text, rate_text

SPARK_CELLS = 12
_RECENT_SLOTS = 100
"""Ten seconds."""


class Figure(NamedTuple):
    """One figure: what it is of, its value, its last seconds, and the look of it."""

    title: str
    value: str
    spark: str = ""
    look: str = "strong"
    color_index: int | None = None
    """Which colour of the lines of charts its picture has."""


def main_figures(view: BenchmarkView) -> list[Figure]:
    """Return the figures of a run, at most five; none where there was no run."""
    if view.planned is None:
        return []
    return _result(view) if view.finished is not None else _live(view)


def _live(view: BenchmarkView) -> list[Figure]:
    """Return what flows now."""
    counts = total_counts(view.totals.values())
    found = []
    for title, name, color in (
        ("sent", "sent_msgs", 0), ("acked", "acked_msgs", 0), ("received", "received_msgs", 1),
    ):  # fmt: skip
        if not getattr(counts, name):
            continue
        rates = smoothed(throughput(view, name))[-_RECENT_SLOTS:]
        now_per_s = next((rate for rate in reversed(rates) if rate is not None), None)
        spark = sparkline(rates, SPARK_CELLS).lstrip()
        found.append(Figure(title, f"{rate_text(now_per_s)}/s", spark, color_index=color))
    progress = view.progress
    if progress is not None and progress.pending_msgs is not None:
        behind = progress.pending_msgs + (progress.ack_pending_msgs or 0)
        found.append(Figure("behind", count_text(behind), look="warn" if behind else "ok"))
    return [*found, *_latency(view)]


def _result(view: BenchmarkView) -> list[Figure]:
    """Return what came of the run."""
    assert view.finished is not None
    books = view.finished.result.accounting
    found = []
    for title, name in (("received", "received_msgs"), ("sent", "sent_msgs")):
        rates = [rate for rate in throughput(view, name) if rate is not None]
        if rates:
            mean_per_s = sum(rates) / len(rates)
            found.append(Figure(title, f"{mean_per_s:,.0f}/s", color_index=1))
            break
    found += _latency(view)
    lost = books.lost_msgs
    if lost is not None:
        found.append(
            Figure("lost", "0 ✓" if not lost else f"{lost:,} ✖", look="bad" if lost else "ok")
        )
    return found


def _latency(view: BenchmarkView) -> list[Figure]:
    main = main_latency(view.latencies)
    if main is None:
        return []
    return [Figure(f"p99 {main[0]}", f"{ms_text(main[1].percentile_ns(99))} ms")]
