"""What a duration, size, number or time was understood as, while it is typed.

`2m` and `2M` are two minutes and sixty days: whoever types one of them sees which.
"""

from __future__ import annotations

from natstui.model.assets.fields import Field
from natstui.model.assets.text import parsed
from natstui.units import counted, parse_duration_ns, parse_moment

_UNITS_NS = (
    (86_400_000_000_000, "day"), (3_600_000_000_000, "hour"), (60_000_000_000, "minute"),
    (1_000_000_000, "second"), (1_000_000, "millisecond"), (1_000, "microsecond"),
    (1, "nanosecond"),
)  # fmt: skip


def understood(field: Field, text: str) -> str:
    """Return what a text means for a field; empty where that is plain, or it is wrong."""
    if field.kind not in ("duration", "durations", "bytes", "count", "time"):
        return ""
    try:
        value = parsed(field, text)
    except ValueError:
        return ""  # what is wrong with it is said elsewhere
    if isinstance(value, list):
        return ", ".join(duration_words(one) for one in value)
    if isinstance(value, str):
        return "" if value == text.strip() else value
    if not isinstance(value, int) or value <= 0:
        return ""
    if field.kind == "duration":
        return duration_words(value)
    plain = text.strip() == str(value)
    if field.kind == "bytes":
        return "" if plain and value < 1024 else f"{value:,} bytes"
    return "" if plain else f"{value:,}"


def understood_duration(text: str) -> str:
    """Return a duration in words; empty for what is none."""
    try:
        return duration_words(parse_duration_ns(text))
    except ValueError:
        return ""


def understood_moment(text: str) -> str:
    """Return the local time that `10m ago` or a written time means now; empty for what is none."""
    try:
        return parse_moment(text).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError):
        return ""


def duration_words(duration_ns: int) -> str:
    """Return a duration in words, with nothing lost: `1 day 3 hours`."""
    parts = []
    for size_ns, noun in _UNITS_NS:
        amount, duration_ns = divmod(duration_ns, size_ns)
        parts += [counted(amount, noun)] if amount else []
    return " ".join(parts) or "0"
