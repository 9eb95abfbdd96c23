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
        """Consumers polled every time, after those in view: for example with a finding."""
        self.is_polling_on = True
        self._pauses_count = 0
        """Number of running `pause` blocks."""
        self._wake_event = asyncio.Event()
        self._is_poll_requested = False
        self.set_interval(interval_s)

    def set_interval(self, interval_s: float) -> None:
        """Set the time between polls, within 0.2 s and one hour."""
        self.interval_s = min(MAX_INTERVAL_S, max(MIN_INTERVAL_S, interval_s))
        self._wake_event.set()

    def set_polling(self, is_on: bool) -> None:
        """Pause or resume polling."""
        self.is_polling_on = is_on
        self._wake_event.set()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Pause polling in the block, except on request; then resume as before."""
        self._pauses_count += 1
        self._wake_event.set()
        try:
            yield
        finally:
            self._pauses_count -= 1
            self._wake_event.set()

    @property
    def _is_polling(self) -> bool:
        return self.is_polling_on and not self._pauses_count

    def set_visible(
        self, streams: tuple[str, ...], consumers: tuple[tuple[str, str], ...]
    ) -> None:
        """Set the rows in view, which are polled first."""
        self.visible_streams, self.visible_consumers = streams, consumers

    def set_preferred(self, consumers: frozenset[tuple[str, str]]) -> None:
        """Set the consumers that are polled every time, as far as the budget permits."""
        self.preferred_consumers = consumers

    def poll_now(self) -> None:
        """Poll at once, even when paused."""
        self._is_poll_requested = True
        self._wake_event.set()

    def poll_soon(self) -> None:
        """Poll at once, unless polling is paused."""
        if self._is_polling:
            self.poll_now()

    async def wait_for_poll(self, until_mono_s: float) -> None:
        """Wait until the next poll: at `until_mono_s`, or at once on request."""
        started_s, interval_s = steady_s(), self.interval_s
        while not self._is_poll_requested:
            if self.interval_s != interval_s:
                until_mono_s = min(until_mono_s, started_s + self.interval_s)
            self._wake_event.clear()
            try:
                async with asyncio.timeout(
                    until_mono_s - steady_s() if self._is_polling else None
                ):
                    await self._wake_event.wait()
            except TimeoutError:
                break
        self._is_poll_requested = False
