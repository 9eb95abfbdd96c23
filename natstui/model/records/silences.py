"""Findings that somebody does not want to hear of for a while: why, and until when."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from natstui.model.records.journal import is_silence
from natstui.model.records.managing import JournalEntry, SilenceFinding


@dataclass(frozen=True, slots=True)
class Silence:
    """A finding is silenced here until a moment."""

    code: str
    stream: str
    consumer: str
    created_at_us: int
    part: str
    reason: str
    who: str
    """The NATS user and account, and the user of the machine."""
    until_us: int


@dataclass(frozen=True, slots=True)
class Silenced:
    """All that is silenced on this server, for this account; for who looks on only."""

    at_us: int
    silences: tuple[Silence, ...]


def silence_json(asked: SilenceFinding, now_us: int) -> dict[str, object]:
    """Return what the journal keeps of a silence."""
    until_us = None if asked.for_s is None else now_us + round(asked.for_s * 1e6)
    return {
        "code": asked.code,
        "part": asked.part,
        "created_at_us": asked.created_at_us,
        "reason": asked.reason,
        "until_us": until_us,
    }


def silences_of(entries: Sequence[JournalEntry], now_us: int) -> tuple[Silence, ...]:
    """Return what is silenced at a moment by entries of one place, oldest first."""
    found: dict[tuple[object, ...], Silence | None] = {}
    for entry in entries:
        if not is_silence(entry):
            continue
        asked = json.loads(entry.request_json)
        until_us = asked.get("until_us")
        what = (
            str(asked.get("code", "")),
            entry.stream,
            entry.consumer or "",
            int(asked.get("created_at_us", 0)),
            str(asked.get("part", "")),
        )
        still = isinstance(until_us, int) and until_us > now_us
        reason = str(asked.get("reason", ""))
        found[what] = Silence(*what, reason, entry.who, until_us) if still else None
    return tuple(one for one in found.values() if one is not None)
