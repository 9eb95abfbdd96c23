"""The answers as one HTML file: no network, no foreign script, readable without script at all."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

from natstui.analysis.defaults import LEAST_RISE_RATIO, USUAL_LEVEL
from natstui.analysis.gold.telling.harm import HARMS
from natstui.analysis.report.axis import STEPS_S, ZONE, Axis, text
from natstui.analysis.report.charts import chart, heat_map, load_charts, slopes, small_charts
from natstui.analysis.report.heading import heading_section
from natstui.analysis.report.sections import Result, Shown, rows_of, sections
from natstui.analysis.report.timeline import happenings, timeline
from natstui.units import duration_text, moment_text

_HERE = Path(__file__).parent
_SESSIONS_DRAWN = 20
_LONG = ("sentence", "evidence", "detail", "advice")
"""Columns whose texts are wrapped; names stay on one line."""
_TOLD = "verdict"
"""The table that stands above all as a list."""
_TOOLS = (
    '<div class="tools" hidden><button type="button" data-zoom="in">Zoom in</button><button '
    'type="button" data-zoom="out">Zoom out</button><button type="button" '
    'data-zoom="all">Whole session</button><span>Drag over a chart to zoom all charts. Keys in '
    'a chart: ← → move, + − zoom, 0 shows all.</span></div><p class="said" '
    'aria-live="polite"></p>'
)


def page(result: dict[str, Any]) -> str:
    """Return the whole document."""
    style = (_HERE / "page.css").read_text(encoding="utf-8")
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    names = ", ".join(result["sessions"])
    title = f"Analysis of {text(names)}" if len(names) < 200 else "Analysis of recorded sessions"
    parts = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{style}</style></head><body><header><h1>{title}</h1>",
        '<input id="filter" type="search" placeholder="Filter all tables" '
        f'aria-label="Filter all tables"><p class="zone">All times are {ZONE}.</p></header><main>',
        told(result),
        heading_section(result, result["sessions"][:_SESSIONS_DRAWN]),
    ]
    parts += [_session(result, session) for session in result["sessions"][:_SESSIONS_DRAWN]]
    parts += [slopes(result), _knees(result)]
    parts += [_section(one) for one in sections(result) if one.table != _TOLD]
    parts.append(f"</main><script>{script}</script></body></html>\n")
    return "".join(parts)


def since_text(row: Result) -> str:
    """Return when it began and how long it held; empty where it is about no moment."""
    start, end = row["start_at_us"], row["end_at_us"]
    if start is None:
        return ""
    long = f" for {duration_text((end - start) / 1e6)}" if end is not None and end > start else ""
    return f"since {moment_text(start)} UTC{long}"


def told(result: Result) -> str:
    """Return the findings as a list, in the order of the verdict."""
    rows = rows_of(result, _TOLD)
    if not rows:
        return (
            '<section class="told"><h2>Worth looking at</h2><p>Nothing stands out.</p></section>'
        )
    items = "".join(_item(row, len(result["sessions"]) > 1) for row in rows)
    return f'<section class="told"><h2>Worth looking at</h2><ol>{items}</ol></section>'


def _with_code(words: str) -> str:
    """Return words with what stands in backticks as code."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", text(words))


def _item(row: Result, many: bool) -> str:
    code = f'<span class="code">{text(row["code"])}</span> ' if row["code"] else ""
    details = [row["evidence"] or "", since_text(row), row["session"] if many else ""]
    kept = " · ".join(detail for detail in details if detail)
    meaning = HARMS.get(row["harm"], "")
    return (
        f'<li><p class="head"><span class="harm {text(row["harm"] or "none")}" '
        f'title="{text(meaning)}">{text(row["harm"] or "")}</span> {code}'
        f"<b>{text(row['subject'] or '')}</b> {text(row['sentence'] or '')}</p>"
        f'<p class="evidence">{text(kept)}</p>'
        f'<p class="advice">{_with_code(row["advice"] or "")}</p></li>'
    )


def _axis(result: dict[str, Any], session: str) -> Axis | None:
    """Return the axis of a session; None when nothing of it can be drawn."""
    ends = [(row["start_at_us"], row["end_at_us"]) for row in rows_of(result, "session", session)]
    drawn = rows_of(result, "picture", session)
    ends += [(r["bucket_at_us"], r["bucket_at_us"] + r["width_s"] * 1_000_000) for r in drawn]
    known = [pair for pair in ends if None not in pair]
    return Axis(min(a for a, _ in known), max(b for _, b in known)) if known else None


