"""Every stream and consumer is listed, new ones appear, gone ones go, changed ones are told."""

from __future__ import annotations

import asyncio
import copy
import json
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from nats.aio.msg import Msg

from natstui.clock import steady_s, steady_us
from natstui.config import Connection
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.connection.decode.streams import read_stream
from natstui.jetstream.polling import consumers, poller, streams
from natstui.jetstream.polling.availability import RequestAvailability
from natstui.jetstream.polling.budget import requests as budget_requests
from natstui.jetstream.polling.budget.allowance import PollAllowance
from natstui.jetstream.polling.budget.requests import PollingApi
from natstui.jetstream.polling.bulk.poller import NO_BULK_ROWS, BulkRows
from natstui.jetstream.polling.consumers import ConsumerPoller
from natstui.jetstream.polling.control import PollControl
from natstui.jetstream.polling.open_requests import WaitBudget
from natstui.jetstream.polling.server_clock import ServerClocks
from natstui.jetstream.polling.streams import StreamPoller
from natstui.jetstream.testbed.broker import Broker
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.record import Configured, Record, Restored, Unavailable
from tests.jetstream.flushing import flushed
from tests.jetstream.polling import Polled, api, polling, rows
from tests.jetstream.stream_rows import stream_row

pytestmark = pytest.mark.server

_STATE = {"messages": 0, "bytes": 0, "first_seq": 0, "last_seq": 0, "consumer_count": 0}
_LISTED: dict[str, Any] = {
    "total": 1, "offset": 0, "limit": 256,
    "streams": [{
        "config": {"name": "S", "subjects": ["s"], "storage": "memory", "retention": "limits"},
        "created": "2026-01-01T00:00:00Z", "state": _STATE, "ts": "2026-01-01T00:00:01Z",
    }],
}  # fmt: skip
"""A page of STREAM.LIST."""


async def _stream(client: Client, name: str, **config: object) -> None:
    words = {"name": name, "subjects": [f"{name}.>"], "storage": "memory", **config}
    await api(client, f"STREAM.CREATE.{name}", words)


async def _consumer(client: Client, stream: str, name: str, **config: object) -> None:
    words = {"name": name, "durable_name": name, "ack_policy": "explicit", **config}
    body = {"stream_name": stream, "config": words}
    await api(client, f"CONSUMER.CREATE.{stream}.{name}", body)


def _consumers_of_many() -> set[tuple[str, str]]:
    """Two streams with two pages of consumers, fifty with two consumers."""
    long_ones = {(f"S{i:03}", f"C{j:03}") for i in (0, 301) for j in range(500)}
    return long_ones | {(f"S{i:03}", name) for i in range(1, 51) for name in ("A", "B")}


@pytest.mark.long
async def test_302_streams_and_1100_consumers_are_all_listed(nats_server: Broker) -> None:
    expected = _consumers_of_many()
    assert len(expected) == 1100
    async with polling(nats_server.url) as polled:
        polled.control.set_interval(1.0)
        await asyncio.gather(*(_stream(polled.client, f"S{i:03}") for i in range(302)))
        makers = [_consumer(polled.client, *names) for names in sorted(expected)]
        for start in range(0, len(makers), 50):
            await asyncio.gather(*makers[start : start + 50])
        await polled.until(Snapshot, lambda s: len(s.streams.name) == 302 and s.streams_complete)
        async with asyncio.timeout(60):
            while len(polled.state.consumers) < 1100:
                await polled.until(Snapshot)
        assert {key[:2] for key in polled.state.consumers.roster.keys} == expected
        told = [record for record in polled.records if isinstance(record, Configured)]
        assert sum(len(record.streams) for record in told) == 302
        assert sum(len(record.consumers) for record in told) == 1100


