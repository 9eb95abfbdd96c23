"""What the server announces arrives as records."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import nats
import pytest

from natstui.config import Connection
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.events.subscriptions import (
    MAX_READ_SAMPLES_PER_CONSUMER,
    MAX_RECORDED_SAMPLES_PER_S,
    ExcessAdvisories,
    read_events,
)
from natstui.jetstream.testbed.broker import Broker
from natstui.model.live.ack_times import AckWindow
from natstui.model.live.advisory_counts import MessageCounts
from natstui.model.live.state import State, apply_records
from natstui.model.records.evidence import AcksCounted, AdvisoriesCounted
from natstui.model.records.record import AckSample, Advisory, Record, Restored, Unavailable
from tests.ending import ended

pytestmark = pytest.mark.server


class _Heard:
    """A sink that keeps what it gets."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.records: list[Record] = []

    def add(self, record: Record) -> None:
        self.records.append(record)

    async def ready(self) -> None:
        """Wait until the server knows what is listened to, also after a restart."""
        async with asyncio.timeout(60):
            while self.client.link.state != "connected":
                await asyncio.sleep(0.02)
        # Subscriptions were sent before this question.
        await self.client.request("INFO")

    async def advisory(self, kind: str) -> Advisory:
        async with asyncio.timeout(60):
            while True:
                for record in self.records:
                    if isinstance(record, Advisory) and record.type == kind:
                        return record
                await asyncio.sleep(0.02)


@asynccontextmanager
async def listening(url: str, **settings: Any) -> AsyncIterator[_Heard]:
    client = await connect(Connection(servers=(url,), **settings))
    heard = _Heard(client)
    task = asyncio.create_task(read_events(client, heard))
    await asyncio.sleep(0.05)
    await heard.ready()
    try:
        yield heard
    finally:
        task.cancel()
        await ended(task)
        await client.close()


async def test_naks_terms_and_give_ups_are_announced_and_acks_sampled(nats_server: Broker) -> None:
    async with listening(nats_server.url) as heard:
        nc = await nats.connect(nats_server.url, connect_timeout=5)
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s"])
        await js.add_consumer(
            "S", durable_name="C", ack_policy="explicit", max_deliver=1, sample_freq="100"
        )
        assert (await heard.advisory("stream_action")).text == "stream S was created"
        assert (await heard.advisory("consumer_action")).consumer == "C"
        pull = await js.pull_subscribe("s", durable="C", stream="S")
        for _ in range(3):
            await js.publish("s", b"x")
        acked, termed, naked = await pull.fetch(3, timeout=10)
        await acked.ack_sync(timeout=30)
        await termed.term()
        await naked.nak()
        assert "was terminated" in (await heard.advisory("terminated")).text
        assert (await heard.advisory("nak")).stream == "S"
        async with asyncio.timeout(60):
            while not any(isinstance(record, AckSample) for record in heard.records):
                await asyncio.sleep(0.02)
        (sample,) = (record for record in heard.records if isinstance(record, AckSample))
        assert (sample.stream, sample.consumer, sample.stream_seq) == ("S", "C", 1)
        assert sample.ack_ns > 0 and sample.deliveries_count == 1
        await nc.close()


async def test_announcements_go_on_after_a_restart_and_polling_is_not_among_them(
    nats_server: Broker,
) -> None:
    async with listening(nats_server.url) as heard:
        nats_server.restart()
        await asyncio.sleep(0.1)
        await heard.ready()
        nc = await nats.connect(nats_server.url, connect_timeout=5)
        await nc.jetstream().account_info()
        await nc.jetstream().add_stream(name="S", subjects=["s"])
        await heard.advisory("stream_action")
        assert {r.type for r in heard.records if isinstance(r, Advisory)} == {"stream_action"}
        await nc.close()


async def test_events_of_another_prefix_are_heard_and_those_left_out_are_counted(
    nats_server: Broker,
) -> None:
    told = {
        "type": "io.nats.jetstream.advisory.v1.nak",
        "timestamp": "2026-01-01T00:00:00Z",
        "stream": "S",
        "consumer": "C",
    }
    async with listening(nats_server.url, event_prefix="far.events") as heard:
        nc = await nats.connect(nats_server.url, connect_timeout=5)
        for _ in range(3000):
            await nc.publish(
                "far.events.ADVISORY.CONSUMER.MSG_NAKED.S.C", json.dumps(told).encode()
            )
        await nc.close()
        async with asyncio.timeout(60):
            while not any(isinstance(record, Restored) for record in heard.records):
                await asyncio.sleep(0.02)
        passed = sum(isinstance(record, Advisory) for record in heard.records)
        left_out = [r.reason for r in heard.records if isinstance(r, Unavailable)]
        assert passed >= 500
        assert passed + sum(int(reason.split()[0]) for reason in left_out) == 3000


