"""Everything that happened in a session in the order of time, as a table of the page."""

from __future__ import annotations

from natstui.analysis.report.axis import Axis, text
from natstui.analysis.report.sections import Result
from natstui.analysis.report.timeline import lanes_of
from natstui.units import duration_text, moment_text

MOST_SHOWN = 200


def happenings(result: Result, session: str, axis: Axis) -> str:
    """Return the table, the earliest first; empty when nothing happened."""
    spans = [span for lane in lanes_of(result, session, axis).values() for span in lane]
    if not spans:
        return ""
    spans.sort(key=lambda span: (span.start_us, span.lane, span.end_us))
    rows = "".join(
        f"\n<tr><td>{moment_text(span.start_us)}<td>{_lasted(span.start_us, span.end_us)}"
        f'<td>{text(span.lane)}<td class="long">{text(span.words)}'
        for span in spans[:MOST_SHOWN]
    )
    left = len(spans) - MOST_SHOWN
    more = f"<p>{left} later events are in the tables below.</p>" if left > 0 else ""
    titles = "".join(
        f'<th scope="col" tabindex="0">{title}</th>'
        for title in ("time", "lasted", "subject", "event")
    )
    return (
        '<div class="wide" role="region" tabindex="0" aria-label="Events in the order of time">'
        f"<table><thead><tr>{titles}</tr></thead><tbody>{rows}</tbody></table></div>{more}"
    )


def _lasted(start_us: int, end_us: int) -> str:
    return duration_text((end_us - start_us) / 1e6) if end_us > start_us else ""
