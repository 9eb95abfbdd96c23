"""The rows of the server and the account. See `watch_rows`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRow:
    """The connection and the server at its other end."""

    schema: Literal[1] = 1
    kind: Literal["server"] = "server"
    name: str | None
    """The server's own name."""
    at_us: int
    link: str
    """connecting, connected, reconnecting, failed or closed."""
    reason: str | None
    """Why it is not connected."""
    url: str | None
    version: str | None
    cluster: str | None
    domain: str | None
    user: str | None
    account: str | None
    tls: bool
    jetstream: bool | None
    api_level: int | None
    max_payload_bytes: int | None
    api_rtt_us: int | None
    """Round trip of the last `$JS.API.INFO`."""
    own_requests_per_s: float | None
    """API requests this command makes."""
    poll_interval_us: int | None
    backoff_reason: str | None
    """Why the interval is longer than asked for, if it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRow:
    """What the account uses of its limits; a limit of null is unlimited."""

    schema: Literal[1] = 1
    kind: Literal["account"] = "account"
    name: str | None
    at_us: int
    memory_bytes: int
    max_memory_bytes: int | None
    storage_bytes: int
    max_storage_bytes: int | None
    streams_count: int
    max_streams_count: int | None
    consumers_count: int
    max_consumers_count: int | None
    api_requests_count: int
    """By everybody in the account, since the server started."""
    api_errors_count: int
    api_requests_per_s: float | None
    api_inflight_count: int | None
    domain: str | None
