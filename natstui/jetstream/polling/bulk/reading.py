"""When bulk replies are requested, and which of their rows a poll takes.

They are requested in parallel to the polls, so often that they cost a server no more than its
share. A poll takes so many rows that processing them does not block others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from natstui.clock import steady_s
from natstui.errors import NatstuiError
from natstui.jetstream.polling.availability import Availability
from natstui.jetstream.polling.budget.asking import PollingApi
from natstui.jetstream.polling.budget.shares import SERVER_SHARE
from natstui.jetstream.polling.bulk.asking import BULK_SHARE, BulkAsking
from natstui.jetstream.polling.bulk.view import BulkSource, BulkView
from natstui.jetstream.polling.control import PollControl
from natstui.jetstream.polling.decode.consumers import ConsumerRow
from natstui.jetstream.polling.decode.streams import StreamRow
from natstui.model.live.snapshot import Account
from natstui.model.records.record import BULK

_KNOWN_ROWS_COUNT = 8_000
_NEW_RATIO = 1.3
"""Weight of a consumer that comes for the first time, in the limit of consumers per poll."""
_MANY_COUNT = 2_000
"""Number of rows from which lists wait a while for the first reply, which makes them
unnecessary.
"""
_FIRST_S = 6.0
_AGAIN_S = 10.0
_LONGEST_PAUSE_S = 300.0
_EARLY_RATIO = 0.1
"""Share of the interval by which a poll may request a reply early: the next poll would be nearly
an entire interval late.
"""
_TRUSTED_RATIO = 3
_TRUSTED_S = 2.0
"""How long a reply counts as current: three times the interval plus this."""


class _All(Container[str]):
    def __contains__(self, _name: object) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class BulkTurn:
    """The bulk rows that a poll takes, and what it need not request."""

    asked_mono_us: int = 0
    streams: tuple[StreamRow, ...] = ()
    complete: bool = False
    """Whether these are all existing streams."""
    consumers: Mapping[str, list[ConsumerRow]] = field(default_factory=dict)
    whole: frozenset[str] = frozenset()
    """Streams of these consumers that have no others."""
    misses_consumers: bool = False
    """Whether the account counts more consumers: silent servers have some."""
    lists_streams: bool = False
    """Whether the next reply comes soon, and has all streams."""
    covered: Container[str] = frozenset()
    """Streams whose consumers are in the next reply."""


NO_TURN = BulkTurn()


class BulkReading:
    """Requests bulk replies while there is a source, and passes their rows on poll by poll."""

    def __init__(
        self, source: BulkSource | None, api: PollingApi, availability: Availability
    ) -> None:
        self._source = source
        self._asks = None if source is None else BulkAsking(source, lambda: api.slowness)
        self._api = api
        self._availability = availability
        self._asking: asyncio.Task[BulkView | None] | None = None
        self._began_s = steady_s()
        self._due_s = 0.0
        self._pause_s = _AGAIN_S
        self._forget()

    def _forget(self) -> None:
        if self._asks is not None:
            self._asks.forget()
        self._left: dict[str, dict[str, ConsumerRow]] = {}
        """Rows that no poll has taken yet."""
        self._whole: frozenset[str] = frozenset()
        self._misses_consumers = False
        self._covered: frozenset[str] = frozenset()
        self._handed: set[str] = set()
        self._covered_until_s = self._listed_until_s = 0.0

    @property
    def period_s(self) -> float:
        """Return the interval of replies."""
        return 0.0 if self._asks is None else self._asks.period_s

    @property
    def has_more(self) -> bool:
        """Return whether there are rows left for the next poll."""
        return bool(self._left)

    @property
    def covers_all(self) -> bool:
        """Return whether every row comes with the bulk replies."""
        return steady_s() < min(self._covered_until_s, self._listed_until_s)

    async def turn(
        self, account: Account | None, control: PollControl, quiet_s: float
    ) -> BulkTurn:
        """Return the rows for this poll; send the next request when it is due.

        A reply with few rows belongs to the poll that requested it, if it comes within `quiet_s`.
        """
        if self._asks is None or account is None or not self._is_ours(account):
            return NO_TURN
        view = self._taken(account, control.interval_s)
        now_s = steady_s()
        due_s = self._due_s - _EARLY_RATIO * control.interval_s
        if self._asking is None and now_s >= due_s and not self._left:
            config = self._asks.wants_config(control.interval_s)
            self._asking = asyncio.create_task(self._asks.ask(account.domain, config=config))
            if _are_many(account):
                self._asking.add_done_callback(lambda _: control.poll_soon())
            elif self._handed:
                # A poll of its own would measure no rates, so soon after this one.
                await asyncio.wait({self._asking}, timeout=quiet_s)
                view = self._taken(account, control.interval_s)
        # What is in view has the rest of the server's share while bulk answers have theirs.
        self._api.work.share = SERVER_SHARE - BULK_SHARE if self.covers_all else SERVER_SHARE
        if self._waits_for_first(account, now_s):
            return BulkTurn(lists_streams=True, covered=_All())
        rows_by_stream = self._next_rows()
        return BulkTurn(
            asked_mono_us=view.asked_mono_us if view else 0,
            streams=tuple(sorted(view.streams.values(), key=_name)) if view else (),
            complete=view is not None and len(view.streams) == account.streams_count,
            consumers=rows_by_stream,
            whole=self._whole & rows_by_stream.keys(),
            misses_consumers=self._misses_consumers,
            lists_streams=now_s < self._listed_until_s,
            covered=self._covered if now_s < self._covered_until_s else frozenset(),
        )

    def _waits_for_first(self, account: Account, now_s: float) -> bool:
        first = self._asking is not None and not self._handed and not self._left
        return _are_many(account) and first and now_s < self._began_s + _FIRST_S

    def _is_ours(self, account: Account) -> bool:
        """Return whether the API is that of our own account: another's may be imported."""
        return self._api.prefix in {"$JS.API", f"$JS.{account.domain}.API"}

    def _taken(self, account: Account, interval_s: float) -> BulkView | None:
        """Return a received reply, and compute when the next is due."""
        if self._asking is None or not self._asking.done():
            return None
        asking, self._asking = self._asking, None
        try:
            view = asking.result()
        except NatstuiError as error:
            self._availability.failed(BULK, error)
            self._due_s = steady_s() + self._pause_s
            self._pause_s = min(_LONGEST_PAUSE_S, 2 * self._pause_s)
            return None
        if view is None:
            self._due_s = steady_s() + _LONGEST_PAUSE_S
            return None
        self._availability.worked(BULK)
        self._pause_s = _AGAIN_S
        self._api.requests_count += 1
        self._api.received_bytes += view.packed_bytes
        assert self._asks is not None
        self._due_s = self._asks.due_s(view, interval_s, first=not self._handed)
        self._trust(view, account)
        return view

    def _trust(self, view: BulkView, account: Account) -> None:
        """Derive what need not be requested otherwise, and queue the rows."""
        until_s = steady_s() + _TRUSTED_RATIO * self.period_s + _TRUSTED_S
        missed_count = account.consumers_count - view.consumers_count
        self._misses_consumers = self._api.in_cluster and missed_count > 0
        if len(view.streams) == account.streams_count and not self._misses_consumers:
            self._listed_until_s = until_s
        # In a cluster nobody's own count holds what is on servers that do not answer.
        self._whole = frozenset()
        if not missed_count or not self._api.in_cluster:
            self._whole = self._covered = frozenset(view.streams.keys() - view.unsure)
            self._covered_until_s = until_s
        self._handed &= view.consumers.keys()
        self._left = {name: view.consumers[name] for name in sorted(view.consumers)}

    def _next_rows(self) -> dict[str, list[ConsumerRow]]:
        """Return the consumers of the next streams, as many as a poll takes."""
        rows_by_stream: dict[str, list[ConsumerRow]] = {}
        left_count = float(_KNOWN_ROWS_COUNT)
        while self._left and left_count > 0:
            stream = next(iter(self._left))
            rows = rows_by_stream[stream] = list(self._left.pop(stream).values())
            left_count -= len(rows) * (1 if stream in self._handed else _NEW_RATIO)
            self._handed.add(stream)
        return rows_by_stream

    async def forget_link(self) -> None:
        """Cancel the open request, and discard the conclusions: the server is another one."""
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.cancel()
            await asyncio.wait({asking})
        self._due_s, self._began_s = 0.0, steady_s()
        self._forget()

    async def close(self) -> None:
        """Close the connections of the source."""
        await self.forget_link()
        if self._source is not None:
            await self._source.close()


def _are_many(account: Account) -> bool:
    return account.streams_count + account.consumers_count > _MANY_COUNT


def _name(row: StreamRow) -> str:
    return row.name
