"""A list of the JetStream API, over several polls if it is long.

A page has 256 rows, which no request can change. If a page takes so long on the link that the
server would close the connection, the names are requested, and then each row by itself.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import msgspec

from natstui.errors import NotFound, PermissionDenied, RequestFailed
from natstui.jetstream.connection.replies import News, read
from natstui.jetstream.polling.budget.asking import PollingApi
from natstui.jetstream.polling.decode.cluster import Page, refused_reason


class _Row(Protocol):
    name: str


Row = TypeVar("Row", bound=_Row)

PAGE_COUNT = 256
"""Rows on a page of `STREAM.LIST` and `CONSUMER.LIST`."""
_MISSING_WAIT_US = 3_000_000
_LONGEST_PAGE_S = 9.0
"""Limit of a page's time: a server closes a connection that does not accept its data
within 10 s.
"""
_PROBE_COUNT = 8
_SHORT_COUNT = 4 * _PROBE_COUNT
"""Length of a list that is requested as pages on any link."""
_TURN_S = 0.5
_REST_S = 0.1


def pages_count(rows_count: int) -> int:
    """Return how many requests a list of this length takes."""
    return max(1, -(-rows_count // PAGE_COUNT))


class _Names(msgspec.Struct):
    total: int = 0
    limit: int = 0
    streams: list[str] | None = None
    consumers: list[str] | None = None


class Listing(Generic[Row]):
    """Collects the rows of one list until `done`."""

    def __init__(
        self,
        verb: str,
        read_page: Callable[[bytes, int, int], Page[Row]],
        read_row: Callable[[bytes, int, int], Row],
        expected_count: int,
    ) -> None:
        self.verb = verb
        self._read_page = read_page
        self._read_row = read_row
        self._expected_count = expected_count
        self._offset = 0
        self._news = News(verb)
        self._total_count: int | None = None
        self._left: deque[str] | None = None
        """Names still to be requested, if rows are requested one by one."""
        self._asking: asyncio.Task[None] | None = None
        self._fresh: list[Row] = []
        self.rows: list[Row] = []
        self.missing: set[str] = set()
        self.offline: dict[str, str] = {}
        """Streams or consumers that their servers refuse to run → reason."""
        self.done = False
        self.steady = True
        """Nothing was added or removed between the pages, so no row slipped between them."""

    @property
    def left_out_count(self) -> int:
        """Return how many rows the server counts that were neither listed nor named as missing."""
        reported_names = {row.name for row in self.rows} | self.missing | self.offline.keys()
        return max(0, (self._total_count or 0) - len(reported_names))

    def take_fresh(self) -> list[Row]:
        """Return the rows since the last call that were requested by themselves."""
        new_rows, self._fresh = self._fresh, []
        return new_rows

    async def step(self, api: PollingApi) -> None:
        """Read one page, or some rows; raises what `Client.request` raises."""
        if self._offset == 0 and self._left is None and await self._is_too_long(api):
            self._left = await self._names(api)
        if self._left is not None:
            await self._step_rows(api, self._left)
            return
        page = await self._page(api, self._offset)
        self.steady = self.steady and self._total_count in (None, page.total_count)
        self._total_count = page.total_count
        self.rows.extend(page.rows)
        self.missing.update(page.missing)
        self.offline.update(page.offline)
        self._offset += max(1, page.limit_count)
        self.done = self._offset >= page.total_count
        if not self.done:
            names = (*(row.name for row in page.rows), *page.missing)
            self._news.check(names, page.total_count)

    async def _page(self, api: PollingApi, offset: int) -> Page[Row]:
        reply = await api.answer(self.verb, {"offset": offset})
        # A long list is as old as its first byte, however long the rest was on the way.
        began_us = reply.arrival.began_mono_us
        waited_us = began_us - reply.asked_mono_us
        page = self._read_page(reply.data, began_us, waited_us)
        if page.missing and waited_us > _MISSING_WAIT_US:
            # The server waited 4 s for others that are down; that is no work.
            api.discount(reply)
        if page.rows:
            api.row_bytes[self._kind] = len(reply.data) / len(page.rows)
        return page

    @property
    def _kind(self) -> str:
        return self.verb.partition(".")[0]

    async def _is_too_long(self, api: PollingApi) -> bool:
        """Return whether a page would take too long on the link; reads the list's end first.

        The last rows are a short page, whose bytes show the speed of the link.
        """
        count = min(PAGE_COUNT, self._expected_count)
        if count <= _SHORT_COUNT:
            return False
        if self._kind not in api.row_bytes or self._page_s(api, count) > _LONGEST_PAGE_S:
            await self._page(api, max(0, self._expected_count - _PROBE_COUNT))
        return self._page_s(api, count) > _LONGEST_PAGE_S

    def _page_s(self, api: PollingApi, count: int) -> float:
        return count * api.row_bytes.get(self._kind, 0.0) / (api.bytes_per_s or float("inf"))

    async def _names(self, api: PollingApi) -> deque[str]:
        verb, row_names, offset = self.verb.replace(".LIST", ".NAMES"), deque[str](), 0
        news = News(verb)
        while True:
            data, _ = await api.ask(verb, {"offset": offset})
            page = read(verb, data, _Names)
            names = page.streams or page.consumers or ()
            row_names.extend(names)
            offset += page.limit
            if page.limit <= 0 or offset >= page.total:
                return row_names
            news.check(names, page.total)

    async def _step_rows(self, api: PollingApi, row_names: deque[str]) -> None:
        """Receive rows for a while, with several open requests."""
        if self._asking is None:
            self._asking = api.spawn(self._ask_rows(api, row_names))
        await asyncio.wait({self._asking}, timeout=_TURN_S)
        if self._asking.done():
            self._asking.result()
            self.done = True

    async def _ask_rows(self, api: PollingApi, row_names: deque[str]) -> None:
        """Request row after row: one more than are in flight, and none while the link must
        rest.
        """
        open_rows: set[asyncio.Task[None]] = set()
        try:
            while row_names or open_rows:
                while row_names and len(open_rows) <= api.at_once_count and api.link_is_free:
                    open_rows.add(asyncio.create_task(self._ask_row(api, row_names.popleft())))
                if not open_rows:
                    await asyncio.sleep(_REST_S)
                    continue
                finished, open_rows = await asyncio.wait(
                    open_rows, return_when=asyncio.FIRST_COMPLETED
                )
                for row in finished:
                    row.result()
        finally:
            for row in open_rows:
                row.cancel()

    async def _ask_row(self, api: PollingApi, name: str) -> None:
        try:
            reply = await api.answer(f"{self.verb.replace('.LIST', '.INFO')}.{name}")
        except NotFound:
            return
        except PermissionDenied:
            raise
        except RequestFailed as error:
            self.missing.add(name)
            if (reason := refused_reason(error)) is not None:
                self.offline[name] = reason
            return
        began_us = reply.arrival.began_mono_us
        row = self._read_row(reply.data, began_us, began_us - reply.asked_mono_us)
        self.rows.append(row)
        self._fresh.append(row)
