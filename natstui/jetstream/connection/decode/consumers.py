"""Decodes `CONSUMER.LIST` and `CONSUMER.INFO` to rows, columns and configurations."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from natstui.decoding import decoder_of
from natstui.jetstream.connection.decode.asset import (
    AnyCount,
    AssetRow,
    AssetShape,
    Page,
    Time,
    leader_of,
    limit_or_none,
    peers_of,
)
from natstui.jetstream.connection.replies import raise_unreadable
from natstui.jetstream.connection.times import time_or_never_us, time_us
from natstui.model.assets.configuration import ConsumerConfiguration
from natstui.model.live.snapshot import ConsumerColumns


class _Position(msgspec.Struct):
    consumer_seq: int = 0
    stream_seq: int = 0
    last_active: str | None = None


class _PriorityGroup(msgspec.Struct):
    pinned_client_id: str = ""
    pinned_ts: str | None = None


class ConsumerRow(AssetRow, kw_only=True):
    """One consumer."""

    stream_name: str
    name: str
    delivered: _Position
    ack_floor: _Position
    num_pending: int = 0
    num_ack_pending: int = 0
    num_redelivered: int = 0
    num_waiting: int = 0
    push_bound: bool = False
    paused: bool = False
    priority_groups: list[_PriorityGroup] | None = None
    next_at_us: int | None = None
    """When the next message was stored; set if it was requested."""


class _PositionShape(msgspec.Struct):
    consumer_seq: AnyCount
    stream_seq: AnyCount
    last_active: Time | None = None


class ConsumerShape(AssetShape, kw_only=True):
    """The required types of the fields of a consumer, without its configuration.

    A poll does not check them: only the row with a wrong number is left out of it.
    """

    name: str
    stream_name: str
    delivered: _PositionShape
    ack_floor: _PositionShape
    num_pending: AnyCount
    num_ack_pending: AnyCount
    num_redelivered: AnyCount
    num_waiting: AnyCount
    push_bound: bool = False
    paused: bool = False
    priority_groups: list[_PriorityGroup] | None = None


class _Reply(msgspec.Struct):
    total: int = 0
    limit: int = 256
    consumers: list[ConsumerRow] | None = None
    missing: list[str] | None = None
    offline: dict[str, str] | None = None


_LIST_DECODER = decoder_of(_Reply)
_ROW_DECODER = decoder_of(ConsumerRow)


def read_consumers(
    data: bytes, received_mono_us: int = 0, request_us: int = 0
) -> Page[ConsumerRow]:
    """Decode one page of `CONSUMER.LIST`; raises RequestFailed if it is unreadable.

    The page arrived at `received_mono_us`, `request_us` after its request. In rows of unreachable
    consumers the server leaves the names empty: they get those of their configurations.
    """
    with raise_unreadable("CONSUMER.LIST"):
        reply = _LIST_DECODER.decode(data)
        offline = reply.offline or {}
        missing = {*(reply.missing or ()), *offline}
        rows, unreachable_rows = list[ConsumerRow](), list[ConsumerRow]()
        for row in reply.consumers or ():
            _set_times(row, received_mono_us, request_us)
            if row.name and row.name not in missing:
                rows.append(row)
                continue
            if not row.name:
                config = _CONFIG_DECODER.decode(row.config)
                row.name = config.name or config.durable_name
            unreachable_rows.append(row)
    return Page(
        tuple(rows),
        reply.total,
        reply.limit,
        tuple(sorted(missing)),
        offline,
        tuple(unreachable_rows),
    )


def read_consumer(data: bytes, received_mono_us: int = 0, request_us: int = 0) -> ConsumerRow:
    """Decode a reply to `CONSUMER.INFO`; raises RequestFailed if it is unreadable.

    It arrived at `received_mono_us`, `request_us` after its request.
    """
    with raise_unreadable("CONSUMER.INFO"):
        return _set_times(_ROW_DECODER.decode(data), received_mono_us, request_us)


def _set_times(row: ConsumerRow, received_mono_us: int, request_us: int) -> ConsumerRow:
    row.written_at_us = time_or_never_us(row.ts)
    row.requested_mono_us = received_mono_us - request_us
    row.sampled_mono_us = received_mono_us
    return row


def _find_pinned_group(row: ConsumerRow) -> _PriorityGroup | None:
    """Return the priority group with a pinned client; None without one."""
    groups = row.priority_groups or ()
    return next((group for group in groups if group.pinned_client_id), None)


def consumer_columns(rows: Sequence[ConsumerRow], server_name: str | None) -> ConsumerColumns:
    """Return the columns of rows; `server_name` is the leader of rows without a cluster section.

    Raises ValueError for an invalid time.
    """
    groups = [_find_pinned_group(row) for row in rows]
    return ConsumerColumns(
        stream=tuple(row.stream_name for row in rows),
        name=tuple(row.name for row in rows),
        created_at_us=tuple(time_us(row.created) for row in rows),
        sampled_mono_us=tuple(row.sampled_mono_us for row in rows),
        delivered_consumer_seq=tuple(row.delivered.consumer_seq for row in rows),
        delivered_stream_seq=tuple(row.delivered.stream_seq for row in rows),
        ack_floor_consumer_seq=tuple(row.ack_floor.consumer_seq for row in rows),
        ack_floor_stream_seq=tuple(row.ack_floor.stream_seq for row in rows),
        delivered_at_us=tuple(time_or_never_us(row.delivered.last_active) for row in rows),
        acked_at_us=tuple(time_or_never_us(row.ack_floor.last_active) for row in rows),
        pending_msgs=tuple(row.num_pending for row in rows),
        ack_pending_msgs=tuple(row.num_ack_pending for row in rows),
        redelivered_msgs=tuple(row.num_redelivered for row in rows),
        waiting_pulls_count=tuple(row.num_waiting for row in rows),
        push_bound=tuple(row.push_bound for row in rows),
        paused=tuple(row.paused for row in rows),
        pinned_client=tuple(group.pinned_client_id if group else None for group in groups),
        next_at_us=tuple(row.next_at_us for row in rows),
        leader=tuple(leader_of(row.cluster, server_name) for row in rows),
        peers=tuple(peers_of(row.cluster) for row in rows),
        pinned_at_us=tuple(
            time_or_never_us(group.pinned_ts) if group else None for group in groups
        ),
    )


class _Config(msgspec.Struct):
    name: str = ""
    durable_name: str = ""
    description: str = ""
    deliver_policy: str = "all"
    ack_policy: str = "none"
    ack_wait: int = 0
    max_deliver: int = -1
    max_ack_pending: int = -1
    max_waiting: int = 0
    filter_subject: str = ""
    filter_subjects: tuple[str, ...] | None = None
    deliver_subject: str = ""
    deliver_group: str = ""
    inactive_threshold: int = 0
    priority_policy: str = ""
    num_replicas: int = 0


_CONFIG_DECODER = decoder_of(_Config)


def consumer_configuration(row: ConsumerRow, stream_replicas_count: int) -> ConsumerConfiguration:
    """Return the configuration of a row; raises RequestFailed if unreadable.

    `stream_replicas_count` is the default of a consumer without its own.
    """
    raw_config = bytes(row.config)
    with raise_unreadable("CONSUMER.LIST"):
        config_json, config = raw_config.decode(), _CONFIG_DECODER.decode(raw_config)
        created_at_us = time_us(row.created)
    filters = config.filter_subjects or ((config.filter_subject,) if config.filter_subject else ())
    return ConsumerConfiguration(
        stream=row.stream_name,
        name=row.name,
        created_at_us=created_at_us,
        description=config.description,
        durable=bool(config.durable_name),
        pull=not config.deliver_subject,
        deliver_policy=config.deliver_policy,
        ack_policy=config.ack_policy,
        ack_wait_ns=limit_or_none(config.ack_wait),
        max_deliver_count=limit_or_none(config.max_deliver),
        max_ack_pending_msgs=limit_or_none(config.max_ack_pending),
        max_waiting_pulls_count=limit_or_none(config.max_waiting),
        filter_subjects=filters,
        deliver_subject=config.deliver_subject or None,
        deliver_group=config.deliver_group or None,
        inactive_threshold_ns=limit_or_none(config.inactive_threshold),
        priority_policy=config.priority_policy or None,
        replicas_count=config.num_replicas or stream_replicas_count,
        config_json=config_json,
    )
