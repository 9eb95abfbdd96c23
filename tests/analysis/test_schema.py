"""Spark reads what the values of the model say: a field added there is read as well."""

from __future__ import annotations

from typing import Literal

import pytest
from msgspec import Struct

from natstui.analysis.bronze import schema
from natstui.lines import SCHEMA_VERSION
from natstui.model.live import column_differences, snapshot
from natstui.model.records.record import kind_of
from tests.session import any_record


class Part(Struct, frozen=True):
    """Something inside a column."""

    name: str
    age_s: float | None


class MadeUp(Struct, frozen=True):
    """A table with a column of every shape the model has."""

    name: tuple[str, ...] = ()
    held_msgs: tuple[int, ...] = ()
    full_at_us: tuple[int | None, ...] = ()
    is_open: tuple[bool, ...] = ()
    state: tuple[Literal["up", "down"], ...] = ()
    parts: tuple[tuple[Part, ...], ...] = ()
    few: tuple[tuple[Part, ...], ...] = ()


def test_every_field_of_a_value_becomes_a_column_with_its_type() -> None:
    assert schema.columns_of(MadeUp) == {
        "name": "string",
        "held_msgs": "bigint",
        "full_at_us": "bigint?",
        "is_open": "boolean",
        "state": "string",
        "parts": "array<struct<`name`:string,`age_s`:double>>",
        "few": "array<struct<`name`:string,`age_s`:double>>",
    }


def test_a_column_that_spark_has_no_type_for_is_named() -> None:
    class Odd(Struct, frozen=True):
        either: tuple[int | str, ...] = ()

    with pytest.raises(TypeError, match=r"column Odd\.either"):
        schema.columns_of(Odd)


@pytest.mark.parametrize(
    ("read", "cls"),
    [
        (schema.STREAM_COLUMNS, snapshot.StreamColumns),
        (schema.CONSUMER_COLUMNS, snapshot.ConsumerColumns),
    ],
)
def test_every_column_of_a_snapshot_is_read_and_no_other(
    read: schema.SparkTypeByColumn, cls: type[Struct]
) -> None:
    assert list(read) == list(cls.__struct_fields__)
    assert read["peers"].startswith("array<struct<`name`:string,`current`:boolean,")
    assert read["leader"] == "string?"


def test_a_column_is_recorded_as_it_is_or_as_its_difference() -> None:
    polled = set(snapshot.ConsumerColumns.__struct_fields__)
    recorded = set(column_differences.ConsumersAsDifferences.__struct_fields__)
    differences = column_differences.DIFFERENCE_COLUMN_BY_COLUMN
    assert polled >= differences.keys()
    missing = {differences.get(name, name) for name in polled} - recorded
    assert not missing, f"ConsumersAsDifferences lacks {missing}: it would not be recorded"
    assert set(schema.DIFFERENCE_COLUMN_TYPES) == set(differences.values()) == recorded - polled


def test_every_kind_that_can_be_recorded_is_known() -> None:
    recorded = {kind_of(cls) for cls in any_record.KINDS}
    assert recorded | {"keyframe"} == set(schema.LINE_KINDS)
    assert "replay_position" not in schema.LINE_KINDS


def test_the_version_written_today_is_read() -> None:
    assert SCHEMA_VERSION in schema.SCHEMA_VERSIONS
    assert 1 in schema.SCHEMA_VERSIONS
