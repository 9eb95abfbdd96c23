"""Spark's types are those of the dataclasses: whoever changes one hears of the other."""

from __future__ import annotations

import re
import types
import typing
from typing import Any

import pytest

from natstui.analysis.silver import schema
from natstui.lines import SCHEMA_VERSION
from natstui.model.assets import configuration
from natstui.model.bench import counts as benchmark_counts
from natstui.model.bench import latency as latency_model
from natstui.model.bench import result as benchmark_result
from natstui.model.live import snapshot
from natstui.model.records import benchmark, recording
from natstui.model.records import record as record_model
from tests.session import any_record

SCALARS = {int: "bigint", float: "double", str: "string", bool: "boolean"}


def spark_text(hint: Any) -> str:
    """Return what a field of this type is in the schema; `?` where it may be None."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        kept = [part for part in typing.get_args(hint) if part is not type(None)]
        return spark_text(kept[0]).removesuffix("?") + "?"
    if typing.get_origin(hint) is tuple:
        return f"array<{spark_text(typing.get_args(hint)[0]).removesuffix('?')}>"
    if typing.get_origin(hint) is typing.Literal:
        return "string"
    return SCALARS.get(hint, "struct")


FLAT = {
    "ACCOUNT": snapshot.Account,
    "COST": snapshot.PollCost,
    "STREAM_CONFIGURATION": configuration.StreamConfiguration,
    "CONSUMER_CONFIGURATION": configuration.ConsumerConfiguration,
    "ADVISORY": record_model.Advisory,
    "ACK_SAMPLE": record_model.AckSample,
    "COUNTS": benchmark_counts.Counts,
    "BENCHMARK_PHASE": benchmark.BenchmarkPhase,
    "ACCOUNTING": benchmark_result.Accounting,
    "BENCHMARK_RESULT": benchmark_result.BenchmarkResult,
    "HISTOGRAM": latency_model.LatencyCounts,
}


@pytest.mark.parametrize("name", FLAT)
def test_every_field_read_is_a_field_recorded_with_its_type(name: str) -> None:
    fields: schema.Fields = getattr(schema, name)
    hints = typing.get_type_hints(FLAT[name])
    assert fields == {field: spark_text(hints[field]) for field in fields}


@pytest.mark.parametrize(
    ("fields", "cls"),
    [
        (schema.STREAM_COLUMNS, snapshot.StreamColumns),
        (schema.CONSUMER_COLUMNS, snapshot.ConsumerColumns),
    ],
)
def test_every_column_of_a_snapshot_is_read_and_no_other(fields: schema.Fields, cls: type) -> None:
    hints = typing.get_type_hints(cls)
    assert list(fields) == list(hints)
    for name, hint in hints.items():
        inner = typing.get_args(hint)[0]
        if not fields[name].startswith("array<struct"):
            assert fields[name] == spark_text(inner), name


@pytest.mark.parametrize(
    ("text", "cls"), [(schema.PEERS, snapshot.Peer), (schema.UPSTREAMS, snapshot.Upstream)]
)
def test_the_replicas_and_upstreams_have_the_fields_of_the_model(text: str, cls: type) -> None:
    hints = typing.get_type_hints(cls)
    read = dict(re.findall(r"(\w+):(\w+)", text.removeprefix("array<struct<")))
    assert read == {name: spark_text(hints[name]).removesuffix("?") for name in read}


def test_every_kind_that_can_be_recorded_is_known() -> None:
    recorded = {record_model.kind_of(cls) for cls in any_record.KINDS}
    assert recorded | {"keyframe"} == set(schema.KINDS)


def test_every_event_is_a_record_with_those_fields() -> None:
    members = (*vars(record_model).values(), *vars(recording).values())
    classes = {record_model.kind_of(cls): cls for cls in members if isinstance(cls, type)}
    for kind, fields in schema.EVENTS.items():
        hints = typing.get_type_hints(classes[kind])
        assert fields == {name: spark_text(hints[name]) for name in fields}, kind


def test_every_histogram_of_a_benchmark_is_read() -> None:
    assert schema.LATENCIES == benchmark_counts.LATENCY_FIELDS


def test_the_version_written_today_is_read() -> None:
    assert SCHEMA_VERSION in schema.SCHEMA_VERSIONS
    assert 1 in schema.SCHEMA_VERSIONS
