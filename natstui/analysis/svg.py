"""Lines over time as inline SVG: no script is needed to see them."""

from __future__ import annotations

import html
from collections.abc import Sequence

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
        f'<text class="told" x="{WIDTH - _RIGHT}" y="{_TOP - 10}" text-anchor="end"></text></svg>'
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
