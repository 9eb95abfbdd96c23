"""An engine that makes everything up: `python -m benchmarks._made_engine STREAMS CONSUMERS`.

Whole snapshots once a second, every counter moving, until stdin ends.
"""

from __future__ import annotations

import sys
import threading
import time

from natstui.lines import SCHEMA_VERSION, encode_record
from natstui.model.assets.configuration import ConsumerConfiguration, StreamConfiguration
from natstui.model.live.snapshot import Account, ConsumerColumns, PollCost, Snapshot, StreamColumns
from natstui.model.records.record import Configured, EngineStarted, LinkChanged

Record = EngineStarted | LinkChanged | Configured | Snapshot


def started() -> list[Record]:
    """Return the first words of an engine."""
    at_us = time.time_ns() // 1000
    return [
        EngineStarted(
            at_us, "bench", SCHEMA_VERSION, "made up", False, False, 1.0, "natstui-dark", False,
            True, {},
        ),
        LinkChanged(at_us, "connected", None, "made", "2.15.1"),
    ]  # fmt: skip


def configured(streams: int, consumers: int) -> Configured:
    """Return plausible configurations of everything."""
    return Configured(
        time.time_ns() // 1000,
        tuple(
            StreamConfiguration(
                f"STREAM-{i:06d}", 1, "stream", "", (f"s.{i}.>",), "file", "limits", "old", None,
                1 << 30, None, None, None, None, 120_000_000_000, 1, False, True, None, (), "{}",
            )
            for i in range(streams)
        ),
        tuple(
            ConsumerConfiguration(
                f"STREAM-{i % streams:06d}", f"consumer-{i:06d}", 1, "", True, True, "all",
                "explicit", 30_000_000_000, None, 1000, 512, (), None, None, None, None, 1, "{}",
            )
            for i in range(consumers)
        ),
    )  # fmt: skip


def snapshot(streams: int, consumers: int, tick: int) -> Snapshot:
    """Return a whole poll in which everything has moved."""
    mono_us, at_us = time.monotonic_ns() // 1000, time.time_ns() // 1000
    s, c = range(streams), range(consumers)
    return Snapshot(
        mono_us,
        at_us,
        StreamColumns(
            tuple(f"STREAM-{i:06d}" for i in s), (1,) * streams, (mono_us,) * streams,
            tuple(1000 + (i * 7 + tick * 13) % 9000 for i in s),
            tuple((1000 + (i * 7 + tick * 13) % 9000) * 128 for i in s), (1,) * streams,
            tuple(tick * (i % 97 + 1) for i in s), (at_us - 60_000_000,) * streams,
            (at_us,) * streams, (0,) * streams, (0,) * streams, (3,) * streams, (5,) * streams,
            ("n1",) * streams, ((),) * streams, ((),) * streams, ((),) * streams,
            (None,) * streams,
        ),
        ConsumerColumns(
            tuple(f"STREAM-{i % streams:06d}" for i in c), tuple(f"consumer-{i:06d}" for i in c),
            (1,) * consumers, (mono_us,) * consumers, tuple(tick * (i % 89 + 1) for i in c),
            tuple(tick * (i % 83 + 1) for i in c), tuple(tick * (i % 79 + 1) for i in c),
            tuple(tick * (i % 73 + 1) for i in c), (at_us,) * consumers, (at_us,) * consumers,
            tuple((i * 31 + tick * 17) % 5000 for i in c), tuple((i + tick) % 100 for i in c),
            tuple(i % 7 for i in c), tuple(i % 3 for i in c), (False,) * consumers,
            (False,) * consumers, (None,) * consumers, (None,) * consumers, ("n1",) * consumers,
            ((),) * consumers,
        ),
        True, True, (), (), (),
        Account(0, 0, streams, consumers, None, None, None, None, tick, 0, 0, 5, None),
        PollCost(10, 1, 1, 500, 1_000_000, None),
    )  # fmt: skip


def main() -> None:
    """Write lines until stdin ends."""
    streams, consumers = int(sys.argv[1]), int(sys.argv[2])
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    out = sys.stdout.buffer
    for record in (*started(), configured(streams, consumers)):
        out.write(encode_record(record))
        out.flush()
    tick = 0
    while not ended.wait(1.0 if tick else 0.0):
        tick += 1
        out.write(encode_record(snapshot(streams, consumers, tick)))
        out.flush()


if __name__ == "__main__":
    main()
