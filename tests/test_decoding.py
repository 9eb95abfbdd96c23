"""Many threads that read at once, and each of them for the first time."""

import subprocess
import sys

import pytest

FIRST_READS = """
import sys
from threading import Barrier, Thread

from natstui.lines import decode_record, encode_record
from natstui.model.live.snapshot import ConsumerColumns, PollCost, Snapshot, StreamColumns
from natstui.session.files.entry import decode_keyframe, encode_keyframe
from natstui.session.files.keyframe import KeyframeBuilder

cost = PollCost(1, 1, 1, None, 1, None)
poll = Snapshot(1, 1, StreamColumns(), ConsumerColumns(), True, True, (), (), (), None, cost)
made = KeyframeBuilder()
made.add(poll)
readers = [
    (decode_record, encode_record(poll)),
    (decode_keyframe, encode_keyframe(made.keyframe(1))),
]
begin = Barrier(8)


def read(number):
    begin.wait()
    decode, line = readers[number % 2]
    decode(line)


threads = [Thread(target=read, args=(number,)) for number in range(8)]
sys.setswitchinterval(1e-6)
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.slow
@pytest.mark.parametrize("times_count", [1, pytest.param(10, marks=pytest.mark.long)])
def test_threads_may_read_for_the_first_time_at_once(times_count: int) -> None:
    for _ in range(times_count):
        child = subprocess.run([sys.executable, "-c", FIRST_READS], capture_output=True, text=True)
        assert (child.returncode, child.stderr) == (0, "")
