"""Requests that a tap received, by the connection that waits for their replies.

A tap is a subscription for some seconds to requests of clients.
"""

from __future__ import annotations

from msgspec import Struct

from natstui.model.clients.connection import ClientConnection


class Requester(Struct, frozen=True):
    """A client with its requests that a tap received."""

    connection: ClientConnection | None
    """Its connection; None for a client of another account, whose connections are unknown."""
    account: str | None
    """The account of a client of another account, else None."""
    requests_count: int
    request_bytes: int
    last_at_us: int
    """Time of its last request, by natstui's clock."""
    about: tuple[str, ...]
    """Batches or subjects of its requests, the most frequent first."""
    pins: tuple[str, ...]
    """Pin ids that it sent."""
    longest_wait_s: float | None
    """Longest time for which the server may keep its requests open; None: they do not wait."""
    delivered_msgs: int | None = None
    """Messages sent to its inboxes since they were found, including status messages.

    None if unknown: its inbox is closed, as with clients that use a new one for each request.
    """


class TappedRequests(Struct, frozen=True):
    """The results of a tap: the clients whose requests it received, and its cost."""

    elapsed_s: float
    ended: str
    """The reason of its end."""
    read_msgs: int
    read_bytes: int
    """Cost of the tap: messages and bytes that the server sent for it."""
    questions_count: int
    """Number of requests to all servers for the owner of an inbox."""
    requesters: tuple[Requester, ...]
    anonymous_msgs: int
    """Messages without a reply subject, so that their client is unknown."""
    gone_msgs: int
    """Requests whose inbox was closed before its owner was requested."""
