"""Next messages are asked for while there is room; without any, the poll goes on."""

from __future__ import annotations

import json

import nats
import pytest

from natstui.clock import steady_s, steady_us
from natstui.config import Connection
from natstui.feed import Feed
from natstui.jetstream.connection.client import connect
from natstui.jetstream.polling.availability import Availability
from natstui.jetstream.polling.budget.allowance import Allowance
from natstui.jetstream.polling.budget.asking import PollingApi
from natstui.jetstream.polling.budget.shares import Window
from natstui.jetstream.polling.control import PollControl
from natstui.jetstream.polling.decode.consumers import read_consumers
from natstui.jetstream.polling.decode.streams import read_stream
from natstui.jetstream.polling.lag import NextReading
from natstui.jetstream.testbed.broker import Broker

pytestmark = pytest.mark.server

CONSUMERS = 60


class Narrow(Window):
    """As on a machine that is so busy that every answer is slow: one request at a time."""

    def answered(self, *_: float) -> None:
        """Never grow."""


@pytest.mark.parametrize("window", [Narrow, Window])
async def test_a_poll_goes_on_where_more_wait_than_may_be_asked_for(
    nats_server: Broker, window: type[Window]
) -> None:
    nc = await nats.connect(nats_server.url)
    js = nc.jetstream(timeout=30)
    await js.add_stream(name="S", subjects=["s.>"])
    for number in range(CONSUMERS):
        config = {"durable_name": f"C{number}", "ack_policy": "explicit"}
        body = {"stream_name": "S", "config": config | {"filter_subject": f"s.{number}"}}
        subject = f"$JS.API.CONSUMER.DURABLE.CREATE.S.C{number}"
        await nc.request(subject, json.dumps(body).encode(), timeout=30)
    for word in ("first", *range(CONSUMERS), "last"):
        await js.publish(f"s.{word}", b"x")
    client = await connect(Connection(servers=(nats_server.url,)))
    stream = read_stream(await client.request("STREAM.INFO.S"), steady_us())
    page = read_consumers(await client.request("CONSUMER.LIST.S"), steady_us())
    api = PollingApi(client, None)
    api.window = window()
    # The next poll is due already.
    allowed = Allowance(api, 1_000, steady_s() - 1, 0.0)
    rows = {(row.stream_name, row.name): row for row in page.rows}
    await NextReading(api, Availability(Feed())).find(allowed, PollControl(), rows, {"S": stream})
    known = [row.name for row in rows.values() if row.next_at_us is not None]
    assert len(known) == 20
    await client.close()
    await nc.close()
