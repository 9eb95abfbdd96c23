"""Messages by subject, page by page."""

from __future__ import annotations

import pytest

from natstui.config.connection import Connection
from natstui.jetstream.connection.client import connect
from natstui.jetstream.connection.subject_counts import every_subject_count, read_subject_counts
from natstui.jetstream.testbed.broker import Broker
from tests.cli.test_core import connected
from tests.cli.test_messages_copy import filled

pytestmark = [pytest.mark.server, pytest.mark.slow]

COUNT = 100_050
"""More than the server lists at once."""


async def test_a_page_says_whether_it_is_all_and_every_page_is_read(nats_server: Broker) -> None:
    client = await connect(Connection(servers=(nats_server.url,)))
    async with connected(nats_server.url) as nc:
        await filled(nc, "S", COUNT)
    page = await read_subject_counts(client, "S", ">")
    assert (page.is_last, len(page.msgs) < COUNT) == (False, True)
    assert (await read_subject_counts(client, "S", "s.7")).is_last
    every = {
        subject: count
        async for msgs in every_subject_count(client, "S", ">")
        for subject, count in msgs.items()
    }
    assert every == {f"s.{number}": 1 for number in range(1, COUNT + 1)}
    await client.close()
