"""Configurations of streams and consumers: the fields that screens need, and the entire JSON."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

StreamKind = Literal["stream", "kv", "object"]


class StreamConfiguration(Struct, frozen=True):
    """The configuration of a stream; a limit of None is unlimited."""

    name: str
    created_at_us: int
    kind: StreamKind
    """A KV bucket (`KV_`) and an object store (`OBJ_`) are streams with a convention."""
    description: str
    subjects: tuple[str, ...]
    storage: str
    retention: str
    discard: str
    max_msgs: int | None
    max_bytes: int | None
    max_age_ns: int | None
    max_msgs_per_subject: int | None
    max_msg_size_bytes: int | None
    max_consumers_count: int | None
    duplicate_window_ns: int | None
    replicas_count: int
    sealed: bool
    allow_direct: bool
    mirror: str | None
    sources: tuple[str, ...]
    config_json: str
    """The entire configuration as the server sent it."""


class ConsumerConfiguration(Struct, frozen=True):
    """The configuration of a consumer; a limit of None is unlimited."""

    stream: str
    name: str
    created_at_us: int
    description: str
    durable: bool
    pull: bool
    deliver_policy: str
    ack_policy: str
    ack_wait_ns: int | None
    max_deliver_count: int | None
    max_ack_pending_msgs: int | None
    max_waiting_pulls_count: int | None
    filter_subjects: tuple[str, ...]
    deliver_subject: str | None
    deliver_group: str | None
    inactive_threshold_ns: int | None
    priority_policy: str | None
    replicas_count: int
    config_json: str
    """The entire configuration as the server sent it."""
