"""What the document says is enough to read what natstui writes, and to write what it reads."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from natstui.lines import decode_record, encode_record
from natstui.model.bench.latency import BUCKETS_COUNT, bucket_high_ns, bucket_low_ns
from natstui.session.files.info import SessionInfo, read_info
from natstui.session.read.recording import Recording
from natstui.session.share.format import format_text
from natstui.session.share.verify import verify
from tests.session.by_document.sessions import Object, Reader, Writer, lowest_ns
from tests.session.by_document.tables import Tables, Values, tables_of
from tests.session.making import made

SEEDS = [*range(10), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(10, 50))]
TABLES = tables_of(format_text())
KINDS = [name[5:] for name in TABLES if name.startswith("kind ") and name != "kind keyframe"]


def generated(tables: Tables, seed: int) -> list[Object]:
    """Random records of every kind, polls of many and of no rows among them."""
    values = Values(tables, seed)
    records = []
    # Ten seeds have every kind, and some of them twice.
    drawn = [*KINDS[seed % 10 :: 10], *values.random.choices(KINDS, k=8)]
    for kind in drawn + ["snapshot"] * 3:
        record = {"kind": kind, **values.fields(tables[f"kind {kind}"])}
        if kind == "gap":
            # Behind one that lost records a reader says again what the keyframe knew.
            record["lost_records_count"] = 0
        records.append(record)
    rows_count = values.random.choice((3, 40, 200))
    records[-1]["streams"] = values.columns("StreamColumns", rows_count // 3)
    records[-1]["consumers"] = values.columns("ConsumerColumns", rows_count)
    values.random.shuffle(records)
    return records


def line_of(record: Object) -> bytes:
    """The line of a record as natstui's reader of lines wants it: the time first."""
    first = [name for name in ("kind", "taken_mono_us", "taken_at_us", "at_us") if name in record]
    ordered = {name: record[name] for name in (*first, *(record.keys() - {*first}))}
    return json.dumps(ordered, separators=(",", ":")).encode() + b"\n"


def as_object(record: Any) -> Object:
    """A record of natstui as JSON has it, huge numbers as digits."""
    found: Object = json.loads(encode_record(record))
    return found


def with_numbers(value: Any) -> Any:
    """The same with huge numbers as numbers, however they are written."""
    if isinstance(value, dict):
        return {key: with_numbers(one) for key, one in value.items()}
    if isinstance(value, list):
        return [with_numbers(one) for one in value]
    return int(value) if isinstance(value, str) and len(value) > 18 and value.isdigit() else value


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_written_by_the_document_is_read_here(tmp_path: Path, seed: int) -> None:
    records = generated(TABLES, seed)
    values = Values(TABLES, seed + 1000)
    info = {**values.fields(TABLES["session.json"]), "schema_version": 2, "dropped": None}
    info["records_count"] = {}
    # A checksum is for natstui to write: what was written by others has none.
    info["checksum"] = ""
    writer = Writer(tmp_path / "written", info, rows_per_part=values.random.choice((7, 50, 1000)))
    writer.write(records, records_per_segment=values.random.choice((4, 100)))
    assert read_info(writer.folder) == msgspec.convert(info, SessionInfo)
    read = [as_object(record) for record in Recording(writer.folder).records()]
    assert with_numbers(read) == with_numbers(records)
    verdict = verify(writer.folder)
    assert (verdict.damaged, verdict.unreadable_lines_count) == (False, 0), verdict.findings


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_written_here_is_read_by_the_document(tmp_path: Path, seed: int) -> None:
    records = generated(TABLES, seed)
    folder = made(tmp_path, [decode_record(line_of(record)) for record in records], 2)
    reader = Reader(folder, TABLES)
    assert [fault for fault in reader.faults if fault] == []
    assert with_numbers(reader.records) == with_numbers(records)
    assert len(reader.keyframes) >= 2


def test_the_rule_of_the_histogram_is_that_of_the_document() -> None:
    for bucket in range(BUCKETS_COUNT):
        assert lowest_ns(bucket) == bucket_low_ns(bucket)
        assert lowest_ns(bucket + 1) - 1 == bucket_high_ns(bucket)


def test_reader_and_writer_of_the_document_know_nothing_of_natstui() -> None:
    for path in (Path(__file__).parent / "by_document").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.split(".")[0] == "natstui"], path
