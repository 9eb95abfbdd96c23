"""The result as one HTML file, which needs no network and can be read without its script."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

from natstui.analysis.defaults import FIRST_STEADY_LOAD_LEVEL, MIN_LOAD_RATIO
from natstui.analysis.gold.shared.harm import MEANING_BY_HARM
from natstui.analysis.report.axis import TICK_STEPS_S, TIME_ZONE, Axis, escape_text
from natstui.analysis.report.charts import (
    ChartLine,
    render_consumer_charts,
    render_heat_map,
    render_line_chart,
    render_load_charts,
    render_slopes,
)
from natstui.analysis.report.heading import facts_section
from natstui.analysis.report.sections import Result, ResultRow, SectionText, rows_of, sections
from natstui.analysis.report.timeline import events_table, render_timeline
from natstui.files import open_regular_file
from natstui.units import duration_text, moment_text

_REPORT_FOLDER = Path(__file__).parent
MAX_CHARTED_SESSIONS = 20
_WRAPPED_COLUMNS = ("sentence", "evidence", "detail", "advice", "word")
"""Columns whose texts are wrapped; the others stay on one line."""
_FINDINGS_TABLE = "verdict"
"""The table that is shown as a list at the top of the page."""
_ZOOM_TOOLBAR = (
    '<div class="tools" hidden><button type="button" data-zoom="in">Zoom in</button><button '
    'type="button" data-zoom="out">Zoom out</button><button type="button" '
    'data-zoom="all">Whole session</button><span>Drag over a chart to zoom all charts. Keys in '
    'a chart: ← → move, + − zoom, 0 shows all.</span></div><p class="said" '
    'aria-live="polite"></p>'
)


_PAGE_START = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    '<meta name="generator" content="natstui">'
)
"""The beginning of every report page, by which `is_report_page` recognizes it."""


def is_report_page(file: Path) -> bool:
    """Return whether a file is a report page of natstui; False if it cannot be read."""
    try:
        with open_regular_file(file) as page_file:
            return page_file.read(len(_PAGE_START)) == _PAGE_START.encode()
    except OSError:
        return False


def page(result: dict[str, Any]) -> str:
    """Return the report of a result as an HTML document."""
    style = (_REPORT_FOLDER / "page.css").read_text(encoding="utf-8")
    script = (_REPORT_FOLDER / "page.js").read_text(encoding="utf-8")
    script_digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    content_policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{script_digest}'"
    )
    session_names = ", ".join(result["sessions"])
    title = (
        f"Analysis of {escape_text(session_names)}"
        if len(session_names) < 200
        else "Analysis of recorded sessions"
    )
    html_parts = [
        _PAGE_START,
        f'<meta http-equiv="Content-Security-Policy" content="{content_policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{style}</style></head><body><header><h1>{title}</h1>",
        '<input id="filter" type="search" placeholder="Filter all tables" '
        'aria-label="Filter all tables">'
        f'<p class="zone">All times are {TIME_ZONE}.</p></header><main>',
        render_findings_list(result),
        facts_section(result, result["sessions"][:MAX_CHARTED_SESSIONS]),
    ]
    html_parts += [
        _render_session(result, session) for session in result["sessions"][:MAX_CHARTED_SESSIONS]
    ]
    html_parts += [render_slopes(result), _knee_charts(result)]
    html_parts += [
        _render_section(section)
        for section in sections(result)
        if section.table != _FINDINGS_TABLE
    ]
    html_parts.append(f"</main><script>{script}</script></body></html>\n")
    return "".join(html_parts)


def since_text(row: ResultRow) -> str:
    """Return the start and duration of a finding as text; empty without a start."""
    start, end = row["start_at_us"], row["end_at_us"]
    if start is None:
        return ""
    duration = (
        f" for {duration_text((end - start) / 1e6)}" if end is not None and end > start else ""
    )
    return f"since {moment_text(start)} UTC{duration}"


def render_findings_list(result: Result) -> str:
    """Return the HTML list of the findings, in the order of the verdict."""
    rows = rows_of(result, _FINDINGS_TABLE)
    if not rows:
        return '<section class="told"><h2>Needs attention</h2><p>Nothing stands out.</p></section>'
    items_html = "".join(_finding_item(row, len(result["sessions"]) > 1) for row in rows)
    return f'<section class="told"><h2>Needs attention</h2><ol>{items_html}</ol></section>'


def _code_html(raw_text: str) -> str:
    """Return the HTML of a text whose parts in backticks are code."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", escape_text(raw_text))


def _finding_item(row: ResultRow, has_several_sessions: bool) -> str:
    code = f'<span class="code">{escape_text(row["code"])}</span> ' if row["code"] else ""
    detail_texts = [
        row["evidence"] or "",
        since_text(row),
        row["session"] if has_several_sessions else "",
    ]
    details_text = " · ".join(detail for detail in detail_texts if detail)
    harm_meaning = MEANING_BY_HARM.get(row["harm"], "")
    return (
        f'<li><p class="head"><span class="harm {escape_text(row["harm"] or "none")}" '
        f'title="{escape_text(harm_meaning)}">{escape_text(row["harm"] or "")}</span> {code}'
        f"<b>{escape_text(row['subject'] or '')}</b> {escape_text(row['sentence'] or '')}</p>"
        f'<p class="evidence">{escape_text(details_text)}</p>'
        f'<p class="advice">{_code_html(row["advice"] or "")}</p></li>'
    )


