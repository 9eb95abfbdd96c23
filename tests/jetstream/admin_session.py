"""A writer for tests: connected, with a journal of its own, driven from synchronous code."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

from natstui.config import Connection
from natstui.jetstream.connection.client import connect
from natstui.jetstream.connection.journal import Journal
from natstui.jetstream.connection.times import time_us
from natstui.jetstream.connection.writer import Asset, Writer
from natstui.jetstream.managing.apply import apply
from natstui.jetstream.managing.configure import ChangeResult, read_asset
from natstui.jetstream.managing.undo import undo
from natstui.model.records.actions import IRREVERSIBLE_ACTIONS
from natstui.model.records.managing import Action, Change, Undo

T = TypeVar("T")


class AdminSession:
    """Runs changes one after the other on a loop of its own."""

    def __init__(self, runner: asyncio.Runner, writer: Writer) -> None:
        self.runner = runner
        self.writer = writer

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def apply(
        self,
        action: Action,
        stream: str,
        body: dict[str, Any] | None = None,
        *,
        consumer: str | None = None,
        seen: dict[str, Any] | None = None,
        confirmed: str | None = None,
        created_at_us: int | Literal["now"] | None = "now",
    ) -> ChangeResult:
        """Do a change to what is there now, or to what was made at another time."""
        seen_json = None if seen is None else json.dumps(seen)
        if created_at_us == "now":
            final = action in IRREVERSIBLE_ACTIONS
            created_at_us = self.created_at_us(stream, consumer) if final else None
        change = Change(
            1,
            action,
            stream,
            consumer,
            json.dumps(body or {}),
            seen_json,
            confirmed,
            created_at_us,
        )
        return self.do(change)

    def do(self, change: Change) -> ChangeResult:
        return self.run(apply(self.writer, change))

    def asset(self, stream: str) -> Asset:
        return self.run(read_asset(self.writer, "stream", stream))

    def created_at_us(self, stream: str, consumer: str | None = None) -> int:
        verb = (
            f"STREAM.INFO.{stream}" if consumer is None else f"CONSUMER.INFO.{stream}.{consumer}"
        )
        return time_us(self.request(verb)["created"])

    def undo(self, confirmed: str | None = None, entry: str | None = None) -> ChangeResult:
        return self.run(undo(self.writer, Undo(1, entry, confirmed)))

    def request(self, verb: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        reply: dict[str, Any] = json.loads(self.run(self.writer.client.request(verb, body)))
        return reply

    def config(self, stream: str, consumer: str | None = None) -> dict[str, Any]:
        verb = (
            f"STREAM.INFO.{stream}" if consumer is None else f"CONSUMER.INFO.{stream}.{consumer}"
        )
        config: dict[str, Any] = self.request(verb)["config"]
        return config


@contextmanager
def admin_session(url: str, folder: Path, **options: Any) -> Iterator[AdminSession]:
    """Connect and hand out a session; `options` are those of Connection."""
    with asyncio.Runner() as runner:
        client = runner.run(connect(Connection(servers=(url,), **options)))
        try:
            yield AdminSession(runner, Writer(client, Journal(folder / "journal.jsonl")))
        finally:
            runner.run(client.close())
