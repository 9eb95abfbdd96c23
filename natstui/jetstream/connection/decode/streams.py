"""Decodes `STREAM.LIST` and `STREAM.INFO` to rows, columns and configurations."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import to_builtins

from natstui.decoding import decoder_of
from natstui.jetstream.connection.decode.asset import (
    AnyCount,
    AssetRow,
    AssetShape,
    Page,
    Time,
    clamp_to_int64,
    desired_of,
    leader_of,
    limit_or_none,
    peers_of,
)
from natstui.jetstream.connection.replies import raise_unreadable
from natstui.jetstream.connection.times import time_or_never_us, time_us
from natstui.model.assets.configuration import StreamConfiguration, StreamKind
from natstui.model.live.snapshot import StoredReplica, StreamColumns, Upstream


class _LostMessages(msgspec.Struct):
    msgs: list[int] | None = None
    bytes: int = 0


class StreamState(msgspec.Struct):
    """The stored messages of a stream."""

    messages: int = 0
    bytes: int = 0
    first_seq: int = 0
    last_seq: int = 0
    first_ts: str | None = None
    last_ts: str | None = None
    num_deleted: int = 0
    num_subjects: int = 0
    consumer_count: int = 0
    lost: _LostMessages | None = None
    deleted: list[int] | None = None
    """Deleted sequences between the first and last; only if they were requested."""
    subjects: dict[str, int] | None = None
    """Subject → number of messages; only if it was requested."""

    @property
    def first_at_us(self) -> int | None:
        """Return when the first message was stored, in UTC µs; None without one.

        Raises RequestFailed for an invalid time.
        """
        with raise_unreadable("STREAM.INFO"):
            return time_or_never_us(self.first_ts)

    @property
    def last_at_us(self) -> int | None:
        """Return when the last message was stored, in UTC µs; None without one.

        Raises RequestFailed for an invalid time.
        """
        with raise_unreadable("STREAM.INFO"):
            return time_or_never_us(self.last_ts)


def read_state(state: object) -> StreamState:
    """Return a state from decoded JSON; raises msgspec.ValidationError for a wrong type."""
    return msgspec.convert(state, StreamState)


def state_fields(state: StreamState) -> dict[str, object]:
    """Return the fields of a state as the server sends them, without the deleted sequences."""
    fields = to_builtins(state)
    left_out_names = {"deleted", *(name for name in _OMITTED_IF_ZERO if not fields[name])}
    return {
        name: value
        for name, value in fields.items()
        if value is not None and name not in left_out_names
    }


_OMITTED_IF_ZERO = ("num_deleted", "num_subjects")
"""Fields of a state that the server leaves out if they are 0."""


class _UpstreamError(msgspec.Struct):
    description: str = ""


class UpstreamRow(msgspec.Struct):
    """The section `mirror`, or one of `sources`."""

    name: str = ""
    lag: int = 0
    active: int = -1
    error: _UpstreamError | None = None


class StreamRow(AssetRow, kw_only=True):
    """One stream."""

    state: StreamState
    mirror: UpstreamRow | None = None
    sources: tuple[UpstreamRow, ...] | None = None
    total: int = 0
    """Number of subjects on all pages, if they were requested; 0 if there is only one page."""
    name: str = ""
    """Name in the configuration; set after decoding."""
    stored_replicas: tuple[StoredReplica, ...] = ()
    """Stored messages of replicas, from the replies of other servers; set after decoding."""


class StreamStateShape(msgspec.Struct):
    """The required types of the fields of a stream's state."""

    messages: AnyCount
    bytes: AnyCount
    first_seq: AnyCount
    last_seq: AnyCount
    consumer_count: AnyCount
    first_ts: Time | None = None
    last_ts: Time | None = None
    num_deleted: AnyCount = 0
    deleted: list[AnyCount] | None = None
    num_subjects: AnyCount = 0
    subjects: dict[str, AnyCount] | None = None
    lost: _LostMessages | None = None


class StreamShape(AssetShape, kw_only=True):
    """The required types of the fields of a stream, without its configuration.

    A poll does not check them: only the row with a wrong number is left out of it.
    """

    state: StreamStateShape
    mirror: UpstreamRow | None = None
    sources: tuple[UpstreamRow, ...] | None = None
    total: AnyCount = 0


class _Reply(msgspec.Struct):
    total: int = 0
    limit: int = 256
    streams: list[StreamRow] | None = None
    missing: list[str] | None = None
    offline: dict[str, str] | None = None


class _ConfigName(msgspec.Struct):
    name: str = ""


_LIST_DECODER = decoder_of(_Reply)
_ROW_DECODER = decoder_of(StreamRow)
_CONFIG_NAME_DECODER = decoder_of(_ConfigName)


