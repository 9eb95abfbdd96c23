"""What a form is checked against: names and subjects in use, servers, templates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from natstui.model.assets.templates import Template


@dataclass(frozen=True, slots=True)
class OtherStream:
    """Another stream of the account: its name and subjects must not be used again."""

    name: str
    subjects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NamesInUse:
    """What the server already has, while somebody fills in a form."""

    streams: tuple[OtherStream, ...] = ()
    servers_count: int | None = None
    """Servers that could hold replicas; None when the user may not ask."""
    api_level: int | None = None
    consumer_filters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Of the stream's own consumers, by name; an empty tuple takes everything."""
    templates: tuple[Template, ...] = ()
    streams_known: bool = False
    """Whether the account's streams were asked for: what is not among them does not exist."""
