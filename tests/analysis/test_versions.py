"""Sessions of every version, frozen when that version was made, are read by Spark for ever."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import DataFrame

from natstui.analysis.silver.layer import Silver
from tests.analysis.alike import assert_alike
from tests.analysis.locally import Answers
from tests.analysis.versions import AGAIN, DATA, VERSIONS

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def layers(answers: Answers) -> dict[str, Silver]:
    """The silver tables of the frozen sessions."""
    return {version: answers.of(version).silver for version in VERSIONS}


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


def told(version: str) -> dict[str, Any]:
    """Return what was in the session when it was frozen."""
    found: dict[str, Any] = json.loads((DATA / version / "expected.json").read_text())
    return found


def test_every_version_written_so_far_is_read() -> None:
    assert {path.name for path in DATA.glob("version-*")} == set(VERSIONS)
    assert VERSIONS[0] == "version-1"


@pytest.mark.parametrize("version", VERSIONS)
def test_every_record_is_read_and_none_is_strange(layers: dict[str, Silver], version: str) -> None:
    layer, records = layers[version], told(version)["records"]
    assert layer.poll.count() == records["Snapshot"]
    assert layer.ack_sample.count() == records["AckSample"]
    assert layer.advisory.count() == records["Advisory"]
    events = Counter(row["kind"] for row in rows(layer.event))
    kinds = ("engine_started", "link_changed", "noted", "unavailable", "restored", "outcome")
    assert events == {kind: records[kind.title().replace("_", "")] for kind in kinds}
    for segment in rows(layer.segment):
        assert not segment["corrupt"]
        assert segment["torn_lines_count"] == segment["unknown_lines_count"] == 0
    streams = {row["stream"] for row in rows(layer.configuration)}
    assert streams == {row["stream"] for row in rows(layer.stream_sample)}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_last_samples_are_the_numbers_frozen_with_it(
    layers: dict[str, Silver], version: str
) -> None:
    for table, name in (("stream_sample", "last_seq"), ("consumer_sample", "pending_msgs")):
        newest: dict[int, dict[str, Any]] = {}
        for row in sorted(rows(getattr(layers[version], table)), key=lambda row: row["mono_us"]):
            newest[row["series_id"]] = row
        assert sorted(row[name] for row in newest.values()) == sorted(told(version)[name])


def test_packed_polls_and_those_of_version_1_say_the_same(answers: Answers) -> None:
    found = []
    for session in (VERSIONS[0], AGAIN):
        samples = answers.of(session).silver.consumer_sample.drop("session", "series_id")
        found.append(sorted(samples.collect(), key=lambda row: (row["mono_us"], row["consumer"])))
    assert len(found[0]) == 65 * 3
    assert found[0] == found[1]


def test_a_version_changes_how_samples_are_written_and_not_what_they_say(
    layers: dict[str, Silver],
) -> None:
    for table in ("stream_sample", "consumer_sample"):
        first, *others = (rows(getattr(layers[version], table)) for version in VERSIONS)
        for other in others:
            assert_alike(table, _nameless(other), _nameless(first))


def _nameless(many: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k not in ("session", "series_id")} for row in many]
