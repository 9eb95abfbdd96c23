"""Copies under random faults: each message is copied once, in order, or named as not copied."""

from __future__ import annotations

import asyncio
import json
import random
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client
from nats.js import api

from natstui.jetstream.messages.copying.account import seqs_of
from natstui.jetstream.testbed.broker import Broker
from tests.cli.test_core import connected
from tests.cli.test_manage import Shell
from tests.cli.test_messages_copy import counts, some_stored, started
from tests.jetstream.raw_publisher import RawPublisher

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]

MANY, SMALL = 200_000, 2_000
AT_ONCE = 5_000
LARGEST_BYTES = 512
"""Of a message that the target takes; a few are larger."""
TO_T = ("S", "--to-stream", "T", "--map", "s.>:t.>")
PATIENCE_S = 120
FAULTS = ("kill the copy", "interrupt the copy", "kill the server", "delete the target",
          "recreate the source", "fill the target")  # fmt: skip


@dataclass
class Trial:
    """One source that is copied until all of it is there, whatever happens meanwhile."""

    broker: Broker
    shell: Shell
    chance: random.Random
    count: int
    resumes: bool = False
    tried_again: set[int] = field(default_factory=set)
    """What was refused once: it is sent again before all others, and so out of its order."""
    refused: set[int] = field(default_factory=set)
    """What the last copy named as not copied."""
    seen: list[str] = field(default_factory=list)

    async def fill(self, nc: Client) -> None:
        """Make the source: of some messages the payload is larger than the target takes."""
        await nc.jetstream().add_stream(name="S", subjects=["s.>"])
        self.large = set(self.chance.sample(range(1, self.count + 1), 5))
        whole = self.chance.choice(sorted(self.large))
        with RawPublisher(self.broker.url) as raw:
            for first in range(1, self.count + 1, AT_ONCE):
                last = min(first + AT_ONCE - 1, self.count)
                lines = list[bytes]()
                for number in range(first, last + 1):
                    size = nc.max_payload if number == whole else 2 * LARGEST_BYTES
                    payload = b"x" * size if number in self.large else b"%d" % number
                    lines.append(b"PUB s.%d %d\r\n%s\r\n" % (number, len(payload), payload))
                raw.send(b"".join(lines))
                raw.settle()
                await some_stored(nc, "S", last)

    async def make_target(self, nc: Client) -> None:
        """Make an empty target."""
        await nc.jetstream().add_stream(self.target())
        self.resumes = False
        self.tried_again.clear()

    def target(self, **words: Any) -> api.StreamConfig:
        """Return the configuration of the target."""
        return api.StreamConfig(
            "T", subjects=["t.>"], max_msg_size=LARGEST_BYTES, discard=api.DiscardPolicy.NEW,
            duplicate_window=600, **words,
        )  # fmt: skip

    async def run(self, faults: int) -> None:
        """Copy, with so many faults one after the other, and then until it ends by itself."""
        async with connected(self.broker.url) as nc:
            await self.fill(nc)
            await self.make_target(nc)
        for _ in range(faults):
            fault = self.chance.choice(FAULTS)
            self.seen.append(fault)
            code, error = await self.copy(fault)
            if code == 0 or self.is_complete(code, error):
                break
        for _ in range(3):
            code, error = await self.copy(None)
            if self.is_complete(code, error):
                return
        pytest.fail(f"not complete: {code} {error} after {self.seen}")

    def is_complete(self, code: int | None, error: str) -> bool:
        """Tell whether nothing is left to copy but what the target never takes."""
        self.seen.append(f"→ {code}")
        return (
            code in (0, 4)
            and "the target refused some messages" in error
            and self.refused <= self.large
        )

    async def copy(self, fault: str | None) -> tuple[int | None, str]:
        """Copy once and let something happen meanwhile; return how that ended."""
        words = (*TO_T, "--resume") if self.resumes else TO_T
        async with connected(self.broker.url) as nc:
            if fault == "fill the target":
                there = (await nc.jetstream().stream_info("T")).state.messages
                most = there + self.chance.randrange(1, self.count // 3)
                await nc.jetstream().update_stream(self.target(max_msgs=most))
        process = started(self.shell, *words)
        try:
            if fault is not None:
                await self.happen(fault, process)
            async with asyncio.timeout(PATIENCE_S):
                out, error = await asyncio.to_thread(process.communicate)
        finally:
            process.kill()
        await self.afterwards(fault, out, error)
        return process.returncode, error

    async def happen(self, fault: str, process: Any) -> None:
        """Wait until some more is stored, and let it happen."""
        if fault == "fill the target":
            return
        async with connected(self.broker.url) as nc:
            js = nc.jetstream()
            there = (await js.stream_info("T")).state.messages
            wanted = there + self.chance.randrange(1, max(2, self.count // 8))
            while there < wanted and process.poll() is None:
                await asyncio.sleep(0.01)
                there = (await js.stream_info("T")).state.messages
            if fault == "delete the target":
                await js.delete_stream("T")
            elif fault == "recreate the source":
                await js.delete_stream("S")
        if fault == "kill the copy":
            process.send_signal(signal.SIGKILL)
        elif fault == "interrupt the copy":
            process.send_signal(signal.SIGINT)
        elif fault == "kill the server":
            await asyncio.to_thread(self.broker.kill)
            await asyncio.to_thread(self.broker.start)

    async def afterwards(self, fault: str | None, out: str, error: str) -> None:
        """Take what the copy says of itself, and mend what was broken."""
        self.resumes = "nothing to resume" not in error
        if out.strip():
            account = json.loads(out)
            self.refused = set(seqs_of(account["refused_ranges"]))
            self.tried_again |= self.refused
        for file in (self.shell.folder / "STATE").rglob("copies/*.json"):
            self.tried_again |= set(seqs_of(json.loads(file.read_bytes())["refused_ranges"]))
        async with connected(self.broker.url) as nc:
            if fault == "delete the target":
                await self.make_target(nc)
            elif fault == "recreate the source":
                await self.fill(nc)
                await nc.jetstream().delete_stream("T")
                await self.make_target(nc)
            elif fault == "fill the target":
                await nc.jetstream().update_stream(self.target())

    async def check(self) -> None:
        """Check that each message is there once and in order, or named."""
        async with connected(self.broker.url) as nc:
            found = await counts(nc, "T")
            assert set(found.values()) <= {1}, self.seen
            there = {int(subject[2:]) for subject in found}
            assert there | self.refused == set(range(1, self.count + 1)), self.seen
            assert not there & self.refused, self.seen
            order = [number for number in await stored(nc, len(there))
                     if number not in self.tried_again]  # fmt: skip
            assert order == sorted(order), self.seen


async def stored(nc: Client, count: int) -> list[int]:
    """Return the numbers of the messages of the target, in the order in which it has them."""
    numbers, complete = list[int](), asyncio.Event()

    async def take(msg: Any) -> None:
        numbers.append(int(msg.subject[2:]))
        if len(numbers) == count:
            complete.set()

    inbox = nc.new_inbox()
    await nc.subscribe(inbox, cb=take, pending_msgs_limit=0, pending_bytes_limit=0)
    config = api.ConsumerConfig(deliver_subject=inbox, ack_policy=api.AckPolicy.NONE)
    await nc.jetstream().add_consumer("T", config)
    async with asyncio.timeout(PATIENCE_S):
        await complete.wait()
    return numbers


async def tried(broker: Broker, folder: Path, seed: int, count: int, faults: int) -> None:
    trial = Trial(broker, Shell(broker.url, folder), random.Random(seed), count)
    await trial.run(faults)
    await trial.check()


@pytest.mark.long
async def test_a_copy_under_faults_forgets_nothing(nats_server: Broker, tmp_path: Path) -> None:
    await tried(nats_server, tmp_path, 5, SMALL, 1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
async def test_a_large_copy_under_faults_forgets_nothing(
    nats_server: Broker, tmp_path: Path, seed: int
) -> None:
    await tried(nats_server, tmp_path, seed, MANY, 6)
