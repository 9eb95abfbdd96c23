"""`STREAM.LIST` and `STREAM.INFO` → rows."""

from __future__ import annotations

import msgspec

from natstui.jetstream.decode_cluster import ClusterRow, Page, reading


class _Lost(msgspec.Struct):
    msgs: list[int] | None = None


class _State(msgspec.Struct):
    messages: int = 0
    bytes: int = 0
    first_seq: int = 0
    last_seq: int = 0
    first_ts: str | None = None
    last_ts: str | None = None
    num_deleted: int = 0
    num_subjects: int = 0
    consumer_count: int = 0
    lost: _Lost | None = None


class _Error(msgspec.Struct):
    description: str = ""


class UpstreamRow(msgspec.Struct):
    """`mirror`, or one of `sources[]`."""

    name: str = ""
    lag: int = 0
    active: int = -1
    error: _Error | None = None


class StreamRow(msgspec.Struct):
    """One stream of a list; its configuration stays raw until it is known to have changed."""

    config: msgspec.Raw
    created: str
    state: _State
    cluster: ClusterRow | None = None
    mirror: UpstreamRow | None = None
    sources: tuple[UpstreamRow, ...] | None = None
    name: str = ""
    """Filled in from the configuration."""
    sampled_mono_us: int = 0
    """Filled in: when the reply arrived."""


class _Reply(msgspec.Struct):
    total: int = 0
    limit: int = 256
    streams: list[StreamRow] | None = None
    missing: list[str] | None = None
    offline: dict[str, str] | None = None


class _NamedRow(msgspec.Struct):
    name: str = ""


_REPLY = msgspec.json.Decoder(_Reply)
_ROW = msgspec.json.Decoder(StreamRow)
_NAMED = msgspec.json.Decoder(_NamedRow)


def read_streams(data: bytes, mono_us: int) -> Page[StreamRow]:
    """Read one page of `STREAM.LIST`; raise RequestFailed when it cannot be read.

    Rows of unreachable streams are left out: the server fills them with zeros.
    """
    with reading("STREAM.LIST"):
        reply = _REPLY.decode(data)
        missing = {*(reply.missing or ()), *(reply.offline or ())}
        rows = tuple(_named(row, mono_us) for row in reply.streams or ())
    reachable = tuple(row for row in rows if row.name not in missing)
    return Page(reachable, reply.total, reply.limit, tuple(sorted(missing)))


def read_stream(data: bytes, mono_us: int) -> StreamRow:
    """Read `STREAM.INFO`; raise RequestFailed when it cannot be read."""
    with reading("STREAM.INFO"):
        return _named(_ROW.decode(data), mono_us)


def _named(row: StreamRow, mono_us: int) -> StreamRow:
    row.name = _NAMED.decode(row.config).name
    row.sampled_mono_us = mono_us
    return row
