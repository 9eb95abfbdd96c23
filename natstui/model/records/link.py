"""The connection to a server: its state, and the permissions of its user."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

LinkState = Literal["connecting", "connected", "reconnecting", "failed", "closed"]


class LinkChanged(Struct, frozen=True):
    """The connection to the server changed its state."""

    at_us: int
    state: LinkState
    reason: str | None
    """One sentence: why it failed, or why it was lost."""
    server_name: str | None = None
    server_version: str | None = None
    server_url: str | None = None
    cluster: str | None = None
    user: str | None = None
    account: str | None = None
    """The watched account: the user's, unless another was requested."""
    tls: bool = False
    jetstream: bool | None = None
    api_level: int | None = None
    domain: str | None = None
    max_payload_bytes: int | None = None


class Permitted(Struct, frozen=True):
    """The permissions of the connected user (`$SYS.REQ.USER.INFO`); None is everything."""

    at_us: int
    publish_allow: tuple[str, ...] | None
    publish_deny: tuple[str, ...]
    subscribe_allow: tuple[str, ...] | None
    subscribe_deny: tuple[str, ...]
