"""What became slower, faster, more or less: one slope each, with the interval of the change."""

from __future__ import annotations

from natstui.analysis.report.axis import text
from natstui.analysis.report.sections import Result, rows_of
from natstui.units import rate_text

MOST_SLOPES = 24
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 260, 110, 60, 180, 14, 96
_ORDER = ("slower", "more", "less", "faster")


def slopes(result: Result) -> str:
    """Return the slopes, the worst first; empty where nothing changed."""
    rows = [
        row
        for row in rows_of(result, "comparison")
        if row["verdict"] in _ORDER and row["baseline_mean"] is not None
    ]
    rows.sort(key=lambda row: (_ORDER.index(row["verdict"]), -abs(row["mean_change"] or 1e9)))
    if not rows:
        return ""
    figures = "".join(_slope(row) for row in rows[:MOST_SLOPES])
    left = len(rows) - MOST_SLOPES
    more = f"<p>{left} more changes are in the table Comparison.</p>" if left > 0 else ""
    return (
        "<section><h2>What changed</h2><p>From the baseline, left, to the session compared, "
        "right; the upright line is where the true value lies (99.8 % sure).</p>"
        f'<div class="slopes">{figures}</div>{more}</section>'
    )


def _slope(row: Result) -> str:
    before, after = float(row["baseline_mean"]), float(row["compared_mean"])
    ends = [
        before * (1 + float(row[name])) if row[name] is not None else after
        for name in ("low_change", "high_change")
    ]
    low = min(before, after, *ends)
    high = max(before, after, *ends, low + 1e-9)

    def y(value: float) -> float:
        return _BOTTOM - (value - low) / (high - low) * (_BOTTOM - _TOP)

    subject = " > ".join(row[name] for name in ("stream", "consumer") if row[name])
    name = f"{row['metric']}{' of ' + subject if subject else ''}"
    interval = row["interval"] or ""
    told = text("; ".join(words for words in (row["words"], interval) if words))
    return (
        f'<figure class="slope {row["verdict"]}"><figcaption><b>{text(row["verdict"])}</b> '
        f"{text(name)}</figcaption>"
        f'<svg class="pair" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{told}"><title>{told}</title>'
        f'<line class="whisker" x1="{_RIGHT}" x2="{_RIGHT}" y1="{y(ends[0]):.1f}" '
        f'y2="{y(ends[1]):.1f}"/>'
        f'<path class="line" d="M{_LEFT} {y(before):.1f}L{_RIGHT} {y(after):.1f}"/>'
        f'<circle class="end" cx="{_LEFT}" cy="{y(before):.1f}" r="3"/>'
        f'<circle class="end" cx="{_RIGHT}" cy="{y(after):.1f}" r="3"/>'
        f'<text class="axis" x="{_LEFT - 6}" y="{y(before) + 4:.1f}" text-anchor="end">'
        f"{rate_text(before)}</text>"
        f'<text class="axis" x="{_RIGHT + 8}" y="{y(after) + 4:.1f}">{rate_text(after)}</text>'
        f"</svg><p>{text(interval)}</p></figure>"
    )
