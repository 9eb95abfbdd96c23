"""Polling stays within its budget, and what is in view is polled first."""

from __future__ import annotations

import asyncio
import time

import pytest

from natstui.config import Connection
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.polling.budget.allowance import PollBudget
from natstui.jetstream.polling.budget.requests import PollingApi, RequestLimiter
from natstui.jetstream.polling.poller import poll
from natstui.jetstream.polling.sweep import turn_interval_s
from natstui.jetstream.testbed.broker import Broker
from natstui.model.live.polling_limit import SERVER_SHARE
from natstui.model.live.snapshot import Snapshot
from tests.accounts import Account
from tests.ending import ended
from tests.jetstream.polling import Polled, api, polling

pytestmark = pytest.mark.server

MANY_COUNT = 300
LEAST_LIST_S = 0.000_060
"""No list of one consumer counts as less work."""
QUICK_US = 45_000
"""A poll of all of a small server takes less, and its work may take 50 ms."""


async def _fill(client: Client, streams_count: int) -> None:
    async def one(name: str) -> None:
        await api(client, f"STREAM.CREATE.{name}", {"name": name, "storage": "memory"})
        body = {"stream_name": name, "config": {"durable_name": "C", "ack_policy": "explicit"}}
        await api(client, f"CONSUMER.DURABLE.CREATE.{name}.C", body)

    await asyncio.gather(*(one(f"S{number:03}") for number in range(streams_count)))


@pytest.mark.long
async def test_everything_is_seen_at_once_and_then_little_is_asked(nats_server: Broker) -> None:
    near = await connect(Connection(servers=(nats_server.url,)))
    await _fill(near, MANY_COUNT)
    await near.close()
    async with polling(nats_server.url) as polled:
        polled.control.set_interval(1.0)
        started_s = time.monotonic()
        before = (await api(polled.client, "INFO"))["api"]["total"]
        await polled.until(Snapshot, lambda _: len(polled.state.consumers) == MANY_COUNT)
        first = (await api(polled.client, "INFO"))["api"]["total"]
        last = first
        # In time every stream is listed again, but none more often than its rhythm wants.
        async with asyncio.timeout(90):
            while last - first < MANY_COUNT:
                await asyncio.sleep(1)
                last = (await api(polled.client, "INFO"))["api"]["total"]
        elapsed_s = time.monotonic() - started_s
    assert len(polled.state.streams) == MANY_COUNT
    turns_count = 2 + elapsed_s / turn_interval_s(MANY_COUNT, LEAST_LIST_S, SERVER_SHARE)
    polls_count = sum(isinstance(record, Snapshot) for record in polled.records)
    assert last - before < MANY_COUNT * turns_count + 8 * polls_count


async def test_a_limit_of_requests_is_kept_by_those_who_set_one(nats_server: Broker) -> None:
    client = await connect(Connection(servers=(nats_server.url,)))
    try:
        await _fill(client, 100)
        polled = Polled(client)
        polled.control.set_interval(1.0)
        before, started_s = (await api(client, "INFO"))["api"]["total"], time.monotonic()
        task = asyncio.create_task(poll(client, polled.control, polled, 15))
        await asyncio.sleep(2)
        asked_count = (await api(client, "INFO"))["api"]["total"] - before - 1
        elapsed_s = time.monotonic() - started_s
        task.cancel()
        await ended(task)
    finally:
        await client.close()
    assert 0 < asked_count <= 15 * (elapsed_s + 1)


async def test_a_limit_of_requests_is_that_of_a_second_however_long_a_poll_may_take(
    account: Account,
) -> None:
    client = await connect(Connection(servers=(account.url,)))
    requests = PollingApi(client, 10)
    for requests_per_s, interval_s, most_count in (
        (10, 5.0, 50),
        (10, 0.1, 4),
        (None, 5.0, 10**6),
    ):
        budget = PollBudget(requests_per_s)
        assert budget.next_allowance(requests, interval_s).left_requests_count == most_count
    await client.close()


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


async def test_polls_keep_their_interval_on_a_machine_that_has_slept_since_it_was_started(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_s, real_ns = time.clock_gettime, time.clock_gettime_ns
    # The steady clock counts an hour of sleep, the clock of the event loop does not.
    monkeypatch.setattr(time, "clock_gettime", lambda clock: real_s(clock) + 3600.0)
    monkeypatch.setattr(time, "clock_gettime_ns", lambda clock: real_ns(clock) + 3600 * 10**9)
    async with polling(account.url) as polled:
        begun_us = []
        for _ in range(5):
            snapshot = await polled.until(Snapshot)
            begun_us.append(snapshot.taken_mono_us - snapshot.cost.elapsed_us)
        assert begun_us[-1] - begun_us[0] > 3 * polled.control.interval_s * 1e6


async def test_what_is_in_view_or_preferred_is_in_every_poll_and_the_rest_takes_turns(
    nats_server: Broker,
) -> None:
    near = await connect(Connection(servers=(nats_server.url,)))
    await _fill(near, MANY_COUNT)
    await near.close()
    async with polling(nats_server.url) as polled:
        in_view, preferred = {("S020", "C"), ("S299", "C")}, ("S033", "C")
        polled.control.set_visible((), tuple(sorted(in_view)))
        polled.control.set_preferred(frozenset({preferred}))
        await polled.until(Snapshot, lambda _: len(polled.state.consumers) == MANY_COUNT)
        others: set[str] = set()
        for _ in range(6):
            snapshot = await polled.until(Snapshot)
            names = set(zip(snapshot.consumers.stream, snapshot.consumers.name, strict=True))
            # Where others hold the processors, an answer may come after the poll that asked.
            if snapshot.cost.elapsed_us <= QUICK_US:
                assert in_view | {preferred} <= names
            fresh = {stream for stream, _ in names - in_view}
            # A poll that read everything names no stream as swept.
            assert snapshot.consumers_complete or fresh <= set(snapshot.swept_streams)
            others |= fresh
        await polled.until(Snapshot, lambda s: set(s.swept_streams) - others - {"S033"} != set())


async def test_the_limiter_lets_no_second_hold_more_than_its_budget() -> None:
    limiter = RequestLimiter(10)
    passed_at_s = []
    for _ in range(12):
        await limiter.wait_for_turn()
        passed_at_s.append(time.monotonic())
    for early, late in zip(passed_at_s, passed_at_s[10:], strict=False):
        assert late - early > 0.99
