"""What a recording without a viewer logs."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from natstui.config import Connection
from natstui.config.settings import Settings
from natstui.engine.record_server import ConnectionLog, record_server
from natstui.model.records.record import Restored, Unavailable
from natstui.model.records.recording import RecordingChanged
from natstui.session.library import list_session_folders, read_summary
from natstui.session.write.settings import RecorderSettings


def test_what_cannot_be_read_and_what_can_be_again_are_a_sentence_each() -> None:
    said = list[str]()
    log = ConnectionLog(said.append)
    log.add(Unavailable(1, "CONSUMER.LIST.ORDERS", "no permission"))
    log.add(Restored(2, "CONSUMER.LIST.ORDERS"))
    assert said == [
        "CONSUMER.LIST.ORDERS cannot be read: no permission",
        "CONSUMER.LIST.ORDERS can be read again",
    ]


def test_a_log_that_cannot_be_written_ends_nothing() -> None:
    lines = list[str]()

    def write_line(text: str) -> None:
        lines.append(text)
        raise OSError(errno.EPIPE, os.strerror(errno.EPIPE))

    log = ConnectionLog(write_line)
    log.add(Unavailable(1, "CONSUMER.LIST.ORDERS", "no permission"))
    log.on_recording_change(RecordingChanged(2, True, "folder", 7, "not recording: disk full"))
    log.on_recording_change(RecordingChanged(3, True, "folder", 7))
    assert lines[1:] == ["not recording: disk full", "recording continues"]


async def test_a_recording_whose_folder_cannot_be_reported_is_completed(tmp_path: Path) -> None:
    def fail(folder: str) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    lines = list[str]()
    log, settings = ConnectionLog(lines.append), RecorderSettings(tmp_path)
    with pytest.raises(BrokenPipeError):
        await record_server(Settings(), Connection(), settings, asyncio.Event(), log, fail)
    (folder,) = list_session_folders(tmp_path)
    assert read_summary(folder).status == "complete"
    (line,) = lines
    assert line.startswith("recorded ") and line.endswith(f" into {folder}")
