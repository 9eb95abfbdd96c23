"""The format is documented as it is, and version 1 stays readable."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import fields

from natstui.lines import decode_record
from natstui.model.live.column_differences import ConsumersAsDifferences
from natstui.model.live.snapshot import ConsumerColumns
from natstui.model.records.record import Noted, Record, kind_of
from natstui.session.files.folder import list_segments
from natstui.session.files.keyframe import Keyframe
from natstui.session.read.recording import Recording
from natstui.session.share.format import (
    MAYBE_ABSENT_TEXT,
    MAYBE_NULL_TEXT,
    VALUES_MAYBE_NULL_TEXT,
    describe_presence,
    format_text,
)
from natstui.session.share.tables import TABLES
from natstui.session.share.verify import verify
from tests.architecture.source import PACKAGE
from tests.session.making import fold, made
from tests.session.scenario import START_US, Scenario

DATA = Path(__file__).parent / "data"
VERSION_1 = DATA / "version-1"


AGAIN = "natstui sessions format > natstui/session/share/FORMAT.md"


def test_the_documentation_is_that_of_the_records() -> None:
    written = (
        (PACKAGE / "session" / "share" / "FORMAT.md").read_text(encoding="utf-8").splitlines()
    )
    wanted = format_text().splitlines()
    missing = sorted(set(wanted) - set(written))
    outdated = sorted(set(written) - set(wanted))
    assert written == wanted, f"missing {missing}, outdated {outdated}; write it again: {AGAIN}"


def test_every_number_in_the_documentation_has_a_unit() -> None:
    rows = [line.replace(r"\|", "¦").split(" | ") for line in format_text().splitlines()]
    numbers = [row for row in rows if len(row) == 5 and re.search(r"\b(int|float)\b", row[1])]
    assert len(numbers) > 200
    assert [row for row in numbers if row[3] in ("", "text")] == []


@pytest.mark.parametrize("version", ["version-1", "version-2", "version-3"])
def test_a_session_of_every_version_opens(tmp_path: Path, version: str) -> None:
    folder = shutil.copytree(DATA / version, tmp_path / version)
    assert verify(folder).findings == ()
    records = list(Recording(folder).records())
    expected = json.loads((DATA / version / "expected.json").read_text())
    kinds: dict[str, int] = {}
    for record in records:
        kinds[type(record).__name__] = kinds.get(type(record).__name__, 0) + 1
    assert kinds == expected["records"]
    state = fold(records)
    assert list(state.streams.columns.last_seq) == expected["last_seq"]
    assert list(state.consumers.columns.pending_msgs) == expected["pending_msgs"]
    assert Noted(START_US + 40_001_002, "note at 40") in records


def test_all_versions_hold_the_same() -> None:
    first, second, third = (Recording(DATA / f"version-{number}") for number in (1, 2, 3))
    versions = [one.info.schema_version for one in (first, second, third)]
    assert versions == [1, 2, 3]
    assert list(first.records()) == list(second.records()) == list(third.records())
    packed = b"".join(p.line for e in second.content(second.spans[0]).entries for p in e.parts)
    assert b'"delivered_near_us"' in packed and b'"delivered_at_us"' not in packed


def test_a_column_that_came_later_is_unknown_in_old_recordings() -> None:
    poll = Scenario().poll(1)
    content = msgspec.json.decode(msgspec.json.encode(poll), type=dict)
    for later in ("next_at_us", "pinned_client", "peers", "paused"):
        del content["consumers"][later]
    old = b'{"kind":"snapshot",' + msgspec.json.encode(content)[1:] + b"\n"
    read = decode_record(old)
    assert read == poll


def lines_of(version: str) -> list[dict[str, Any]]:
    """Return every line of a frozen session as its writer left it."""
    files = sorted((DATA / version).glob("records-*.gz"))
    return [json.loads(line) for file in files for line in gzip.open(file, "rb")]


KINDS_OF_LINES = {kind_of(cls): cls for cls in get_args(Record)} | {"keyframe": Keyframe}


def places(hint: Any, value: Any) -> Iterator[tuple[type, dict[str, Any]]]:
    """Yield every dataclass inside a value of this type, with its object."""
    if isinstance(hint, type) and issubclass(hint, Struct):
        if hint is ConsumerColumns and "delivered_near_us" in value:
            hint = ConsumersAsDifferences
        yield hint, value
        for name, inner in get_type_hints(hint).items():
            if value.get(name) is not None:
                yield from places(inner, value[name])
        return
    arguments = [one for one in get_args(hint) if one not in (type(None), Ellipsis)]
    if isinstance(value, list) and len(arguments) == 1:
        for one in value:
            if one is not None:
                yield from places(arguments[0], one)
    elif isinstance(value, dict) and get_origin(hint) is dict:
        for one in value.values():
            yield from places(arguments[1], one)
    elif get_origin(hint) in (Union, UnionType) and len(arguments) == 1:
        yield from places(arguments[0], value)


VERSIONS = ("version-1", "version-2", "version-3")
OLDEST_AND_NEWEST = (
    VERSIONS[0],
    pytest.param(VERSIONS[1], marks=pytest.mark.long),
    VERSIONS[2],
)


@pytest.mark.slow
@pytest.mark.parametrize("version", OLDEST_AND_NEWEST)
def test_a_field_is_there_in_every_version_as_the_documentation_says(version: str) -> None:
    counted = 0
    for line in lines_of(version):
        for cls, value in places(KINDS_OF_LINES[line["kind"]], line):
            hints = get_type_hints(cls)
            for field in fields(cls):
                there = describe_presence(field, hints[field.name])
                where = (line["kind"], cls.__name__, field.name)
                if field.name not in value:
                    assert MAYBE_ABSENT_TEXT in there, where
                elif value[field.name] is None:
                    assert re.search(rf"(^|, ){MAYBE_NULL_TEXT}", there), where
                elif isinstance(value[field.name], list) and None in value[field.name]:
                    assert VALUES_MAYBE_NULL_TEXT in there, where
                counted += 1
    assert counted > 2_000


@pytest.mark.slow
@pytest.mark.parametrize("version", OLDEST_AND_NEWEST)
def test_what_may_be_absent_may_be_absent_from_every_line(version: str) -> None:
    without = 0
    for line in lines_of(version):
        if line["kind"] == "keyframe":
            continue
        for cls, value in list(places(KINDS_OF_LINES[line["kind"]], line)):
            hints = get_type_hints(cls)
            for field in fields(cls):
                if MAYBE_ABSENT_TEXT in describe_presence(field, hints[field.name]):
                    without += value.pop(field.name, None) is not None
        line["of_a_later_version"] = {"not": ["known"]}
        text = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        assert kind_of(type(decode_record(text))) == line["kind"]
    assert without > 20


@pytest.mark.slow
def test_the_lines_are_read_by_zcat(tmp_path: Path) -> None:
    scenario = Scenario(streams=1, consumers=2)
    folder = made(tmp_path, [*scenario.beginning(), *scenario.records(0, 40)])
    path = list_segments(folder)[0].path
    text = subprocess.run(["zcat", str(path)], check=True, capture_output=True).stdout
    kinds = [json.loads(line)["kind"] for line in text.splitlines()]
    assert kinds[0] == "keyframe"
    assert kinds.count("snapshot") == 40 and kinds.count("advisory") == 2


def test_every_exported_column_has_a_unit_and_a_meaning() -> None:
    for table in TABLES:
        assert len(set(table.names)) == len(table.names)
        for column in table.columns:
            assert column.unit and column.text, (table.name, column.name)
