"""Who asks: requests that a tap read, by the connection that waits for their answers."""

from __future__ import annotations

from dataclasses import dataclass

from natstui.model.clients.connection import ClientConnection


@dataclass(frozen=True, slots=True)
class Asker:
    """One client, and what it asked for while the tap read."""

    connection: ClientConnection | None
    """None for a client of another account, whose connections are not told."""
    account: str | None
    """The other account, where it is one."""
    requests_count: int
    request_bytes: int
    last_at_us: int
    """When its last request came, by our clock."""
    about: tuple[str, ...]
    """What its requests were about, the most frequent first: batches, or subjects."""
    pins: tuple[str, ...]
    """Pin ids that it sent."""
    longest_wait_s: float | None
    """How long the server may keep a request of it open; None does not wait."""
    delivered_msgs: int | None = None
    """What the server sent to its inboxes since they were found, status messages included.

    None is not known: its inbox is gone, as with clients that take a new one for each request.
    """


@dataclass(frozen=True, slots=True)
class TappedRequests:
    """What a tap of requests has read."""

    elapsed_s: float
    ended: str
    """Why it ended."""
    read_msgs: int
    read_bytes: int
    """What it cost: messages and bytes that the server sent for it,"""
    questions_count: int
    """and how often all servers were asked whose inbox one is."""
    askers: tuple[Asker, ...]
    anonymous_msgs: int
    """Messages without a reply subject: nobody can say whose they are."""
    gone_msgs: int
    """Requests whose inbox was gone when the servers were asked for it."""
