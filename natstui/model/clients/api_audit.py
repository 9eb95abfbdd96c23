"""What clients requested of the JetStream API while an audit read it, and its words."""

from __future__ import annotations

from dataclasses import dataclass

from natstui.units import bytes_text, counted, duration_text, rate_text

API_AUDIT_S = 10.0
"""How long an audit lasts on the screen."""
MOST_AUDITED_MSGS = 100_000
"""An audit ends after so many requests,"""
MOST_AUDITED_PER_S = 10_000
"""when more than this come in a second,"""
MOST_AUDITED_BYTES = 64 * 2**20
"""or when the server sent so much for it: each comes with its complete reply."""


@dataclass(frozen=True, slots=True)
class AuditedRequests:
    """Requests that are alike: the same client, the same subject, the same error."""

    request: str
    """The subject without its prefix: `CONSUMER.INFO.ORDERS.billing`."""
    client: str
    """The name of the client, else its host."""
    user: str | None
    err_code: int | None
    """The error of the reply; None where it was answered."""
    error: str | None
    times_count: int


@dataclass(frozen=True, slots=True)
class ApiAudit:
    """What an audit of the account's API has read; never recorded."""

    elapsed_s: float
    ended: str
    """Why it ended."""
    requests: tuple[AuditedRequests, ...]
    """The most frequent first."""
    requests_count: int
    errors_count: int
    left_out_count: int
    """Requests that were too many different ones to list."""
    read_msgs: int
    read_bytes: int
    """What it cost: messages and bytes that the server sent for it."""


def error_text(requests: AuditedRequests) -> str:
    """Return the error of the replies; empty where they were answered."""
    return "" if requests.err_code is None else f"{requests.err_code} {requests.error}"


def audit_counts_text(audit: ApiAudit) -> str:
    """Return how many requests came, and how many failed."""
    per_s = rate_text(audit.requests_count / audit.elapsed_s if audit.elapsed_s else None)
    return (
        f"{counted(audit.requests_count, 'request')} of other clients in "
        f"{duration_text(audit.elapsed_s)} ({per_s}/s), {counted(audit.errors_count, 'error')}"
    )


def audit_cost_text(audit: ApiAudit) -> str:
    """Return why it ended, and what reading cost."""
    cost = f"{counted(audit.read_msgs, 'message')}, {bytes_text(audit.read_bytes)}"
    return f"{audit.ended}; polling was paused; natstui read {cost}"
