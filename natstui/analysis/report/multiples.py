"""Small charts of the worst consumers of a session, side by side, and when they got repeats."""

from __future__ import annotations

import math
from itertools import groupby

from natstui.analysis.report.axis import PLOT, Axis, chart_of, plot, text
from natstui.analysis.report.lines import chart
from natstui.analysis.report.sections import Result, families, family, rows_of
from natstui.units import counted, duration_text

_LEVELS = 5
_LEAST_POINTS = 3
"""A consumer that lived for less says nothing in a chart of the whole session."""
_HEIGHT = 10


def _named(row: Result) -> str:
    return f"{row['stream']} > {row['consumer']}"


def _drawn(result: Result, session: str) -> list[list[Result]]:
    """Return the buckets of each consumer drawn, the worst first."""
    rows = [row for row in rows_of(result, "picture", session) if row["rank_count"]]
    drawn = [list(many) for _, many in groupby(rows, key=lambda row: row["rank_count"])]
    drawn = [many for many in drawn if len(many) >= _LEAST_POINTS] or drawn
    # Of ephemeral consumers with like names the worst is drawn.
    known = families(result)
    first: dict[object, list[Result]] = {}
    for many in drawn:
        first.setdefault(family(many[0], known) or many[0]["rank_count"], many)
    return list(first.values())


def load_charts(result: Result, session: str, axis: Axis) -> str:
    """Return the charts of everything together."""
    rows = [row for row in rows_of(result, "picture", session) if not row["rank_count"]]
    rates = {"published": "published_per_s", "delivered": "delivered_per_s"}
    pending = {"pending": "pending_msgs"}
    return _figure(
        "Messages per second, all streams and consumers", rows, rates, axis, small=False
    ) + _figure("Messages pending, all consumers", rows, pending, axis, small=False)


def small_charts(result: Result, session: str, axis: Axis) -> str:
    """Return three charts for each consumer drawn: pending, lag and rate."""
    parts = []
    for rows in _drawn(result, session):
        charts = (
            _figure("pending", rows, {"messages pending": "pending_msgs"}, axis, small=True)
            + _figure("lag", rows, {"oldest message waits, s": "behind_max_s"}, axis, small=True)
            + _figure("delivered/s", rows, {"delivered/s": "delivered_per_s"}, axis, small=True)
        )
        if charts:
            parts.append(f'<div class="one"><h4>{text(_named(rows[0]))}</h4>{charts}</div>')
    return f'<div class="multiples">{"".join(parts)}</div>' if parts else ""


def _figure(
    title: str, rows: list[Result], columns: dict[str, str], axis: Axis, *, small: bool
) -> str:
    ats = [row["bucket_at_us"] for row in rows]
    lines = [(name, ats, [row[column] for row in rows]) for name, column in columns.items()]
    name = f"{title} of {_named(rows[0])}" if small else title
    picture = chart(name, lines, axis, small=small)
    caption = "" if small else f"<figcaption>{text(title)}</figcaption>"
    return f"<figure>{caption}{picture}</figure>" if picture else ""


def heat_map(result: Result, session: str, axis: Axis) -> str:
    """Return when which consumer got messages again; empty when none did."""
    rows = [
        (many, sum(row["repeated_msgs"] or 0 for row in many)) for many in _drawn(result, session)
    ]
    rows = sorted((pair for pair in rows if pair[1]), key=lambda pair: -pair[1])
    if not rows:
        return ""
    most = max(row["repeated_msgs"] or 0 for many, _ in rows for row in many)
    drawn = "".join(
        f'<div class="lane">{text(_named(many[0]))}: {counted(total, "repeat")}</div>'
        + plot("thin", _HEIGHT, _cells(many, most, axis))
        for many, total in rows
    )
    told = "; ".join(f"{_named(many[0])}: {counted(total, 'repeat')}" for many, total in rows)
    width = duration_text(float(rows[0][0][0]["width_s"]))
    return (
        "<figure><figcaption>The darker, the more messages came again "
        f"(at most {most:,} in {width})</figcaption>"
        + chart_of("heat", "Repeated deliveries", told, drawn + axis.ticks())
        + "</figure>"
    )


def _cells(many: list[Result], most: int, axis: Axis) -> list[str]:
    """Return one path for each shade: a rectangle for each bucket would be ten times as long."""
    shades: dict[int, list[str]] = {}
    for row in many:
        if row["repeated_msgs"]:
            level = math.ceil(math.log1p(row["repeated_msgs"]) / math.log1p(most) * _LEVELS)
            x = axis.x(row["bucket_at_us"])
            end = axis.x(row["bucket_at_us"] + row["width_s"] * 1_000_000)
            width = max(end - x, 1)
            shades.setdefault(level, []).append(f"M{x:.1f} 0h{width:.1f}v{_HEIGHT}h-{width:.1f}z")
    rail = f'<path class="rail" d="M0 {_HEIGHT}H{PLOT}"/>'
    return [rail, *(f'<path class="heat{n}" d="{"".join(d)}"/>' for n, d in shades.items())]
