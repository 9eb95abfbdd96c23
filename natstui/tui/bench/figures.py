"""The main figures of a benchmark: the current rates, and its result. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from textual.renderables.digits import DIGITS, DIGITS3X3_BOLD

from natstui.model.bench.counts import main_latency, total_counts
from natstui.model.bench.view import BenchmarkView
from natstui.tui.bench.charts import (
    LATENCY_COLOR_INDEX,
    RECEIVED_COLOR_INDEX,
    SENT_COLOR_INDEX,
    moving_means,
    rate_now_per_s,
    recent_values,
    summed_workers,
    throughput,
    with_slot_times,
)
from natstui.tui.bench.text import ms_text
from natstui.tui.kit.sparkline import sparkline
from natstui.units import count_text, rate_text

SPARKLINE_CELLS = 12


class MainFigure(NamedTuple):
    """A main figure of a run: title, value, unit, sparkline and style."""

    title: str
    value: str
    unit: str = ""
    sparkline_text: str = ""
    style_name: str = "strong"
    color_index: int | None = None
    """Index of the chart line whose colour the sparkline has."""
    comparison_text: str = ""
    """Comparison with the last run of the same plan, as text."""

    @property
    def text(self) -> str:
        """Return the value with its unit."""
        return f"{self.value}{self.unit}"


def main_figures(view: BenchmarkView) -> list[MainFigure]:
    """Return the figures of a run, at most five; empty without a run."""
    if view.planned is None:
        return []
    return _result_figures(view) if view.finished is not None else _live_figures(view)


def _live_figures(view: BenchmarkView) -> list[MainFigure]:
    """Return the figures of a running benchmark: rates, backlog and latency."""
    counts = total_counts(view.totals.values())
    figures = []
    for title, name, color in (
        ("sent", "sent_msgs", SENT_COLOR_INDEX),
        ("acked", "acked_msgs", SENT_COLOR_INDEX),
        ("received", "received_msgs", RECEIVED_COLOR_INDEX),
    ):
        if not getattr(counts, name):
            continue
        keys = summed_workers(view, name)
        now_per_s = rate_now_per_s(view, name, keys)
        rates = moving_means(throughput(view, name))
        sparkline_text = sparkline(
            recent_values(view, with_slot_times(view, rates), SPARKLINE_CELLS), SPARKLINE_CELLS
        )
        figures.append(
            MainFigure(title, rate_text(now_per_s), "/s", sparkline_text, color_index=color)
        )
    has_pending = view.progress is not None and view.progress.pending_msgs is not None
    if view.behind_msgs and has_pending:
        behind_msgs = view.behind_msgs[-1]
        sparkline_text = sparkline(view.behind_msgs, SPARKLINE_CELLS)
        style_name = "warn" if behind_msgs else "ok"
        figures.append(
            MainFigure(
                "behind", count_text(behind_msgs), "", sparkline_text, style_name=style_name
            )
        )
    main_latency_name = _main_latency_name(view)
    p99_points = [(point.at_us, point.p99_ns.get(main_latency_name)) for point in view.seconds]
    sparkline_text = sparkline(recent_values(view, p99_points, SPARKLINE_CELLS), SPARKLINE_CELLS)
    # The latency of the newest second, as in the chart; the table has that since the start.
    p99_ns = p99_points[-1][1] if p99_points else None
    return [
        *figures,
        *(
            figure._replace(sparkline_text=sparkline_text)
            for figure in _latency_figures(view, p99_ns)
        ),
    ]


def _result_figures(view: BenchmarkView) -> list[MainFigure]:
    """Return the figures of a finished run, compared with the last run of the same plan."""
    assert view.finished is not None
    result = view.finished.result
    previous_run = view.summed.previous if view.summed is not None else None
    figures = []
    received_per_s, sent_per_s = None, None
    if previous_run is not None:
        received_per_s, sent_per_s = previous_run.receive_per_s, previous_run.publish_per_s
    for title, now_per_s, color, previous_per_s in (
        ("received", result.receive_per_s, RECEIVED_COLOR_INDEX, received_per_s),
        ("sent", result.publish_per_s, SENT_COLOR_INDEX, sent_per_s),
    ):
        if now_per_s:
            comparison_text = _change_text(
                now_per_s, previous_per_s, lambda per_s: f"{per_s:,.0f}/s"
            )
            value = f"{now_per_s:,.0f}"
            figures.append(
                MainFigure(title, value, "/s", color_index=color, comparison_text=comparison_text)
            )
            break
    previous_p99_ns = (
        previous_run.p99_ns
        if previous_run and previous_run.latency == _main_latency_name(view)
        else None
    )
    for figure in _latency_figures(view):
        name_and_histogram = main_latency(view.latencies)
        current_p99_ns = name_and_histogram and name_and_histogram[1].percentile_ns(99)
        comparison_text = _change_text(
            current_p99_ns, previous_p99_ns, lambda ns: f"{ms_text(round(ns))} ms"
        )
        figures.append(figure._replace(comparison_text=comparison_text))
    lost_msgs = result.accounting.lost_msgs
    if lost_msgs is not None:
        previous_lost_msgs = previous_run.lost_msgs if previous_run is not None else None
        comparison_text = (
            "" if previous_lost_msgs is None else f"{previous_lost_msgs:,} in the last run"
        )
        sign, style_name = (" ✖", "bad") if lost_msgs else (" ✓", "ok")
        figures.append(
            MainFigure(
                "lost",
                f"{lost_msgs:,}",
                sign,
                style_name=style_name,
                comparison_text=comparison_text,
            )
        )
    return figures


def _change_text(
    current_value: float | None, previous_value: float | None, format_value: Callable[[float], str]
) -> str:
    """Return the relative change of a figure since the last run, as text; empty if one of the
    values is missing or 0.
    """
    if not current_value or not previous_value:
        return ""
    change_text = f"{current_value / previous_value - 1:+.0%}"
    return f"{change_text} against {format_value(previous_value)} in the last run"


def _main_latency_name(view: BenchmarkView) -> str:
    name_and_histogram = main_latency(view.latencies)
    return name_and_histogram[0] if name_and_histogram is not None else ""


def _latency_figures(view: BenchmarkView, p99_ns: int | None = None) -> list[MainFigure]:
    """Return the figure of the main latency's p99: `p99_ns`, or if it is None, the p99 since the
    start.

    Empty without a measured latency.
    """
    name_and_histogram = main_latency(view.latencies)
    if name_and_histogram is None:
        return []
    text = ms_text(name_and_histogram[1].percentile_ns(99) if p99_ns is None else p99_ns)
    value, unit = text.removesuffix(" s"), " s" if text.endswith(" s") else " ms"
    return [
        MainFigure(f"p99 {name_and_histogram[0]}", value, unit, color_index=LATENCY_COLOR_INDEX)
    ]


def draw_large(number: str) -> tuple[str, ...]:
    """Return a number as three lines of large digits, drawn with box characters."""
    lines = ["", "", ""]
    for character in number:
        digit = DIGITS.find(character)
        shape = DIGITS3X3_BOLD[3 * digit : 3 * digit + 3] if digit >= 0 else ("", "", character)
        width = max(map(len, shape))
        lines = [line + part.ljust(width) for line, part in zip(lines, shape, strict=True)]
    return tuple(lines)
