"""The rows of what happened between two polls. See `watch_rows`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedRow:
    """A stream or a consumer is gone; made again under its name, it is another one."""

    schema: Literal[1] = 1
    kind: Literal["removed"] = "removed"
    name: str
    stream: str | None
    """The stream of a consumer; null when a stream is gone."""
    at_us: int
    created_at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnavailableRow:
    """Something cannot be read; what was known of it grows stale."""

    schema: Literal[1] = 1
    kind: Literal["unavailable"] = "unavailable"
    name: str
    """The API verb or source, as CONSUMER.LIST."""
    at_us: int
    reason: str
    denied_subject: str | None
    """The subject the user has no permission for, when that is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredRow:
    """Something that was unavailable can be read again."""

    schema: Literal[1] = 1
    kind: Literal["restored"] = "restored"
    name: str
    at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvisoryRow:
    """The server announced something about a stream or a consumer."""

    schema: Literal[1] = 1
    kind: Literal["advisory"] = "advisory"
    name: str
    """The last word of the advisory's type, as max_deliver."""
    at_us: int
    stream: str | None
    consumer: str | None
    text: str
