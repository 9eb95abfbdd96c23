"""What the cells of both tables of `natstui watch` share."""

from __future__ import annotations

from natstui.units import duration_text


def marked(text: str, stale: bool) -> str:
    """Return a text with a mark when it is stale."""
    return f"{text} (stale)" if stale else text


def ago(now_us: int, at_us: int | None) -> str:
    """Return how long ago a time was."""
    return duration_text(None if at_us is None else max(0, now_us - at_us) / 1e6)
