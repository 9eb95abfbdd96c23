"""How soon the engine speaks, notices that a server is gone, and recovers when it is back."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from queue import Queue
from statistics import median

from natstui.jetstream.testbed.broker import Broker
from natstui.lines import decode_record
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.record import EngineStarted, LinkChanged, Record, Unavailable

ROUNDS_COUNT = 5
OUTAGE_S = 3


class _Engine:
    """An engine and when each of its records came."""

    def __init__(self, url: str) -> None:
        self.started_s = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "natstui", "engine", "--server", url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._records: Queue[tuple[float, Record]] = Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._records.put((time.monotonic(), decode_record(line)))

    def seconds_until(self, since_s: float, test: Callable[[Record], bool]) -> float:
        """Return how long after a moment the first record came that passes a test."""
        while True:
            at_s, record = self._records.get(timeout=60)
            if at_s >= since_s and test(record):
                return at_s - since_s

    def end(self) -> None:
        """End it as the viewer does."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


def _is_complaint(record: Record) -> bool:
    lost = isinstance(record, LinkChanged) and record.state == "reconnecting"
    return lost or isinstance(record, Unavailable)


def _is_data(record: Record) -> bool:
    return isinstance(record, Snapshot)


def _outage(
    engine: _Engine, what: str, begin: Callable[[], None], end: Callable[[], None]
) -> None:
    noticed, recovered = [], []
    for _ in range(ROUNDS_COUNT):
        since_s = time.monotonic()
        begin()
        noticed.append(engine.seconds_until(since_s, _is_complaint))
        time.sleep(OUTAGE_S)
        end()
        recovered.append(engine.seconds_until(time.monotonic(), _is_data))
    print(f"{what:8} noticed after   {median(noticed):.2f} s, at most {max(noticed):.2f} s")
    print(f"{what:8} recovered after {median(recovered):.2f} s, at most {max(recovered):.2f} s")


def main() -> None:
    """Print seconds, the middle of some rounds and the worst."""
    with Broker() as broker:
        first_line, first_data = [], []
        for _ in range(ROUNDS_COUNT):
            engine = _Engine(broker.url)
            since_s = engine.started_s
            first_line.append(
                engine.seconds_until(since_s, lambda record: isinstance(record, EngineStarted))
            )
            first_data.append(engine.seconds_until(since_s, _is_data))
            engine.end()
        print(f"first line after  {median(first_line):.2f} s")
        print(f"first data after  {median(first_data):.2f} s")
        engine = _Engine(broker.url)
        engine.seconds_until(engine.started_s, _is_data)
        _outage(engine, "killed", broker.kill, broker.start)
        _outage(engine, "frozen", broker.freeze, broker.thaw)
        engine.end()


if __name__ == "__main__":
    main()
