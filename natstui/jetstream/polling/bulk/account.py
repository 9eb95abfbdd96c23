"""Polls an account that is not our own, by bulk replies only.

The system account and the monitoring ports report every account. Nothing is requested from the
account's own API, which belongs to its users: no messages, no advisories, no lag.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from natstui.clock import steady_s, steady_us
from natstui.errors import NatstuiError, RequestFailed
from natstui.feed import Sink
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.decode.streams import StreamRow
from natstui.jetstream.polling.availability import RequestAvailability
from natstui.jetstream.polling.bulk.requests import BulkRequester
from natstui.jetstream.polling.bulk.view import BulkSource, BulkView
from natstui.jetstream.polling.configurations import ConfigurationHashes
from natstui.jetstream.polling.control import PollControl
from natstui.jetstream.polling.rollbacks import RollbackDetector
from natstui.jetstream.polling.server_clock import ServerClocks
from natstui.jetstream.polling.snapshot import PolledConsumers, PolledStreams, make_snapshot
from natstui.model.live.snapshot import PollCost

_POLL_NAME = "answers"
"""Name under which a failure that ends a poll is reported."""
_RETRY_S = 1.0
_MAX_PAUSE_S = 30.0
_DELETED_AFTER_S = 10.0
"""Time after which a stream that no server reports counts as deleted: a restarted server reports
its streams one after the other.
"""


class AccountSource(BulkSource, Protocol):
    """A source of bulk replies that knows which servers are silent."""

    @property
    def silent_servers(self) -> tuple[str, ...]:
        """Return the names of servers that replied before, but not to the last request."""


async def poll_account(
    client: Client, control: PollControl, sink: Sink, source: AccountSource
) -> None:
    """Poll an account until cancelled, and add to `sink` the records that `poller.poll` adds.

    Closes `source` at the end.
    """
    poller = _AccountPoller(client, control, sink, source)
    try:
        while True:
            await control.wait_for_poll(await poller.poll_once())
    finally:
        await source.close()


class _AccountPoller:
    def __init__(
        self, client: Client, control: PollControl, sink: Sink, source: AccountSource
    ) -> None:
        self._client, self._control, self._sink, self._source = client, control, sink, source
        self._requester = BulkRequester(source, lambda: 1.0)
        self._availability = RequestAvailability(sink)
        self._configurations = ConfigurationHashes()
        self._clocks = ServerClocks()
        self._rollbacks = RollbackDetector(sink)
        self._rows: dict[str, StreamRow] = {}
        """Stream → its row with the newest values."""
        self._unreported_since_s_by_stream: dict[str, float] = {}
        """Stream that no server reports now → since when."""
        self._leaders_of_consumers: dict[tuple[str, str], str] = {}
        """Stream and consumer → its last known leader."""
        self._pause_s = _RETRY_S
        self._has_polled = False

    async def poll_once(self) -> float:
        """Poll once, and return when the next poll is due, by the monotonic clock."""
        started_us, interval_s = steady_us(), self._control.interval_s
        config = self._requester.wants_config(interval_s)
        domain = self._client.nc.server_info.get("domain") or None
        try:
            view = await self._requester.request_view(domain, config=config)
            if view is None:
                raise RequestFailed("no server reports this account")
            due_s = self._requester.compute_due_s(
                view, interval_s, is_first_reply=not self._has_polled
            )
            await self._add_records(view, started_us, due_s)
        except NatstuiError as error:
            self._availability.report_failure(_POLL_NAME, error)
            self._requester.reset()
            due_s = steady_s() + max(self._pause_s, interval_s)
            self._pause_s = min(_MAX_PAUSE_S, 2 * self._pause_s)
            return due_s
        self._pause_s = _RETRY_S
        self._has_polled = True
        self._availability.report_success(_POLL_NAME)
        return due_s

    async def _add_records(self, view: BulkView, started_us: int, due_s: float) -> None:
        """Add the records of a reply, in steps: other tasks run in between."""
        streams = self._read_streams(view)
        consumers = self._read_consumers(view, streams)
        elapsed_us = steady_us() - started_us
        cost = PollCost(
            requests_count=1,
            received_bytes=view.transferred_bytes,
            elapsed_us=elapsed_us,
            api_rtt_us=None,
            interval_us=max(elapsed_us, round(due_s * 1e6) - started_us),
            backoff_reason=None,
        )
        await asyncio.sleep(0)
        server_name = self._client.nc.server_info.get("server_name")
        snapshot = make_snapshot(view.account, streams, consumers, cost, server_name)
        await asyncio.sleep(0)
        new_configurations = self._configurations.find_changes(
            snapshot.taken_at_us, streams, consumers, set(self._rows)
        )
        if new_configurations is not None:
            self._sink.add(new_configurations)
            await asyncio.sleep(0)
        self._sink.add(snapshot)

    def _read_streams(self, view: BulkView) -> PolledStreams:
        """Return the streams; those without a leader or only on silent servers are unreachable."""
        rows: dict[str, StreamRow] = {}
        for name in sorted(view.streams):
            row, known_row = view.streams[name], self._rows.get(name)
            self._clocks.set_time(row, trusts_reply=True)
            # A leader that was frozen reports old values: the newer row stays.
            rows[name] = (
                row
                if known_row is None or self._rollbacks.accept_row(known_row, row)
                else known_row
            )
        missing_streams = {
            name
            for name in view.names.keys() - rows.keys()
            if (name, None) not in view.assets_without_configuration
        }
        missing_streams |= {
            name
            for name in self._rows.keys() - view.names.keys()
            if self._may_stream_exist(self._rows[name], view)
        }
        for restored_stream in [
            name for name in self._unreported_since_s_by_stream if name in view.names
        ]:
            del self._unreported_since_s_by_stream[restored_stream]
        kept_rows = {name: self._rows[name] for name in missing_streams & self._rows.keys()}
        self._rows = {**kept_rows, **rows}
        return PolledStreams(list(rows.values()), is_complete=True, missing=missing_streams)

    def _may_stream_exist(self, row: StreamRow, view: BulkView) -> bool:
        """Return whether a stream that no server reports may still exist.

        `row` is its last known row. It may exist while servers are silent and none of its own
        replies.
        """
        if self._source.silent_servers and not _servers_of(row) & view.servers:
            return True
        stream = row.name
        unreported_since_s = self._unreported_since_s_by_stream.setdefault(stream, steady_s())
        is_clustered = bool(self._client.nc.server_info.get("cluster"))
        if is_clustered and steady_s() < unreported_since_s + _DELETED_AFTER_S:
            return True
        del self._unreported_since_s_by_stream[stream]
        return False

    def _read_consumers(self, view: BulkView, streams: PolledStreams) -> PolledConsumers:
        """Return the consumers; unreachable are those without a leader, or of a stream without
        one.
        """
        polled_consumers = PolledConsumers(is_complete=True)
        for stream in streams.missing:
            known_consumer_names = self._configurations.consumer_names(stream)
            polled_consumers.missing.update((stream, name) for name in known_consumer_names)
        for row in streams.rows:
            stream, rows_by_name = row.name, view.consumers.get(row.name, {})
            for name, consumer_row in rows_by_name.items():
                self._clocks.set_time(consumer_row, trusts_reply=True)
                polled_consumers.rows[stream, name] = consumer_row
            names = set(view.names.get(stream, ()))
            if self._source.silent_servers:
                # A consumer with a single replica may be on a silent server.
                names.update(
                    name
                    for name in self._configurations.consumer_names(stream)
                    if self._leaders_of_consumers.get((stream, name)) not in view.servers
                )
            unreported_keys = ((stream, name) for name in names - rows_by_name.keys())
            polled_consumers.missing.update(
                key for key in unreported_keys if key not in view.assets_without_configuration
            )
            polled_consumers.swept_streams.add(stream)
        self._store_leaders(polled_consumers)
        return polled_consumers

    def _store_leaders(self, consumers: PolledConsumers) -> None:
        """Store the leaders of consumers; keep those of unreachable ones, discard all others."""
        kept_keys = self._leaders_of_consumers.keys() & consumers.missing
        self._leaders_of_consumers = {
            key: self._leaders_of_consumers[key] for key in kept_keys
        } | {key: row.cluster.leader for key, row in consumers.rows.items() if row.cluster}


def _servers_of(row: StreamRow) -> set[str]:
    """Return the names of a stream's servers; empty outside a cluster."""
    if row.cluster is None:
        return set()
    return {row.cluster.leader, *(replica.name for replica in row.cluster.replicas or ())}
