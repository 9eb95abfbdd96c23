"""The answers as one HTML file: no network, no foreign script, readable without script at all.

Every name in it may be hostile: texts are cleaned and escaped here, and the page's own policy
forbids any script but the one whose hash it names, and any request.
"""

from __future__ import annotations

import base64
import hashlib
import html
from pathlib import Path
from typing import Any

from natstui.analysis.report import Shown, sections, series
from natstui.analysis.svg import chart
from natstui.clean import clean_line

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
            picture = chart(title, lines)
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
