"""Parsing of typed seek positions: a time of day, an offset, or a complete moment. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

from natstui.errors import UsageError
from natstui.model.records.recording import ReplayPosition
from natstui.units import parse_duration_ns

_TIME_OF_DAY = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d(?:\.\d{1,6})?))?")
_WRONG = "write a time as 14:30, 14:30:05, 2026-11-20T14:30:05, or a step as +30s, -5m"


def moment_us(text: str, replay: ReplayPosition, zone: tzinfo | None = None) -> int:
    """Return the typed moment, in the local time zone unless it names one; raises UsageError.

    A time of day is the one nearest to the current moment that is within the recording.
    """
    text = text.strip()
    if text[:1] in ("+", "-"):
        return _distant_us(text, replay)
    try:
        if match := _TIME_OF_DAY.fullmatch(text):
            return _at_time_us(match, replay, zone)
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else _local(moment, zone)
    except (ValueError, OverflowError) as error:
        # Also what a calendar holds and a time zone moves out of it.
        raise UsageError(f"{text!r} is no time: {_WRONG}") from error
    return round(moment.timestamp() * 1e6)


def _distant_us(text: str, replay: ReplayPosition) -> int:
    try:
        distance_us = parse_duration_ns(text[1:].strip()) // 1000
    except ValueError as error:
        raise UsageError(f"{text!r} is no distance: {_WRONG}") from error
    return replay.at_us + (distance_us if text[0] == "+" else -distance_us)


def _at_time_us(match: re.Match[str], replay: ReplayPosition, zone: tzinfo | None) -> int:
    hour, minute, second = int(match[1]), int(match[2]), float(match[3] or 0)
    if hour > 23 or minute > 59 or second >= 60:
        raise UsageError(f"{match[0]!r} is not a time of day: {_WRONG}")
    current = datetime.fromtimestamp(replay.at_us / 1e6, UTC).astimezone(zone)
    midnight = datetime(current.year, current.month, current.day)
    since = timedelta(hours=hour, minutes=minute, seconds=second)
    moments_us = [
        round(_local(midnight + timedelta(days=days) + since, zone).timestamp() * 1e6)
        for days in (0, -1, 1)
    ]
    candidates_us = [us for us in moments_us if replay.start_at_us <= us <= replay.end_at_us]
    return min(candidates_us or moments_us[:1], key=lambda us: abs(us - replay.at_us))


def _local(moment: datetime, zone: tzinfo | None) -> datetime:
    return moment.replace(tzinfo=zone) if zone is not None else moment.astimezone()
