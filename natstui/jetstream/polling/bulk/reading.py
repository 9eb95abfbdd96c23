"""When bulk answers are asked for, and what of them one poll takes.

They are asked for beside the polls, so often that they cost a server no more than its share. A
poll takes so many rows that what it makes of them does not hold up others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from natstui.clock import steady_s
from natstui.errors import NatstuiError
from natstui.jetstream.polling.availability import BULK, Availability
from natstui.jetstream.polling.budget.asking import PollingApi
from natstui.jetstream.polling.budget.shares import SERVER_SHARE
from natstui.jetstream.polling.bulk.asking import BULK_SHARE, BulkAsking
from natstui.jetstream.polling.bulk.view import BulkSource, BulkView
from natstui.jetstream.polling.control import PollControl
from natstui.jetstream.polling.decode.consumers import ConsumerRow
from natstui.jetstream.polling.decode.streams import StreamRow
from natstui.model.live.snapshot import Account

_KNOWN_ROWS_COUNT = 8_000
_NEW_RATIO = 1.3
"""Consumers that one poll takes, and for how many one counts that comes for the first time."""
_MANY_COUNT = 2_000
"""Where there are more rows, lists wait a while for the first answer: it makes them needless."""
_FIRST_S = 6.0
_AGAIN_S = 10.0
_LONGEST_PAUSE_S = 300.0
_EARLY_RATIO = 0.1
"""Of the interval: a poll that comes so much before an answer is due asks for it. The next poll
would be nearly a whole interval late."""
_TRUSTED_RATIO = 3
_TRUSTED_S = 2.0
"""An answer holds for three times and a little longer than the next should take."""


class _All(Container[str]):
    def __contains__(self, _name: object) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class BulkTurn:
    """What of the bulk answers a poll takes, and what it need not ask for."""

    asked_mono_us: int = 0
    streams: tuple[StreamRow, ...] = ()
    complete: bool = False
    """These are all streams there are."""
    consumers: Mapping[str, list[ConsumerRow]] = field(default_factory=dict)
    whole: frozenset[str] = frozenset()
    """Of the streams of these consumers, those that have no others."""
    misses_consumers: bool = False
    """The account counts more consumers: servers that do not answer hold some."""
    lists_streams: bool = False
    """The next answer comes soon, and tells of all streams."""
    covered: Container[str] = frozenset()
    """Streams of whose consumers the next answer tells."""


NO_TURN = BulkTurn()


class BulkReading:
    """Asks for bulk answers while there is a source, and hands out their rows poll by poll."""

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
        """What polls have not taken yet."""
        self._whole: frozenset[str] = frozenset()
        self._misses_consumers = False
        self._covered: frozenset[str] = frozenset()
        self._handed: set[str] = set()
        self._covered_until_s = self._listed_until_s = 0.0

    @property
    def period_s(self) -> float:
        """From one answer to the next."""
        return 0.0 if self._asks is None else self._asks.period_s

    @property
    def has_more(self) -> bool:
        """Return whether the next poll has rows to take already."""
        return bool(self._left)

    @property
    def covers_all(self) -> bool:
        """Return whether every row comes with the bulk answers."""
        return steady_s() < min(self._covered_until_s, self._listed_until_s)

    async def turn(
        self, account: Account | None, control: PollControl, quiet_s: float
    ) -> BulkTurn:
        """Return what this poll takes; ask for the next answer when it is time.

        An answer of few rows belongs to the poll that asked for it, if it comes within `quiet_s`.
        """
        if self._asks is None or account is None or not self._is_ours(account):
            return NO_TURN
        fresh = self._taken(account, control.interval_s)
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
                fresh = self._taken(account, control.interval_s)
        # What is in view has the rest of the server's share while bulk answers have theirs.
        self._api.work.share = SERVER_SHARE - BULK_SHARE if self.covers_all else SERVER_SHARE
        if self._waits_for_first(account, now_s):
            return BulkTurn(lists_streams=True, covered=_All())
        taken = self._next_rows()
        return BulkTurn(
            asked_mono_us=fresh.asked_mono_us if fresh else 0,
            streams=tuple(sorted(fresh.streams.values(), key=_name)) if fresh else (),
            complete=fresh is not None and len(fresh.streams) == account.streams_count,
            consumers=taken,
            whole=self._whole & taken.keys(),
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
        """Take an answer that has come, and find when the next is due."""
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
        """Conclude what need not be asked for otherwise, and hand out the rows."""
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
        """Return the consumers of the next streams, so many as a poll takes."""
        taken: dict[str, list[ConsumerRow]] = {}
        left_count = float(_KNOWN_ROWS_COUNT)
        while self._left and left_count > 0:
            stream = next(iter(self._left))
            rows = taken[stream] = list(self._left.pop(stream).values())
            left_count -= len(rows) * (1 if stream in self._handed else _NEW_RATIO)
            self._handed.add(stream)
        return taken

    async def forget_link(self) -> None:
        """Drop the open request, and what was concluded: the server is another one."""
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.cancel()
            await asyncio.wait({asking})
        self._due_s, self._began_s = 0.0, steady_s()
        self._forget()

    async def close(self) -> None:
        """End it, and what its source has opened."""
        await self.forget_link()
        if self._source is not None:
            await self._source.close()


def _are_many(account: Account) -> bool:
    return account.streams_count + account.consumers_count > _MANY_COUNT


def _name(row: StreamRow) -> str:
    return row.name
