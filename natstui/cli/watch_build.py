"""State → the rows of streams and consumers, and of those that are gone. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from natstui.cli.watch_rows_consumer import ConsumerRow
from natstui.cli.watch_rows_events import RemovedRow
from natstui.cli.watch_rows_stream import StreamRow
from natstui.cli.watch_values import unknown, values, values_at
from natstui.model.configuration import ConsumerConfiguration, StreamConfiguration
from natstui.model.diagnosis import consumer_verdict, stale_after_us
from natstui.model.history import WINDOWS_S
from natstui.model.rates import (
    counter_per_s,
    stored_at_mono_us,
    stream_rates,
    time_to_drain_s,
    time_to_full_s,
    trend_per_s,
)
from natstui.model.state import State


def stream_rows(state: State, since_mono_us: int = 0) -> Iterator[StreamRow]:
    """Yield the streams sampled after a moment, by name."""
    columns = state.streams.columns
    for row in sorted(range(len(columns.name)), key=columns.name.__getitem__):
        if columns.sampled_mono_us[row] > since_mono_us:
            yield _stream_row(state, row)


def _stream_row(state: State, row: int) -> StreamRow:
    columns, key = state.streams.columns, state.streams.roster.keys[row]
    config = state.stream_configurations.get(columns.name[row])
    stored_msgs, stored_bytes = columns.stored_msgs[row], columns.stored_bytes[row]
    max_msgs, max_bytes = (config.max_msgs, config.max_bytes) if config else (None, None)
    history = state.stream_history
    full = (
        time_to_full_s(stored_msgs, max_msgs, trend_per_s(history, key, "stored_msgs")),
        time_to_full_s(stored_bytes, max_bytes, trend_per_s(history, key, "stored_bytes")),
    )
    computed = {
        "kind": "stream",
        "type": config.kind if config else None,
        "at_us": state.now_at_us,
        "msgs_used_percent": _percent(stored_msgs, max_msgs),
        "bytes_used_percent": _percent(stored_bytes, max_bytes),
        "full_in_s": min((time_s for time_s in full if time_s is not None), default=None),
        **values(stream_rates(history, key)),
        **_age(state, columns.sampled_mono_us[row], key[0] in state.unreachable_streams),
    }
    known = values(config) if config else unknown(StreamConfiguration)
    return msgspec.convert({**known, **values_at(columns, row), **computed}, StreamRow)


def consumer_rows(state: State, since_mono_us: int = 0) -> Iterator[ConsumerRow]:
    """Yield the consumers sampled after a moment, by stream and name."""
    columns = state.consumers.columns
    names = list(zip(columns.stream, columns.name, strict=True))
    for row in sorted(range(len(names)), key=names.__getitem__):
        if columns.sampled_mono_us[row] > since_mono_us:
            yield _consumer_row(state, row)


def _consumer_row(state: State, row: int) -> ConsumerRow:
    columns, key = state.consumers.columns, state.consumers.roster.keys[row]
    config = state.consumer_configurations.get((columns.stream[row], columns.name[row]))
    history, pending_msgs = state.consumer_history, columns.pending_msgs[row]
    verdict = consumer_verdict(state, row)
    computed = {
        "at_us": state.now_at_us,
        "status": verdict.word,
        "status_level": verdict.level,
        "status_reason": verdict.evidence,
        "push_bound": None if config is None or config.pull else columns.push_bound[row],
        "delivered_msgs_per_s": counter_per_s(history, key, "delivered_consumer_seq"),
        "acked_msgs_per_s": counter_per_s(history, key, "ack_floor_consumer_seq"),
        "lag_s": _lag_s(state, row),
        "drained_in_s": time_to_drain_s(pending_msgs, trend_per_s(history, key, "pending_msgs")),
        **_age(state, columns.sampled_mono_us[row], key[:2] in state.unreachable_consumers),
    }
    known = values(config) if config else unknown(ConsumerConfiguration)
    return msgspec.convert({**known, **values_at(columns, row), **computed}, ConsumerRow)


def _lag_s(state: State, row: int) -> float | None:
    """Return the age of the next message: as looked up, else by when its sequence passed."""
    columns = state.consumers.columns
    if columns.pending_msgs[row] == 0:
        return 0.0
    stored_at_us = columns.next_at_us[row]
    if stored_at_us is not None:
        return max(0.0, (state.now_at_us - stored_at_us) / 1e6)
    streams = state.streams.roster
    rows = streams.rows_of_stream.get(columns.stream[row])
    if not rows:
        return None
    points = state.stream_history.series(streams.keys[rows[-1]], "last_seq", WINDOWS_S[-1])
    mono_us = stored_at_mono_us(points, columns.delivered_stream_seq[row] + 1)
    return None if mono_us is None else (state.now_mono_us - mono_us) / 1e6


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


def _age(state: State, sampled_mono_us: int, unreachable: bool) -> dict[str, object]:
    age_us = state.now_mono_us - sampled_mono_us
    stale = unreachable or age_us > stale_after_us(state)
    return {"sampled_ago_s": age_us / 1e6, "stale": stale}
