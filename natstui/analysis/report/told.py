"""What is worth looking at, as the page tells it: what, who, since when, evidence and advice."""

from __future__ import annotations

import re

from natstui.analysis.gold.telling.harm import HARMS
from natstui.analysis.report.axis import text
from natstui.analysis.report.sections import Result, rows_of
from natstui.units import duration_text, moment_text


def since_text(row: Result) -> str:
    """Return when it began and how long it held; empty where it is about no moment."""
    start, end = row["start_at_us"], row["end_at_us"]
    if start is None:
        return ""
    long = f" for {duration_text((end - start) / 1e6)}" if end is not None and end > start else ""
    return f"since {moment_text(start)} UTC{long}"


def told(result: Result) -> str:
    """Return the findings as a list, in the order of the verdict."""
    rows = rows_of(result, "verdict")
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