async def test_a_stream_made_again_under_its_name_is_another_one(nats_server: Broker) -> None:
    async with polling(nats_server.url) as polled:
        client = polled.client
        await _stream(client, "S")
        await _consumer(client, "S", "C")
        before = await polled.fresh()
        await api(client, "STREAM.DELETE.S")
        gone = await polled.fresh()
        assert gone.streams.name == () and gone.consumers.name == ()
        assert len(polled.state.streams) == len(polled.state.consumers) == 0
        await _stream(client, "S")
        await _consumer(client, "S", "C")
        again = await polled.fresh()
        assert again.streams.name == before.streams.name == ("S",)
        assert again.streams.created_at_us > before.streams.created_at_us
        assert again.consumers.created_at_us > before.consumers.created_at_us
        told = [r for r in polled.records if isinstance(r, Configured)]
        assert sum(len(r.streams) for r in told) == sum(len(r.consumers) for r in told) == 2


async def test_the_last_consumer_of_a_stream_disappears(nats_server: Broker) -> None:
    async with polling(nats_server.url) as polled:
        await _stream(polled.client, "S")
        await _consumer(polled.client, "S", "C")
        await polled.fresh()
        assert len(polled.state.consumers) == 1
        await api(polled.client, "CONSUMER.DELETE.S.C")
        await polled.fresh()
        assert len(polled.state.consumers) == 0


async def test_a_changed_configuration_is_told_and_an_unchanged_one_is_not(
    nats_server: Broker,
) -> None:
    async with polling(nats_server.url) as polled:
        await _stream(polled.client, "S")
        await _consumer(polled.client, "S", "C", filter_subjects=["S.a", "S.b"])
        await polled.fresh()
        config = (await api(polled.client, "STREAM.INFO.S"))["config"]
        await api(polled.client, "STREAM.UPDATE.S", {**config, "max_msgs": 7})
        await polled.fresh()
        told = [record for record in polled.records if isinstance(record, Configured)]
        assert [s.max_msgs for record in told for s in record.streams] == [None, 7]
        (consumer,) = (c for record in told for c in record.consumers)
        assert consumer.filter_subjects == ("S.a", "S.b")


async def test_every_stream_column_is_what_the_server_says(nats_server: Broker) -> None:
    async with polling(nats_server.url) as polled:
        client = polled.client
        await _stream(client, "S", max_msgs_per_subject=2, deny_delete=False)
        await _stream(client, "M", subjects=None, mirror={"name": "S"})
        for subject in ("S.a", "S.a", "S.a", "S.b", "S.c"):
            await client.nc.request(subject, b"12345", timeout=5)
        await api(client, "STREAM.MSG.DELETE.S", {"seq": 4})
        await polled.until(Snapshot, lambda s: s.streams.last_seq == (5, 5))
        row = rows((await polled.fresh()).streams)[1]
        truth = await api(client, "STREAM.INFO.S")
        state = truth["state"]
        assert row["stored_msgs"] == state["messages"] == 3
        assert row["stored_bytes"] == state["bytes"]
        assert (row["first_seq"], row["last_seq"]) == (2, 5)
        assert row["deleted_msgs"] == state["num_deleted"] == 1
        assert row["subjects_count"] == state["num_subjects"] == 2
        assert row["lost_msgs"] == row["consumers_count"] == 0
        assert row["leader"] == "server1" and row["peers"] == ()
        assert row["last_at_us"] - row["first_at_us"] > 0
        mirror = rows((await polled.fresh()).streams)[0]
        assert mirror["name"] == "M" and mirror["upstreams"][0].name == "S"
        assert mirror["upstreams"][0].mirror and mirror["upstreams"][0].lag_msgs == 0


async def test_a_consumer_deleted_between_count_and_list_is_not_called_away_for_good(
    nats_server: Broker,
) -> None:
    client = await connect(Connection(servers=(nats_server.url,)))
    polled = Polled(client)
    requests, none = PollingApi(client, None), RequestAvailability(polled)
    streams = StreamPoller(requests, none, ServerClocks(), Polled(client))
    consumers = ConsumerPoller(requests, none, ServerClocks())
    allowed = PollAllowance(requests, 1000, steady_s() + 60, 1.0)

    async def count() -> None:
        async with asyncio.timeout(30):
            # Each poll reads as much as its turn allows.
            while True:
                requests.begin_poll()
                seen = await streams.read(
                    allowed, (), WaitBudget(30.0, 30.0), 1, has_no_consumers=False
                )
                if seen.is_complete:
                    break
        consumers.update_streams(streams.rows, {})

    async def unlisted() -> dict[str, int]:
        return (await consumers.read(allowed, PollControl(), WaitBudget(30.0, 30.0))).unlisted

    await _stream(client, "S")
    await _consumer(client, "S", "C")
    await count()
    await api(client, "CONSUMER.DELETE.S.C")
    assert await unlisted() == {"S": 1}
    await count()
    assert await unlisted() == {}
    # Nor is a stream that was deleted before its consumers are listed.
    await _consumer(client, "S", "C")
    await count()
    await api(client, "STREAM.DELETE.S")
    assert await unlisted() == {}
    assert polled.records == []
    await client.close()


