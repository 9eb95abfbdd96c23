"""Polls an account that is not our own, by bulk replies only.

The system account and the monitoring ports report every account. Nothing is requested from the
account's own API, which belongs to its users: no messages, no advisories, no next message.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from natstui.clock import steady_s, steady_us
from natstui.errors import NatstuiError, RequestFailed
from natstui.feed import Sink
from natstui.jetstream.connection.client import Client
from natstui.jetstream.polling.availability import Availability
from natstui.jetstream.polling.bulk.asking import BulkAsking
from natstui.jetstream.polling.bulk.view import BulkSource, BulkView
from natstui.jetstream.polling.configurations import ConfigurationHashes
from natstui.jetstream.polling.control import PollControl
from natstui.jetstream.polling.decode.streams import StreamRow
from natstui.jetstream.polling.rollbacks import Rollbacks
from natstui.jetstream.polling.server_clock import ServerClocks
from natstui.jetstream.polling.snapshot import ConsumersSeen, StreamsSeen, snapshot_of
from natstui.model.live.snapshot import PollCost

_ANSWERS = "answers"
_AGAIN_S = 1.0
_LONGEST_PAUSE_S = 30.0
_SURELY_GONE_S = 10.0
"""Time after which an unreported stream counts as deleted: a restarted server reports its streams
one after the other.
"""


class AccountSource(BulkSource, Protocol):
    """A source that knows which servers are silent."""

    @property
    def silent(self) -> tuple[str, ...]:
        """Return the servers that replied before, but not to the last request."""


async def poll_account(
    client: Client, control: PollControl, sink: Sink, source: AccountSource
) -> None:
    """Poll until cancelled; adds what `poll` adds, and closes `source` at the end."""
    polling = _AccountPolling(client, control, sink, source)
    try:
        while True:
            await control.rest(await polling.poll_once())
    finally:
        await source.close()


class _AccountPolling:
    def __init__(
        self, client: Client, control: PollControl, sink: Sink, source: AccountSource
    ) -> None:
        self._client, self._control, self._sink, self._source = client, control, sink, source
        self._asks = BulkAsking(source, lambda: 1.0)
        self._availability = Availability(sink)
        self._configurations = ConfigurationHashes()
        self._clocks = ServerClocks()
        self._rollbacks = Rollbacks(sink)
        self._rows: dict[str, StreamRow] = {}
        """Stream → its row with the newest values."""
        self._gone_since_s: dict[str, float] = {}
        """Streams that no server reports now → since when."""
        self._pause_s = _AGAIN_S
        self._polled = False

    async def poll_once(self) -> float:
        """Poll, and return when the next poll is due."""
        started_us, interval_s = steady_us(), self._control.interval_s
        config = self._asks.wants_config(interval_s)
        domain = self._client.nc.server_info.get("domain") or None
        try:
            view = await self._asks.ask(domain, config=config)
            if view is None:
                raise RequestFailed("no server reports this account")
        except NatstuiError as error:
            self._availability.failed(_ANSWERS, error)
            self._asks.forget()
            due_s = steady_s() + max(self._pause_s, interval_s)
            self._pause_s = min(_LONGEST_PAUSE_S, 2 * self._pause_s)
            return due_s
        self._pause_s = _AGAIN_S
        due_s = self._asks.due_s(view, interval_s, first=not self._polled)
        self._polled = True
        await self._tell(view, started_us, due_s)
        self._availability.worked(_ANSWERS)
        return due_s

    async def _tell(self, view: BulkView, started_us: int, due_s: float) -> None:
        """Add the records of a reply, in steps: many rows take a while in each."""
        streams = self._streams(view)
        consumers = self._consumers(view, streams)
        elapsed_us = steady_us() - started_us
        cost = PollCost(
            requests_count=1,
            received_bytes=view.packed_bytes,
            elapsed_us=elapsed_us,
            api_rtt_us=None,
            interval_us=max(elapsed_us, round(due_s * 1e6) - started_us),
            backoff_reason=None,
        )
        await asyncio.sleep(0)
        server_name = self._client.nc.server_info.get("server_name")
        snapshot = snapshot_of(view.account, streams, consumers, cost, server_name)
        await asyncio.sleep(0)
        new_configurations = self._configurations.changed_in(
            snapshot.taken_at_us, streams, consumers, set(self._rows)
        )
        if new_configurations is not None:
            self._sink.add(new_configurations)
            await asyncio.sleep(0)
        self._sink.add(snapshot)

    def _streams(self, view: BulkView) -> StreamsSeen:
        """Return the streams; those without a leader, or of silent servers, are unreachable."""
        led: dict[str, StreamRow] = {}
        for name in sorted(view.streams):
            row, known_row = view.streams[name], self._rows.get(name)
            self._clocks.date(row, settle=True)
            # A leader that was frozen tells what it knew: the newer row stays.
            led[name] = (
                row if known_row is None or self._rollbacks.accept(known_row, row) else known_row
            )
        missing = {
            name for name in view.named.keys() - led.keys() if (name, None) not in view.unknown
        }
        missing |= {name for name in self._rows.keys() - view.named.keys() if self._is_away(name)}
        for back in [name for name in self._gone_since_s if name in view.named]:
            del self._gone_since_s[back]
        kept_rows = {name: self._rows[name] for name in missing & self._rows.keys()}
        self._rows = {**kept_rows, **led}
        return StreamsSeen(list(led.values()), complete=True, missing=missing)

    def _is_away(self, stream: str) -> bool:
        """Return whether a stream that no server reports may still exist."""
        if self._source.silent:
            return True
        since_s = self._gone_since_s.setdefault(stream, steady_s())
        in_cluster = bool(self._client.nc.server_info.get("cluster"))
        if in_cluster and steady_s() < since_s + _SURELY_GONE_S:
            return True
        del self._gone_since_s[stream]
        return False

    def _consumers(self, view: BulkView, streams: StreamsSeen) -> ConsumersSeen:
        """Return the consumers; those without a leader are unreachable, as are all of such a
        stream.
        """
        consumers_seen = ConsumersSeen(complete=True)
        for stream in streams.missing:
            known_names = self._configurations.consumers_of(stream)
            consumers_seen.missing.update((stream, name) for name in known_names)
        for row in streams.rows:
            stream, rows_by_name = row.name, view.consumers.get(row.name, {})
            for name, consumer_row in rows_by_name.items():
                self._clocks.date(consumer_row, settle=True)
                consumers_seen.rows[stream, name] = consumer_row
            names = set(view.named.get(stream, ()))
            if self._source.silent:
                # One with a single replica may be on a server that is silent.
                names |= self._configurations.consumers_of(stream)
            unreported = ((stream, name) for name in names - rows_by_name.keys())
            consumers_seen.missing.update(key for key in unreported if key not in view.unknown)
            consumers_seen.swept.add(stream)
        return consumers_seen
