"""Which moment somebody means who asks what happened then. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from natstui.units import local_text, parse_moment

_DISTANCE = re.compile(r"\d[\d.]*\s*[a-zµ]+")
_TIME_OF_DAY = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?")


def moment_us(text: str, now_us: int) -> int:
    """Return the moment of `2m ago`, `2m`, `14:30` or a written time, UTC µs; raise ValueError.

    A time of day is the last one before now. The sentence says how to write it.
    """
    text, now = text.strip(), datetime.fromtimestamp(now_us / 1e6, UTC)
    try:
        if found := _TIME_OF_DAY.fullmatch(text):
            return round(_last_at(found, now.astimezone()).timestamp() * 1e6)
        if _DISTANCE.match(text):
            text = f"{text.removesuffix('ago').strip()} ago"
        return round(parse_moment(text, now).timestamp() * 1e6)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text!r} is not a time: write it as 2m ago or 14:30") from error


def moment_words(text: str, now_us: int) -> str:
    """Return the local time that a text is understood as; empty for what is no time."""
    try:
        return local_text(moment_us(text, now_us), "%Y-%m-%d %H:%M:%S")
    except ValueError:
        return ""


def _last_at(found: re.Match[str], here: datetime) -> datetime:
    hour, minute, second = (int(part or 0) for part in found.groups())
    today = here.replace(hour=hour, minute=minute, second=second, microsecond=999_999)
    return today if today <= here.replace(microsecond=999_999) else today - timedelta(days=1)
