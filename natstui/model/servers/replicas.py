"""What a leader says of a replica: of a stream, a consumer or the meta group."""

from __future__ import annotations

from typing import Literal, Protocol

from natstui.model.findings.thresholds import PEER_ACTIVE_S
from natstui.units import duration_text

ReplicaState = Literal["offline", "away", "silent", "behind", "current"]
"""`away`: its leader never heard of it; `silent`: not for some seconds."""


class Replica(Protocol):
    """One replica, as its leader sees it."""

    @property
    def current(self) -> bool:
        """It has what the leader has, as far as the leader knows; told late."""

    @property
    def offline(self) -> bool:
        """It was stopped; of one that crashed it is told minutes later."""

    @property
    def active_ns(self) -> int | None:
        """Since the leader heard of it last; None, in old recordings 0, when it never did."""


def state_of(one: Replica) -> ReplicaState:
    """Return what a replica is.

    `offline` and `current` tell it late or never, so what counts is how long ago it was heard of.
    """
    if one.offline:
        return "offline"
    if not one.active_ns:
        return "current" if one.current else "away"
    if one.active_ns > PEER_ACTIVE_S * 1e9:
        return "silent"
    return "current" if one.current else "behind"


def is_away(one: Replica) -> bool:
    """Return whether the leader does not hear of it."""
    return state_of(one) in ("offline", "away", "silent")


def replica_text(one: Replica, lag_count: int) -> str:
    """Return what a replica is, and since when its leader has heard nothing of it."""
    heard = "never in contact with the leader"
    if one.active_ns:
        heard = f"heard of {duration_text(one.active_ns / 1e9)} ago"
    elif one.current:
        heard = "no contact yet"
    return f"{state_of(one)}, lag {lag_count}, {heard}"
