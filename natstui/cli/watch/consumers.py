"""A consumer in `natstui watch`: its fields in --json, how each is found, and its table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from natstui.cli.text_table import COLOURS, Column, table
from natstui.cli.watch.values import (
    Freshness,
    ago,
    marked,
    sampled_ago_s,
    unknown,
    values,
    values_at,
)
from natstui.model.assets.configuration import ConsumerConfiguration
from natstui.model.bench.latency import EMPTY, PERCENTILES
from natstui.model.columns.consumers import CONSUMER_TITLES
from natstui.model.findings.verdict import consumer_verdict
from natstui.model.live.age import activity_at_us, consumer_is_stale, consumer_lag
from natstui.model.live.limits import time_to_drain_s
from natstui.model.live.rates import ack_rate, backlog_trend_per_s, counter_per_s
from natstui.model.live.snapshot import Peer
from natstui.model.live.state import State
from natstui.units import UNKNOWN, count_text, duration_text, rate_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRow:
    """One consumer: what it is, how far it is, what holds it back."""

    schema: Literal[1] = 1
    kind: Literal["consumer"] = "consumer"
    name: str
    stream: str
    at_us: int
    created_at_us: int
    """With stream and name, the identity of a consumer."""
    description: str | None
    status: str
    """What it is doing, in one or two words."""
    status_level: Literal["ok", "idle", "warn", "bad", "unknown"]
    status_reason: str
    """The numbers behind the status."""
    pull: bool | None
    durable: bool | None
    ack_policy: str | None
    filter_subjects: tuple[str, ...] | None
    """Empty: everything in the stream."""
    pending_msgs: int
    """Unprocessed: matching and never delivered."""
    ack_pending_msgs: int
    """Delivered and waiting for their acknowledgement."""
    max_ack_pending_msgs: int | None
    redelivered_msgs: int
    """Distinct messages delivered more than once and not settled, or given up."""
    waiting_pulls_count: int
    """Open pull requests."""
    push_bound: bool | None
    """A subscriber listens on the deliver subject; null for a pull consumer."""
    paused: bool
    delivered_msgs_per_s: float | None
    """Deliveries, redeliveries included."""
    acked_msgs_per_s: float | None
    """First deliveries less the growth of what waits, and of what was given up."""
    acked_estimated: bool
    """Whether that is not exact: with redeliveries and filters, gaps or a limit of deliveries."""
    ack_samples_count: int
    """Sampled acknowledgements of the last five minutes."""
    ack_p50_ns: int | None
    """From delivery to acknowledgement, of those samples."""
    ack_p99_ns: int | None
    ack_max_ns: int | None
    lag_s: float | None
    """Age of the next message to deliver; 0 with nothing pending."""
    drained_in_s: float | None
    """Until nothing is pending at the present trend; null if it does not shrink."""
    delivered_stream_seq: int
    delivered_consumer_seq: int
    ack_floor_stream_seq: int
    ack_floor_consumer_seq: int
    delivered_at_us: int | None
    acked_at_us: int | None
    pinned_client: str | None
    replicas_count: int | None
    leader: str | None
    peers: tuple[Peer, ...]
    sampled_ago_s: float
    """The age of these values."""
    stale: bool
    """They could not be refreshed."""


def consumer_rows(state: State, rows: Sequence[int] | None = None) -> Iterator[ConsumerRow]:
    """Yield the consumers of these rows, or all, by stream and name."""
    columns = state.consumers.columns
    names = list(zip(columns.stream, columns.name, strict=True))
    for row in sorted(range(len(names)) if rows is None else rows, key=names.__getitem__):
        yield _consumer_row(state, row)


def consumer_freshness(state: State) -> Freshness:
    """Return how fresh every consumer is."""
    keys, sampled = state.consumers.roster.keys, state.consumers.columns.sampled_mono_us
    return {
        key: (mono_us, consumer_is_stale(state, row))
        for row, (key, mono_us) in enumerate(zip(keys, sampled, strict=True))
    }


def _consumer_row(state: State, row: int) -> ConsumerRow:
    columns, key = state.consumers.columns, state.consumers.roster.keys[row]
    config = state.consumer_configurations.get((columns.stream[row], columns.name[row]))
    history, pending_msgs = state.consumer_history, columns.pending_msgs[row]
    verdict, lag = consumer_verdict(state, row), consumer_lag(state, row)
    acks = ack_rate(history, key, config)
    name, created_at_us = (columns.stream[row], columns.name[row]), columns.created_at_us[row]
    sampled = state.evidence.acks(name, created_at_us, state.now_at_us)
    times = EMPTY if sampled is None else sampled.times
    computed = {
        "at_us": state.now_at_us,
        "status": verdict.word,
        "status_level": verdict.level,
        "status_reason": verdict.evidence,
        "push_bound": None if config is None or config.pull else columns.push_bound[row],
        "delivered_msgs_per_s": counter_per_s(history, key, "delivered_consumer_seq"),
        "acked_msgs_per_s": acks.per_s,
        "acked_estimated": acks.estimated,
        "ack_samples_count": times.total_count,
        "ack_p50_ns": times.percentile_ns(PERCENTILES["p50"]),
        "ack_p99_ns": times.percentile_ns(PERCENTILES["p99"]),
        "ack_max_ns": times.max_ns,
        "lag_s": None if lag is None else lag.time_s,
        "drained_in_s": time_to_drain_s(pending_msgs, backlog_trend_per_s(history, key)),
        "sampled_ago_s": sampled_ago_s(state, columns.sampled_mono_us[row]),
        "stale": consumer_is_stale(state, row),
    }
    known = values(config) if config else unknown(ConsumerConfiguration)
    return msgspec.convert({**known, **values_at(columns, row), **computed}, ConsumerRow)


def _column(key: str, **more: Any) -> Column:
    return Column(CONSUMER_TITLES[key], **more)


_CONSUMER = (
    _column("stream", numeric=False, shrinks=True),
    _column("name", numeric=False, shrinks=True),
    _column("status", numeric=False),
    _column("mode", numeric=False, drop_order=10),
    _column("ack", numeric=False, drop_order=9),
    _column("pending"),
    _column("ack_pending", drop_order=1),
    _column("redelivered", drop_order=3),
    _column("waiting", drop_order=6),
    _column("delivered_rate", drop_order=2),
    _column("acked_rate", drop_order=4),
    _column("lag", drop_order=5),
    _column("drain", drop_order=7),
    Column("ACK FLOOR", drop_order=11),
    Column("DELIVERED", drop_order=12),
    _column("activity", drop_order=8),
)


def consumer_table(rows: Sequence[ConsumerRow], width_cells: int | None) -> list[str]:
    """Return the lines of the consumers' table."""
    colours = {
        marked(row.status, row.stale): COLOURS[row.status_level]
        for row in rows
        if row.status_level in COLOURS
    }
    columns = [
        replace(it, colours=colours) if it.title == CONSUMER_TITLES["status"] else it
        for it in _CONSUMER
    ]
    return table(columns, [_consumer_cells(row) for row in rows], width_cells)


def _consumer_cells(row: ConsumerRow) -> list[str]:
    most = row.max_ack_pending_msgs
    return [
        row.stream,
        row.name,
        marked(row.status, row.stale),
        UNKNOWN if row.pull is None else "pull" if row.pull else "push",
        row.ack_policy or UNKNOWN,
        count_text(row.pending_msgs),
        count_text(row.ack_pending_msgs) + (f"/{count_text(most)}" if most else ""),
        count_text(row.redelivered_msgs),
        count_text(row.waiting_pulls_count),
        rate_text(row.delivered_msgs_per_s),
        ("~" if row.acked_estimated and row.acked_msgs_per_s else "")
        + rate_text(row.acked_msgs_per_s),
        duration_text(row.lag_s),
        duration_text(row.drained_in_s),
        f"{row.ack_floor_stream_seq}/{row.ack_floor_consumer_seq}",
        f"{row.delivered_stream_seq}/{row.delivered_consumer_seq}",
        ago(row.at_us, activity_at_us(row.delivered_at_us, row.acked_at_us)),
    ]
