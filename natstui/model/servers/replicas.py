"""The state of a replica of a stream, consumer or the meta group, as its leader reports it."""

from __future__ import annotations

from typing import Literal, Protocol

from natstui.model.findings.thresholds import PEER_OFFLINE_AFTER_S
from natstui.units import duration_text

ReplicaState = Literal["offline", "away", "silent", "behind", "current"]
"""`away`: its leader had no contact yet; `silent`: no contact for some seconds."""


class Replica(Protocol):
    """A replica, as its leader reports it."""

    @property
    def current(self) -> bool:
        """Return whether the replica has all entries of the leader; reported with a delay."""

    @property
    def offline(self) -> bool:
        """Return whether the replica's server is down; a crash is reported minutes later."""

    @property
    def active_ns(self) -> int | None:
        """Return the time since the leader's last contact; None (old servers: 0) without any."""


def replica_state(replica: Replica) -> ReplicaState:
    """Return the state of a replica.

    Servers report `offline` and `current` with a delay or never, so the last contact counts too.
    """
    if replica.offline:
        return "offline"
    if not replica.active_ns:
        return "current" if replica.current else "away"
    if replica.active_ns > PEER_OFFLINE_AFTER_S * 1e9:
        return "silent"
    return "current" if replica.current else "behind"


def has_lost_leader_contact(replica: Replica) -> bool:
    """Return whether the leader has no contact to a replica."""
    return replica_state(replica) in ("offline", "away", "silent")


def replica_text(replica: Replica, lag_count: int) -> str:
    """Return the state, lag and last contact of a replica as text.

    `lag_count` are messages or entries.
    """
    contact_text = "never in contact with the leader"
    if replica.active_ns:
        contact_text = f"last contact {duration_text(replica.active_ns / 1e9)} ago"
    elif replica.current:
        contact_text = "no contact yet"
    return f"{replica_state(replica)}, lag {lag_count}, {contact_text}"
