"""What a reader that does not read misses."""

from __future__ import annotations

import os
import threading
import time

import pytest

from natstui.engine.pipes import LineWriter
from natstui.jetstream.polling.snapshot import PolledConsumers, PolledStreams, make_snapshot
from natstui.lines import decode_record, encode_record
from natstui.model.live.snapshot import PollCost, Snapshot
from natstui.model.records.record import Advisory, Noted, Record, Restored, Unavailable
from natstui.values import replace
from tests.jetstream.stream_rows import stream_row


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
    return Advisory(number, "nak", "S", "C", "x" * 4000, "{}")


def test_records_are_written_in_their_order(pipe: Pipe) -> None:
    notes = [Noted(number, "n") for number in range(1000)]
    for note in notes:
        pipe.writer.add(note)
    assert pipe.read_all() == notes


@pytest.mark.slow
def test_a_backlog_of_64_mib_loses_its_oldest_announcements_and_says_so(pipe: Pipe) -> None:
    for number in range(20_000):
        pipe.writer.add(_advisory(number))
        if number % 2_500 == 0:
            pipe.writer.add(Noted(number, "kept"))
    records = pipe.read_all()
    told = [record.at_us for record in records if isinstance(record, Advisory)]
    assert 14_000 < len(told) < 17_500 and told[-1] == 19_999
    assert told == sorted(told)
    assert [r.what for r in records if isinstance(r, Unavailable)] == ["events"]
    assert [r.what for r in records if isinstance(r, Restored)] == ["events"]
    assert sum(isinstance(record, Noted) for record in records) == 8


def _blocked(pipe: Pipe) -> None:
    """Let the writer hang in a line that the pipe cannot hold."""
    pipe.writer.add(Noted(0, "x" * 1_000_000))
    while pipe.writer._queued_lines:
        time.sleep(0.001)


def _snapshot(number: int, *, whole: bool, name: str = "S") -> Snapshot:
    rows = [stream_row(name)]
    cost = PollCost(0, 0, 0, None, 0, None, None)
    seen = PolledStreams(rows, is_complete=True)
    made = make_snapshot(None, seen, PolledConsumers(is_complete=whole), cost, None)
    return replace(made, taken_at_us=number)


def test_parts_of_a_picture_all_arrive_and_a_whole_one_replaces_them(pipe: Pipe) -> None:
    _blocked(pipe)
    for number in range(9):
        pipe.writer.add(_snapshot(number, whole=number == 5))
    told = [it.taken_at_us for it in pipe.read_all() if isinstance(it, Snapshot)]
    assert told == [5, 6, 7, 8]


def test_of_parts_that_nobody_reads_the_oldest_are_dropped(pipe: Pipe) -> None:
    _blocked(pipe)
    # A long name is as many bytes as many streams, and made sooner.
    part = _snapshot(0, whole=False, name="S" * 100_000)
    part_bytes = len(encode_record(part))
    count = 30_000_000 // part_bytes
    for number in range(count):
        pipe.writer.add(replace(part, taken_at_us=number))
    told = [it.taken_at_us for it in pipe.read_all() if isinstance(it, Snapshot)]
    assert 15_000_000 // part_bytes < len(told) <= 17_000_000 // part_bytes
    assert told == list(range(count))[-len(told) :]


def test_a_reader_that_is_gone_is_noticed(pipe: Pipe) -> None:
    os.close(pipe.read_fd)
    pipe.writer.add(Noted(0, "n"))
    assert pipe.broken.wait(30)
    pipe.writer.close(10)
    os.close(pipe.write_fd)
