"""How far behind consumers are is known for all of them, not only for those in view."""

from __future__ import annotations

import asyncio

import nats
import pytest
from nats.aio.client import Client as NatsClient

from natstui.config import Connection
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.connection.times import time_us
from natstui.model.live.age import consumer_lag
from natstui.model.live.snapshot import Snapshot
from tests.accounts import Account
from tests.jetstream.flushing import flushed
from tests.jetstream.polling import Polled, api, polling

pytestmark = pytest.mark.server

STREAMS_COUNT = 20
CONSUMERS_COUNT = 10
MESSAGES_COUNT = 40
MOST_POLLS_COUNT = 10
"""At one a second."""


async def _fill(client: Client, nc: NatsClient) -> None:
    """Make consumers that have got different messages and stopped; one stream in two is direct."""

    async def one(number: int) -> None:
        name = f"S{number:02}"
        body = {"name": name, "subjects": [f"{name}.*"], "storage": "memory"}
        await api(client, f"STREAM.CREATE.{name}", {**body, "allow_direct": number % 2 == 0})
        for seq in range(MESSAGES_COUNT):
            await nc.publish(f"{name}.{seq % 2}", b"x" * 50)
        await flushed(nc)
        if number == 0:
            # It replies to direct gets in the stream's place, and lacks half of the messages.
            mirror = {"name": name, "filter_subject": f"{name}.0"}
            body = {"name": "M", "mirror": mirror, "mirror_direct": True, "storage": "memory"}
            await api(client, "STREAM.CREATE.M", body)
        js = nc.jetstream()
        for consumer in range(CONSUMERS_COUNT):
            config = {"durable_name": f"C{consumer}", "ack_policy": "explicit"}
            if consumer % 3 == 2:
                config["filter_subject"] = f"{name}.1"
            made = {"stream_name": name, "config": config}
            await api(client, f"CONSUMER.DURABLE.CREATE.{name}.C{consumer}", made)
            if consumer:
                bound = await js.pull_subscribe_bind(f"C{consumer}", stream=name)
                await bound.fetch(consumer, timeout=20)

    await asyncio.gather(*(one(number) for number in range(STREAMS_COUNT)))


async def _stored_at_us(client: Client, stream: str, consumer: int) -> int:
    """Return when the next message of a consumer was stored, as the server tells."""
    seq = consumer + 1 if consumer % 3 != 2 else 2 * (consumer + 1)
    reply = await api(client, f"STREAM.MSG.GET.{stream}", {"seq": seq})
    return time_us(reply["message"]["time"])


def _unknown(polled: Polled) -> set[tuple[str, str]]:
    state = polled.state
    columns = state.consumers.columns
    lags = {
        (columns.stream[row], columns.name[row]): consumer_lag(state, row)
        for row in range(len(state.consumers))
    }
    return {key for key, lag in lags.items() if lag is None or lag.is_estimated}


async def test_the_lag_of_200_stuck_consumers_is_known_within_ten_polls_and_true(
    account: Account,
) -> None:
    near = await connect(Connection(servers=(account.url,)))
    nc = await nats.connect(account.url)
    await _fill(near, nc)
    await nc.close()
    async with polling(account.url) as polled:
        polled.control.set_interval(1.0)
        for _ in range(MOST_POLLS_COUNT):
            await polled.until(Snapshot)
            if len(polled.state.consumers) == 200 and not _unknown(polled):
                break
        assert len(polled.state.consumers) == STREAMS_COUNT * CONSUMERS_COUNT
        assert _unknown(polled) == set()
        columns = polled.state.consumers.columns
        for stream in ("S00", "S01"):
            for consumer in range(CONSUMERS_COUNT):
                rows = zip(columns.stream, columns.name, strict=True)
                row = list(rows).index((stream, f"C{consumer}"))
                assert columns.next_at_us[row] == await _stored_at_us(near, stream, consumer)
    await near.close()
