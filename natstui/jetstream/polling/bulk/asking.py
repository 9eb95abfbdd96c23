"""Requests to a source of bulk replies: interval, with or without configurations, compressed or
not.

A reply costs work of a server, time of the link, and processing in the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from natstui.clock import steady_s
from natstui.jetstream.polling.budget.shares import SERVER_SHARE
from natstui.jetstream.polling.bulk.view import (
    BulkAnswer,
    BulkSource,
    BulkView,
    KnownConfigurations,
    read_view,
)

BULK_SHARE = 0.9 * SERVER_SHARE
"""Share of a core of the server for bulk replies; the rest is for rows in view."""
_RAW_BYTE_US = 0.034
_PACKING_BYTE_US = 0.023
"""Work per byte of nats-server 2.15 for a reply, and for compressing it: measured as processor
time. Two thirds of the first are for collecting the garbage that replies leave, among everything
that a big server has in memory; few replies do not show it.
"""
_WHOLE_S = 5.0
_FEW_PER_S, _MOST_PER_S = 2_000, 12_000
"""So many rows come in each poll; more come every `_WHOLE_S`, unless they are too many for that:
engine, recording and viewer have work with each."""
_CONFIGURATIONS_S = 60.0
_CONFIGURATIONS_SHARE = 0.01
"""Share of a core for configurations, beyond the share of other replies."""
_UNKNOWN_S = 15.0
"""Interval of requests for configurations while they are expensive and new ones are missing."""
_PLAIN_RATIO = 1.5
"""Factor by which an uncompressed reply must be smaller than the limit of the connection."""
_LINK_S = 0.5
"""Limit of the time that an uncompressed reply may occupy the link."""
_LINK_SHARE = 0.25
_SHORT_BYTES = 64 * 1024
"""Minimum size of a reply that shows the speed of the link."""


class BulkAsking:
    """Sends requests to one source, and computes from each reply when the next is due."""

    def __init__(self, source: BulkSource, slowness: Callable[[], float]) -> None:
        """Create for a source; `slowness` returns the factor by which the server is slower than
        usual.
        """
        self._source = source
        self._slowness = slowness
        self.forget()

    def forget(self) -> None:
        """Reset: the server is another one."""
        self._known = KnownConfigurations()
        self._raw_bytes = {True: 0, False: 0}
        """Of the last answer, with configurations and without."""
        self._bytes_per_s = 0.0
        self._servers_count = 1
        self._config_at_s = float("-inf")
        self._unknown = False
        self.period_s = 0.0
        """From one answer to the next."""

    def wants_config(self, interval_s: float) -> bool:
        """Return whether to request configurations as well."""
        since_s = steady_s() - self._config_at_s
        if self._work_s(self._raw_bytes[True]) <= BULK_SHARE * max(1.0, interval_s):
            return True
        return since_s >= (_UNKNOWN_S if self._unknown else _CONFIGURATIONS_S)

    def _work_s(self, raw_bytes: int) -> float:
        """Return the work of a server for a reply of this size."""
        packing_us = _PACKING_BYTE_US if self._packs(raw_bytes) else 0.0
        return raw_bytes * (_RAW_BYTE_US + packing_us) / 1e6 * self._slowness()

    def _packs(self, raw_bytes: int) -> bool:
        """Return whether to compress a reply: that costs work of the server, and saves time of the
        link.

        A reply above the limit of the connection would close it.
        """
        may_hold_bytes = self._source.may_hold_bytes
        if may_hold_bytes is None or not raw_bytes:
            return True
        all_bytes = raw_bytes * self._servers_count
        return _PLAIN_RATIO * all_bytes > may_hold_bytes or all_bytes > _LINK_S * self._bytes_per_s

    async def ask(self, domain: str | None, *, config: bool) -> BulkView | None:
        """Return the view of one domain's servers; None without a source.

        Raises NatstuiError for a source without a reply.
        """
        guess_bytes = self._raw_bytes[config] or 3 * self._raw_bytes[not config]
        replies = await self._source.ask(config=config, packed=self._packs(guess_bytes))
        if replies is None:
            return None
        self._servers_count = max(1, len(replies))
        self._note_speed(replies)
        # The polls have their turn before what may take a moment.
        await asyncio.sleep(0)
        view = read_view(replies, domain, self._known)
        self._raw_bytes[config] = view.raw_bytes
        if config:
            self._config_at_s = steady_s()
        return view

    def _note_speed(self, replies: Sequence[BulkAnswer]) -> None:
        came_s = (
            max((reply.ended_mono_us - reply.began_mono_us for reply in replies), default=0) / 1e6
        )
        came_bytes = sum(reply.packed_bytes for reply in replies)
        if came_bytes > _SHORT_BYTES:
            # While we were busy ourselves, bytes only seemed to come slowly.
            self._bytes_per_s = max(0.9 * self._bytes_per_s, came_bytes / max(came_s, 0.001))

    def due_s(self, view: BulkView, interval_s: float, *, first: bool) -> float:
        """Return when the next reply is due: as often as server, link and engine allow.

        The `first` view may cost more.
        """
        rows_count = len(view.streams) + view.consumers_count
        rows_s = max(min(_WHOLE_S, rows_count / _FEW_PER_S), rows_count / _MOST_PER_S)
        link_s = view.packed_bytes / (_LINK_SHARE * self._bytes_per_s or float("inf"))
        usual_s = self._work_s(self._raw_bytes[False] or view.raw_bytes // 2)
        self.period_s = max(interval_s, usual_s / BULK_SHARE, rows_s, link_s)
        more_s = 0.0 if first else self._work_s(view.raw_bytes) - usual_s
        spared_s = _CONFIGURATIONS_SHARE * _CONFIGURATIONS_S
        rest_s = max(0.0, more_s - spared_s) / BULK_SHARE
        self._unknown = bool(view.unknown)
        return view.asked_mono_us / 1e6 + self.period_s + rest_s
