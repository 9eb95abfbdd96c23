"""State → the rows of streams, consumers, the server and the account. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

import msgspec

from natstui.cli.watch.rows import AccountRow, ConsumerRow, RemovedRow, ServerRow, StreamRow
from natstui.model.assets.configuration import ConsumerConfiguration, StreamConfiguration
from natstui.model.findings.consumer import consumer_verdict
from natstui.model.live.age import consumer_is_stale, consumer_lag, stream_is_stale
from natstui.model.live.limits import Fill, time_to_drain_s
from natstui.model.live.rates import counter_per_s, stream_full_in_s, stream_rates, trend_per_s
from natstui.model.live.state import State, own_requests_per_s
from natstui.model.live.table import Key

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def values(thing: DataclassInstance) -> dict[str, object]:
    """Return field → value."""
    return {field.name: getattr(thing, field.name) for field in fields(thing)}


def values_at(columns: DataclassInstance, row: int) -> dict[str, object]:
    """Return column → its value in one row."""
    return {field.name: getattr(columns, field.name)[row] for field in fields(columns)}


def unknown(configuration: type[DataclassInstance]) -> dict[str, object]:
    """Return field → None."""
    return {field.name: None for field in fields(configuration)}


Freshness = dict[Key, tuple[int, bool]]
"""Identity → when it was sampled, and whether that is stale; in the order of the rows."""


def stream_rows(state: State, rows: Sequence[int] | None = None) -> Iterator[StreamRow]:
    """Yield the streams of these rows, or all, by name."""
    names = state.streams.columns.name
    for row in sorted(range(len(names)) if rows is None else rows, key=names.__getitem__):
        yield _stream_row(state, row)


def stream_freshness(state: State) -> Freshness:
    """Return how fresh every stream is."""
    keys, sampled = state.streams.roster.keys, state.streams.columns.sampled_mono_us
    return {
        key: (mono_us, stream_is_stale(state, row))
        for row, (key, mono_us) in enumerate(zip(keys, sampled, strict=True))
    }


def _stream_row(state: State, row: int) -> StreamRow:
    columns, key = state.streams.columns, state.streams.roster.keys[row]
    config = state.stream_configurations.get(columns.name[row])
    stored_msgs, stored_bytes = columns.stored_msgs[row], columns.stored_bytes[row]
    max_msgs, max_bytes = (config.max_msgs, config.max_bytes) if config else (None, None)
    history = state.stream_history
    fill = Fill(stored_msgs, stored_bytes, max_msgs, max_bytes)
    computed = {
        "kind": "stream",
        "type": config.kind if config else None,
        "at_us": state.now_at_us,
        "msgs_used_percent": _percent(stored_msgs, max_msgs),
        "bytes_used_percent": _percent(stored_bytes, max_bytes),
        "full_in_s": stream_full_in_s(history, key, fill),
        **values(stream_rates(history, key)),
        "sampled_ago_s": _ago_s(state, columns.sampled_mono_us[row]),
        "stale": stream_is_stale(state, row),
    }
    known = values(config) if config else unknown(StreamConfiguration)
    return msgspec.convert({**known, **values_at(columns, row), **computed}, StreamRow)


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
    computed = {
        "at_us": state.now_at_us,
        "status": verdict.word,
        "status_level": verdict.level,
        "status_reason": verdict.evidence,
        "push_bound": None if config is None or config.pull else columns.push_bound[row],
        "delivered_msgs_per_s": counter_per_s(history, key, "delivered_consumer_seq"),
        "acked_msgs_per_s": counter_per_s(history, key, "ack_floor_consumer_seq"),
        "lag_s": None if lag is None else lag.time_s,
        "drained_in_s": time_to_drain_s(pending_msgs, trend_per_s(history, key, "pending_msgs")),
        "sampled_ago_s": _ago_s(state, columns.sampled_mono_us[row]),
        "stale": consumer_is_stale(state, row),
    }
    known = values(config) if config else unknown(ConsumerConfiguration)
    return msgspec.convert({**known, **values_at(columns, row), **computed}, ConsumerRow)


def removed_rows(before: State, after: State) -> Iterator[RemovedRow]:
    """Yield the streams and consumers that were there before and are not any more."""
    tables = ((before.streams, after.streams), (before.consumers, after.consumers))
    for old, new in tables:
        if old.roster is new.roster:
            continue
        for key in old.roster.keys:
            if key not in new.roster.row_of:
                *path, created_at_us = key
                yield RemovedRow(
                    name=str(path[-1]),
                    stream=str(path[0]) if len(path) > 1 else None,
                    at_us=after.now_at_us,
                    created_at_us=int(created_at_us),
                )


def _percent(used: int, limit: int | None) -> float | None:
    return 100 * used / limit if limit else None


def _ago_s(state: State, sampled_mono_us: int) -> float:
    return (state.now_mono_us - sampled_mono_us) / 1e6


def server_row(state: State) -> ServerRow | None:
    """Return the connection and its server; None before the first try."""
    link = state.link
    if link is None:
        return None
    cost = state.costs[-1].cost if state.costs else None
    computed = {
        "kind": "server",
        "name": link.server_name,
        "at_us": state.now_at_us,
        "link": link.state,
        "url": link.server_url,
        "version": link.server_version,
        "api_rtt_us": cost.api_rtt_us if cost else None,
        "own_requests_per_s": own_requests_per_s(state.costs),
        "poll_interval_us": cost.interval_us if cost else None,
        "backoff_reason": cost.backoff_reason if cost else None,
    }
    return msgspec.convert({**values(link), **computed}, ServerRow)


def _api_requests_per_s(state: State) -> float | None:
    """Return the growth of the account's own counter between the two newest polls."""
    counts = [(c.mono_us, c.api_requests_count) for c in state.costs[-2:]]
    if len(counts) < 2 or counts[0][1] is None or counts[1][1] is None:
        return None
    elapsed_us, grown = counts[1][0] - counts[0][0], counts[1][1] - counts[0][1]
    return grown * 1e6 / elapsed_us if elapsed_us > 0 and grown >= 0 else None


def account_row(state: State) -> AccountRow | None:
    """Return the account's use and limits; None where it cannot be read."""
    if state.account is None:
        return None
    computed = {
        "name": state.link.account if state.link else None,
        "at_us": state.now_at_us,
        "api_requests_per_s": _api_requests_per_s(state),
    }
    return msgspec.convert({**values(state.account), **computed}, AccountRow)
