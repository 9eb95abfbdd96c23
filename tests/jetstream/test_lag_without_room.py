"""Next messages are asked for while there is room; without any, the poll goes on."""

from __future__ import annotations

import json
import time

import nats
import pytest

from natstui.clock import steady_s, steady_us
from natstui.config import Connection
from natstui.feed import Feed
from natstui.jetstream.connection.client import connect
from natstui.jetstream.connection.decode.consumers import (
    ConsumerRow,
    read_consumer,
    read_consumers,
)
from natstui.jetstream.connection.decode.streams import read_stream
from natstui.jetstream.polling.availability import RequestAvailability
from natstui.jetstream.polling.budget.allowance import PollAllowance
from natstui.jetstream.polling.budget.requests import PollingApi
from natstui.jetstream.polling.budget.shares import RequestWindow
from natstui.jetstream.polling.control import PollControl
from natstui.jetstream.polling.lag import LagPoller, NextMessageCache
from tests.accounts import Account
from tests.jetstream.flushing import flushed
from tests.jetstream.pending import until_pending

pytestmark = pytest.mark.server

CONSUMERS = 60


class Narrow(RequestWindow):
    """As on a machine that is so busy that every answer is slow: one request at a time."""

    def answered(self, *_: float) -> None:
        """Never grow."""


@pytest.mark.parametrize("window", [Narrow, RequestWindow])
async def test_a_poll_goes_on_where_more_wait_than_may_be_asked_for(
    account: Account, window: type[RequestWindow]
) -> None:
    nc = await nats.connect(account.url)
    js = nc.jetstream(timeout=30)
    await js.add_stream(name="S", subjects=["s.>"])
    for number in range(CONSUMERS):
        config = {"durable_name": f"C{number}", "ack_policy": "explicit"}
        body = {"stream_name": "S", "config": config | {"filter_subject": f"s.{number}"}}
        subject = f"$JS.API.CONSUMER.DURABLE.CREATE.S.C{number}"
        await nc.request(subject, json.dumps(body).encode(), timeout=30)
    for word in ("first", *range(CONSUMERS), "last"):
        await js.publish(f"s.{word}", b"x")
    await until_pending(js, "S", 1, *(f"C{number}" for number in range(CONSUMERS)))
    client = await connect(Connection(servers=(account.url,)))
    stream = read_stream(await client.request("STREAM.INFO.S"), steady_us())
    page = read_consumers(await client.request("CONSUMER.LIST.S"), steady_us())
    api = PollingApi(client, None)
    api.window = window()
    # The next poll is due already.
    allowed = PollAllowance(api, 1_000, steady_s() - 1, 0.0)
    rows = {(row.stream_name, row.name): row for row in page.rows}
    await LagPoller(api, RequestAvailability(Feed())).update_next_times(
        allowed, PollControl(), rows, {"S": stream}
    )
    known = [row.name for row in rows.values() if row.next_at_us is not None]
    assert len(known) == 20
    await client.close()
    await nc.close()


async def test_a_next_message_that_was_deleted_meanwhile_is_not_asked_for_again(
    account: Account,
) -> None:
    nc = await nats.connect(account.url)
    js = nc.jetstream(timeout=30)
    await js.add_stream(name="S", subjects=["s.>"], allow_direct=False)
    await js.add_consumer("S", durable_name="C", ack_policy="explicit", filter_subject="s.b")
    for word in ("a", "b", "c"):
        await js.publish(f"s.{word}", b"x")
    await until_pending(js, "S", 1, "C")
    client = await connect(Connection(servers=(account.url,)))
    stream = read_stream(await client.request("STREAM.INFO.S"), steady_us())
    page = read_consumers(await client.request("CONSUMER.LIST.S"), steady_us())
    await js.delete_msg("S", 2)
    requests = await nc.subscribe("$JS.API.STREAM.MSG.GET.S")
    await flushed(nc)
    api, feed = PollingApi(client, None), Feed()
    reading, rows = LagPoller(api, RequestAvailability(feed)), {("S", "C"): page.rows[0]}
    for _ in range(2):
        allowed = PollAllowance(api, 1_000, steady_s() + 60, 0.0)
        await reading.update_next_times(allowed, PollControl(), rows, {"S": stream})
        assert page.rows[0].next_at_us is None
    await flushed(client.nc)
    await flushed(nc)
    assert requests.pending_msgs == 1
    await client.close()
    await nc.close()


def _row(name: str, stream_seq: int) -> ConsumerRow:
    place = {"stream_seq": stream_seq}
    row = {
        "stream_name": "S", "name": name, "created": "2026-01-01T00:00:00Z", "config": {},
        "delivered": place, "ack_floor": place,
    }  # fmt: skip
    return read_consumer(json.dumps(row).encode(), 0)


def test_what_was_not_asked_for_in_two_minutes_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began_s, after_s = steady_s(), 0.0
    monkeypatch.setattr(time, "clock_gettime", lambda _: began_s + after_s)
    following, old, new = NextMessageCache(), _row("old", 1), _row("new", 1)
    following.store_position(_row("old", 0))
    following.store_reply(old, None)
    after_s = 100.0
    following.store_reply(new, None)
    following.discard_old()
    assert not following.is_stuck(old)
    after_s = 121.0
    following.discard_old()
    assert following.has_no_next_message(new)
    # Where it was is not known any more.
    assert following.is_stuck(old)
    after_s = 1.0
    assert not following.has_no_next_message(old)
