"""Requests bulk replies in parallel to the polls, and passes their rows to the polls.

The interval keeps within the share of the server. A poll gets a limited number of rows, so that
processing them does not block other tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Mapping

from msgspec import Struct, field

from natstui.clock import steady_s
from natstui.errors import NatstuiError
from natstui.jetstream.connection.decode.consumers import ConsumerRow
from natstui.jetstream.connection.decode.streams import StreamRow
from natstui.jetstream.polling.availability import RequestAvailability
from natstui.jetstream.polling.budget.requests import PollingApi
from natstui.jetstream.polling.bulk.requests import BULK_SHARE, BulkRequester
from natstui.jetstream.polling.bulk.view import BulkSource, BulkView
from natstui.jetstream.polling.control import PollControl
from natstui.model.live.polling_limit import SERVER_SHARE
from natstui.model.live.snapshot import Account
from natstui.model.records.record import BULK_SOURCE

_MAX_POLL_ROWS_COUNT = 8_000
_NEW_CONSUMER_WEIGHT_RATIO = 1.3
"""Weight of a new consumer in the limit of consumers per poll."""
_MANY_ROWS_COUNT = 2_000
"""Number of rows from which lists wait for the first bulk reply, which may replace them."""
_FIRST_REPLY_WAIT_S = 6.0
_FIRST_RETRY_PAUSE_S = 10.0
_MAX_PAUSE_S = 300.0
_EARLY_REQUEST_RATIO = 0.1
"""Share of the interval by which a poll may request a reply early: the next poll could be nearly
an interval too late.
"""
_MAX_REPLY_AGE_PERIODS = 3
_EXTRA_REPLY_AGE_S = 2.0
"""Time for which a reply counts as current, beyond three times the interval."""


class _AllStreams(Container[str]):
    def __contains__(self, _name: object) -> bool:
        return True


class BulkRows(Struct, frozen=True):
    """The bulk rows for one poll, and which streams and consumers the poll need not request."""

    requested_mono_us: int = 0
    streams: tuple[StreamRow, ...] = ()
    is_complete: bool = False
    """Whether `streams` are all existing streams."""
    consumers: Mapping[str, list[ConsumerRow]] = field(default_factory=dict)
    complete_streams: frozenset[str] = frozenset()
    """Streams whose consumers are all in `consumers`."""
    misses_consumers: bool = False
    """Whether the account counts more consumers than the reply has: some are on silent servers."""
    replaces_list: bool = False
    """Whether the list is not needed: the next reply comes soon and has all streams."""
    covered_streams: Container[str] = frozenset()
    """Streams whose consumers need not be listed: the next reply has them."""


NO_BULK_ROWS = BulkRows()


class BulkPoller:
    """Requests bulk replies while there is a source, and passes their rows to the polls."""

    def __init__(
        self, source: BulkSource | None, api: PollingApi, availability: RequestAvailability
    ) -> None:
        self._source = source
        self._requester = None if source is None else BulkRequester(source, lambda: api.slowness)
        self._api = api
        self._availability = availability
        self._reply_task: asyncio.Task[BulkView | None] | None = None
        self._began_s = steady_s()
        self._next_request_due_s = 0.0
        self._pause_s = _FIRST_RETRY_PAUSE_S
        self._reset()

    def _reset(self) -> None:
        if self._requester is not None:
            self._requester.reset()
        self._waiting_rows: dict[str, dict[str, ConsumerRow]] = {}
        """Stream → its consumers that were not passed to a poll yet."""
        self._complete_streams: frozenset[str] = frozenset()
        self._misses_consumers = False
        self._covered_streams: frozenset[str] = frozenset()
        self._passed_streams: set[str] = set()
        self._streams_covered_until_s = self._list_replaced_until_s = 0.0

    @property
    def period_s(self) -> float:
        """Return the interval (s) in which bulk replies are requested; 0 without a source."""
        return 0.0 if self._requester is None else self._requester.period_s

    @property
    def has_waiting_rows(self) -> bool:
        """Return whether some rows were not passed to a poll yet."""
        return bool(self._waiting_rows)

    @property
    def covers_all_rows(self) -> bool:
        """Return whether all streams and consumers come with bulk replies now."""
        return steady_s() < min(self._streams_covered_until_s, self._list_replaced_until_s)

    async def collect_rows(
        self, account: Account | None, control: PollControl, quiet_s: float
    ) -> BulkRows:
        """Return the rows for this poll; send the next request if it is due.

        A reply of a small account is awaited for up to `quiet_s`, so that this poll has its rows.
        """
        if self._requester is None or account is None or not self._is_own_account(account):
            return NO_BULK_ROWS
        view = self._pop_reply(account, control.interval_s)
        now_s = steady_s()
        due_s = self._next_request_due_s - _EARLY_REQUEST_RATIO * control.interval_s
        if self._reply_task is None and now_s >= due_s and not self._waiting_rows:
            config = self._requester.wants_config(control.interval_s)
            self._reply_task = asyncio.create_task(
                self._requester.request_view(account.domain, config=config)
            )
            if _has_many_rows(account):
                self._reply_task.add_done_callback(lambda _: control.poll_soon())
            elif self._passed_streams:
                # A poll of its own would measure no rates, so soon after this one.
                await asyncio.wait({self._reply_task}, timeout=quiet_s)
                view = self._pop_reply(account, control.interval_s)
        # Rows in view have the rest of the server's share while bulk replies have theirs.
        self._api.work.share = SERVER_SHARE - BULK_SHARE if self.covers_all_rows else SERVER_SHARE
        if self._awaits_first_reply(account, now_s):
            return BulkRows(replaces_list=True, covered_streams=_AllStreams())
        rows_by_stream = self._next_rows()
        return BulkRows(
            requested_mono_us=view.requested_mono_us if view else 0,
            streams=tuple(sorted(view.streams.values(), key=_name)) if view else (),
            is_complete=view is not None and len(view.streams) == account.streams_count,
            consumers=rows_by_stream,
            complete_streams=self._complete_streams & rows_by_stream.keys(),
            misses_consumers=self._misses_consumers,
            replaces_list=now_s < self._list_replaced_until_s,
            covered_streams=self._covered_streams
            if now_s < self._streams_covered_until_s
            else frozenset(),
        )

    def _awaits_first_reply(self, account: Account, now_s: float) -> bool:
        is_first_reply = (
            self._reply_task is not None and not self._passed_streams and not self._waiting_rows
        )
        return (
            _has_many_rows(account)
            and is_first_reply
            and now_s < self._began_s + _FIRST_REPLY_WAIT_S
        )

    def _is_own_account(self, account: Account) -> bool:
        """Return whether the API is of our own account, and not imported from another one."""
        return self._api.prefix in {"$JS.API", f"$JS.{account.domain}.API"}

    def _pop_reply(self, account: Account, interval_s: float) -> BulkView | None:
        """Return a reply that has arrived, or None, and compute when the next one is due."""
        if self._reply_task is None or not self._reply_task.done():
            return None
        reply_task, self._reply_task = self._reply_task, None
        try:
            view = reply_task.result()
        except NatstuiError as error:
            self._availability.report_failure(BULK_SOURCE, error)
            self._next_request_due_s = steady_s() + self._pause_s
            self._pause_s = min(_MAX_PAUSE_S, 2 * self._pause_s)
            return None
        if view is None:
            self._next_request_due_s = steady_s() + _MAX_PAUSE_S
            return None
        self._availability.report_success(BULK_SOURCE)
        self._pause_s = _FIRST_RETRY_PAUSE_S
        self._api.requests_count += 1
        self._api.received_bytes += view.transferred_bytes
        assert self._requester is not None
        self._next_request_due_s = self._requester.compute_due_s(
            view, interval_s, is_first_reply=not self._passed_streams
        )
        self._queue_rows(view, account)
        return view

    def _queue_rows(self, view: BulkView, account: Account) -> None:
        """Queue the rows of a reply, and set which rows need no other request for some time."""
        until_s = steady_s() + _MAX_REPLY_AGE_PERIODS * self.period_s + _EXTRA_REPLY_AGE_S
        missed_consumers_count = account.consumers_count - view.consumers_count
        self._misses_consumers = self._api.is_clustered and missed_consumers_count > 0
        if len(view.streams) == account.streams_count and not self._misses_consumers:
            self._list_replaced_until_s = until_s
        # In a cluster, no server's own count includes consumers on servers that do not reply.
        self._complete_streams = frozenset()
        if not missed_consumers_count or not self._api.is_clustered:
            self._complete_streams = self._covered_streams = frozenset(
                view.streams.keys() - view.incomplete_streams
            )
            self._streams_covered_until_s = until_s
        self._passed_streams &= view.consumers.keys()
        self._waiting_rows = {name: view.consumers[name] for name in sorted(view.consumers)}

    def _next_rows(self) -> dict[str, list[ConsumerRow]]:
        """Return the consumers of the next waiting streams, within the limit of a poll."""
        rows_by_stream: dict[str, list[ConsumerRow]] = {}
        remaining_rows_count = float(_MAX_POLL_ROWS_COUNT)
        while self._waiting_rows and remaining_rows_count > 0:
            stream = next(iter(self._waiting_rows))
            rows = rows_by_stream[stream] = list(self._waiting_rows.pop(stream).values())
            remaining_rows_count -= len(rows) * (
                1 if stream in self._passed_streams else _NEW_CONSUMER_WEIGHT_RATIO
            )
            self._passed_streams.add(stream)
        return rows_by_stream

    async def reset_for_new_link(self) -> None:
        """Cancel the open request, and discard all replies: the server is another one."""
        reply_task, self._reply_task = self._reply_task, None
        if reply_task is not None:
            reply_task.cancel()
            await asyncio.wait({reply_task})
        self._next_request_due_s, self._began_s = 0.0, steady_s()
        self._reset()

    async def close(self) -> None:
        """Close the connections of the source."""
        await self.reset_for_new_link()
        if self._source is not None:
            await self._source.close()


def _has_many_rows(account: Account) -> bool:
    return account.streams_count + account.consumers_count > _MANY_ROWS_COUNT


def _name(row: StreamRow) -> str:
    return row.name