async def test_consumers_that_come_and_go_are_forgotten(nats_server: Broker) -> None:
    client = await connect(Connection(servers=(nats_server.url,)))
    requests = PollingApi(client, None)
    consumers = ConsumerPoller(requests, RequestAvailability(Polled(client)), ServerClocks())
    allowed = PollAllowance(requests, 1000, steady_s() + 60, 1.0)
    await _stream(client, "S")
    streams = {"S": read_stream(await client.request("STREAM.INFO.S"), 0)}
    # So many that those in view are requested one by one.
    streams["S"].state.consumer_count = 1_000
    consumers.update_streams(streams, {})
    for number in range(3):
        await _consumer(client, "S", f"C{number}")
        control = PollControl()
        control.set_visible((), (("S", f"C{number}"),))
        await consumers.read(allowed, control, WaitBudget(30.0, 30.0))
        assert ("S", f"C{number}") in consumers._single_rows
        await api(client, f"CONSUMER.DELETE.S.C{number}")
    await consumers.read(allowed, PollControl(), WaitBudget(30.0, 30.0))
    assert consumers._single_rows == {}
    consumers._reachable_names["S"] = ["C0"]
    consumers.update_streams({}, {})
    assert consumers._reachable_names == {}
    await client.close()


async def test_the_last_stream_is_gone_with_the_bulk_reply_that_does_not_have_it() -> None:
    nothing: Any = None
    allowed: Any = SimpleNamespace(left_requests_count=0)
    polled = Polled(nothing)
    streams = StreamPoller(nothing, RequestAvailability(polled), ServerClocks(), polled)
    streams._list_requested_us = steady_us()

    async def read(bulk: BulkRows) -> bool:
        seen = await streams.read(
            allowed, (), WaitBudget(0.0, 0.0), 0, has_no_consumers=True, bulk=bulk
        )
        return seen.is_complete

    row = stream_row("S")
    assert await read(BulkRows(streams=(row,), is_complete=True, replaces_list=True))
    assert list(streams.rows) == ["S"]
    assert not await read(BulkRows(requested_mono_us=1, replaces_list=True))
    assert list(streams.rows) == ["S"]
    assert await read(BulkRows(requested_mono_us=1, is_complete=True, replaces_list=True))
    assert streams.rows == {}


async def test_a_list_that_failed_is_due_after_its_pause_though_bulk_replies_bring_the_rows(
    nats_server_factory: Callable[..., Broker],
) -> None:
    """A meta group that had no leader is unavailable no longer than it is."""
    client = await connect(Connection(servers=(nats_server_factory(jetstream=False).url,)))
    failing = {"error": {"code": 503, "err_code": 10008, "description": "no leader"}}
    replies = [_LISTED, failing, _LISTED]

    async def reply(message: Msg) -> None:
        await message.respond(json.dumps(replies.pop(0)).encode())

    async def reply_with_one(message: Msg) -> None:
        await message.respond(json.dumps(_LISTED["streams"][0]).encode())

    await client.nc.subscribe("$JS.API.STREAM.LIST", cb=reply)
    await client.nc.subscribe("$JS.API.STREAM.INFO.S", cb=reply_with_one)
    requests, polled = PollingApi(client, None), Polled(client)
    streams = StreamPoller(requests, RequestAvailability(polled), ServerClocks(), polled)
    bulk = BulkRows(replaces_list=True)
    async with asyncio.timeout(15):
        while replies:
            requests.begin_poll()
            allowed = PollAllowance(requests, 1000, steady_s() + 60, 1.0)
            await streams.read(
                allowed, (), WaitBudget(5.0, 5.0), 1, has_no_consumers=True,
                bulk=bulk if len(replies) == 1 else NO_BULK_ROWS,
            )  # fmt: skip
            await asyncio.sleep(0.05)
    # A server counts the consumers that it holds: those of silent servers are not gone.
    held = copy.deepcopy(streams.rows["S"])
    held.requested_mono_us += 1_000_000
    created_again = copy.deepcopy(held)
    created_again.created = "2026-01-02T00:00:00Z"
    streams.rows["S"].state.consumer_count = 5
    created_again.state.consumer_count = 2
    held.state.consumer_count = 2
    for row, consumers_count in ((held, 5), (created_again, 2)):
        requests.begin_poll()
        await streams.read(
            PollAllowance(requests, 1000, steady_s() + 60, 1.0), (), WaitBudget(5.0, 5.0), 1,
            has_no_consumers=True,
            bulk=BulkRows(streams=(copy.deepcopy(row),), is_complete=True, misses_consumers=True),
        )  # fmt: skip
        assert streams.rows["S"].state.consumer_count == consumers_count
    await client.close()


