"""A real engine process, driven through its pipes as the viewer does it."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, Queue
from typing import Self, TypeVar

from natstui.lines import decode_record, encode_command
from natstui.model.records.record import Command, Record

R = TypeVar("R")


class EngineProcess:
    """Starts `natstui engine`, reads its records in a thread, sends it commands."""

    def __init__(
        self,
        *arguments: str,
        start: Sequence[str] = (sys.executable, "-m", "natstui", "engine"),
    ) -> None:
        self.process = subprocess.Popen(
            [*start, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.records: list[Record] = []
        """Everything that came so far."""
        self._records: Queue[Record] = Queue()
        self._reading = threading.Event()
        self._reading.set()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reading.set()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._thread.join(5)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()

    def stall(self) -> None:
        """Stop reading, as a viewer on a frozen terminal does."""
        self._reading.clear()

    def go_on(self) -> None:
        """Read again."""
        self._reading.set()

    def send(self, *commands: Command) -> None:
        """Send commands, all at once."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(map(encode_command, commands)))
        self.process.stdin.flush()

    def next(self, kind: type[R], test: Callable[[R], bool] = lambda _: True, s: float = 30) -> R:
        """Return the next record of a kind that passes a test, dropping what comes before."""
        give_up_at = time.monotonic() + s
        while True:
            try:
                record = self._records.get(timeout=max(0.01, give_up_at - time.monotonic()))
            except Empty:
                raise AssertionError(f"no {kind.__name__} within {s} s") from None
            if isinstance(record, kind) and test(record):
                return record

    def waiting(self) -> list[Record]:
        """Return the records that arrived and nobody asked for yet."""
        records = []
        while not self._records.empty():
            records.append(self._records.get())
        return records

    def _read(self) -> None:
        assert self.process.stdout is not None
        while self._reading.wait() and (line := self.process.stdout.readline()):
            record = decode_record(line)
            self.records.append(record)
            self._records.put(record)
