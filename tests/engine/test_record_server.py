"""What a recording without a viewer logs."""

from __future__ import annotations

import errno
import os

from natstui.engine.record_server import ConnectionLog
from natstui.model.records.record import Restored, Unavailable
from natstui.model.records.recording import RecordingChanged


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
