"""Charts of lines over time: the load of a session, and its worst consumers."""

from __future__ import annotations

from collections.abc import Sequence

from natstui.analysis.report.axis import PLOT, Axis, chart_of, plot, text, top_of
from natstui.units import rate_text

_HEIGHT = 100

Line = tuple[str, Sequence[int], Sequence[float | None]]


def chart(
    title: str, lines: Sequence[Line], axis: Axis, *, small: bool = False, ticks: bool = True
) -> str:
    """Return a chart of lines: each a name, moments (µs) and values; None leaves a hole."""
    known = [value for _, _, values in lines for value in values if value is not None]
    if not known:
        return ""
    top = top_of(known)
    keys = "".join(
        f'<span class="key key{number}">{text(name)}</span>'
        for number, (name, _, _) in enumerate(lines)
    )
    grid = f'<path class="rail" d="M0 0H{PLOT}M0 {_HEIGHT // 2}H{PLOT}M0 {_HEIGHT}H{PLOT}"/>'
    paths = [
        f'<path class="line line{number}" d="{_path(ats, values, axis, top)}"/>'
        for number, (_, ats, values) in enumerate(lines)
    ]
    heights = "".join(f"<span>{_height_text(top * share)}</span>" for share in (1.0, 0.5, 0.0))
    inside = (
        f'<div class="keys">{keys}<span class="value"></span></div>'
        f'<div class="with"><div class="ys">{heights}</div>'
        f"{plot('small' if small else 'large', _HEIGHT, [grid, *paths])}</div>"
        f"{axis.ticks() if ticks else ''}"
    )
    return chart_of("lines", title, _described(lines), inside, top)


def _height_text(value: float) -> str:
    """Return what stands at the left of a line; the smallest values must not look like 0."""
    return f"{value:.1g}" if 0 < value < 0.01 else rate_text(value)


def _described(lines: Sequence[Line]) -> str:
    told = []
    for name, _, values in lines:
        known = [value for value in values if value is not None]
        if known:
            told.append(
                f"{name}: from {rate_text(min(known))} to {rate_text(max(known))}, "
                f"at the end {rate_text(known[-1])}"
            )
    return "; ".join(told)


def _path(ats: Sequence[int], values: Sequence[float | None], axis: Axis, top: float) -> str:
    parts: list[list[str]] = [[]]
    for at, value in zip(ats, values, strict=True):
        if value is None:
            parts.append([])
        else:
            parts[-1].append(f"{axis.x(at):.0f} {_HEIGHT - value / top * _HEIGHT:.1f}")
    # A single point has no length; a short stroke makes it visible.
    drawn = ("L".join(part) if len(part) > 1 else f"{part[0]}h4" for part in parts if part)
    return "".join(f"M{one}" for one in drawn)
