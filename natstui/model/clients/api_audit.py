"""An audit of the requests of clients to the JetStream API, and its texts."""

from __future__ import annotations

from msgspec import Struct

from natstui.units import bytes_text, counted, duration_text, rate_text

API_AUDIT_DURATION_S = 10.0
"""Duration of an audit on the screen, in seconds."""
MAX_AUDITED_MSGS = 100_000
"""Limit of requests at which an audit ends."""
MAX_AUDITED_PER_S = 10_000
"""Limit of requests per second at which an audit ends."""
MAX_AUDITED_BYTES = 64 * 2**20
"""Limit of bytes at which an audit ends: each request comes with its complete reply."""


class AuditedRequests(Struct, frozen=True):
    """Requests with the same client, subject and error."""

    request: str
    """The subject without the API prefix: `CONSUMER.INFO.ORDERS.billing`."""
    client: str
    """The name of the client, else its host."""
    user: str | None
    err_code: int | None
    """The error code of the reply; None without an error."""
    error: str | None
    times_count: int


class ApiAudit(Struct, frozen=True):
    """The results of an audit of the account's API; never recorded."""

    elapsed_s: float
    ended: str
    """Reason why the audit ended."""
    requests: tuple[AuditedRequests, ...]
    """Groups of requests, the most frequent first."""
    requests_count: int
    errors_count: int
    left_out_count: int
    """Requests that are in none of the listed groups, because there were too many."""
    read_msgs: int
    read_bytes: int
    """Cost of the audit: messages and bytes that the server sent for it."""


def error_text(requests: AuditedRequests) -> str:
    """Return the error of the replies as text; empty without an error."""
    return "" if requests.err_code is None else f"{requests.err_code} {requests.error}"


def audit_counts_text(audit: ApiAudit) -> str:
    """Return the number of requests and of errors as text."""
    requests_per_s_text = rate_text(
        audit.requests_count / audit.elapsed_s if audit.elapsed_s else None
    )
    return (
        f"{counted(audit.requests_count, 'request')} of other clients in "
        f"{duration_text(audit.elapsed_s)} ({requests_per_s_text}/s), "
        f"{counted(audit.errors_count, 'error')}"
    )


def audit_cost_text(audit: ApiAudit) -> str:
    """Return the reason why an audit ended, and its cost, as text."""
    cost_text = f"{counted(audit.read_msgs, 'message')}, {bytes_text(audit.read_bytes)}"
    return f"{audit.ended}; polling was paused; natstui read {cost_text}"