async def test_an_info_about_another_stream_than_was_asked_for_is_refused(
    nats_server_factory: Callable[..., Broker],
) -> None:
    client = await connect(Connection(servers=(nats_server_factory(jetstream=False).url,)))
    (listed,) = _LISTED["streams"]

    async def reply(message: Msg) -> None:
        # Of a list that takes long, the time of its rows is not known: a stream is asked for.
        await asyncio.sleep(0.3)
        await message.respond(json.dumps(_LISTED).encode())

    async def reply_with_another(message: Msg) -> None:
        another = {**listed, "config": {**listed["config"], "name": "T"}}
        await message.respond(json.dumps(another).encode())

    await client.nc.subscribe("$JS.API.STREAM.LIST", cb=reply)
    await client.nc.subscribe("$JS.API.STREAM.INFO.S", cb=reply_with_another)
    requests, polled = PollingApi(client, None), Polled(client)
    streams = StreamPoller(requests, RequestAvailability(polled), ServerClocks(), polled)
    async with asyncio.timeout(15):
        while not any(isinstance(record, Unavailable) for record in polled.records):
            requests.begin_poll()
            allowed = PollAllowance(requests, 1000, steady_s() + 60, 1.0)
            await streams.read(allowed, (), WaitBudget(5.0, 5.0), 1, has_no_consumers=True)
            await asyncio.sleep(0.05)
    troubles = [record for record in polled.records if isinstance(record, Unavailable)]
    reason = "STREAM.INFO.S: the server's reply is about 'T'"
    assert [(each.what, each.reason) for each in troubles] == [("STREAM.INFO", reason)]
    assert "T" not in streams.rows
    await client.close()


_LED = {**_LISTED, "streams": [{**_LISTED["streams"][0], "cluster": {"leader": "n1"}}]}


@pytest.mark.parametrize("is_refused", [True, False], ids=["refused", "not answered"])
async def test_a_stream_is_missing_if_its_leader_refuses_and_not_if_nobody_answers(
    nats_server_factory: Callable[..., Broker], is_refused: bool
) -> None:
    """A leader that refuses is alive; where all are silent, none of them is away."""
    client = await connect(Connection(servers=(nats_server_factory(jetstream=False).url,)))
    lists, refusals = [json.dumps(_LED).encode()], 0

    async def reply_once(message: Msg) -> None:
        if lists:
            await message.respond(lists.pop())

    async def refuse(message: Msg) -> None:
        nonlocal refusals
        refusals += 1
        if is_refused:
            error = {"code": 500, "err_code": 10000, "description": "no quorum"}
            await message.respond(json.dumps({"error": error}).encode())

    await client.nc.subscribe("$JS.API.STREAM.LIST", cb=reply_once)
    await client.nc.subscribe("$JS.API.STREAM.INFO.S", cb=refuse)
    requests, polled = PollingApi(client, None), Polled(client)
    streams = StreamPoller(requests, RequestAvailability(polled), ServerClocks(), polled)
    async with asyncio.timeout(30):
        # The second time it is requested only after the first has failed.
        while refusals < 2:
            requests.begin_poll()
            await flushed(client.nc)
            allowed = PollAllowance(requests, 1000, steady_s() + 60, 1.0)
            seen = await streams.read(
                allowed, ("S",), WaitBudget(0.1, 0.1), 1, has_no_consumers=True
            )
            await asyncio.sleep(0.02)
    assert streams.missing == seen.missing == ({"S"} if is_refused else set())
    assert list(streams.rows) == ["S"]
    assert polled.records == []
    await streams.close()
    await client.close()


