"""Messages by subject, page by page."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from nats.aio.msg import Msg

from natstui.config.connection import Connection
from natstui.jetstream.connection.client import connect
from natstui.jetstream.connection.subject_counts import (
    read_all_subject_counts,
    read_subject_counts,
)
from natstui.jetstream.testbed.broker import Broker
from tests.accounts import Account
from tests.cli.test_core import connected
from tests.cli.test_messages_copy import filled
from tests.jetstream.flushing import flushed

pytestmark = pytest.mark.server

COUNT = 100_050
"""More than the server lists at once."""


async def test_a_page_says_whether_it_is_all_and_the_next_begins_behind_it(
    nats_server_factory: Callable[..., Broker],
) -> None:
    server = nats_server_factory(jetstream=False)
    every, asked = {f"s.{number}": number for number in range(7)}, list[dict[str, Any]]()

    async def page(message: Msg) -> None:
        asked.append(json.loads(message.data))
        since = asked[-1]["offset"]
        msgs_by_subject = dict(list(every.items())[since : since + 3])
        counts = {"messages": 21, "bytes": 0, "first_seq": 1, "last_seq": 21, "consumer_count": 0}
        told = {"total": len(every), "created": "2026-01-01T00:00:00Z", "config": {"name": "S"}}
        await message.respond(
            json.dumps(told | {"state": counts | {"subjects": msgs_by_subject}}).encode()
        )

    client = await connect(Connection(servers=(server.url,)))
    async with connected(server.url) as nc:
        await nc.subscribe("$JS.API.STREAM.INFO.S", cb=page)
        await flushed(nc)
        first = await read_subject_counts(client, "S", "s.>")
        assert (first.is_last, first.later_subjects_count, len(first.msgs_by_subject)) == (
            False,
            4,
            3,
        )
        last = await read_subject_counts(client, "S", "s.>", 6)
        assert (last.is_last, last.msgs_by_subject) == (True, {"s.6": 6})
        asked.clear()
        pages = [
            msgs_by_subject
            async for msgs_by_subject in read_all_subject_counts(client, "S", "s.>")
        ]
        assert [len(msgs_by_subject) for msgs_by_subject in pages] == [3, 3, 1]
        assert pages[0] | pages[1] | pages[2] == every
        assert asked == [{"subjects_filter": "s.>", "offset": since} for since in (0, 3, 6)]
    await client.close()


@pytest.mark.long
async def test_every_page_of_very_many_subjects_is_read(account: Account) -> None:
    client = await connect(Connection(servers=(account.url,)))
    async with connected(account.url) as nc:
        await filled(nc, "S", COUNT)
    page = await read_subject_counts(client, "S", ">")
    assert (page.is_last, len(page.msgs_by_subject) < COUNT) == (False, True)
    assert (await read_subject_counts(client, "S", "s.7")).is_last
    every = {
        subject: count
        async for msgs_by_subject in read_all_subject_counts(client, "S", ">")
        for subject, count in msgs_by_subject.items()
    }
    assert every == {f"s.{number}": 1 for number in range(1, COUNT + 1)}
    await client.close()
