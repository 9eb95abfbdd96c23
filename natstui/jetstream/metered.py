"""Requests within a budget, with what they cost: counted, timed and never too many a second."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from statistics import median_low
from typing import Any

from natstui.jetstream.client import Client

_INFO = "INFO"
_RECENT_COUNT = 5
_LONGEST_WORK_US = 300_000
"""An answer that took longer was waiting, for a frozen server or an election, not working."""


class RequestLimiter:
    """Lets at most so many requests pass in any window of one second."""

    def __init__(self, requests_per_s: int) -> None:
        self._passed_at_s: deque[float] = deque(maxlen=requests_per_s)
        self._turn = asyncio.Lock()

    async def pass_one(self) -> None:
        """Wait until one more request is within the budget."""
        async with self._turn:
            if len(self._passed_at_s) == self._passed_at_s.maxlen:
                wait_s = self._passed_at_s[0] + 1.0 - time.monotonic()
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
            self._passed_at_s.append(time.monotonic())


class MeteredApi:
    """Asks the JetStream API for one poller, and keeps the account of a round of questions."""

    def __init__(self, client: Client, limiter: RequestLimiter) -> None:
        self._client = client
        self._limiter = limiter
        self._trips_us: deque[int] = deque(maxlen=_RECENT_COUNT)
        self.begin_round()

    def begin_round(self) -> None:
        """Start counting anew."""
        self.requests_count = 0
        self.received_bytes = 0
        self._asked_us: list[int] = []

    async def ask(
        self, verb: str, body: Mapping[str, Any] | None = None, timeout_s: float | None = None
    ) -> tuple[bytes, int]:
        """Return the reply and the µs it took; raises what `Client.request` raises."""
        await self._limiter.pass_one()
        self.requests_count += 1
        started_ns = time.monotonic_ns()
        reply = await self._client.request(verb, body, timeout_s=timeout_s)
        asked_us = (time.monotonic_ns() - started_ns) // 1000
        self._asked_us.append(asked_us)
        if verb == _INFO or not self._trips_us:
            self._trips_us.append(asked_us)
        self.received_bytes += len(reply)
        return reply, asked_us

    def forgive(self, asked_us: int) -> None:
        """Do not count an answer as work: the server only waited for somebody."""
        if asked_us in self._asked_us:
            self._asked_us.remove(asked_us)

    @property
    def server_us(self) -> int:
        """The server's work in this round: what answers took beyond a round trip of INFO.

        INFO costs nearly nothing, so its recent round trips hold what network and busy machines
        add to every answer.
        """
        if not self._trips_us:
            return 0
        trip_us = median_low(self._trips_us)
        over_us = (max(0, asked_us - trip_us) for asked_us in self._asked_us)
        return sum(min(us, _LONGEST_WORK_US) for us in over_us)