def _session(result: dict[str, Any], session: str) -> str:
    """Return the charts of one session: they share one axis, and are zoomed together."""
    axis = _axis(result, session)
    if axis is None:
        return ""
    parts = [
        ("", timeline(result, session, axis)),
        ("Load", load_charts(result, session, axis)),
        ("Repeated deliveries", heat_map(result, session, axis)),
        ("The worst consumers", small_charts(result, session, axis)),
        ("Events in the order of time", happenings(result, session, axis)),
    ]
    drawn = "".join(
        (f"<h3>{title}</h3>" if title else "") + inside for title, inside in parts if inside
    )
    if not drawn:
        return ""
    when = f"{moment_text(axis.first_us)} to {moment_text(axis.last_us)} {ZONE}"
    return (
        f'<section class="time" data-first="{axis.first_us}" data-last="{axis.last_us}" '
        f'data-steps="{",".join(map(str, STEPS_S))}">'
        f"<h2>Timeline of {text(session)}</h2><p>{when}</p>{_TOOLS}{drawn}</section>"
    )


def _knees(result: dict[str, Any]) -> str:
    """Return a picture of each benchmark that was run at several loads: latency over load."""
    runs: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows_of(result, "bench_knee"):
        runs.setdefault((row["session"], row["run_id"], row["metric"]), []).append(row)
    parts = []
    for (_, run, metric), rows in runs.items():
        known = sorted((r["load_per_s"], r["p99_us"], r["knee"]) for r in rows
                       if None not in (r["load_per_s"], r["p99_us"]))  # fmt: skip
        if len(known) < 3 or not _rises(rows):
            continue
        knee = next((f", knee at {load:,.0f}/s" for load, _, is_knee in known if is_knee), "")
        title = f"{metric} p99 in µs of {run} over the load{knee}"
        lines = [(metric, [round(load) for load, _, _ in known], [p99 for _, p99, _ in known])]
        ends = f"from {known[0][0]:,.0f} to {known[-1][0]:,.0f} messages per second"
        parts.append(
            f"<figure><figcaption>{text(title)}, {ends}</figcaption>"
            f"{chart(title, lines, Axis(lines[0][1][0], lines[0][1][-1]), ticks=False)}</figure>"
        )
    return f"<section><h2>Latency over load</h2>{''.join(parts)}</section>" if parts else ""


def _rises(levels: list[dict[str, Any]]) -> bool:
    """Tell whether a run was at several loads, and not at one that was not quite even."""
    usual = [row["load_per_s"] or 0.0 for row in levels if row["level"] >= USUAL_LEVEL]
    return max(usual, default=0.0) >= LEAST_RISE_RATIO * min(usual, default=1.0)


def _class(kind: str) -> str:
    """Return the attribute; most cells have none, which keeps the page small."""
    return f' class="{kind}"' if kind else ""


def _section(one: Shown) -> str:
    """Return a table; cells and rows need no end in HTML, and a report has thousands."""
    title = text(one.section.title)
    head = f"<section><h2>{title}</h2>"
    if not one.rows:
        return f"{head}<p>{text(one.section.empty)}</p></section>"
    kinds = [
        "num" if numeric else "long" if title in _LONG else ""
        for title, numeric in zip(one.titles, one.numeric, strict=True)
    ]
    titles = "".join(
        f'<th scope="col"{_class(kind)} tabindex="0">{text(title)}</th>'
        for kind, title in zip(kinds, one.titles, strict=True)
    )
    rows = "".join(
        "\n<tr>"
        + "".join(f"<td{_class(kind)}>{text(cell)}" for kind, cell in zip(kinds, row, strict=True))
        for row in one.rows
    )
    more = "<p>There are more rows in the table.</p>" if one.cut else ""
    return (
        f'{head}<div class="wide" role="region" tabindex="0" aria-label="{title}">'
        f"<table><thead><tr>{titles}</tr></thead><tbody>{rows}</tbody></table></div>{more}"
        "</section>"
    )
