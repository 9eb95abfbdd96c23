"""Snapshots for tests of the model: rows from keywords, everything else plausible."""

from __future__ import annotations

from typing import Any, TypeVar

from natstui.model.live.history import CONSUMER_COLUMNS, History
from natstui.model.live.known_rows import AssetRows, Roster, consumer_keys
from natstui.model.live.snapshot import ConsumerColumns, PollCost, Snapshot, StreamColumns
from natstui.values import replace

COST = PollCost(2, 1000, 5_000, 1_000, 1_000_000, None)
_DEFAULTS: dict[str, Any] = {
    "leader": "n1",
    "peers": (),
    "upstreams": (),
    "replicas": (),
    "desired": None,
    "push_bound": False,
    "paused": False,
    "pinned_client": None,
    "pinned_at_us": None,
    "next_at_us": None,
    "first_at_us": None,
    "last_at_us": None,
    "delivered_at_us": None,
    "acked_at_us": None,
    "created_at_us": 1,
}
C = TypeVar("C", StreamColumns, ConsumerColumns)


def columns(cls: type[C], rows: list[dict[str, Any]], mono_us: int) -> C:
    """Return columns of `rows`; counters that are not given are 0."""
    defaults = _DEFAULTS | {"sampled_mono_us": mono_us}
    return cls(
        **{
            field: tuple(row.get(field, defaults.get(field, 0)) for row in rows)
            for field in cls.__struct_fields__
        }
    )


def large_history(rows_count: int, polls_count: int, round_count: int) -> History:
    """Return the polls of consumers that deliver a message a second each, a poll a second.

    Each poll reads one row of `round_count`, at first all of them.
    """
    rows = [{"stream": "A", "name": f"c{number}"} for number in range(rows_count)]
    read = columns(ConsumerColumns, rows, 1_000_000)
    roster, history = Roster(consumer_keys(read)), History(CONSUMER_COLUMNS)
    for second in range(1, polls_count + 1):
        times, counts = list(read.sampled_mono_us), list(read.delivered_consumer_seq)
        for row in range(0 if second == 1 else second % round_count, rows_count, round_count):
            times[row], counts[row] = second * 1_000_000, second
        read = replace(read, sampled_mono_us=tuple(times), delivered_consumer_seq=tuple(counts))
        history = history.after(AssetRows(read, roster), second * 1_000_000, second * 1_000_000)
    return history


def snapshot(
    at_s: float,
    streams: list[dict[str, Any]] | None = None,
    consumers: list[dict[str, Any]] | None = None,
    **rest: Any,
) -> Snapshot:
    """Return a poll at `at_s` on both clocks; without `streams` they were not listed."""
    mono_us = round(at_s * 1e6)
    return Snapshot(
        taken_mono_us=mono_us,
        taken_at_us=1_700_000_000_000_000 + mono_us,
        streams=columns(StreamColumns, streams or [], mono_us),
        consumers=columns(ConsumerColumns, consumers or [], mono_us),
        streams_complete=rest.get("streams_complete", streams is not None),
        consumers_complete=rest.get("consumers_complete", consumers is not None),
        swept_streams=rest.get("swept_streams", ()),
        unreachable_streams=rest.get("unreachable_streams", ()),
        unreachable_consumers=rest.get("unreachable_consumers", ()),
        account=rest.get("account"),
        cost=COST,
        offline=rest.get("offline", ()),
        unlisted=rest.get("unlisted", ()),
    )