async def test_a_failed_request_of_a_consumer_is_not_reported_once_it_is_out_of_view(
    nats_server_factory: Callable[..., Broker],
) -> None:
    client = await connect(Connection(servers=(nats_server_factory(jetstream=False).url,)))
    place = {"consumer_seq": 0, "stream_seq": 0}
    listed = {
        "stream_name": "S", "name": "C", "created": "2026-01-01T00:00:00Z",
        "config": {"durable_name": "C"}, "delivered": place, "ack_floor": place,
    }  # fmt: skip
    page = {"total": 1, "offset": 0, "limit": 256, "consumers": [listed]}
    unreadable = {**listed, "num_pending": "many"}
    await _replying(client, {"CONSUMER.LIST.S": page, "CONSUMER.INFO.S.C": unreadable})
    requests, polled = PollingApi(client, None), Polled(client)
    consumers = ConsumerPoller(requests, RequestAvailability(polled), ServerClocks())
    # So many that those in view are requested one by one.
    consumers.update_streams({"S": stream_row("S", consumers_count=1_000)}, {})
    control = PollControl()

    async def read() -> list[type[Record]]:
        allowed = PollAllowance(requests, 1000, steady_s() + 60, 1.0)
        await consumers.read(allowed, control, WaitBudget(30.0, 30.0))
        return [type(record) for record in polled.records]

    control.set_visible((), (("S", "C"),))
    assert await read() == await read() == [Unavailable]
    control.set_visible((), ())
    assert await read() == [Unavailable, Restored]
    await client.close()


_ACCOUNT = {"memory": 0, "storage": 0, "streams": 1, "consumers": 2, "limits": {}, "api": {}}
CLUSTERED = 'cluster { name: C1, listen: "127.0.0.1:-1" }'
"""A server that says that it is of a cluster."""


async def _replying(client: Client, replies: dict[str, Any]) -> Counter[str]:
    """Reply to each verb with what is there for it, and count requests: None is no reply."""
    requests_counts = Counter[str]()

    async def reply(message: Msg) -> None:
        verb = message.subject.removeprefix("$JS.API.")
        requests_counts[verb] += 1
        body = replies[verb]
        if body is not None:
            await message.respond(json.dumps(body).encode())

    for verb in replies:
        await client.nc.subscribe(f"$JS.API.{verb}", cb=reply)
    await flushed(client.nc)
    return requests_counts


