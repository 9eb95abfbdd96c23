"""Charts of a report: lines over time, a heat map of redeliveries, slopes of a comparison."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from natstui.analysis.report.axis import (
    PLOT_WIDTH,
    Axis,
    chart_frame_html,
    escape_text,
    render_plot,
    round_up_height,
)
from natstui.analysis.report.sections import Result, ResultRow, family_sizes, find_family, rows_of
from natstui.units import counted, duration_text, rate_text


class ChartLine(NamedTuple):
    """A line of a chart; a value of None interrupts it."""

    name: str
    times_us: Sequence[int]
    values: Sequence[float | None]


_CHART_HEIGHT = 100
_MIN_POINTS_COUNT = 3
"""Minimum number of buckets of a consumer that has a chart, if any consumer has so many."""
_HEAT_MAP_LANE_HEIGHT = 10
_HEAT_MAP_SHADES_COUNT = 5
MAX_SLOPES_COUNT = 24
_SLOPE_WIDTH, _SLOPE_HEIGHT, _LEFT_X, _RIGHT_X, _TOP_Y, _BOTTOM_Y = (
    260,
    110,
    60,
    180,
    14,
    96,
)
_VERDICT_ORDER = ("slower", "more", "less", "faster")


def render_line_chart(
    title: str,
    lines: Sequence[ChartLine],
    axis: Axis,
    *,
    is_small: bool = False,
    has_ticks: bool = True,
) -> str:
    """Return the HTML of a line chart; empty without values."""
    present_values = [value for _, _, values in lines for value in values if value is not None]
    if not present_values:
        return ""
    top = round_up_height(present_values)
    legend_html = "".join(
        f'<span class="key key{number}">{escape_text(name)}</span>'
        for number, (name, _, _) in enumerate(lines)
    )
    grid_lines = "".join(f"M0 {y}H{PLOT_WIDTH}" for y in (0, _CHART_HEIGHT // 2, _CHART_HEIGHT))
    grid_html = f'<path class="rail" d="{grid_lines}"/>'
    lines_html = [
        f'<path class="line line{number}" d="{_line_path(times_us, values, axis, top)}"/>'
        for number, (_, times_us, values) in enumerate(lines)
    ]
    heights_html = "".join(
        f"<span>{_height_text(top * share)}</span>" for share in (1.0, 0.5, 0.0)
    )
    plot_html = render_plot(
        "small" if is_small else "large", _CHART_HEIGHT, [grid_html, *lines_html]
    )
    content_html = (
        f'<div class="keys">{legend_html}<span class="value"></span></div>'
        f'<div class="with"><div class="ys">{heights_html}</div>'
        f"{plot_html}</div>"
        f"{axis.ticks() if has_ticks else ''}"
    )
    return chart_frame_html("lines", title, _describe_lines(lines), content_html, top)


def _height_text(value: float) -> str:
    """Return the text beside a grid line; a value below 0.01 has a significant digit."""
    return f"{value:.1g}" if 0 < value < 0.01 else rate_text(value)


def _describe_lines(lines: Sequence[ChartLine]) -> str:
    line_texts = []
    for name, _, values in lines:
        present_values = [value for value in values if value is not None]
        if present_values:
            line_texts.append(
                f"{name}: from {rate_text(min(present_values))} "
                f"to {rate_text(max(present_values))}, at the end {rate_text(present_values[-1])}"
            )
    return "; ".join(line_texts)


def _line_path(
    times_us: Sequence[int], values: Sequence[float | None], axis: Axis, top: float
) -> str:
    point_groups: list[list[str]] = [[]]
    for at_us, value in zip(times_us, values, strict=True):
        if value is None:
            point_groups.append([])
        else:
            point_groups[-1].append(
                f"{axis.x(at_us):.0f} {_CHART_HEIGHT - value / top * _CHART_HEIGHT:.1f}"
            )
    # A single point has no length; a short stroke makes it visible.
    segment_paths = (
        "L".join(part) if len(part) > 1 else f"{part[0]}h4" for part in point_groups if part
    )
    return "".join(f"M{points}" for points in segment_paths)


def _consumer_title(row: ResultRow) -> str:
    return f"{row['stream']} > {row['consumer']}"


def _charted_consumers(result: Result, session: str) -> list[list[ResultRow]]:
    """Return the buckets of each charted consumer, the worst first."""
    rows = [row for row in rows_of(result, "picture", session) if row["rank"]]
    series = [list(buckets) for _, buckets in groupby(rows, key=lambda row: row["rank"])]
    series = [buckets for buckets in series if len(buckets) >= _MIN_POINTS_COUNT] or series
    # Of a family of ephemeral consumers only the worst has a chart.
    size_by_family = family_sizes(result)
    buckets_by_family: dict[object, list[ResultRow]] = {}
    for buckets in series:
        buckets_by_family.setdefault(
            find_family(buckets[0], size_by_family) or buckets[0]["rank"], buckets
        )
    return list(buckets_by_family.values())


def render_load_charts(result: Result, session: str, axis: Axis) -> str:
    """Return the HTML of two charts of all streams and consumers: rates, and pending messages."""
    rows = [row for row in rows_of(result, "picture", session) if not row["rank"]]
    rates = {"published": "published_per_s", "delivered": "delivered_per_s"}
    pending = {"pending": "pending_msgs"}
    return _render_figure(
        "Messages per second, all streams and consumers", rows, rates, axis, is_small=False
    ) + _render_figure("Messages pending, all consumers", rows, pending, axis, is_small=False)


def render_consumer_charts(result: Result, session: str, axis: Axis) -> str:
    """Return the HTML of three charts per charted consumer: pending, lag and rate."""
    parts = []
    for rows in _charted_consumers(result, session):
        charts_html = (
            _render_figure(
                "pending", rows, {"messages pending": "pending_msgs"}, axis, is_small=True
            )
            + _render_figure(
                "lag", rows, {"oldest message waits, s": "behind_max_s"}, axis, is_small=True
            )
            + _render_figure(
                "delivered/s", rows, {"delivered/s": "delivered_per_s"}, axis, is_small=True
            )
        )
        if charts_html:
            parts.append(
                f'<div class="one"><h4>{escape_text(_consumer_title(rows[0]))}</h4>'
                f"{charts_html}</div>"
            )
    return f'<div class="multiples">{"".join(parts)}</div>' if parts else ""


def _render_figure(
    title: str, rows: list[ResultRow], columns: dict[str, str], axis: Axis, *, is_small: bool
) -> str:
    times_us = [row["bucket_at_us"] for row in rows]
    lines = [
        ChartLine(name, times_us, [row[column] for row in rows])
        for name, column in columns.items()
    ]
    name = f"{title} of {_consumer_title(rows[0])}" if is_small else title
    chart_html = render_line_chart(name, lines, axis, is_small=is_small)
    caption = "" if is_small else f"<figcaption>{escape_text(title)}</figcaption>"
    return f"<figure>{caption}{chart_html}</figure>" if chart_html else ""


def render_heat_map(result: Result, session: str, axis: Axis) -> str:
    """Return the HTML of the heat map of redeliveries; empty without redeliveries.

    It has a lane per consumer and a cell per bucket.
    """
    rows = [
        (buckets, sum(row["repeated_msgs"] or 0 for row in buckets))
        for buckets in _charted_consumers(result, session)
    ]
    rows = sorted((pair for pair in rows if pair[1]), key=lambda pair: -pair[1])
    if not rows:
        return ""
    max_msgs = max(row["repeated_msgs"] or 0 for buckets, _ in rows for row in buckets)
    lanes_html = "".join(
        f'<div class="lane">{escape_text(_consumer_title(buckets[0]))}: '
        f"{counted(total, 'repeat')}</div>"
        + render_plot("thin", _HEAT_MAP_LANE_HEIGHT, _render_cells(buckets, max_msgs, axis))
        for buckets, total in rows
    )
    label = "; ".join(
        f"{_consumer_title(buckets[0])}: {counted(total, 'repeat')}" for buckets, total in rows
    )
    width_text = duration_text(float(rows[0][0][0]["width_s"]))
    return (
        "<figure><figcaption>The darker, the more messages were redelivered (at most "
        f"{max_msgs:,} in {width_text})</figcaption>"
        + chart_frame_html("heat", "Repeated deliveries", label, lanes_html + axis.ticks())
        + "</figure>"
    )


def _render_cells(buckets: list[ResultRow], max_msgs: int, axis: Axis) -> list[str]:
    """Return the SVG of a lane: one path per shade, shorter than a rectangle per bucket."""
    paths_by_shade: dict[int, list[str]] = {}
    for row in buckets:
        if row["repeated_msgs"]:
            shade = math.ceil(
                math.log1p(row["repeated_msgs"]) / math.log1p(max_msgs) * _HEAT_MAP_SHADES_COUNT
            )
            x = axis.x(row["bucket_at_us"])
            end = axis.x(row["bucket_at_us"] + row["width_s"] * 1_000_000)
            width = max(end - x, 1)
            paths_by_shade.setdefault(shade, []).append(
                f"M{x:.1f} 0h{width:.1f}v{_HEAT_MAP_LANE_HEIGHT}h-{width:.1f}z"
            )
    base_line_html = f'<path class="rail" d="M0 {_HEAT_MAP_LANE_HEIGHT}H{PLOT_WIDTH}"/>'
    return [
        base_line_html,
        *(f'<path class="heat{n}" d="{"".join(d)}"/>' for n, d in paths_by_shade.items()),
    ]


def render_slopes(result: Result) -> str:
    """Return the HTML of a slope per changed metric, the worst first; empty without changes."""
    rows = [
        row
        for row in rows_of(result, "comparison")
        if row["verdict"] in _VERDICT_ORDER and row["baseline_mean"] is not None
    ]
    rows.sort(
        key=lambda row: (_VERDICT_ORDER.index(row["verdict"]), -abs(row["mean_change"] or 1e9))
    )
    if not rows:
        return ""
    figures_html = "".join(_render_slope(row) for row in rows[:MAX_SLOPES_COUNT])
    hidden_slopes_count = len(rows) - MAX_SLOPES_COUNT
    more_text = (
        f"<p>{hidden_slopes_count} more changes are in the table Comparison.</p>"
        if hidden_slopes_count > 0
        else ""
    )
    return (
        "<section><h2>What changed</h2><p>Left: the baseline, right: the compared session. The "
        "vertical line is the range of the true value (99.8 % sure).</p><div "
        f'class="slopes">{figures_html}</div>{more_text}</section>'
    )


def _render_slope(row: ResultRow) -> str:
    before, after = float(row["baseline_mean"]), float(row["compared_mean"])
    interval_ends = [
        before * (1 + float(row[name])) if row[name] is not None else after
        for name in ("low_change", "high_change")
    ]
    low = min(before, after, *interval_ends)
    high = max(before, after, *interval_ends, low + 1e-9)

    def y(value: float) -> float:
        return _BOTTOM_Y - (value - low) / (high - low) * (_BOTTOM_Y - _TOP_Y)

    subject = " > ".join(row[name] for name in ("stream", "consumer") if row[name])
    name = f"{row['metric']}{' of ' + subject if subject else ''}"
    interval = row["interval"] or ""
    label = escape_text("; ".join(part for part in (row["words"], interval) if part))
    return (
        f'<figure class="slope {row["verdict"]}"><figcaption><b>{escape_text(row["verdict"])}</b> '
        f"{escape_text(name)}</figcaption>"
        f'<svg class="pair" viewBox="0 0 {_SLOPE_WIDTH} {_SLOPE_HEIGHT}" role="img" '
        f'aria-label="{label}"><title>{label}</title>'
        f'<line class="whisker" x1="{_RIGHT_X}" x2="{_RIGHT_X}" y1="{y(interval_ends[0]):.1f}" '
        f'y2="{y(interval_ends[1]):.1f}"/>'
        f'<path class="line" d="M{_LEFT_X} {y(before):.1f}L{_RIGHT_X} {y(after):.1f}"/>'
        f'<circle class="end" cx="{_LEFT_X}" cy="{y(before):.1f}" r="3"/>'
        f'<circle class="end" cx="{_RIGHT_X}" cy="{y(after):.1f}" r="3"/>'
        f'<text class="axis" x="{_LEFT_X - 6}" y="{y(before) + 4:.1f}" text-anchor="end">'
        f"{rate_text(before)}</text>"
        f'<text class="axis" x="{_RIGHT_X + 8}" y="{y(after) + 4:.1f}">{rate_text(after)}</text>'
        f"</svg><p>{escape_text(interval)}</p></figure>"
    )
