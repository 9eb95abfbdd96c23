"""What somebody else, an independent nats-py client, saw of a run with a killed worker."""

from __future__ import annotations

import asyncio
import ssl

import nats
import numpy as np
from nats.aio.msg import Msg

from natstui.bench.run.controller import Benchmark
from natstui.bench.wire.deliveries import choice_ratios
from natstui.config.connection import Connection
from natstui.model.bench.plan import (
    BenchmarkPlan,
    Fault,
    Payload,
    RateSegment,
    Role,
    StreamPlan,
)
from natstui.model.bench.result import BenchmarkResult
from tests.bench.running import Records, check_sums
from tests.jetstream.flushing import flushed

RATE = RateSegment(None, 400, 400)


class Observer:
    """Independent nats-py clients: what was acknowledged, and what the stream really holds."""

    def __init__(self) -> None:
        self.answers: list[tuple[bytes, int, int, int]] = []
        """Of every delivery that was answered: the answer, which time, stream and consumer seq."""
        self.seen: list[tuple[int, int]] = []

    async def begin(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        self.nc = await nats.connect(url, tls=tls)
        self.js = self.nc.jetstream()
        await self.js.add_stream(name="TRUTH", subjects=["bench"])
        await self.js.add_consumer("TRUTH", durable_name="shared", ack_wait=2.0)
        await self.nc.subscribe("$JS.ACK.TRUTH.shared.>", cb=self._on_answer)
        await flushed(self.nc)

    async def _on_answer(self, message: Msg) -> None:
        delivered, stream_seq, consumer_seq = map(int, message.subject.split(".")[4:7])
        self.answers.append((message.data, delivered, stream_seq, consumer_seq))

    def sequences(self, *answers: bytes) -> list[int]:
        """The stream sequences that were answered so."""
        return [stream_seq for data, _, stream_seq, _ in self.answers if data in answers]

    async def read(self, count: int) -> None:
        """Read the whole stream with a consumer of its own."""

        async def take(message: Msg) -> None:
            identity = int.from_bytes(message.data[8:16], "little")
            self.seen.append((identity >> 40 & 0xFFF, identity & ((1 << 40) - 1)))

        await self.js.subscribe(">", stream="TRUTH", cb=take, ordered_consumer=True)
        while len(self.seen) < count:
            await asyncio.sleep(0.02)


async def prove(connection: Connection, observer: Observer) -> None:
    """Kill a consumer of those that refuse some messages; compare with what somebody saw."""
    consumers = Role("subs", "js-consume", 2, consumer="shared", nak_ratio=0.02, batch_msgs=100)
    payload = Payload(headers=(("Kind", "truth"),))
    publishers = Role("pubs", "js-publish-async", payload=payload, schedule=(RATE,))
    what = BenchmarkPlan(
        title="truth",
        description="",
        roles=(consumers, publishers),
        stream=StreamPlan("TRUTH", create=False),
        duration_s=2.5,
        drain_s=30.0,
        faults=(Fault(1.0, "kill", "subs", 0),),
    )
    records = Records()
    result = await Benchmark(what, connection, records, "shared").run()
    check_sums(result, records)
    await compare(result, observer)


async def compare(result: BenchmarkResult, observer: Observer) -> None:
    """Hold what a run told against the stream, the server and the answers that were seen."""
    books, counts = result.accounting, result.counts
    assert books.closes, books.missing
    assert [one.ended for one in result.workers].count("killed") == 1

    # The stream, read by somebody else, holds exactly what was acknowledged, each once.
    await asyncio.wait_for(observer.read(books.stored_msgs or 0), 30)
    stored = len(observer.seen)
    assert len(set(observer.seen)) == stored == books.acked_msgs == books.stored_msgs
    assert stored + books.missed_msgs == 1000
    # Deliveries by the server's own count: each once, and again where it was not settled.
    consumer = await observer.js.consumer_info("TRUTH", "shared")
    assert (consumer.num_pending, consumer.num_ack_pending) == (0, 0)
    assert consumer.ack_floor.stream_seq == stored
    assert consumer.delivered.consumer_seq == books.delivered_msgs
    assert books.redelivered_msgs == consumer.delivered.consumer_seq - stored
    # Every delivery that was read was answered, and somebody else saw the answers.
    assert len({one[3] for one in observer.answers}) == len(observer.answers)
    assert books.received_msgs == len(observer.answers)
    assert books.unread_msgs == consumer.delivered.consumer_seq - len(observer.answers)
    assert counts.redelivered_msgs == sum(one[1] > 1 for one in observer.answers)
    assert counts.acks_sent_msgs == len(observer.sequences(b"+ACK", b""))
    assert counts.naks_sent_msgs == len(observer.sequences(b"-NAK"))
    different = {one[2] for one in observer.answers}
    assert books.distinct_msgs == len(different) == stored - (books.lost_msgs or 0)
    assert books.lost_msgs == 0
    assert books.duplicate_msgs == len(observer.answers) - len(different)
    # Who is refused is drawn by sequence, so anybody can tell who must have been.
    drawn = set((np.flatnonzero(choice_ratios(np.arange(1, stored + 1)) < 0.02) + 1).tolist())
    refused = observer.sequences(b"-NAK")
    assert len(set(refused)) == len(refused)
    first = {one[2] for one in observer.answers if one[1] == 1}
    assert set(refused) == drawn & first
    await observer.nc.close()