def read_streams(data: bytes, received_mono_us: int = 0, request_us: int = 0) -> Page[StreamRow]:
    """Decode one page of `STREAM.LIST`; raises RequestFailed if it is unreadable.

    The page arrived at `received_mono_us`, `request_us` after its request.
    """
    with raise_unreadable("STREAM.LIST"):
        reply = _LIST_DECODER.decode(data)
        offline = reply.offline or {}
        missing = {*(reply.missing or ()), *offline}
        rows = tuple(
            _set_name_and_times(row, received_mono_us, request_us) for row in reply.streams or ()
        )
    return Page(
        tuple(row for row in rows if row.name not in missing),
        reply.total,
        reply.limit,
        tuple(sorted(missing)),
        offline,
        tuple(row for row in rows if row.name in missing),
    )


def read_stream(data: bytes, received_mono_us: int = 0, request_us: int = 0) -> StreamRow:
    """Decode a reply to `STREAM.INFO`; raises RequestFailed if it is unreadable.

    It arrived at `received_mono_us`, `request_us` after its request.
    """
    with raise_unreadable("STREAM.INFO"):
        return _set_name_and_times(_ROW_DECODER.decode(data), received_mono_us, request_us)


def _set_name_and_times(row: StreamRow, received_mono_us: int, request_us: int) -> StreamRow:
    row.name = _CONFIG_NAME_DECODER.decode(row.config).name
    row.written_at_us = time_or_never_us(row.ts)
    row.requested_mono_us = received_mono_us - request_us
    row.sampled_mono_us = received_mono_us
    return row


def _make_upstream(row: UpstreamRow, is_mirror: bool) -> Upstream:
    error = row.error.description or "unknown" if row.error else None
    # `active` -1 means that nothing was ever received.
    active_ns = clamp_to_int64(row.active) if row.active >= 0 else None
    return Upstream(row.name, clamp_to_int64(row.lag), active_ns, error, is_mirror)


def _make_upstreams(row: StreamRow) -> tuple[Upstream, ...]:
    mirror = (_make_upstream(row.mirror, True),) if row.mirror else ()
    return mirror + tuple(_make_upstream(source, False) for source in row.sources or ())


def stream_columns(rows: Sequence[StreamRow], server_name: str | None) -> StreamColumns:
    """Return the columns of rows; `server_name` is the leader of rows without a cluster section.

    Raises ValueError for an invalid time.
    """
    states = [row.state for row in rows]
    return StreamColumns(
        name=tuple(row.name for row in rows),
        created_at_us=tuple(time_us(row.created) for row in rows),
        sampled_mono_us=tuple(row.sampled_mono_us for row in rows),
        stored_msgs=tuple(state.messages for state in states),
        stored_bytes=tuple(state.bytes for state in states),
        first_seq=tuple(state.first_seq for state in states),
        last_seq=tuple(state.last_seq for state in states),
        first_at_us=tuple(
            time_or_never_us(state.first_ts) if state.messages else None for state in states
        ),
        last_at_us=tuple(time_or_never_us(state.last_ts) for state in states),
        deleted_msgs=tuple(state.num_deleted for state in states),
        lost_msgs=tuple(len(state.lost.msgs or ()) if state.lost else 0 for state in states),
        subjects_count=tuple(state.num_subjects for state in states),
        consumers_count=tuple(state.consumer_count for state in states),
        leader=tuple(leader_of(row.cluster, server_name) for row in rows),
        peers=tuple(peers_of(row.cluster) for row in rows),
        upstreams=tuple(_make_upstreams(row) for row in rows),
        replicas=tuple(row.stored_replicas for row in rows),
        desired=tuple(desired_of(row.cluster) for row in rows),
    )


class _NamedUpstream(msgspec.Struct):
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
    mirror: _NamedUpstream | None = None
    sources: tuple[_NamedUpstream, ...] | None = None


_CONFIG_DECODER = decoder_of(_Config)


def stream_kind(name: str) -> StreamKind:
    """Return the kind of a stream by its name: KV bucket, object store or plain stream."""
    if name.startswith("KV_"):
        return "kv"
    return "object" if name.startswith("OBJ_") else "stream"


def stream_configuration(row: StreamRow) -> StreamConfiguration:
    """Return the configuration of a row; raises RequestFailed if unreadable."""
    raw_config = bytes(row.config)
    with raise_unreadable("STREAM.LIST"):
        config_json, config = raw_config.decode(), _CONFIG_DECODER.decode(raw_config)
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
        max_msgs=limit_or_none(config.max_msgs),
        max_bytes=limit_or_none(config.max_bytes),
        max_age_ns=limit_or_none(config.max_age),
        max_msgs_per_subject=limit_or_none(config.max_msgs_per_subject),
        max_msg_size_bytes=limit_or_none(config.max_msg_size),
        max_consumers_count=limit_or_none(config.max_consumers),
        duplicate_window_ns=limit_or_none(config.duplicate_window),
        replicas_count=config.num_replicas,
        sealed=config.sealed,
        allow_direct=config.allow_direct,
        mirror=config.mirror.name if config.mirror else None,
        sources=tuple(source.name for source in config.sources or ()),
        config_json=config_json,
    )
