"""What is known of the server while somebody fills in a form."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another stream of the account, as far as a new one can collide with it."""

    name: str
    subjects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known of the server while somebody fills in a form."""

    streams: tuple[Neighbour, ...] = ()
    servers_count: int | None = None
    """Servers with JetStream; None when the user may not ask."""
    default_max_consumers_count: int | None = None
