"""A stream's configuration, as far as the screens need it."""

from __future__ import annotations

import msgspec

from natstui.jetstream.decode_cluster import limit, reading
from natstui.jetstream.decode_stream import StreamRow
from natstui.jetstream.decode_time import time_us
from natstui.model.configuration import StreamConfiguration, StreamKind


class _Named(msgspec.Struct):
    name: str = ""


class _Config(msgspec.Struct):
    name: str
    description: str = ""
    subjects: tuple[str, ...] | None = None
    storage: str = "file"
    retention: str = "limits"
    discard: str = "old"
    max_msgs: int = -1
    max_bytes: int = -1
    max_age: int = 0
    max_msgs_per_subject: int = -1
    max_msg_size: int = -1
    max_consumers: int = -1
    duplicate_window: int = 0
    num_replicas: int = 1
    sealed: bool = False
    allow_direct: bool = False
    mirror: _Named | None = None
    sources: tuple[_Named, ...] | None = None


_CONFIG = msgspec.json.Decoder(_Config)


def stream_kind(name: str) -> StreamKind:
    """Tell a KV bucket and an object store by the convention of their stream's name."""
    if name.startswith("KV_"):
        return "kv"
    return "object" if name.startswith("OBJ_") else "stream"


def stream_configuration(row: StreamRow) -> StreamConfiguration:
    """Return the configuration of a row; raise RequestFailed when it cannot be read."""
    raw = bytes(row.config)
    with reading("STREAM.LIST"):
        config = _CONFIG.decode(raw)
        created_at_us = time_us(row.created)
    return StreamConfiguration(
        name=config.name,
        created_at_us=created_at_us,
        kind=stream_kind(config.name),
        description=config.description,
        subjects=config.subjects or (),
        storage=config.storage,
        retention=config.retention,
        discard=config.discard,
        max_msgs=limit(config.max_msgs),
        max_bytes=limit(config.max_bytes),
        max_age_ns=limit(config.max_age),
        max_msgs_per_subject=limit(config.max_msgs_per_subject),
        max_msg_size_bytes=limit(config.max_msg_size),
        max_consumers_count=limit(config.max_consumers),
        duplicate_window_ns=limit(config.duplicate_window),
        replicas_count=config.num_replicas,
        sealed=config.sealed,
        allow_direct=config.allow_direct,
        mirror=config.mirror.name if config.mirror else None,
        sources=tuple(source.name for source in config.sources or ()),
        config_json=raw.decode(),
    )
