"""Workers share the work of a plan without gap or overlap; one that joins takes a share."""

from __future__ import annotations

import json

import pytest

from natstui.bench.plan.check import MAX_WORKERS
from natstui.bench.run.assets import RunAssets, consumer_config, stream_config
from natstui.bench.run.orders import added_orders, all_orders
from natstui.cli.bench.run import _MIN_PREPARATION_S, _PREPARATION_PER_WORKER_S
from natstui.config.connection import Connection
from natstui.jetstream.connection.client import connect
from natstui.model.bench.plan import BenchmarkPlan, RateSegment, Role, StreamPlan
from tests.accounts import Account

pytestmark = pytest.mark.server

SENDERS = Role(
    "sender",
    "publish",
    workers_count=3,
    subject="work",
    total_msgs=1000,
    schedule=(RateSegment(None, 300, 300),),
)
PLAN = BenchmarkPlan("t", "", (SENDERS, Role("other", "subscribe", subject="work")), None, None)


async def test_workers_get_shares_that_add_up_and_numbers_of_their_own(account: Account) -> None:
    connection = Connection(servers=(account.url,))
    client = await connect(connection)
    try:
        orders = list(all_orders(PLAN, RunAssets(client, PLAN, "r"), connection.to_json_line()))
    finally:
        await client.close()
    assert [one.role.name for one in orders] == ["sender"] * 3 + ["other"]
    assert [one.share_msgs for one in orders] == [334, 333, 333, None]
    assert [(one.worker_index, one.workers_count) for one in orders] == [
        (0, 3),
        (1, 3),
        (2, 3),
        (0, 1),
    ]
    assert [one.publisher_id for one in orders] == [0, 1, 2, 3]
    assert [one.received_payload is not None for one in orders] == [False] * 3 + [True]
    assert {one.stream for one in orders} == {None}


async def test_one_that_joins_sends_at_the_rate_of_one_of_the_others(account: Account) -> None:
    connection = Connection(servers=(account.url,))
    client = await connect(connection)
    try:
        assets = RunAssets(client, PLAN, "r")
        joined = added_orders(PLAN, assets, connection.to_json_line(), SENDERS, 3, 7)
    finally:
        await client.close()
    assert (joined.worker_id, joined.publisher_id, joined.share_msgs) == (3, 7, 333)
    assert (joined.worker_index, joined.workers_count) == (0, 1)
    assert joined.role.schedule == (RateSegment(None, 100, 100),)


def test_a_consumer_outlives_the_start_of_all_workers_and_a_pause() -> None:
    config = consumer_config(Role("subs", "js-consume"), "C", "deliver")
    preparation_s = _MIN_PREPARATION_S + _PREPARATION_PER_WORKER_S * MAX_WORKERS
    assert config["inactive_threshold"] / 1e9 > preparation_s + 600


async def test_a_consumer_is_inactive_for_no_longer_than_its_stream_allows(
    account: Account,
) -> None:
    client = await connect(Connection(servers=(account.url,)))
    limits = {"inactive_threshold": 45 * 10**9}
    config = {"name": "LIMITED", "subjects": ["limited"], "consumer_limits": limits}
    await client.request("STREAM.CREATE.LIMITED", config)
    role = Role("subs", "js-consume")
    plan = BenchmarkPlan("t", "", (role,), StreamPlan("LIMITED", create=False), None)
    assets = RunAssets(client, plan, "r")
    await assets.create()
    reply = await client.request(f"CONSUMER.INFO.LIMITED.{assets.consumers['subs']}")
    assert json.loads(reply)["config"]["inactive_threshold"] == 45 * 10**9
    await client.close()


def test_a_stream_is_created_without_what_an_older_server_does_not_know() -> None:
    stream = StreamPlan("NEW", subjects=("new",), allow_batches=True)
    kinds = {"allow_atomic", "allow_batched"}
    known = {level: kinds & stream_config(stream, level).keys() for level in (0, 1, 2, 3, 4, 5)}
    assert known[0] == known[1] == set()
    assert known[2] == known[3] == {"allow_atomic"}
    assert known[4] == known[5] == kinds
