"""The answers as one HTML file: no network, no foreign script, readable without script at all."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from natstui.analysis.report.sections import Shown, only_bucket, sections, series
from natstui.clean import clean_line
from natstui.units import moment_text, rate_text

WIDTH, HEIGHT = 900, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 10, 30, 24
"""The names of the lines stand above the plot, so that no line runs through them."""

Line = tuple[str, Sequence[int], Sequence[float | None]]


def chart(title: str, lines: Sequence[Line]) -> str:
    """Return a chart of lines: each a name, moments (µs) and values; None leaves a hole."""
    known = [
        (at, v) for _, ats, vs in lines for at, v in zip(ats, vs, strict=True) if v is not None
    ]
    if not known:
        return ""
    first, last = min(at for at, _ in known), max(at for at, _ in known)
    top = max(value for _, value in known) or 1.0
    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" data-first="{first}" '
        f'data-last="{last}" data-top="{top:g}" data-left="{_LEFT}" '
        f'data-right="{WIDTH - _RIGHT}" data-high="{_TOP}" data-low="{HEIGHT - _BOTTOM}">'
        f"<title>{html.escape(title)}</title>"
    ]
    parts += _axes(first, last, top)
    for number, (name, ats, values) in enumerate(lines):
        path = _path(ats, values, (first, last, top))
        parts.append(f'<path class="line line{number % 4}" d="{path}"/>')
        x = _LEFT + 8 + 170 * number
        parts.append(
            f'<text class="key key{number % 4}" x="{x}" y="{_TOP - 10}">{html.escape(name)}</text>'
        )
    low = HEIGHT - _BOTTOM
    parts.append(f'<line class="cross" y1="{_TOP}" y2="{low}" x1="-9" x2="-9"/>')
    parts.append(
        f'<text class="value" x="{WIDTH - _RIGHT}" y="{_TOP - 10}" text-anchor="end"></text></svg>'
    )
    return "".join(parts)


def _axes(first: int, last: int, top: float) -> list[str]:
    parts = []
    for share in (0.0, 0.5, 1.0):
        y = _y(top * share, top)
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="axis" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{rate_text(top * share)}</text>"
        )
    for at, anchor, x in ((first, "start", _LEFT), (last, "end", WIDTH - _RIGHT)):
        parts.append(
            f'<text class="axis" x="{x}" y="{HEIGHT - 6}" text-anchor="{anchor}">'
            f"{moment_text(at)}</text>"
        )
    return parts


def _path(ats: Sequence[int], values: Sequence[float | None], span: tuple[int, int, float]) -> str:
    first, last, top = span
    steps, pen = [], "M"
    for at, value in zip(ats, values, strict=True):
        if value is None:
            pen = "M"
            continue
        x = _LEFT + (at - first) / ((last - first) or 1) * (WIDTH - _LEFT - _RIGHT)
        steps.append(f"{pen}{x:.1f} {_y(value, top):.1f}")
        pen = "L"
    if len(steps) == 1:
        # A single point has no length; a short stroke makes it visible.
        steps.append("h3")
    return "".join(steps)


def _y(value: float, top: float) -> float:
    return HEIGHT - _BOTTOM - value / top * (HEIGHT - _TOP - _BOTTOM)


_HERE = Path(__file__).parent
_CHARTS = (
    ("Messages per second", (("published", "published_per_s"), ("delivered", "delivered_per_s"))),
    ("Messages pending", (("pending", "pending_mean_msgs"),)),
)
_SESSIONS_DRAWN = 20
_LONG = ("sentence", "evidence", "detail")
"""Columns whose texts are wrapped; names stay on one line."""


def page(result: dict[str, Any]) -> str:
    """Return the whole document."""
    style = (_HERE / "page.css").read_text(encoding="utf-8")
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    names = ", ".join(result["sessions"])
    title = f"Analysis of {_text(names)}" if len(names) < 200 else "Analysis of recorded sessions"
    parts = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{style}</style></head><body><header><h1>{title}</h1>",
        '<input id="filter" type="search" placeholder="Filter all tables"></header><main>',
    ]
    filled = sections(result)
    parts.append(_section(filled[0]))
    parts += _charts(result)
    parts += [_section(one) for one in filled[1:]]
    parts.append(f"</main><script>{script}</script></body></html>\n")
    return "".join(parts)


def _text(text: str) -> str:
    return html.escape(clean_line(text), quote=True)


def _charts(result: dict[str, Any]) -> list[str]:
    parts = []
    for session in result["sessions"][:_SESSIONS_DRAWN]:
        drawn = []
        for title, columns in _CHARTS:
            lines = [(name, *series(result, session, column)) for name, column in columns]
            alone = only_bucket(result, session, columns)
            picture = f"<p>{_text(alone)}</p>" if alone else chart(title, lines)
            if picture:
                drawn.append(f"<figure><figcaption>{title}</figcaption>{picture}</figure>")
        if drawn:
            parts.append(f"<section><h2>Load of {_text(session)}</h2>{''.join(drawn)}</section>")
    return parts


def _section(one: Shown) -> str:
    head = f"<section><h2>{_text(one.section.title)}</h2>"
    if not one.rows:
        return f"{head}<p>{_text(one.section.empty)}</p></section>"
    kinds = [
        "num" if numeric else "long" if title in _LONG else "txt"
        for title, numeric in zip(one.titles, one.numeric, strict=True)
    ]
    titles = "".join(
        f'<th class="{kind}">{_text(title)}</th>'
        for kind, title in zip(kinds, one.titles, strict=True)
    )
    rows = "".join(
        "<tr>"
        + "".join(
            f'<td class="{kind}">{_text(cell)}</td>' for kind, cell in zip(kinds, row, strict=True)
        )
        + "</tr>"
        for row in one.rows
    )
    more = "<p>There are more rows in the table.</p>" if one.cut else ""
    return (
        f'{head}<div class="wide"><table><thead><tr>{titles}</tr></thead><tbody>{rows}</tbody>'
        f"</table></div>{more}</section>"
    )
