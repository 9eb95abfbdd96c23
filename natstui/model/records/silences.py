"""Silenced findings, with the reason and the end."""

from __future__ import annotations

import json
from collections.abc import Sequence

from msgspec import Struct

from natstui.model.assets.fields import Config, number_at, text_at
from natstui.model.records.journal import is_about_silence
from natstui.model.records.managing import JournalEntry, SilenceFinding

_RECORD_TIME_LIMIT_US = 2**63
"""Times from here on do not fit into a record."""


class Silence(Struct, frozen=True):
    """A finding that is silenced until a time."""

    code: str
    stream: str
    consumer: str
    created_at_us: int
    part: str
    reason: str
    who: str
    """The NATS user and account, and the user of the machine."""
    until_us: int


class Silenced(Struct, frozen=True):
    """All silences of the journal for the connected server and account; never recorded."""

    at_us: int
    silences: tuple[Silence, ...]


def silence_json(command: SilenceFinding, now_us: int) -> dict[str, object]:
    """Return the fields of a silence for its entry in the journal."""
    until_us = None if command.for_s is None else now_us + round(command.for_s * 1e6)
    return {
        "code": command.code,
        "part": command.part,
        "created_at_us": command.created_at_us,
        "reason": command.reason,
        "until_us": until_us,
    }


def silences_of(entries: Sequence[JournalEntry], now_us: int) -> tuple[Silence, ...]:
    """Return the silences at `now_us`; `entries` are the journal of one server, oldest first."""
    silence_by_finding_key: dict[tuple[object, ...], Silence | None] = {}
    for entry in entries:
        if not is_about_silence(entry):
            continue
        request = json.loads(entry.request_json)
        until_us, created_at_us = (
            number_at(request, name) for name in ("until_us", "created_at_us")
        )
        if max(until_us, created_at_us) >= _RECORD_TIME_LIMIT_US:
            continue
        finding_key = (
            _encodable_text(request, "code"), entry.stream, entry.consumer or "", created_at_us,
            _encodable_text(request, "part"),
        )  # fmt: skip
        reason = _encodable_text(request, "reason")
        silence_by_finding_key[finding_key] = (
            Silence(*finding_key, reason, entry.who, until_us) if until_us > now_us else None
        )
    return tuple(silence for silence in silence_by_finding_key.values() if silence is not None)


def _encodable_text(request: Config, name: str) -> str:
    """Return a text of a request that can be encoded in UTF-8; lone surrogates are replaced."""
    return text_at(request, name).encode(errors="replace").decode()
