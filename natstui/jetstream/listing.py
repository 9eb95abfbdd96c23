"""A list of the JetStream API, read page after page, over several polls if it is long."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

from natstui.jetstream.decode_cluster import Page
from natstui.jetstream.metered import MeteredApi

Row = TypeVar("Row")

PAGE_COUNT = 256
"""Rows on a page of `STREAM.LIST` and `CONSUMER.LIST`."""
_MISSING_WAIT_US = 3_000_000


def pages_count(rows_count: int) -> int:
    """Return how many requests a list of so many rows takes."""
    return max(1, -(-rows_count // PAGE_COUNT))


class Listing(Generic[Row]):
    """Collects the rows of one list until `done`."""

    def __init__(self, verb: str, read: Callable[[bytes, int], Page[Row]]) -> None:
        self.verb = verb
        self._read = read
        self._offset = 0
        self._total_count: int | None = None
        self.rows: list[Row] = []
        self.missing: set[str] = set()
        self.done = False
        self.steady = True
        """Nothing was added or removed between the pages, so no row slipped between them."""

    async def step(self, api: MeteredApi) -> None:
        """Read one page; raises what `Client.request` raises."""
        reply, asked_us = await api.ask(self.verb, {"offset": self._offset})
        page = self._read(reply, time.monotonic_ns() // 1000)
        if page.missing and asked_us > _MISSING_WAIT_US:
            # It waited 4 s for servers that are down; that is no work.
            api.forgive(asked_us)
        self.steady = self.steady and self._total_count in (None, page.total_count)
        self._total_count = page.total_count
        self.rows.extend(page.rows)
        self.missing.update(page.missing)
        self._offset += max(1, page.limit_count)
        self.done = self._offset >= page.total_count
