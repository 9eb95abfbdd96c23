"""`CONSUMER.LIST` and `CONSUMER.INFO` → rows."""

from __future__ import annotations

import msgspec

from natstui.jetstream.decode_cluster import ClusterRow, Page, reading


class _Place(msgspec.Struct):
    consumer_seq: int = 0
    stream_seq: int = 0
    last_active: str | None = None


class _Group(msgspec.Struct):
    pinned_client_id: str = ""


class ConsumerRow(msgspec.Struct):
    """One consumer; its configuration stays raw until it is known to have changed."""

    stream_name: str
    name: str
    created: str
    config: msgspec.Raw
    delivered: _Place
    ack_floor: _Place
    num_pending: int = 0
    num_ack_pending: int = 0
    num_redelivered: int = 0
    num_waiting: int = 0
    push_bound: bool = False
    paused: bool = False
    priority_groups: list[_Group] | None = None
    cluster: ClusterRow | None = None
    sampled_mono_us: int = 0
    """Filled in: when the reply arrived."""
    next_at_us: int | None = None
    """Filled in, when it was asked for."""


class _Reply(msgspec.Struct):
    total: int = 0
    limit: int = 256
    consumers: list[ConsumerRow] | None = None
    missing: list[str] | None = None
    offline: dict[str, str] | None = None


_REPLY = msgspec.json.Decoder(_Reply)
_ROW = msgspec.json.Decoder(ConsumerRow)


def read_consumers(data: bytes, mono_us: int) -> Page[ConsumerRow]:
    """Read one page of `CONSUMER.LIST`; raise RequestFailed when it cannot be read.

    Rows of unreachable consumers are left out: the server fills them with zeros, and leaves
    their names empty.
    """
    with reading("CONSUMER.LIST"):
        reply = _REPLY.decode(data)
    missing = {*(reply.missing or ()), *(reply.offline or ())}
    rows = tuple(row for row in reply.consumers or () if row.name and row.name not in missing)
    for row in rows:
        row.sampled_mono_us = mono_us
    return Page(rows, reply.total, reply.limit, tuple(sorted(missing)))


def read_consumer(data: bytes, mono_us: int) -> ConsumerRow:
    """Read `CONSUMER.INFO`; raise RequestFailed when it cannot be read."""
    with reading("CONSUMER.INFO"):
        row = _ROW.decode(data)
    row.sampled_mono_us = mono_us
    return row
