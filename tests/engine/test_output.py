"""What a reader that does not read misses."""

from __future__ import annotations

import os
import threading

import pytest

from natstui.engine.pipes import LineWriter
from natstui.lines import decode_record
from natstui.model.records.record import Advisory, Noted, Record, Restored, Unavailable


class Pipe:
    """A pipe with a writer on one end; nobody reads until told to."""

    def __init__(self) -> None:
        self.read_fd, self.write_fd = os.pipe()
        self.broken = threading.Event()
        self.writer = LineWriter(self.write_fd, self.broken.set)

    def read_all(self) -> list[Record]:
        """Let the writer end, and return what it wrote."""
        lines: list[bytes] = []

        def read() -> None:
            with os.fdopen(self.read_fd, "rb") as file:
                lines.extend(file)

        reader = threading.Thread(target=read)
        reader.start()
        self.writer.close(30)
        os.close(self.write_fd)
        reader.join(30)
        return [decode_record(line) for line in lines]


@pytest.fixture
def pipe() -> Pipe:
    return Pipe()


def _advisory(number: int) -> Advisory:
    return Advisory(number, "nak", "S", "C", "x" * 1000, "{}")


def test_records_are_written_in_their_order(pipe: Pipe) -> None:
    notes = [Noted(number, "n") for number in range(1000)]
    for note in notes:
        pipe.writer.add(note)
    assert pipe.read_all() == notes


def test_a_backlog_of_64_mib_loses_its_oldest_announcements_and_says_so(pipe: Pipe) -> None:
    for number in range(80_000):
        pipe.writer.add(_advisory(number))
        if number % 10_000 == 0:
            pipe.writer.add(Noted(number, "kept"))
    records = pipe.read_all()
    told = [record.at_us for record in records if isinstance(record, Advisory)]
    assert 50_000 < len(told) < 70_000 and told[-1] == 79_999
    assert told == sorted(told)
    assert [r.what for r in records if isinstance(r, Unavailable)] == ["events"]
    assert [r.what for r in records if isinstance(r, Restored)] == ["events"]
    assert sum(isinstance(record, Noted) for record in records) == 8


def test_a_reader_that_is_gone_is_noticed(pipe: Pipe) -> None:
    os.close(pipe.read_fd)
    pipe.writer.add(Noted(0, "n"))
    assert pipe.broken.wait(10)
    pipe.writer.close(10)
    os.close(pipe.write_fd)