def _session_axis(result: dict[str, Any], session: str) -> Axis | None:
    """Return the time axis of a session; None if it has no data for charts."""
    session_rows = rows_of(result, "session", session)
    time_ranges = [(row["start_at_us"], row["end_at_us"]) for row in session_rows]
    time_ranges += [
        (bucket["bucket_at_us"], bucket["bucket_at_us"] + bucket["width_s"] * 1_000_000)
        for bucket in rows_of(result, "picture", session)
    ]
    time_ranges = [time_range for time_range in time_ranges if None not in time_range]
    if not time_ranges:
        return None
    starts_us, ends_us = zip(*time_ranges, strict=True)
    return Axis(min(starts_us), max(ends_us))


def _render_session(result: dict[str, Any], session: str) -> str:
    """Return the HTML of the charts of a session, which have the same axis; empty without data."""
    axis = _session_axis(result, session)
    if axis is None:
        return ""
    titled_charts = [
        ("", render_timeline(result, session, axis)),
        ("Load", render_load_charts(result, session, axis)),
        ("Repeated deliveries", render_heat_map(result, session, axis)),
        ("The worst consumers", render_consumer_charts(result, session, axis)),
        ("Events in the order of time", events_table(result, session)),
    ]
    charts_html = "".join(
        (f"<h3>{title}</h3>" if title else "") + chart_html
        for title, chart_html in titled_charts
        if chart_html
    )
    if not charts_html:
        return ""
    time_text = f"{moment_text(axis.first_us)} to {moment_text(axis.last_us)} {TIME_ZONE}"
    return (
        f'<section class="time" data-first="{axis.first_us}" data-last="{axis.last_us}" '
        f'data-steps="{",".join(map(str, TICK_STEPS_S))}">'
        f"<h2>Timeline of {escape_text(session)}</h2><p>{time_text}</p>{_ZOOM_TOOLBAR}"
        f"{charts_html}</section>"
    )


def _knee_charts(result: dict[str, Any]) -> str:
    """Return the HTML of latency over load, for each benchmark that ran at several loads."""
    runs: dict[tuple[str, str, str], list[ResultRow]] = {}
    for row in rows_of(result, "bench_knee"):
        runs.setdefault((row["session"], row["run_id"], row["metric"]), []).append(row)
    figures_html = []
    for (_, run_id, metric), rows in runs.items():
        points = sorted((r["load_per_s"], r["p99_us"], r["knee"]) for r in rows
                       if None not in (r["load_per_s"], r["p99_us"]))  # fmt: skip
        if len(points) < 3 or not _has_several_loads(rows):
            continue
        knee_text = next(
            (f", knee at {load:,.0f}/s" for load, _, is_knee in points if is_knee), ""
        )
        title = f"{metric} p99 in µs of {run_id} over the load{knee_text}"
        loads = [round(load) for load, _, _ in points]
        line = ChartLine(metric, loads, [p99 for _, p99, _ in points])
        range_text = f"from {points[0][0]:,.0f} to {points[-1][0]:,.0f} messages per second"
        figures_html.append(
            f"<figure><figcaption>{escape_text(title)}, {range_text}</figcaption>"
            f"{render_line_chart(title, [line], Axis(loads[0], loads[-1]), has_ticks=False)}"
            "</figure>"
        )
    return (
        f"<section><h2>Latency over load</h2>{''.join(figures_html)}</section>"
        if figures_html
        else ""
    )


def _has_several_loads(levels: list[ResultRow]) -> bool:
    """Return whether the loads of a run differ by the ratio `MIN_LOAD_RATIO`."""
    steady_loads = [
        row["load_per_s"] or 0.0 for row in levels if row["level"] >= FIRST_STEADY_LOAD_LEVEL
    ]
    return max(steady_loads, default=0.0) >= MIN_LOAD_RATIO * min(steady_loads, default=1.0)


def _class_attribute(class_name: str) -> str:
    """Return the HTML attribute of a class; empty without a class."""
    return f' class="{class_name}"' if class_name else ""


def _render_section(section: SectionText) -> str:
    """Return the HTML of a table, without the optional end tags of rows and cells."""
    title = escape_text(section.section.title)
    head = f"<section><h2>{title}</h2>"
    if not section.rows:
        return f"{head}<p>{escape_text(section.section.empty)}</p></section>"
    kinds = [
        "num" if is_numeric else "long" if title in _WRAPPED_COLUMNS else ""
        for title, is_numeric in zip(section.titles, section.is_numeric_by_column, strict=True)
    ]
    titles_html = "".join(
        f'<th scope="col"{_class_attribute(kind)} tabindex="0">{escape_text(title)}</th>'
        for kind, title in zip(kinds, section.titles, strict=True)
    )
    rows = "".join(
        "\n<tr>"
        + "".join(
            f"<td{_class_attribute(kind)}>{escape_text(cell)}"
            for kind, cell in zip(kinds, row, strict=True)
        )
        for row in section.rows
    )
    more_text = "<p>There are more rows in the table.</p>" if section.has_more_rows else ""
    return (
        f'{head}<div class="wide" role="region" tabindex="0" aria-label="{title}">'
        f"<table><thead><tr>{titles_html}</tr></thead><tbody>{rows}</tbody></table></div>{more_text}"
        "</section>"
    )
