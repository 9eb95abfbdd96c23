from __future__ import annotations

import asyncio
import json

import pytest

from natstui.config import Connection
from natstui.jetstream.connection.client import Client, connect
from tests.accounts import Account

pytestmark = pytest.mark.server

STREAMS = 302
CONSUMERS = 300


async def fill(client: Client) -> None:
    """Create 302 streams, and 300 consumers on one of them."""
    gate = asyncio.Semaphore(50)

    async def create(verb: str, body: dict[str, object]) -> None:
        async with gate:
            await client.request(verb, body, timeout_s=30)

    streams = [f"S{i:04}" for i in range(STREAMS)]
    await asyncio.gather(
        *(
            create(f"STREAM.CREATE.{s}", {"name": s, "subjects": [s], "storage": "memory"})
            for s in streams
        )
    )
    await asyncio.gather(
        *(
            create(
                f"CONSUMER.CREATE.{s}.C{i:04}",
                {"stream_name": s, "config": {"durable_name": f"C{i:04}", "mem_storage": True}},
            )
            for s in streams[:1]
            for i in range(CONSUMERS)
        )
    )


async def rows_of(client: Client, verb: str, field: str) -> list[str]:
    pages = [json.loads(page) async for page in client.pages(verb)]
    return [
        row if isinstance(row, str) else row["config"] for page in pages for row in page[field]
    ]


async def test_everything_is_listed_however_many_pages_it_takes(account: Account) -> None:
    client = await connect(Connection(servers=(account.url,)))
    await fill(client)
    listed = await rows_of(client, "STREAM.LIST", "streams")
    assert len({config["name"] for config in listed}) == STREAMS
    assert len(set(await rows_of(client, "STREAM.NAMES", "streams"))) == STREAMS
    consumers = await rows_of(client, "CONSUMER.LIST.S0000", "consumers")
    assert len(consumers) == CONSUMERS
    await client.close()


async def test_a_body_is_kept_from_page_to_page(account: Account) -> None:
    client = await connect(Connection(servers=(account.url,)))
    for name in ("A", "B"):
        await client.request(f"STREAM.CREATE.{name}", {"name": name, "subjects": [name]})
    pages = [json.loads(page) async for page in client.pages("STREAM.LIST", {"subject": "B"})]
    assert [row["config"]["name"] for page in pages for row in page["streams"]] == ["B"]
    await client.close()
