"""What is known of the server while somebody fills in a form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from natstui.model.templates import Template


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
    """Servers that could hold replicas; None when the user may not ask."""
    api_level: int | None = None
    consumer_filters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Of the stream's own consumers, by name; an empty tuple takes everything."""
    templates: tuple[Template, ...] = ()