async def test_in_a_cluster_without_a_meta_leader_streams_are_read_and_a_lost_list_begun_again(
    nats_server_factory: Callable[..., Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = nats_server_factory(CLUSTERED, jetstream=False).url
    leaders = await connect(Connection(servers=(url,)))
    empty = {**_LISTED["streams"][0], "cluster": {"leader": "n1"}}
    replies: dict[str, Any] = {
        "INFO": None, "STREAM.INFO.S": empty, "STREAM.LIST": {**_LISTED, "streams": [empty]},
    }  # fmt: skip
    await _replying(leaders, replies)
    monkeypatch.setattr(poller, "_INFO_TIMEOUT_S", 0.3)
    async with polling(url) as polled:
        # Without an account, as nobody leads the meta group.
        await polled.until(Snapshot, lambda it: it.account is None and it.streams.name == ("S",))
        away = await polled.until(Unavailable)
        assert away.what == "INFO" and "no reply" in away.reason
        await polled.until(Snapshot, lambda it: it.account is None and it.streams.name == ("S",))
        replies["INFO"] = _ACCOUNT
        await polled.until(Restored, lambda it: it.what == "INFO")
        await polled.until(Snapshot, lambda it: it.account is not None)
        # The next list gets no reply, and what was asked of the meta leader later does.
        replies["STREAM.LIST"] = None
        monkeypatch.setattr(streams, "_MAX_LIST_DELAY_S", 0.3)
        replies["INFO"] = {**_ACCOUNT, "streams": 2}
        await polled.until(Snapshot, lambda it: not it.streams_complete)
        other = {**empty, "config": {**empty["config"], "name": "T"}}
        replies["STREAM.LIST"] = {**_LISTED, "total": 2, "streams": [empty, other]}
        await polled.until(Snapshot, lambda it: it.streams_complete and "T" in it.streams.name)
    await leaders.close()


async def test_missing_consumers_are_asked_for_until_they_answer_again(
    nats_server_factory: Callable[..., Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = nats_server_factory(CLUSTERED, jetstream=False).url
    leaders = await connect(Connection(servers=(url,)))
    held = {**_LISTED["streams"][0], "state": {**_STATE, "consumer_count": 2}}
    place = {"consumer_seq": 0, "stream_seq": 0}
    rows_by_name = {
        name: {
            "stream_name": "S", "name": name, "created": "2026-01-01T00:00:00Z",
            "config": {"durable_name": name}, "delivered": place, "ack_floor": place,
        }
        for name in "CD"
    }  # fmt: skip
    away = {"error": {"code": 503, "err_code": 10119, "description": "consumer is offline"}}
    replies: dict[str, Any] = {
        "INFO": _ACCOUNT,
        "STREAM.LIST": {**_LISTED, "streams": [held]},
        "STREAM.INFO.S": held,
        "CONSUMER.LIST.S": {
            "total": 2, "offset": 0, "limit": 256, "consumers": [], "missing": ["C", "D"],
        },
        "CONSUMER.INFO.S.C": away,
        "CONSUMER.INFO.S.D": None,
    }  # fmt: skip
    requests_counts = await _replying(leaders, replies)
    monkeypatch.setattr(consumers, "_SINGLE_REQUEST_TIMEOUT_S", 0.3)
    both = {("S", "C"), ("S", "D")}
    async with polling(url) as polled:
        for _ in range(3):
            await polled.until(Snapshot, lambda it: set(it.unreachable_consumers) == both)
        # One answers: the other, asked for before it in vain, is still away.
        replies["CONSUMER.INFO.S.C"] = rows_by_name["C"]
        polled.control.set_visible((), (("S", "C"),))
        enough = requests_counts["CONSUMER.INFO.S.D"] + 4
        while requests_counts["CONSUMER.INFO.S.D"] < enough:
            await polled.until(Snapshot)
        await polled.until(Snapshot, lambda it: set(it.unreachable_consumers) == {("S", "D")})
        replies["CONSUMER.INFO.S.D"] = rows_by_name["D"]
        await polled.until(Snapshot, lambda it: not it.unreachable_consumers)
        replies["CONSUMER.LIST.S"] = {
            "total": 2,
            "offset": 0,
            "limit": 256,
            "consumers": list(rows_by_name.values()),
        }
        await polled.until(Snapshot, lambda it: it.consumers_complete)
        assert not polled.state.unreachable_consumers
        assert set(polled.state.consumers.columns.name) == {"C", "D"}
    await leaders.close()


async def test_an_answer_that_was_asked_for_ahead_long_ago_is_asked_for_again(
    nats_server_factory: Callable[..., Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await connect(Connection(servers=(nats_server_factory(jetstream=False).url,)))
    replies_count = 0

    async def reply(message: Msg) -> None:
        nonlocal replies_count
        replies_count += 1
        await message.respond(json.dumps(replies_count).encode())

    await client.nc.subscribe("$JS.API.ANY", cb=reply)
    requests = PollingApi(client, None)
    for ahead_s, sent_count, wanted in ((30.0, 1, 1), (0.0, 2, 3)):
        monkeypatch.setattr(budget_requests, "_MAX_AHEAD_REPLY_AGE_S", ahead_s)
        requests.request_ahead("ANY", None)
        async with asyncio.timeout(30):
            while replies_count < sent_count:
                await asyncio.sleep(0.01)
        assert json.loads((await requests.request_timed("ANY")).data) == wanted
    await client.close()
