"""The format is documented as it is, and version 1 stays readable."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from natstui.lines import decode_record
from natstui.model.records.record import Noted
from natstui.session.files.folder import segments
from natstui.session.read.recording import Recording
from natstui.session.share.format import documented, format_text
from natstui.session.share.tables import TABLES
from natstui.session.share.verify import verify
from tests.session.making import fold, made
from tests.session.scenario import START_US, Scenario

DATA = Path(__file__).parent / "data"
VERSION_1 = DATA / "version-1"


AGAIN = "natstui sessions format > natstui/session/share/FORMAT.md"


def test_the_documentation_is_that_of_the_dataclasses() -> None:
    written = documented().read_text(encoding="utf-8").splitlines()
    wanted = format_text().splitlines()
    missing = sorted(set(wanted) - set(written))
    outdated = sorted(set(written) - set(wanted))
    assert written == wanted, f"missing {missing}, outdated {outdated}; write it again: {AGAIN}"


def test_every_number_in_the_documentation_has_a_unit() -> None:
    rows = [line.replace(r"\|", "¦").split(" | ") for line in format_text().splitlines()]
    numbers = [row for row in rows if len(row) == 4 and re.search(r"\b(int|float)\b", row[1])]
    assert len(numbers) > 200
    assert [row for row in numbers if row[2] in ("", "text")] == []


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
    packed = b"".join(p.line for e in second.content(second.spans[0]).entries for p in e.pieces)
    assert b'"delivered_near_us"' in packed and b'"delivered_at_us"' not in packed


def test_a_column_that_came_later_is_unknown_in_old_recordings() -> None:
    poll = Scenario().poll(1)
    content = msgspec.json.decode(msgspec.json.encode(poll), type=dict)
    for later in ("next_at_us", "pinned_client", "peers", "paused"):
        del content["consumers"][later]
    old = b'{"kind":"snapshot",' + msgspec.json.encode(content)[1:] + b"\n"
    read = decode_record(old)
    assert read == poll


@pytest.mark.slow
def test_the_lines_are_read_by_zcat(tmp_path: Path) -> None:
    scenario = Scenario(streams=1, consumers=2)
    folder = made(tmp_path, [*scenario.beginning(), *scenario.records(0, 40)])
    path = segments(folder)[0].path
    text = subprocess.run(["zcat", str(path)], check=True, capture_output=True).stdout
    kinds = [json.loads(line)["kind"] for line in text.splitlines()]
    assert kinds[0] == "keyframe"
    assert kinds.count("snapshot") == 40 and kinds.count("advisory") == 2


def test_every_exported_column_has_a_unit_and_a_meaning() -> None:
    for table in TABLES:
        assert len(set(table.names)) == len(table.names)
        for column in table.columns:
            assert column.unit and column.text, (table.name, column.name)
