"""What is exported adds up to what was recorded."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from natstui.clean import clean_line, clean_text
from natstui.errors import SessionError
from natstui.model.bench.counts import Counts, Latencies
from natstui.model.bench.latency import LatencyCounts, bucket_of, from_latencies
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.benchmark import BenchmarkReport
from natstui.model.records.evidence import AcksCounted
from natstui.model.records.record import AckSample, Advisory, Record
from natstui.session.library import count_records
from natstui.session.read.recording import Recording
from natstui.session.share.export_tables import ExportFormat, csv_cell, export
from natstui.session.share.tables import TABLES, CellValue
from tests.session.making import made
from tests.session.scenario import START_US, Scenario

pytestmark = pytest.mark.xdist_group("export")


def quiet(done: int, total: int) -> None:
    assert 0 <= done <= total


def refuse(text: str) -> None:
    raise AssertionError(f"nothing here is damaged: {text}")


@pytest.fixture(scope="module")
def records() -> list[Record]:
    scenario = Scenario(streams=3, consumers=7)
    latencies = Latencies(ack=LatencyCounts((10, 400), (3, 4)))
    reports = [
        BenchmarkReport(START_US + n, "run", "pub", n, 1.0, Counts(sent_msgs=n), latencies, 0.5)
        for n in range(4)
    ]
    return [*scenario.beginning(), *scenario.records(0, 70), *reports]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory, records: list[Record]) -> Recording:
    return Recording(made(tmp_path_factory.mktemp("sessions"), records, polls_per_segment=30))


def read(folder: Path, table: str, kind: ExportFormat) -> list[dict[str, object]]:
    with (folder / f"{table}.{kind}").open(encoding="utf-8") as file:
        if kind == "csv":
            return list(csv.DictReader(file))
        return [json.loads(line) for line in file]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_totals_equal_those_of_the_recorder(
    tmp_path: Path, recording: Recording, records: list[Record], kind: ExportFormat
) -> None:
    counts = export(recording.folder, tmp_path / "out", kind, quiet, refuse)
    tables = {table.name: read(tmp_path / "out", table.name, kind) for table in TABLES}
    assert counts == {name: len(rows) for name, rows in tables.items()}
    recorded = count_records(recording)
    samples = sum(span.index.consumer_samples_count for span in recording.spans)
    assert counts["consumer_sample"] == samples == 70 * 7
    assert counts["stream_sample"] == 70 * 3
    assert counts["ack_sample"] == recorded["ack_sample"]
    assert counts["advisory"] == recorded["advisory"]
    assert counts["bench_interval"] == recorded["benchmark_report"] == 4
    assert counts["bench_latency"] == 8
    latencies = sum(int(str(row["latencies_count"])) for row in tables["bench_latency"])
    assert latencies == 4 * 7
    last = [record for record in records if isinstance(record, Snapshot)][-1]
    rows = tables["stream_sample"][-3:]
    assert [int(str(row["last_seq"])) for row in rows] == list(last.streams.last_seq)


def test_sampled_acks_that_came_too_fast_are_counted_by_time(tmp_path: Path) -> None:
    times_ns = [100, 100, 5_000_000, 5_000_000, 5_000_000]
    records = [
        AckSample(START_US + 1, "S", "a", 7, 7, 1, 100),
        AcksCounted(START_US + 2, "S", "a", from_latencies(times_ns), 2, 30),
        AcksCounted(START_US + 2, "S", "b", LatencyCounts(), 0, 8),
    ]
    session = made(tmp_path / "sessions", [*Scenario().beginning(), *records])
    counts = export(session, tmp_path / "out", "jsonl", quiet, refuse)
    assert (counts["ack_sample"], counts["ack_time"]) == (1, 3)
    rows = read(tmp_path / "out", "ack_time", "jsonl")
    names = ("consumer", "samples_count", "repeated_count", "left_out_count")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("a", 2, 2, 30), ("a", 3, 0, 0), ("b", 0, 0, 8),
    ]  # fmt: skip
    for row, time_ns in zip(rows, (100, 5_000_000), strict=False):
        ends = (int(str(row["low_ns"])), int(str(row["high_ns"])))
        assert [*map(bucket_of, ends)] == [bucket_of(time_ns)] * 2
    assert (rows[2]["low_ns"], rows[2]["high_ns"]) == (None, None)


def test_unknown_is_empty_in_csv_and_null_in_json(tmp_path: Path, recording: Recording) -> None:
    export(recording.folder, tmp_path / "csv", "csv", quiet, refuse)
    export(recording.folder, tmp_path / "jsonl", "jsonl", quiet, refuse)
    assert read(tmp_path / "csv", "consumer_sample", "csv")[0]["next_at_us"] == ""
    assert read(tmp_path / "jsonl", "consumer_sample", "jsonl")[0]["next_at_us"] is None


@pytest.mark.slow
@settings(max_examples=20)
@given(some.one_of(some.none(), some.text(), some.booleans(), some.integers(), some.floats()))
def test_a_cell_of_csv_says_one_thing_and_is_harmless(value: CellValue) -> None:
    cell = csv_cell(value)
    assert clean_line(cell) == cell
    (read_back,) = next(csv.reader([cell + ",x\r\n"]))[:1]
    if value is None:
        assert cell == ""
    elif isinstance(value, str):
        assert cell
        assert read_back[:1] not in ("=", "+", "-", "@")
        plain = read_back[1:] if read_back.startswith("'") else read_back
        quotes = plain.replace('"', '\\"')
        assert json.loads(f'"{quotes}"') == value
    elif isinstance(value, bool):
        assert cell == str(value).lower()
    else:
        assert repr(type(value)(cell)) == repr(value)


HOSTILE = "gave\x00 up \x1b]52;c;eA==\x07 \x9b31m \u202eevil \x7f"


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_terminal_that_shows_an_export_obeys_nothing_in_it(
    tmp_path: Path, kind: ExportFormat
) -> None:
    advisory = Advisory(START_US + 1, "max_deliver", HOSTILE, HOSTILE, HOSTILE, "{}")
    session = made(tmp_path / "sessions", [*Scenario().beginning(), advisory])
    export(session, tmp_path / "out", kind, quiet, refuse)
    for path in (tmp_path / "out").iterdir():
        text = path.read_text(encoding="utf-8")
        assert clean_text(text) == text.replace("\r\n", "\n"), path
    (row,) = read(tmp_path / "out", "advisory", kind)
    written = str(row["text"])
    assert (json.loads(f'"{written}"') if kind == "csv" else written) == HOSTILE


def test_every_column_is_explained_beside_the_tables(tmp_path: Path, recording: Recording) -> None:
    export(recording.folder, tmp_path / "out", "csv", quiet, refuse)
    with (tmp_path / "out" / "columns.csv").open(encoding="utf-8") as file:
        explained = {(row["table"], row["column"]): row for row in csv.DictReader(file)}
    for table in TABLES:
        with (tmp_path / "out" / f"{table.name}.csv").open(encoding="utf-8") as file:
            names = next(csv.reader(file))
        for name in names:
            assert explained[table.name, name]["unit"] and explained[table.name, name]["meaning"]


def test_an_export_overwrites_nothing(tmp_path: Path, recording: Recording) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(SessionError, match="is not empty"):
        export(recording.folder, tmp_path, "csv", quiet, refuse)
