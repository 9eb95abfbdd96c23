"""The columns of streams, consumers and buckets: one entry each for screens, JSON and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import msgspec
import pytest

from natstui.model.assets.configuration import ConsumerConfiguration, StreamConfiguration
from natstui.model.columns.buckets import BUCKET_COLUMNS, BucketRow
from natstui.model.columns.column import Column, json_fields, json_values
from natstui.model.columns.consumers import CONSUMER_COLUMNS, ConsumerRow
from natstui.model.columns.streams import STREAM_COLUMNS, StreamRow
from natstui.model.columns.view import ConsumerView, StreamView
from natstui.model.live.state import State
from natstui.model.records.record import Configured
from natstui.units import UNKNOWN
from tests.architecture.test_units import SUFFIXES
from tests.model.builders import snapshot

TABLES = (STREAM_COLUMNS, CONSUMER_COLUMNS)
STREAM = StreamConfiguration(
    "S", 1, "stream", "of a shop", ("s.>",), "file", "limits", "old", 20, None, None, None, None,
    None, None, 3, False, True, None, (), "{}",
)  # fmt: skip
CONSUMER = ConsumerConfiguration(
    "S", "c", 1, "", True, True, "all", "explicit", None, None, 10, None, (), None, None, None,
    None, 3, "{}",
)  # fmt: skip


def state(*, configured: bool = True, **consumer: Any) -> State:
    """Return a state of one stream and one consumer, each polled twice."""
    known = State()
    for at_s, last_seq in ((1, 4), (3, 10)):
        known = known.after(
            snapshot(
                at_s,
                [{"name": "S", "last_seq": last_seq, "first_seq": 1, "stored_msgs": last_seq}],
                [{"stream": "S", "name": "c", "pending_msgs": 5} | consumer],
            )
        )
    return known.after(Configured(1, (STREAM,), (CONSUMER,))) if configured else known


def stream_row(**options: Any) -> StreamRow:
    return StreamRow(StreamView(state(**options)), 0)


def consumer_row(**options: Any) -> ConsumerRow:
    return ConsumerRow(ConsumerView(state(**options)), 0)


@pytest.mark.parametrize("configured", [True, False])
def test_every_value_in_json_is_of_the_type_in_the_schema(configured: bool) -> None:
    rows: Sequence[tuple[Sequence[Column[Any]], Any]] = (
        (STREAM_COLUMNS, stream_row(configured=configured)),
        (CONSUMER_COLUMNS, consumer_row(configured=configured)),
    )
    for columns, row in rows:
        fields = [(field.name, field.type) for field in json_fields(columns)]
        values = json_values(columns, row)
        assert list(values) == [name for name, _ in fields]
        assert len(values) > 40
        msgspec.convert(values, msgspec.defstruct("Row", fields, forbid_unknown_fields=True))


@pytest.mark.parametrize("columns", TABLES, ids=("streams", "consumers"))
def test_every_column_is_there_once_and_a_number_has_its_unit_in_its_name(
    columns: Sequence[Column[Any]],
) -> None:
    names = [field.name for field in json_fields(columns)]
    shown = [column for column in columns if column.title]
    for each in (names, [it.key for it in shown], [it.title for it in shown]):
        assert len(each) == len(set(each))
    assert all(column.help.endswith(".") for column in shown)
    # Marks of cells are in no JSON: no limit and not known are null there.
    assert not any(set("∞~") & set(field.help) for field in json_fields(columns))
    for field in json_fields(columns):
        kinds = set(get_args(field.type) or (field.type,))
        if kinds & {int, float}:
            assert field.name.endswith(SUFFIXES), field.name


def text(columns: Sequence[Column[Any]], row: Any) -> dict[str, tuple[str, str]]:
    """Return column → its text and level."""
    return {it.key: (it.text(row), it.level(row)) for it in columns}


def test_a_stream_is_shown_against_its_limits_and_replicas() -> None:
    shown = text(STREAM_COLUMNS, stream_row())
    assert shown["msgs"] == ("10", "")
    assert shown["in"] == ("3.0", "")
    assert shown["msgs_used"] == shown["used"] == ("50%", "")
    assert shown["bytes_used"] == ("∞", "")
    assert shown["subjects"] == ("s.>", "dim")
    assert shown["leader"] == ("3/3 n1", "dim")
    unknown = text(STREAM_COLUMNS, stream_row(configured=False))
    assert unknown["kind"][0] == unknown["used"][0] == UNKNOWN


def test_a_consumer_is_shown_against_its_limits() -> None:
    shown = text(CONSUMER_COLUMNS, consumer_row(ack_pending_msgs=10))
    assert shown["ack_pending"] == ("10/10", "bad")
    assert shown["pending"] == ("5", "")
    assert shown["drain"] == ("steady", "warn")
    assert shown["mode"] == ("pull", "dim")
    assert text(CONSUMER_COLUMNS, consumer_row(configured=False))["mode"][0] == UNKNOWN


def test_a_limit_that_a_bucket_does_not_have_sorts_after_all_that_others_have() -> None:
    config = {"name": "KV_carts", "max_msgs_per_subject": -1, "max_bytes": -1, "max_age": 0}
    row = BucketRow(config, 2, 100, 1, None)
    shown = text(BUCKET_COLUMNS, row)
    assert shown["most"] == shown["ttl"] == ("∞", "dim")
    assert shown["history"] == ("∞", "")
    values = {it.key: it.value(row) for it in BUCKET_COLUMNS}
    assert values["most"] is None
    assert values["ttl"] is None
