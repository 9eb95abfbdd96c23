"""A poller at work on a real server, and what it said."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from natstui.config import Connection
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.polling.control import PollControl
from natstui.jetstream.polling.poller import poll
from natstui.model.live.snapshot import Snapshot
from natstui.model.live.state import State
from natstui.model.records.record import Record
from tests.ending import ended

R = TypeVar("R")


class Polled:
    """A sink that keeps what it gets, and the state it adds up to."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.control = PollControl(interval_s=0.25)
        self.records: list[Record] = []
        self.state = State()
        self._changed = asyncio.Event()

    def add(self, record: Record) -> None:
        self.records.append(record)
        self.state = self.state.after(record)
        self._changed.set()

    async def until(self, kind: type[R], test: Callable[[R], bool] = lambda _: True) -> R:
        """Return the first record from now on that passes a test."""
        seen_count = len(self.records)
        async with asyncio.timeout(30):
            while True:
                for record in self.records[seen_count:]:
                    if isinstance(record, kind) and test(record):
                        return record
                seen_count = len(self.records)
                self._changed.clear()
                await self._changed.wait()

    async def fresh(self) -> Snapshot:
        """Return a snapshot that was begun after this call, with every consumer."""
        self.control.poll_now()
        for _ in range(2):
            snapshot = await self.until(Snapshot, lambda s: s.consumers_complete)
        return snapshot


@asynccontextmanager
async def polled_by(
    begin: Callable[[Polled], Coroutine[Any, Any, None]], connection: Connection
) -> AsyncIterator[Polled]:
    """Connect, and poll in one way; what ended that by itself is raised."""
    client = await connect(connection)
    polled = Polled(client)
    task = asyncio.create_task(begin(polled))
    try:
        yield polled
    finally:
        task.cancel()
        await ended(task)
        await client.close()
        if not task.cancelled():
            task.result()


def as_usual(polled: Polled) -> Coroutine[Any, Any, None]:
    """Poll with lists."""
    return poll(polled.client, polled.control, polled)


@asynccontextmanager
async def polling(*urls: str, **words: Any) -> AsyncIterator[Polled]:
    """Connect and poll; `words` are those of Connection."""
    async with polled_by(as_usual, Connection(servers=urls, **words)) as polled:
        yield polled


def rows(columns: Any) -> list[dict[str, Any]]:
    """Return columns as one dictionary per row."""
    names = columns.__struct_fields__
    values = (getattr(columns, name) for name in names)
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


async def api(client: Client, verb: str, body: Mapping[str, Any] | None = None) -> Any:
    """Ask the JetStream API and return the JSON."""
    return json.loads(await client.request(verb, body))
