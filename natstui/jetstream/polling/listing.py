"""Reads a list of the JetStream API, over several polls if it is long.

A page has 256 rows: no request can change that. If a page takes so long on the link that the
server would close the connection, the names are requested, and then each row by itself.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import msgspec

from natstui.errors import NotFound, PermissionDenied, RequestFailed
from natstui.jetstream.connection.decode.asset import Page, refusal_reason
from natstui.jetstream.connection.replies import EndlessListCheck, read
from natstui.jetstream.polling.budget.requests import PollingApi


class _NamedRow(Protocol):
    name: str


Row = TypeVar("Row", bound=_NamedRow)

PAGE_ROWS_COUNT = 256
"""Rows on a page of `STREAM.LIST` and `CONSUMER.LIST`."""
_LONG_LIST_WAIT_US = 3_000_000
_MAX_PAGE_TRANSFER_S = 9.0
"""Limit of a page's time: a server closes a connection that does not accept its data
within 10 s.
"""
_PROBE_ROWS_COUNT = 8
_MAX_SHORT_LIST_ROWS = 4 * _PROBE_ROWS_COUNT
"""Maximum length of a list that is requested as pages on any link."""
_MAX_ROWS_WAIT_S = 0.5
_BUSY_LINK_PAUSE_S = 0.1


def pages_count(rows_count: int) -> int:
    """Return the number of requests for a list with so many rows."""
    return max(1, -(-rows_count // PAGE_ROWS_COUNT))


class _NamesPage(msgspec.Struct):
    total: int = 0
    limit: int = 0
    streams: list[str] | None = None
    consumers: list[str] | None = None


class Listing(Generic[Row]):
    """Collects the rows of one list until `is_complete`."""

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
        self._page_offset = 0
        self._endless_list_check = EndlessListCheck(verb)
        self._total_count: int | None = None
        self._remaining_names: deque[str] | None = None
        """Names of rows to request, if they are requested one by one."""
        self._rows_task: asyncio.Task[None] | None = None
        self._single_rows: list[Row] = []
        self.rows: list[Row] = []
        self.missing: set[str] = set()
        self.offline: dict[str, str] = {}
        """Stream or consumer that its server refuses to run → reason."""
        self.is_complete = False
        self.is_count_constant = True
        """Whether the number of rows was the same in all pages, so that none is missed."""

    @property
    def left_out_count(self) -> int:
        """Return the number of rows that the server counts but does not name."""
        reported_names = {row.name for row in self.rows} | self.missing | self.offline.keys()
        return max(0, (self._total_count or 0) - len(reported_names))

    def pop_single_rows(self) -> list[Row]:
        """Return the rows that were requested one by one since the last call."""
        new_rows, self._single_rows = self._single_rows, []
        return new_rows

    async def read_page(self, api: PollingApi) -> None:
        """Read one page, or some single rows; raises what `Client.request` raises."""
        if (
            self._page_offset == 0
            and self._remaining_names is None
            and await self._is_page_too_slow(api)
        ):
            self._remaining_names = await self._read_names(api)
        if self._remaining_names is not None:
            await self._read_rows(api, self._remaining_names)
            return
        page = await self._request_page(api, self._page_offset)
        self.is_count_constant = self.is_count_constant and self._total_count in (
            None,
            page.total_count,
        )
        self._total_count = page.total_count
        self.rows.extend(page.rows)
        self.missing.update(page.missing)
        self.offline.update(page.offline)
        self._page_offset += max(1, page.limit_count)
        self.is_complete = self._page_offset >= page.total_count
        if not self.is_complete:
            names = (*(row.name for row in page.rows), *page.missing)
            self._endless_list_check.check(names, page.total_count)

    async def _request_page(self, api: PollingApi, offset: int) -> Page[Row]:
        reply = await api.request_timed(self.verb, {"offset": offset})
        # A long list is as old as its first byte, however long the transfer of the rest took.
        began_us = reply.arrival.began_mono_us
        waited_us = began_us - reply.requested_mono_us
        page = self._read_page(reply.data, began_us, waited_us)
        if page.missing and waited_us > _LONG_LIST_WAIT_US:
            # The server waited 4 s for others that are down; that is no work.
            api.exclude_from_work(reply)
        if page.rows:
            api.row_bytes_by_kind[self._kind] = len(reply.data) / len(page.rows)
        return page

    @property
    def _kind(self) -> str:
        return self.verb.partition(".")[0]

    async def _is_page_too_slow(self, api: PollingApi) -> bool:
        """Return whether the transfer of a page would take too long.

        If it seems so, or the size of a row is unknown, the last rows are requested first: they
        are a short page, whose bytes show the speed of the link.
        """
        count = min(PAGE_ROWS_COUNT, self._expected_count)
        if count <= _MAX_SHORT_LIST_ROWS:
            return False
        if (
            self._kind not in api.row_bytes_by_kind
            or self._page_transfer_s(api, count) > _MAX_PAGE_TRANSFER_S
        ):
            await self._request_page(api, max(0, self._expected_count - _PROBE_ROWS_COUNT))
        return self._page_transfer_s(api, count) > _MAX_PAGE_TRANSFER_S

    def _page_transfer_s(self, api: PollingApi, count: int) -> float:
        return (
            count * api.row_bytes_by_kind.get(self._kind, 0.0) / (api.bytes_per_s or float("inf"))
        )

    async def _read_names(self, api: PollingApi) -> deque[str]:
        verb, row_names, offset = self.verb.replace(".LIST", ".NAMES"), deque[str](), 0
        list_check = EndlessListCheck(verb)
        while True:
            data, _ = await api.request(verb, {"offset": offset})
            page = read(verb, data, _NamesPage)
            names = page.streams or page.consumers or ()
            row_names.extend(names)
            offset += page.limit
            if page.limit <= 0 or offset >= page.total:
                return row_names
            list_check.check(names, page.total)

    async def _read_rows(self, api: PollingApi, row_names: deque[str]) -> None:
        """Wait up to 0.5 s for single rows, which are requested in a task."""
        if self._rows_task is None:
            self._rows_task = api.spawn(self._request_rows(api, row_names))
        await asyncio.wait({self._rows_task}, timeout=_MAX_ROWS_WAIT_S)
        if self._rows_task.done():
            self._rows_task.result()
            self.is_complete = True

    async def _request_rows(self, api: PollingApi, row_names: deque[str]) -> None:
        """Request all rows one by one, several at once, while the link may be used."""
        open_tasks: set[asyncio.Task[None]] = set()
        try:
            while row_names or open_tasks:
                while row_names and len(open_tasks) <= api.max_open_count and api.is_link_free:
                    open_tasks.add(api.spawn(self._request_row(api, row_names.popleft())))
                if not open_tasks:
                    await asyncio.sleep(_BUSY_LINK_PAUSE_S)
                    continue
                finished_tasks, open_tasks = await asyncio.wait(
                    open_tasks, return_when=asyncio.FIRST_COMPLETED
                )
                for task in finished_tasks:
                    task.result()
        finally:
            for task in open_tasks:
                task.cancel()

    async def _request_row(self, api: PollingApi, name: str) -> None:
        try:
            reply = await api.request_timed(f"{self.verb.replace('.LIST', '.INFO')}.{name}")
        except NotFound:
            return
        except PermissionDenied:
            raise
        except RequestFailed as error:
            self.missing.add(name)
            if (reason := refusal_reason(error)) is not None:
                self.offline[name] = reason
            return
        began_us = reply.arrival.began_mono_us
        row = self._read_row(reply.data, began_us, began_us - reply.requested_mono_us)
        self.rows.append(row)
        self._single_rows.append(row)
