"""The user's settings for the poller: interval, pause, and rows in view."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from natstui.clock import steady_s

MIN_INTERVAL_S = 0.2
MAX_INTERVAL_S = 3600.0


class PollControl:
    """The interval of polling and the rows in view; changed by commands, read by the poller."""

    def __init__(self, interval_s: float = 1.0) -> None:
        self.visible_streams: tuple[str, ...] = ()
        self.visible_consumers: tuple[tuple[str, str], ...] = ()
        self.preferred_consumers: frozenset[tuple[str, str]] = frozenset()
        """Consumers with a finding, for example: polled every time, after those in view."""
        self.on = True
        self._rests_count = 0
        """So many works want that nothing is polled while they run."""
        self._wake = asyncio.Event()
        self._asked_now = False
        self.set_interval(interval_s)

    def set_interval(self, interval_s: float) -> None:
        """Set the time between polls, within limits."""
        self.interval_s = min(MAX_INTERVAL_S, max(MIN_INTERVAL_S, interval_s))
        self._wake.set()

    def set_polling(self, is_on: bool) -> None:
        """Pause or resume polling."""
        self.on = is_on
        self._wake.set()

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Pause polling in the block, except on request; then resume as before."""
        self._rests_count += 1
        self._wake.set()
        try:
            yield
        finally:
            self._rests_count -= 1
            self._wake.set()

    @property
    def _polls(self) -> bool:
        return self.on and not self._rests_count

    def look_at(self, streams: tuple[str, ...], consumers: tuple[tuple[str, str], ...]) -> None:
        """Poll these first from now on."""
        self.visible_streams, self.visible_consumers = streams, consumers

    def prefer(self, consumers: frozenset[tuple[str, str]]) -> None:
        """Poll these every time, as far as the budget permits."""
        self.preferred_consumers = consumers

    def poll_now(self) -> None:
        """Poll at once, even when paused."""
        self._asked_now = True
        self._wake.set()

    def poll_soon(self) -> None:
        """Poll at once unless polling is paused: after a reconnect."""
        if self._polls:
            self.poll_now()

    async def rest(self, until_mono_s: float) -> None:
        """Wait until it is time for the next poll."""
        started_s, interval_s = steady_s(), self.interval_s
        while not self._asked_now:
            if self.interval_s != interval_s:
                until_mono_s = min(until_mono_s, started_s + self.interval_s)
            self._wake.clear()
            try:
                async with asyncio.timeout(until_mono_s - steady_s() if self._polls else None):
                    await self._wake.wait()
            except TimeoutError:
                break
        self._asked_now = False
