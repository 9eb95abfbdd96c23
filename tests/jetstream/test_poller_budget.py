"""Polling stays within its budget, and what is in view is polled first."""

from __future__ import annotations

import asyncio
import time

import nats
import pytest

from natstui.jetstream.connection.client import Client
from natstui.jetstream.polling.budget import PollInterval, RequestLimiter
from natstui.jetstream.testbed.broker import Broker
from natstui.model.live.snapshot import Snapshot
from tests.jetstream.polling import api, polling

QUICK_US = 45_000
"""A poll of all of a small server takes less, and its work may take 50 ms."""


async def _fill(client: Client, streams_count: int) -> None:
    async def one(name: str) -> None:
        await api(client, f"STREAM.CREATE.{name}", {"name": name, "storage": "memory"})
        body = {"stream_name": name, "config": {"durable_name": "C", "ack_policy": "explicit"}}
        await api(client, f"CONSUMER.DURABLE.CREATE.{name}.C", body)

    await asyncio.gather(*(one(f"S{number:03}") for number in range(streams_count)))


async def test_many_streams_cost_less_than_20_requests_a_second(nats_server: Broker) -> None:
    async with polling(nats_server.url) as polled:
        await _fill(polled.client, 300)
        watcher = await nats.connect(nats_server.url, connect_timeout=5)
        js = watcher.jetstream()
        before, started_s = (await js.account_info()).api.total, time.monotonic()
        await asyncio.sleep(3)
        requests = (await js.account_info()).api.total - before - 1
        elapsed_s = time.monotonic() - started_s
        await watcher.close()
        assert 0 < requests < 20 * elapsed_s


async def test_a_small_server_is_listed_whole_with_every_poll(nats_server: Broker) -> None:
    async with polling(nats_server.url) as polled:
        polled.control.set_interval(1.0)
        await _fill(polled.client, 8)
        await polled.until(Snapshot, lambda s: len(s.consumers.name) == 8)
        undisturbed_count = 0
        for _ in range(40):
            snapshot = await polled.until(Snapshot)
            # Where others hold the processors, answers look like work, and that has its limit.
            if snapshot.cost.elapsed_us > QUICK_US:
                continue
            undisturbed_count += 1
            assert snapshot.streams_complete and snapshot.consumers_complete
            assert snapshot.swept_streams == ()
            assert len(snapshot.consumers.name) == 8
            assert snapshot.cost.requests_count == 10
            if undisturbed_count == 3:
                break
        assert undisturbed_count


async def test_what_is_in_view_is_in_every_poll_and_the_rest_takes_turns(
    nats_server: Broker,
) -> None:
    async with polling(nats_server.url) as polled:
        polled.control.set_interval(1.0)
        await _fill(polled.client, 60)
        in_view = {("S020", "C"), ("S033", "C"), ("S059", "C")}
        polled.control.look_at((), tuple(sorted(in_view)))
        await polled.until(Snapshot, lambda s: len(s.streams.name) == 60)
        await polled.until(Snapshot)
        others: set[str] = set()
        for _ in range(4):
            snapshot = await polled.until(Snapshot)
            names = set(zip(snapshot.consumers.stream, snapshot.consumers.name, strict=True))
            assert in_view <= names
            assert not snapshot.consumers_complete
            fresh = {stream for stream, _ in names - in_view}
            assert fresh == set(snapshot.swept_streams) - {"S020", "S033", "S059"}
            others |= fresh
        assert len(others) > 12


async def test_the_limiter_lets_no_second_hold_more_than_its_budget() -> None:
    limiter = RequestLimiter(5)
    passed_at_s = []
    for _ in range(11):
        await limiter.pass_one()
        passed_at_s.append(time.monotonic())
    for early, late in zip(passed_at_s, passed_at_s[5:], strict=False):
        assert late - early > 0.99


def test_a_poll_that_costs_80_ms_is_followed_by_a_pause_of_20_times_that() -> None:
    interval = PollInterval(15)
    reasons = [interval.after(80_000, 1.0) for _ in range(3)]
    assert interval.interval_s == pytest.approx(1.6)
    assert reasons[-1] == "one poll costs the server 80 ms"


def test_one_slow_answer_does_not_change_the_rhythm() -> None:
    interval = PollInterval(15)
    reasons = [interval.after(cost_us, 1.0) for cost_us in (1000, 1000, 900_000)]
    assert interval.interval_s == 1.0 and reasons[-1] is None
