"""A stream in `natstui watch`: its fields in --json, how each is found, and its table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from natstui.cli.text_table import Column, table
from natstui.cli.watch.values import (
    Freshness,
    ago,
    marked,
    sampled_ago_s,
    unknown,
    values,
    values_at,
)
from natstui.model.assets.configuration import StreamConfiguration
from natstui.model.columns.streams import STREAM_TITLES
from natstui.model.findings.verdict import stream_verdict
from natstui.model.live.age import stream_is_stale
from natstui.model.live.limits import Fill, used_percent
from natstui.model.live.rates import stream_full_in_s, stream_rates
from natstui.model.live.snapshot import Peer, Upstream
from natstui.model.live.state import State
from natstui.units import UNKNOWN, bytes_text, count_text, duration_text, rate_text


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRow:
    """One stream: what it is, what it holds, what flows; a limit of null is unlimited."""

    schema: Literal[1] = 1
    kind: Literal["stream"] = "stream"
    name: str
    at_us: int
    created_at_us: int
    """With the name, the identity of a stream."""
    status: str
    """What is wrong with it, or what it does."""
    status_level: Literal["ok", "idle", "warn", "bad", "unknown"]
    status_reason: str
    """The numbers behind the status."""
    type: Literal["stream", "kv", "object"] | None
    """A KV bucket and an object store are streams by the convention of their name."""
    description: str | None
    subjects: tuple[str, ...] | None
    storage: str | None
    retention: str | None
    discard: str | None
    stored_msgs: int
    stored_bytes: int
    in_msgs_per_s: float | None
    """Growth of the last sequence between the two newest polls."""
    in_bytes_per_s: float | None
    in_bytes_estimated: bool
    """Messages left meanwhile: their bytes are counted by the mean size of stored ones."""
    removed_msgs_per_s: float | None
    """Stored messages that left: by limits, acknowledgements, deletes or purges."""
    first_seq: int
    last_seq: int
    first_at_us: int | None
    last_at_us: int | None
    deleted_msgs: int
    """Holes between the first and the last."""
    lost_msgs: int
    subjects_count: int
    consumers_count: int
    max_msgs: int | None
    max_msgs_per_subject: int | None
    max_bytes: int | None
    max_age_ns: int | None
    msgs_used_percent: float | None
    """Of the limit of messages; null without one."""
    bytes_used_percent: float | None
    full_in_s: float | None
    """Until the first of these two limits is reached at the present trend; null if never."""
    duplicate_window_ns: int | None
    mirror: str | None
    sources: tuple[str, ...] | None
    upstreams: tuple[Upstream, ...]
    """The mirror or the sources as the leader sees them."""
    replicas_count: int | None
    leader: str | None
    """null while a stream has no leader, or its leader does not answer."""
    peers: tuple[Peer, ...]
    """Replicas without the leader."""
    sampled_ago_s: float
    """The age of these values."""
    stale: bool
    """They could not be refreshed."""


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
    verdict = stream_verdict(state, row)
    computed = {
        "status": verdict.word,
        "status_level": verdict.level,
        "status_reason": verdict.evidence,
        "kind": "stream",
        "type": config.kind if config else None,
        "at_us": state.now_at_us,
        "msgs_used_percent": used_percent(stored_msgs, max_msgs),
        "bytes_used_percent": used_percent(stored_bytes, max_bytes),
        "full_in_s": stream_full_in_s(history, key, fill),
        **values(stream_rates(history, key)),
        "sampled_ago_s": sampled_ago_s(state, columns.sampled_mono_us[row]),
        "stale": stream_is_stale(state, row),
    }
    known = values(config) if config else unknown(StreamConfiguration)
    return msgspec.convert({**known, **values_at(columns, row), **computed}, StreamRow)


def _column(key: str, **more: Any) -> Column:
    return Column(STREAM_TITLES[key], **more)


_STREAM = (
    _column("name", numeric=False, shrinks=True),
    _column("kind", numeric=False, drop_order=9),
    _column("subjects", numeric=False, drop_order=8, shrinks=True),
    _column("retention", numeric=False, drop_order=10),
    _column("msgs"),
    _column("bytes", drop_order=2),
    _column("in"),
    _column("in_bytes", drop_order=5),
    _column("removed", drop_order=3),
    _column("first_seq", drop_order=12),
    _column("last_seq", drop_order=11),
    _column("last_age", drop_order=4),
    _column("used", drop_order=6),
    _column("full", drop_order=7),
    _column("consumers", drop_order=1),
    _column("leader", numeric=False, drop_order=13, shrinks=True),
)


def stream_table(rows: Sequence[StreamRow], width_cells: int | None) -> list[str]:
    """Return the lines of the streams' table."""
    return table(_STREAM, [_stream_cells(row) for row in rows], width_cells)


def _stream_cells(row: StreamRow) -> list[str]:
    used = [p for p in (row.msgs_used_percent, row.bytes_used_percent) if p is not None]
    subjects = row.subjects or ([f"mirror of {row.mirror}"] if row.mirror else row.sources)
    estimated = "~" if row.in_bytes_estimated and row.in_bytes_per_s else ""
    return [
        row.name,
        marked(row.type or UNKNOWN, row.stale),
        ", ".join(subjects or ()),
        row.retention or UNKNOWN,
        count_text(row.stored_msgs),
        bytes_text(row.stored_bytes),
        rate_text(row.in_msgs_per_s),
        estimated + bytes_text(row.in_bytes_per_s),
        rate_text(row.removed_msgs_per_s),
        str(row.first_seq),
        str(row.last_seq),
        ago(row.at_us, row.last_at_us),
        f"{max(used):.0f}%" if used else UNKNOWN,
        "full" if row.full_in_s == 0 else duration_text(row.full_in_s),
        count_text(row.consumers_count),
        row.leader or UNKNOWN,
    ]
