"""What the user may not do is told once, with its subject; everything else goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import nats
import pytest

from natstui.jetstream.events.subscriptions import read_events
from natstui.jetstream.testbed.broker import Broker
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.record import Record, Unavailable
from tests.jetstream.pending import until_pending
from tests.jetstream.polling import Polled, polling, rows

pytestmark = pytest.mark.server

LEAST = [
    "$JS.API.INFO",
    "$JS.API.STREAM.LIST",
    "$JS.API.STREAM.NAMES",
    "$JS.API.STREAM.INFO.*",
    "$JS.API.CONSUMER.LIST.*",
    "$JS.API.CONSUMER.NAMES.*",
    "$JS.API.CONSUMER.INFO.*.*",
]
HEARD = [
    "_INBOX_mon.>",
    "$JS.EVENT.ADVISORY.STREAM.>",
    "$JS.EVENT.ADVISORY.CONSUMER.>",
    "$JS.EVENT.METRIC.>",
]
WHO = {"inbox_prefix": "_INBOX_mon", "user": "mon"}


def _config(publish: list[str], subscribe: list[str]) -> str:
    def words(subjects: list[str]) -> str:
        return ", ".join(f'"{subject}"' for subject in subjects)

    return f"""
accounts {{ APP: {{ jetstream: enabled, users: [
  {{ user: admin, password: "" }}
  {{ user: mon, password: "", permissions {{
      publish {{ allow: [{words(publish)}] }}, subscribe {{ allow: [{words(subscribe)}] }} }} }}
] }} }}"""


async def _fill(server: Broker, *streams: str) -> None:
    nc = await nats.connect(server.url, user="admin", password="", connect_timeout=5)
    js = nc.jetstream()
    for name in streams:
        await js.add_stream(name=name, subjects=[name])
        await js.add_consumer(name, durable_name="C", ack_policy="explicit")
        for _ in range(3):
            await js.publish(name, b"x")
    consumer = await js.pull_subscribe(streams[0], durable="C", stream=streams[0])
    await (await consumer.fetch(1))[0].ack_sync(timeout=30)
    await until_pending(js, streams[0], 2, "C")
    await nc.close()


def _unavailable(polled: Polled) -> list[tuple[str, str | None]]:
    return [(r.what, r.denied_subject) for r in polled.records if isinstance(r, Unavailable)]


async def test_a_least_privilege_user_sees_everything_but_the_age_of_the_next_message(
    nats_server_factory: Callable[..., Broker],
) -> None:
    server = nats_server_factory(_config(LEAST, HEARD))
    await _fill(server, "S")
    async with polling(server.url, **WHO) as polled:
        polled.control.set_visible((), (("S", "C"),))
        events = asyncio.create_task(read_events(polled.client, polled))
        for _ in range(3):
            snapshot = await polled.until(Snapshot, lambda s: s.consumers_complete)
        (row,) = rows(snapshot.consumers)
        assert (row["pending_msgs"], row["next_at_us"]) == (2, None)
        assert snapshot.account is not None
        assert _unavailable(polled) == [("STREAM.MSG.GET", "$JS.API.STREAM.MSG.GET.S")]
        events.cancel()


async def test_denied_consumer_lists_are_told_once_and_streams_go_on(
    nats_server_factory: Callable[..., Broker],
) -> None:
    allowed = [subject for subject in LEAST if "CONSUMER" not in subject]
    server = nats_server_factory(_config(allowed, HEARD))
    await _fill(server, "A", "B", "C", "D", "E")
    async with polling(server.url, **WHO) as polled:
        for _ in range(5):
            snapshot = await polled.until(Snapshot, lambda s: s.streams_complete)
        assert len(snapshot.streams.name) == 5 and not snapshot.consumers_complete
        assert _unavailable(polled) == [("CONSUMER.LIST", "$JS.API.CONSUMER.LIST.A")]


async def test_one_denied_stream_does_not_hide_the_consumers_of_others(
    nats_server_factory: Callable[..., Broker],
) -> None:
    allowed = [subject for subject in LEAST if "CONSUMER.LIST" not in subject]
    server = nats_server_factory(_config([*allowed, "$JS.API.CONSUMER.LIST.B"], HEARD))
    await _fill(server, "A", "B")
    async with polling(server.url, **WHO) as polled:
        while not len(polled.state.consumers):
            await polled.until(Snapshot)
        await polled.until(Snapshot)
        assert polled.state.consumers.columns.stream == ("B",)
        assert ("CONSUMER.LIST.A", "$JS.API.CONSUMER.LIST.A") in _unavailable(polled)


async def test_denied_announcements_are_told_with_their_subject(
    nats_server_factory: Callable[..., Broker],
) -> None:
    server = nats_server_factory(_config(LEAST, HEARD[:2]))
    async with polling(server.url, **WHO) as polled:
        heard: list[Record] = []

        class Ears:
            def add(self, record: Record) -> None:
                heard.append(record)

        events = asyncio.create_task(read_events(polled.client, Ears()))
        async with asyncio.timeout(60):
            while len(heard) < 2:
                await asyncio.sleep(0.02)
        assert [r.denied_subject for r in heard if isinstance(r, Unavailable)] == [
            "$JS.EVENT.ADVISORY.CONSUMER.>",
            "$JS.EVENT.METRIC.CONSUMER.ACK.>",
        ]
        events.cancel()


async def test_an_account_without_jetstream_is_told(
    nats_server_factory: Callable[..., Broker],
) -> None:
    server = nats_server_factory('accounts { PLAIN: { users: [{ user: u, password: "" }] } }')
    async with polling(server.url, user="u") as polled:
        told = await polled.until(Unavailable)
        assert told.what == "INFO" and "JetStream" in told.reason
