"""The confirmation of a change by the user: its effect, losses and server."""

from __future__ import annotations

from msgspec import Struct


class ServerIdentity(Struct, frozen=True):
    """The JetStream system and account in which changes are made."""

    target: str
    """The connection's label and address."""
    place: str | None
    server_id: str | None
    account: str | None


class Confirmation(Struct, frozen=True):
    """The effect and losses of a change, and the name to type for its confirmation.

    The reply to a dry run, and to a change that is refused until it is confirmed.
    """

    question: str
    """A clause with the target and the losses."""
    name: str
    """The name to type."""
    needed: bool
    """Whether it is refused without the name: something is deleted for good, or in production."""
    lines: tuple[str, ...] = ()
    """Losses, one clause each."""
    most_msgs: int | None = None
    """Maximum number of deleted messages; None if unknown."""
    last_seq: int | None = None
    """Last sequence of the stream at the count; None if unknown."""
    last_at_us: int | None = None
    """When the last message was stored."""
    created_at_us: int | None = None
    """Creation time of the stream or consumer; None for a new one."""
    revision_seq: int = 0
    """Revision of a key or object that is replaced or deleted."""
    place: ServerIdentity | None = None
    """The server and account of the change."""
