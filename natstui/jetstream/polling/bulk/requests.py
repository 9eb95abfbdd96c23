"""Requests bulk replies: how often, with or without configurations, compressed or not.

A reply costs work of a server, time of the link, and processing in the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from natstui.clock import steady_s
from natstui.jetstream.polling.bulk.view import (
    BulkReply,
    BulkSource,
    BulkView,
    KnownConfigurations,
    read_view,
)
from natstui.model.live.polling_limit import SERVER_SHARE

BULK_SHARE = 0.9 * SERVER_SHARE
"""Share of a core of the server for bulk replies; the rest is for rows in view."""
_WORK_PER_RAW_BYTE_US = 0.034
_COMPRESSION_PER_BYTE_US = 0.023
"""Work per byte of nats-server 2.15 for a reply, and for compressing it: measured as processor
time. Two thirds of the first are for collecting the garbage that replies leave, among everything
that a big server has in memory; few replies do not show it.
"""
_MAX_ROWS_INTERVAL_S = 5.0
_USUAL_ROWS_PER_S, _MAX_ROWS_PER_S = 2_000, 12_000
"""Rows per second of polls: a reply with more rows is requested less often, every
`_MAX_ROWS_INTERVAL_S` or, above the second limit, even less. Each row costs engine, recording and
viewer some work."""
_CONFIGURATIONS_INTERVAL_S = 60.0
_CONFIGURATIONS_SHARE = 0.01
"""Share of a core for configurations, beyond the share of other replies."""
_UNKNOWN_CONFIGURATIONS_INTERVAL_S = 15.0
"""Interval of requests for configurations while these are expensive and some are unknown."""
_UNCOMPRESSED_MARGIN_RATIO = 1.5
"""Minimum ratio of the connection's limit to the size of an uncompressed reply."""
_MAX_TRANSFER_S = 0.5
"""Limit of the time that an uncompressed reply may occupy the link."""
_LINK_SHARE = 0.25
_MIN_MEASURED_BYTES = 64 * 1024
"""Minimum size of a reply that shows the speed of the link."""


class BulkRequester:
    """Sends requests to one source, and computes from each reply when the next one is due."""

    def __init__(self, source: BulkSource, slowness: Callable[[], float]) -> None:
        """Create the requester; `slowness` returns the factor by which the server is slower than
        usual.
        """
        self._source = source
        self._slowness = slowness
        self.reset()

    def reset(self) -> None:
        """Discard all measurements and configurations: the server is another one."""
        self._known_configurations = KnownConfigurations()
        self._reply_bytes_by_config = {True: 0, False: 0}
        """Size of the last reply, with configurations (True) and without."""
        self._bytes_per_s = 0.0
        self._servers_count = 1
        self._configurations_requested_at_s = float("-inf")
        self._misses_configurations = False
        self.period_s = 0.0
        """Interval of replies."""

    def wants_config(self, interval_s: float) -> bool:
        """Return whether the next request should include configurations."""
        since_s = steady_s() - self._configurations_requested_at_s
        if self._work_s(self._reply_bytes_by_config[True]) <= BULK_SHARE * max(1.0, interval_s):
            return True
        return since_s >= (
            _UNKNOWN_CONFIGURATIONS_INTERVAL_S
            if self._misses_configurations
            else _CONFIGURATIONS_INTERVAL_S
        )

    def _work_s(self, raw_bytes: int) -> float:
        """Return the work (s) of a server for a reply of this size."""
        compression_us = _COMPRESSION_PER_BYTE_US if self._should_compress(raw_bytes) else 0.0
        return raw_bytes * (_WORK_PER_RAW_BYTE_US + compression_us) / 1e6 * self._slowness()

    def _should_compress(self, raw_bytes: int) -> bool:
        """Return whether to compress a reply, which costs server work and saves time of the link.

        An uncompressed reply above the limit of the connection would close it.
        """
        max_pending_bytes = self._source.max_pending_bytes
        if max_pending_bytes is None or not raw_bytes:
            return True
        all_servers_bytes = raw_bytes * self._servers_count
        return (
            _UNCOMPRESSED_MARGIN_RATIO * all_servers_bytes > max_pending_bytes
            or all_servers_bytes > _MAX_TRANSFER_S * self._bytes_per_s
        )

    async def request_view(self, domain: str | None, *, config: bool) -> BulkView | None:
        """Return the combined replies of one domain's servers; None without a source.

        `config` is whether to request the configurations of streams and consumers too.
        Raises NatstuiError if the source does not reply.
        """
        expected_bytes = (
            self._reply_bytes_by_config[config] or 3 * self._reply_bytes_by_config[not config]
        )
        replies = await self._source.request(
            config=config, compressed=self._should_compress(expected_bytes)
        )
        if replies is None:
            return None
        self._servers_count = max(1, len(replies))
        self._measure_throughput(replies)
        # Polls run before the decoding, which may take long.
        await asyncio.sleep(0)
        view = read_view(replies, domain, self._known_configurations)
        self._reply_bytes_by_config[config] = view.raw_bytes
        if config:
            self._configurations_requested_at_s = steady_s()
        return view

    def _measure_throughput(self, replies: Sequence[BulkReply]) -> None:
        transfer_s = (
            max((reply.ended_mono_us - reply.began_mono_us for reply in replies), default=0) / 1e6
        )
        received_bytes = sum(reply.transferred_bytes for reply in replies)
        if received_bytes > _MIN_MEASURED_BYTES:
            # While our own process was busy, bytes only seemed to arrive slowly.
            self._bytes_per_s = max(
                0.9 * self._bytes_per_s, received_bytes / max(transfer_s, 0.001)
            )

    def compute_due_s(self, view: BulkView, interval_s: float, *, is_first_reply: bool) -> float:
        """Return when the next reply is due, by the monotonic clock, and set `period_s`.

        The interval depends on the work of server, link and engine. The first reply may cost more.
        """
        rows_count = len(view.streams) + view.consumers_count
        rows_interval_s = max(
            min(_MAX_ROWS_INTERVAL_S, rows_count / _USUAL_ROWS_PER_S), rows_count / _MAX_ROWS_PER_S
        )
        link_interval_s = view.transferred_bytes / (
            _LINK_SHARE * self._bytes_per_s or float("inf")
        )
        usual_work_s = self._work_s(self._reply_bytes_by_config[False] or view.raw_bytes // 2)
        self.period_s = max(
            interval_s, usual_work_s / BULK_SHARE, rows_interval_s, link_interval_s
        )
        configurations_work_s = (
            0.0 if is_first_reply else self._work_s(view.raw_bytes) - usual_work_s
        )
        free_configurations_work_s = _CONFIGURATIONS_SHARE * _CONFIGURATIONS_INTERVAL_S
        extra_pause_s = max(0.0, configurations_work_s - free_configurations_work_s) / BULK_SHARE
        self._misses_configurations = bool(view.assets_without_configuration)
        return view.requested_mono_us / 1e6 + self.period_s + extra_pause_s
