"""Cells of the answers as people read them: numbers with their units, moments, lengths of time."""

from __future__ import annotations

from typing import Any

from natstui.clean import clean_line
from natstui.units import UNKNOWN, quantity_text


def cell_text(name: str, value: Any) -> str:
    """Return a cell by the unit its column's name ends with; harmless, one line."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return clean_line(value)
    return quantity_text(name, value)
