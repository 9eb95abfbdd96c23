"""Server and account in `natstui watch`: their fields in --json, and their sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from natstui.model.live.age import oldest_row_us
from natstui.model.live.rates import own_requests_per_s
from natstui.model.live.state import State
from natstui.units import UNKNOWN, bytes_text, count_text, counted

if TYPE_CHECKING:
    pass


class ServerRow(Struct, frozen=True, kw_only=True):
    """The connection and its server."""

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
    """API requests of this command."""
    poll_interval_us: int | None
    backoff_reason: str | None
    """Why the interval is longer than requested, if it is."""
    round_us: int | None
    """How long a round of all rows takes, if not every poll has every row."""
    oldest_row_us: int | None
    """Age of the oldest row."""


def server_row(state: State) -> ServerRow | None:
    """Return the row of the connection and its server; None before the first attempt to
    connect.
    """
    link = state.link
    if link is None:
        return None
    poll_cost = state.costs[-1].cost if state.costs else None
    computed_values = {
        "kind": "server",
        "name": link.server_name,
        "at_us": state.now_at_us,
        "link": link.state,
        "url": link.server_url,
        "version": link.server_version,
        "api_rtt_us": poll_cost.api_rtt_us if poll_cost else None,
        "own_requests_per_s": own_requests_per_s(state.costs),
        "poll_interval_us": poll_cost.interval_us if poll_cost else None,
        "backoff_reason": poll_cost.backoff_reason if poll_cost else None,
        "round_us": poll_cost.round_us if poll_cost else None,
        "oldest_row_us": oldest_row_us(state),
    }
    return msgspec.convert({**asdict(link), **computed_values}, ServerRow)


def server_sentence(row: ServerRow) -> str:
    """Return the server as a sentence, whose control characters are not replaced."""
    if row.link != "connected":
        return f"server: {row.link}: {row.reason}" if row.reason else f"server: {row.link}"
    parts = [f"server: {row.name or row.url} v{row.version or UNKNOWN}"]
    if row.cluster:
        parts.append(f"cluster {row.cluster}")
    if row.api_rtt_us is not None:
        parts.append(f"replies in {row.api_rtt_us / 1000:.1f} ms")
    if row.own_requests_per_s is not None:
        parts.append(f"own requests {row.own_requests_per_s:.1f}/s")
    if row.backoff_reason:
        parts.append(row.backoff_reason)
    return ", ".join(parts)


class AccountRow(Struct, frozen=True, kw_only=True):
    """The account's use and limits; a limit of null is unlimited."""

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
    """Of all clients of the account, since the server started."""
    api_errors_count: int
    api_requests_per_s: float | None
    api_inflight_count: int | None
    domain: str | None


def account_row(state: State) -> AccountRow | None:
    """Return the row of the use and limits of the account; None before they were read."""
    if state.account is None:
        return None
    computed_values = {
        "name": state.link.account if state.link else None,
        "at_us": state.now_at_us,
        "api_requests_per_s": _api_requests_per_s(state),
    }
    return msgspec.convert({**asdict(state.account), **computed_values}, AccountRow)


def _api_requests_per_s(state: State) -> float | None:
    """Return the API requests of the account per second, between the two newest polls; None if
    unknown.
    """
    times_and_counts = [
        (poll_cost.mono_us, poll_cost.api_requests_count) for poll_cost in state.costs[-2:]
    ]
    if (
        len(times_and_counts) < 2
        or times_and_counts[0][1] is None
        or times_and_counts[1][1] is None
    ):
        return None
    elapsed_us, new_requests_count = (
        times_and_counts[1][0] - times_and_counts[0][0],
        times_and_counts[1][1] - times_and_counts[0][1],
    )
    return (
        new_requests_count * 1e6 / elapsed_us
        if elapsed_us > 0 and new_requests_count >= 0
        else None
    )


def account_sentence(row: AccountRow) -> str:
    """Return the account as a sentence, whose control characters are not replaced."""
    use_texts = (
        _use_text(count_text(row.streams_count), "streams", row.max_streams_count, count_text),
        _use_text(
            count_text(row.consumers_count), "consumers", row.max_consumers_count, count_text
        ),
        _use_text(bytes_text(row.storage_bytes), "on file", row.max_storage_bytes, bytes_text),
        _use_text(bytes_text(row.memory_bytes), "in memory", row.max_memory_bytes, bytes_text),
        f"API {counted(count_text(row.api_requests_count), 'request')}",
        counted(count_text(row.api_errors_count), "error"),
    )
    return f"account {row.name or UNKNOWN}: {', '.join(use_texts)}"


def _use_text(
    used_text: str, limit_name: str, limit: int | None, format_limit: Callable[[int], str]
) -> str:
    return (
        f"{used_text} {limit_name}"
        if limit is None
        else f"{used_text} of {format_limit(limit)} {limit_name}"
    )


def server_rows(state: State) -> Iterator[ServerRow | AccountRow]:
    """Yield the rows of the server and of the account, as far as they were read."""
    for row in (server_row(state), account_row(state)):
        if row is not None:
            yield row