async def test_a_storm_is_counted_by_message_though_not_every_event_is_listed(
    nats_server: Broker,
) -> None:
    async with listening(nats_server.url) as heard:
        nc = await nats.connect(nats_server.url, connect_timeout=5)
        for number in range(3000):
            told = {
                "type": "io.nats.jetstream.advisory.v1.max_deliver",
                "timestamp": "2026-01-01T00:00:00Z",
                "stream": "S",
                "consumer": "C",
                "stream_seq": 7 if number % 2 else 1000 + number,
                "deliveries": 3,
            }
            subject = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.S.C"
            await nc.publish(subject, json.dumps(told).encode())
        await nc.close()

        def counted() -> MessageCounts:
            state = apply_records(State(), heard.records)
            trouble = state.evidence.entries.get(("S", "C"))
            return trouble.give_ups if trouble else MessageCounts()

        async with asyncio.timeout(60):
            while counted().total_count < 3000:
                await asyncio.sleep(0.05)
        listed = [record for record in heard.records if isinstance(record, Advisory)]
        assert len(listed) < 3000 == counted().total_count
        worst = counted().most_frequent()[0]
        assert worst.stream_seq == 7
        assert worst.said_count - worst.error_count <= 1500 <= worst.said_count


class _Counts:
    """A sink of counts of advisories."""

    def __init__(self) -> None:
        self.counts: list[AdvisoriesCounted] = []

    def add(self, record: Record) -> None:
        assert isinstance(record, AdvisoriesCounted)
        self.counts.append(record)


async def test_a_count_is_written_when_the_second_of_its_advisories_is_over() -> None:
    sink, seconds = _Counts(), []
    counter = ExcessAdvisories(sink)
    for _ in range(3):
        # In the last third of a second; a busy machine may come too late to some of them.
        await asyncio.sleep((1.7 - time.time() % 1) % 1)
        now_us = time.time_ns() // 1_000
        seconds.append(now_us // 1_000_000)
        body = json.dumps({"stream_seq": 5, "deliveries": 2})
        counter.add(Advisory(now_us, "nak", "S", "C", "said", body))
        async with asyncio.timeout(60):
            while len(sink.counts) < len(seconds):
                await asyncio.sleep(0.01)
    # An analysis dates a count half a second before it is written.
    dated = [(one.at_us - 500_000) // 1_000_000 for one in sink.counts]
    assert any(one == second for one, second in zip(dated, seconds, strict=True))


async def test_a_flood_of_samples_is_bounded_and_what_is_left_out_is_counted(
    nats_server: Broker,
) -> None:
    sample = {
        "type": "io.nats.jetstream.metric.v1.consumer_ack",
        "timestamp": "2026-01-01T00:00:00Z",
        "stream": "S",
        "consumer": "C",
        "stream_seq": 7,
        "deliveries": 1,
        "ack_time": 5_000_000,
    }
    async with listening(nats_server.url) as heard:
        nc = await nats.connect(nats_server.url, connect_timeout=5)
        for number in range(20_000):
            told = {**sample, "consumer": "D"} if number % 4000 == 0 else sample
            subject = f"$JS.EVENT.METRIC.CONSUMER.ACK.S.{told['consumer']}"
            await nc.publish(subject, json.dumps(told).encode())
        # Advisories are heard beside it, and requests are answered.
        await nc.jetstream().add_stream(name="OTHER", subjects=["s"])
        await heard.advisory("stream_action")
        await heard.client.request("INFO")
        await nc.close()

        def windows() -> dict[str, AckWindow]:
            troubles = apply_records(State(), heard.records).evidence.entries.values()
            return {one.consumer: one.acks.until(one.acks.last_at_us) for one in troubles}

        def heard_count() -> int:
            found = windows().values()
            return sum(one.times.total_count + one.left_out_count for one in found)

        async with asyncio.timeout(60):
            while heard_count() < 20_000:
                await asyncio.sleep(0.1)
        assert heard_count() == 20_000
        found = windows()
        assert found["C"].left_out_count > 0
        assert found["D"].times.total_count == 5, "one consumer leaves room for another"
        seconds = 1 + sum(isinstance(one, AcksCounted) for one in heard.records)
        assert found["C"].times.total_count <= seconds * MAX_READ_SAMPLES_PER_CONSUMER
        passed = sum(isinstance(record, AckSample) for record in heard.records)
        assert passed <= seconds * MAX_RECORDED_SAMPLES_PER_S
