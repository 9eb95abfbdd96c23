"""What a signal to end does to an analysis, and how it is sent where nobody reads any more."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from types import FrameType
from typing import cast

import pytest
from pyspark.sql import SparkSession

from natstui.analysis.progress import _write_line
from natstui.analysis.spark.session import JobCanceller
from tests.session.making import wait_until


@pytest.fixture(autouse=True)
def _handler_of_before() -> Iterator[None]:
    """Leave the handler of this process as it was: Spark's, or that of pytest."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


class Connected:
    """Of a session on a Connect server, what cancelling asks of it."""

    def __init__(self) -> None:
        self.asked_by = set[int]()

    def interruptAll(self) -> None:
        self.asked_by.add(threading.get_ident())


def test_a_second_interrupt_changes_nothing_of_the_first() -> None:
    spark = Connected()
    cancel = JobCanceller(cast(SparkSession, spark))
    assert not cancel.is_cancelled
    cancel.check()
    signal.raise_signal(signal.SIGINT)
    wait_until(lambda: spark.asked_by)
    signal.raise_signal(signal.SIGINT)
    (canceller,) = (one for one in threading.enumerate() if "_cancel_repeatedly" in one.name)
    with pytest.raises(KeyboardInterrupt):
        cancel.check()
    cancel.end()
    canceller.join(30)
    assert not canceller.is_alive()
    assert spark.asked_by == {canceller.ident}


def test_an_analysis_whose_reader_is_gone_interrupts_itself() -> None:
    interrupted = threading.Event()

    def handler(_number: int, _frame: FrameType | None) -> None:
        interrupted.set()

    signal.signal(signal.SIGINT, handler)
    reading, writing = os.pipe()
    out = os.fdopen(writing, "w")
    _write_line(out, {"kind": "progress", "text": "reading"})
    assert os.read(reading, 100) == b'{"kind": "progress", "text": "reading"}\n'
    assert not interrupted.is_set()
    os.close(reading)
    _write_line(out, {"kind": "progress", "text": "writing"})
    assert interrupted.wait(30)
    # What could not be written is still in its buffer.
    with suppress(BrokenPipeError):
        out.close()
