"""The main figures of a benchmark: the current rates, and its result. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from textual.renderables.digits import DIGITS, DIGITS3X3_BOLD

from natstui.model.bench.counts import main_latency, total_counts
from natstui.model.bench.view import BenchmarkView
from natstui.tui.bench.charts import (
    LATENCY_COLOR,
    RECEIVED_COLOR,
    SENT_COLOR,
    rate_now_per_s,
    recent_values,
    smooth,
    summed_workers,
    throughput,
    with_slot_times,
)
from natstui.tui.bench.text import ms_text
from natstui.tui.kit.sparkline import sparkline
from natstui.units import count_text, rate_text

SPARK_CELLS = 12


class Figure(NamedTuple):
    """A main figure of a run: title, value, unit, sparkline and style."""

    title: str
    value: str
    unit: str = ""
    spark: str = ""
    style_name: str = "strong"
    color_index: int | None = None
    """Index of the chart line whose colour the sparkline has."""
    before: str = ""
    """Comparison with the last run of the same plan, as text."""

    @property
    def text(self) -> str:
        """Return the value with its unit."""
        return f"{self.value}{self.unit}"


def main_figures(view: BenchmarkView) -> list[Figure]:
    """Return the figures of a run, at most five; empty without a run."""
    if view.planned is None:
        return []
    return _result_figures(view) if view.finished is not None else _live_figures(view)


def _live_figures(view: BenchmarkView) -> list[Figure]:
    """Return the figures of a running benchmark: rates, backlog and latency."""
    counts = total_counts(view.totals.values())
    figures = []
    for title, name, color in (
        ("sent", "sent_msgs", SENT_COLOR),
        ("acked", "acked_msgs", SENT_COLOR),
        ("received", "received_msgs", RECEIVED_COLOR),
    ):
        if not getattr(counts, name):
            continue
        keys = summed_workers(view, name)
        now_per_s = rate_now_per_s(view, name, keys)
        rates = smooth(throughput(view, name))
        spark = sparkline(
            recent_values(view, with_slot_times(view, rates), SPARK_CELLS), SPARK_CELLS
        )
        figures.append(Figure(title, rate_text(now_per_s), "/s", spark, color_index=color))
    has_pending = view.progress is not None and view.progress.pending_msgs is not None
    if view.behind_msgs and has_pending:
        behind_msgs = view.behind_msgs[-1]
        spark = sparkline(view.behind_msgs, SPARK_CELLS)
        style_name = "warn" if behind_msgs else "ok"
        figures.append(Figure("behind", count_text(behind_msgs), "", spark, style_name=style_name))
    main_name = _main_name(view)
    p99s = [(point.at_us, point.p99_ns.get(main_name)) for point in view.seconds]
    spark = sparkline(recent_values(view, p99s, SPARK_CELLS), SPARK_CELLS)
    # The latency of the newest second, as in the chart; the table has that since the start.
    p99_ns = p99s[-1][1] if p99s else None
    return [*figures, *(figure._replace(spark=spark) for figure in _latency_figures(view, p99_ns))]


def _result_figures(view: BenchmarkView) -> list[Figure]:
    """Return the figures of a finished run, compared with the last run of the same plan."""
    assert view.finished is not None
    result = view.finished.result
    previous = view.summed.previous if view.summed is not None else None
    figures = []
    received_per_s, sent_per_s = None, None
    if previous is not None:
        received_per_s, sent_per_s = previous.receive_per_s, previous.publish_per_s
    for title, now_per_s, color, before_per_s in (
        ("received", result.receive_per_s, RECEIVED_COLOR, received_per_s),
        ("sent", result.publish_per_s, SENT_COLOR, sent_per_s),
    ):
        if now_per_s:
            before = _change_text(now_per_s, before_per_s, lambda per_s: f"{per_s:,.0f}/s")
            value = f"{now_per_s:,.0f}"
            figures.append(Figure(title, value, "/s", color_index=color, before=before))
            break
    p99_ns = previous.p99_ns if previous and previous.latency == _main_name(view) else None
    for figure in _latency_figures(view):
        main = main_latency(view.latencies)
        now_ns = main and main[1].percentile_ns(99)
        before = _change_text(now_ns, p99_ns, lambda ns: f"{ms_text(round(ns))} ms")
        figures.append(figure._replace(before=before))
    lost_msgs = result.accounting.lost_msgs
    if lost_msgs is not None:
        before_msgs = previous.lost_msgs if previous is not None else None
        before = "" if before_msgs is None else f"{before_msgs:,} in the last run"
        sign, style_name = (" ✖", "bad") if lost_msgs else (" ✓", "ok")
        figures.append(
            Figure("lost", f"{lost_msgs:,}", sign, style_name=style_name, before=before)
        )
    return figures


def _change_text(now: float | None, before: float | None, text: Callable[[float], str]) -> str:
    """Return the relative change of a figure since the last run, as text; empty without both."""
    if not now or not before:
        return ""
    return f"{now / before - 1:+.0%} against {text(before)} in the last run"


def _main_name(view: BenchmarkView) -> str:
    main = main_latency(view.latencies)
    return main[0] if main is not None else ""


def _latency_figures(view: BenchmarkView, p99_ns: int | None = None) -> list[Figure]:
    """Return a figure with `p99_ns`, without it with the p99 of the main latency since the start.

    Empty without a measured latency.
    """
    main = main_latency(view.latencies)
    if main is None:
        return []
    text = ms_text(main[1].percentile_ns(99) if p99_ns is None else p99_ns)
    value, unit = text.removesuffix(" s"), " s" if text.endswith(" s") else " ms"
    return [Figure(f"p99 {main[0]}", value, unit, color_index=LATENCY_COLOR)]


def draw_large(number: str) -> tuple[str, ...]:
    """Return a number in three lines of box drawing."""
    lines = ["", "", ""]
    for character in number:
        digit = DIGITS.find(character)
        shape = DIGITS3X3_BOLD[3 * digit : 3 * digit + 3] if digit >= 0 else ("", "", character)
        width = max(map(len, shape))
        lines = [line + part.ljust(width) for line, part in zip(lines, shape, strict=True)]
    return tuple(lines)
