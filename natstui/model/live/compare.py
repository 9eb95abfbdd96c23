"""The differences between the states at two times: existence, configuration, counters."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

from natstui.model.live.known_rows import AssetRows, RowKey
from natstui.model.live.snapshot import ConsumerColumns, StreamColumns
from natstui.model.live.state import State

_STREAM_COUNTER_LABELS = {
    "stored_msgs": "messages",
    "stored_bytes": "bytes",
    "first_seq": "first seq",
    "last_seq": "last seq",
    "consumers_count": "consumers",
}
_CONSUMER_COUNTER_LABELS = {
    "delivered_consumer_seq": "delivered",
    "ack_floor_stream_seq": "ack floor",
    "redelivered_msgs": "redelivered",
}
_CONSUMER_LAG_LABELS = {"pending_msgs": "pending", "ack_pending_msgs": "ack pending"}


class Difference(Struct, frozen=True):
    """One difference between two states; a text is None if the value did not exist."""

    stream: str
    consumer: str | None
    what: Literal["asset", "configuration", "lag", "counter"]
    field: str
    before_text: str | None
    after_text: str | None
    change_count: int | None = None
    """Change of messages, bytes or sequences; None for other differences."""


def differences(before: State, after: State) -> list[Difference]:
    """Return the differences between two states, sorted by stream and consumer."""
    found_differences = [
        *_compare_existence(before.streams, after.streams),
        *_compare_existence(before.consumers, after.consumers),
        *_compare_configurations(before, after),
        *_compare_counters(before.consumers, after.consumers, _CONSUMER_LAG_LABELS, "lag"),
        *_compare_counters(before.consumers, after.consumers, _CONSUMER_COUNTER_LABELS, "counter"),
        *_compare_counters(before.streams, after.streams, _STREAM_COUNTER_LABELS, "counter"),
    ]
    return sorted(
        found_differences, key=lambda difference: (difference.stream, difference.consumer or "")
    )


AnyTable = AssetRows[StreamColumns] | AssetRows[ConsumerColumns]


def _entity_name(key: RowKey) -> tuple[str, str | None]:
    return str(key[0]), str(key[1]) if len(key) == 3 else None


def _compare_existence(before: AnyTable, after: AnyTable) -> Iterator[Difference]:
    """Yield a difference for each created, deleted or recreated stream or consumer."""
    old_keys, new_keys = set(before.roster.keys), set(after.roster.keys)
    removed_names, added_names = (
        {_entity_name(key) for key in old_keys - new_keys},
        {_entity_name(key) for key in new_keys - old_keys},
    )
    for name in removed_names | added_names:
        if name in removed_names and name in added_names:
            texts = ("one", "another stream or consumer with this name")
        else:
            texts = ("exists", "deleted") if name in removed_names else ("absent", "exists")
        yield Difference(*name, "asset", "exists", *texts)


def _compare_counters(
    before: AnyTable,
    after: AnyTable,
    label_by_column: Mapping[str, str],
    what: Literal["lag", "counter"],
) -> Iterator[Difference]:
    for row, key in enumerate(after.roster.keys):
        old_row = before.roster.row_of.get(key)
        if old_row is None:
            continue
        for column, label in label_by_column.items():
            old_value, new_value = (
                getattr(before.columns, column)[old_row],
                getattr(after.columns, column)[row],
            )
            if old_value != new_value:
                yield Difference(
                    *_entity_name(key),
                    what,
                    label,
                    str(old_value),
                    str(new_value),
                    new_value - old_value,
                )


def _compare_configurations(before: State, after: State) -> Iterator[Difference]:
    for stream, new_stream in after.stream_configurations.items():
        old_stream = before.stream_configurations.get(stream)
        if old_stream is not None and old_stream.config_json != new_stream.config_json:
            yield from _compare_fields(
                stream, None, old_stream.config_json, new_stream.config_json
            )
    for (stream, name), new_consumer in after.consumer_configurations.items():
        old_consumer = before.consumer_configurations.get((stream, name))
        if old_consumer is not None and old_consumer.config_json != new_consumer.config_json:
            yield from _compare_fields(
                stream, name, old_consumer.config_json, new_consumer.config_json
            )


def _compare_fields(
    stream: str, consumer: str | None, before: str, after: str
) -> Iterator[Difference]:
    """Yield a difference for each field of two configurations that differs."""
    old_settings, new_settings = json.loads(before), json.loads(after)
    for name in sorted(old_settings.keys() | new_settings.keys()):
        if old_settings.get(name) != new_settings.get(name):
            old_text, new_text = (
                json.dumps(values[name]) if name in values else None
                for values in (old_settings, new_settings)
            )
            yield Difference(stream, consumer, "configuration", name, old_text, new_text)
