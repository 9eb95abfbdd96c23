"""What the engine does with files: looked at, put, got, linked, and stopped on their way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from natstui.config.connection import Connection
from natstui.engine.file_commands import FileCommands
from natstui.errors import ActionRefusal, UsageError
from natstui.jetstream.connection.client import connect
from natstui.jetstream.connection.journal import Journal
from natstui.jetstream.connection.writer import Writer
from natstui.model.records.record import Record
from natstui.model.records.stores import (
    FileMoved,
    GetFile,
    InspectFile,
    LinkObject,
    LocalFile,
    PutFile,
    StopTransfer,
)
from tests.accounts import Account
from tests.cli.test_core import connected

pytestmark = pytest.mark.server

CONTENT = bytes(range(256)) * 1200
"""Three chunks."""


@dataclass
class Told:
    """A viewer that keeps what it is told of files, and knows when the first of it came."""

    moved: list[FileMoved] = field(default_factory=list)
    began: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, record: Record) -> None:
        assert isinstance(record, FileMoved)
        self.moved.append(record)
        self.began.set()


@pytest.fixture
async def writer(account: Account, tmp_path: Path) -> AsyncIterator[Writer]:
    async with connected(account.url) as nc:
        await nc.jetstream().create_object_store("FILES")
    client = await connect(Connection(servers=(account.url,)))
    yield Writer(client, Journal(tmp_path / "journal.jsonl"))
    await client.close()


async def test_a_file_is_put_linked_and_got_into_a_folder_with_its_name(
    writer: Writer, tmp_path: Path
) -> None:
    viewer = Told()
    files = FileCommands(viewer)
    file, target = tmp_path / "a file.bin", tmp_path / "out"
    file.write_bytes(CONTENT)
    target.mkdir()
    told, _ = await files.execute(writer, PutFile(1, "FILES", "a/b.bin", str(file)))
    assert told == "a/b.bin stored in FILES, 300 KiB"
    told, _ = await files.execute(writer, LinkObject(2, "FILES", "linked", "FILES", "a/b.bin"))
    assert told == "linked of FILES now links to a/b.bin of FILES"
    told, _ = await files.execute(writer, GetFile(3, "FILES", "linked", str(target)))
    assert told == f"linked, 300 KiB, digest checked, in {target / 'linked'}"
    assert (target / "linked").read_bytes() == CONTENT
    told, _ = await files.execute(writer, GetFile(4, "FILES", "a/b.bin", str(target)))
    # The name in the store is no path: its last part is the file's name.
    assert told.endswith(f"in {target / 'b.bin'}")
    assert {moved.command_id for moved in viewer.moved} == {1, 3, 4}
    wholes = {moved.whole_bytes for moved in viewer.moved if moved.command_id != 3}
    assert wholes == {len(CONTENT)}, "of the file"


async def test_a_file_that_is_stopped_on_its_way_is_not_stored(
    writer: Writer, tmp_path: Path
) -> None:
    viewer = Told()
    files = FileCommands(viewer)
    file = tmp_path / "file"
    file.write_bytes(CONTENT * 20)
    putting = asyncio.ensure_future(files.execute(writer, PutFile(7, "FILES", "big", str(file))))
    await viewer.began.wait()
    assert await files.execute(writer, StopTransfer(8, 7)) == ("the transfer is stopped", None)
    with pytest.raises(ActionRefusal, match=r"^the transfer was stopped: nothing was kept$"):
        await putting
    info = await writer.client.request("STREAM.INFO.OBJ_FILES")
    assert b'"messages":0' in info
    # What moves no more can be stopped without harm.
    assert await files.execute(writer, StopTransfer(9, 7)) == ("the transfer is stopped", None)


async def test_a_file_that_cannot_be_read_is_not_put(writer: Writer, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(UsageError, match="missing cannot be read: No such file or directory"):
        await FileCommands(Told()).execute(writer, PutFile(1, "FILES", "x", str(missing)))


async def test_a_look_tells_the_file_that_is_there_or_would_be_written(
    writer: Writer, tmp_path: Path
) -> None:
    files = FileCommands(Told())
    file = tmp_path / "file"
    file.write_bytes(b"four")
    changed_at_us = file.stat().st_mtime_ns // 1000
    there = LocalFile(str(file), True, 4, changed_at_us)
    assert await files.execute(writer, InspectFile(1, str(file))) == (str(file), there)
    assert await files.execute(writer, InspectFile(2, str(tmp_path), "a/file")) == (
        str(tmp_path),
        there,
    )
    _, found = await files.execute(writer, InspectFile(3, str(tmp_path), "other"))
    assert found == LocalFile(str(tmp_path / "other"), False, 0, 0)
    for path, reason in ((str(tmp_path), "a folder"), ("/dev/null", "no file")):
        with pytest.raises(UsageError, match=rf"^{path} is {reason}$"):
            await files.execute(writer, InspectFile(4, path))
    too_long = str(tmp_path / ("x" * 300))
    with pytest.raises(UsageError, match="cannot be read: File name too long"):
        await files.execute(writer, InspectFile(5, too_long))


async def test_of_a_thousand_steps_at_once_few_are_told() -> None:
    viewer = Told()
    report = FileCommands(viewer)._file_progress_reporter(1, 1000)
    for moved_bytes in range(1000):
        report(moved_bytes)
    assert viewer.moved[0].moved_bytes == 0
    assert len(viewer.moved) < 1000
    tell = FileCommands(viewer)._progress_reporter(2)
    viewer.moved.clear()
    for name in ("A", "B", "C"):
        tell(name, 0, 1)
    assert [moved.what for moved in viewer.moved] == ["A", "B", "C"], "the next stream, always"
