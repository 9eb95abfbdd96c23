"""Cells of the answers as people read them: numbers with their units, moments, lengths of time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from natstui.clean import clean_line
from natstui.units import UNKNOWN, bytes_text, count_text, duration_text, rate_text

Result = dict[str, Any]


def moment_text(at_us: int | None) -> str:
    """Return a moment in UTC to the second; unknown for None."""
    if at_us is None:
        return UNKNOWN
    try:
        return datetime.fromtimestamp(at_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return UNKNOWN


def cell_text(name: str, value: Any) -> str:
    """Return a cell by the unit its column's name ends with; harmless, one line."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return clean_line(value)
    if name.endswith(("_at_us", "_since_us")):
        return moment_text(value)
    return _number_text(name, value)


def _number_text(name: str, value: int | float) -> str:
    if name.endswith("_per_s"):
        return f"{bytes_text(value)}/s" if "bytes" in name else rate_text(value)
    if name.endswith("_bytes"):
        return bytes_text(value) if value >= 0 else "-" + bytes_text(-value)
    if name.endswith("_us"):
        return duration_text(value / 1e6) if value >= 1e6 else f"{value:,.0f} µs"
    if name.endswith("_s"):
        return duration_text(value)
    if name.endswith("_share"):
        return f"{value * 100:.1f} %"
    if name.endswith("_change"):
        return f"{value * 100:+.1f} %"
    if name == "p_value":
        return f"{value:.2g}"
    if name.endswith(("_seq", "_id", "_count")):
        return f"{value:.0f}"
    if float(value).is_integer() or abs(value) >= 1000:
        return count_text(value)
    return f"{value:.3g}"


def title_text(name: str) -> str:
    """Return a column's name without its unit: the cells carry it."""
    for end in ("_at_us", "_us", "_s", "_bytes", "_msgs", "_count", "_share", "_change", "_ratio"):
        if name.endswith(end) and name.removesuffix(end):
            name = name.removesuffix(end)
            break
    return name.replace("_", " ")
