"""How much one poll may ask: requests a second, and work within 5 % of a core of the server."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, replace
from statistics import median, median_low
from typing import Any, TypeVar

from natstui.jetstream.connection.client import Answer, Client
from natstui.units import bytes_text

T = TypeVar("T")
_INFO = "INFO"
_RECENT_COUNT = 5
_LONGEST_WORK_US = 300_000
"""An answer that took longer waited for a frozen server or an election: that is no work."""
_MEASURED_BYTES = 2_000
_MEASURES_COUNT = 3
_AHEAD_S = 5.0
"""How long the answer to a request sent ahead may be used."""
_MOST_AT_ONCE_COUNT = 12
_JITTERS_COUNT = 4
_FAR_S = 0.02
_THIN_BYTES_PER_S = 1_000_000
_FIRST_BYTES = 1_500
_UNEVEN_RATIO = 2
"""A slow link is uneven: bytes may take so many times as long as on average."""


class RequestLimiter:
    """Lets at most so many requests pass in any window of one second."""

    def __init__(self, requests_per_s: int) -> None:
        self.requests_per_s = requests_per_s
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


class PollingApi:
    """Asks the JetStream API for one poller; counts its requests, and measures link and server."""

    def __init__(self, client: Client, limiter: RequestLimiter) -> None:
        self._client = client
        self._limiter = limiter
        self._trips_us: deque[int] = deque(maxlen=_RECENT_COUNT)
        self._whole_trips_us: deque[int] = deque(maxlen=_RECENT_COUNT)
        self._bytes_per_s: deque[float] = deque(maxlen=_MEASURES_COUNT)
        self.row_bytes: dict[str, float] = {}
        """Bytes of a row of a list, by its kind: STREAM or CONSUMER."""
        self._ahead: dict[tuple[str, str], asyncio.Task[Answer]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self.begin_poll()

    def begin_poll(self) -> None:
        """Start counting again, for another poll."""
        self.requests_count = 0
        self.received_bytes = 0
        self._waits_us: list[int] = []

    async def ask(
        self, verb: str, body: Mapping[str, Any] | None = None, timeout_s: float | None = None
    ) -> tuple[bytes, int]:
        """Return the reply and the µs it took; raises what `Client.request` raises."""
        answer = await self.answer(verb, body, timeout_s)
        return answer.data, answer.arrival.ended_mono_us - answer.asked_mono_us

    async def answer(
        self, verb: str, body: Mapping[str, Any] | None = None, timeout_s: float | None = None
    ) -> Answer:
        """Return the reply and when it came; raises what `Client.request` raises."""
        ahead = self._ahead.pop((verb, json.dumps(body)), None)
        if ahead is not None:
            answer = await ahead
            if time.monotonic() - answer.arrival.began_mono_us / 1e6 < _AHEAD_S:
                return answer
        return await self._answer(verb, body, timeout_s)

    def ask_ahead(self, verb: str, body: Mapping[str, Any]) -> None:
        """Send a request that `answer` will be called for soon."""
        key = (verb, json.dumps(body))
        if key not in self._ahead:
            self._ahead[key] = self.spawn(self._answer(verb, body, None))

    def spawn(self, request: Coroutine[None, None, T]) -> asyncio.Task[T]:
        """Run a request beside the polls, until `forget_link`."""
        task = asyncio.create_task(request)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        """Retrieve the error of a task that nobody may await, or Python would complain."""
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()

    async def forget_link(self) -> None:
        """Cancel open requests and forget the measurements: the link is another one."""
        dropped = list(self._tasks)
        self._ahead.clear()
        self._bytes_per_s.clear()
        self.row_bytes.clear()
        for task in dropped:
            task.cancel()
        if dropped:
            await asyncio.wait(dropped)

    @property
    def arrived_bytes(self) -> int:
        """Everything that has come over the link so far."""
        return self._client.nc.arrived_bytes

    def carried_s(self, count: int) -> float:
        """Return how long the link may have been busy with so many bytes."""
        return _UNEVEN_RATIO * count / (self.bytes_per_s or float("inf"))

    async def _answer(
        self, verb: str, body: Mapping[str, Any] | None, timeout_s: float | None
    ) -> Answer:
        await self._limiter.pass_one()
        self.requests_count += 1
        answer = await self._client.answer(verb, body, timeout_s)
        self.received_bytes += len(answer.data)
        came = answer.arrival
        self._measure(came.all_bytes - came.first_bytes, came.ended_mono_us - came.began_mono_us)
        wait_us = self._wait_us(answer)
        self._waits_us.append(wait_us)
        if verb == _INFO or not self._trips_us:
            self._trips_us.append(wait_us)
            self._whole_trips_us.append(came.ended_mono_us - answer.asked_mono_us)
        return answer

    def _wait_us(self, answer: Answer) -> int:
        """Return how long the link was idle before an answer began: its trip, and server work.

        A server completes an answer before it sends the first byte; the time of the bytes after
        it, and of those still on the way before it, is the link's.
        """
        came = answer.arrival
        begun_us = max(answer.asked_mono_us, came.silent_since_mono_us)
        link_us = self.carried_s(came.read_bytes) * 1e6
        return max(0, round(came.began_mono_us - begun_us - link_us))

    def _measure(self, count: int, elapsed_us: int) -> None:
        """Learn the speed of the link from bytes that came one after the other."""
        if count >= _MEASURED_BYTES and elapsed_us > 0:
            self._bytes_per_s.append(count * 1e6 / elapsed_us)

    @property
    def bytes_per_s(self) -> float | None:
        """The speed of the link; None while no answer was long enough to measure it."""
        return median_low(self._bytes_per_s) if self._bytes_per_s else None

    @property
    def at_once_count(self) -> int:
        """How many requests must be open at once to use the whole budget over this link."""
        wanted_count = round(self.trip_s * self._limiter.requests_per_s)
        return max(1, min(_MOST_AT_ONCE_COUNT, wanted_count))

    @property
    def trip_s(self) -> float:
        """How long a request and a short answer take on the link."""
        return median_low(self._whole_trips_us) / 1e6 if self._whole_trips_us else 0.0

    @property
    def trip_us(self) -> int:
        """How long a request and the first bytes of a long answer may take on the link."""
        return round((self.trip_s + self.carried_s(_FIRST_BYTES)) * 1e6)

    @property
    def is_far(self) -> bool:
        """Tell whether the network's variation can be as long as a server's work."""
        return self.trip_s > _FAR_S or (self.bytes_per_s or _THIN_BYTES_PER_S) < _THIN_BYTES_PER_S

    def discount(self, answer: Answer) -> None:
        """Do not count an answer as work: the server only waited for another one."""
        wait_us = self._wait_us(answer)
        if wait_us in self._waits_us:
            self._waits_us.remove(wait_us)

    @property
    def server_us(self) -> int:
        """The server's work in this round: what answers took beyond a round trip of INFO.

        INFO costs nearly nothing, so its recent round trips hold what network and busy machines
        add to every answer, and how unequal that is.
        """
        if not self._trips_us:
            return 0
        trip_us = median_low(self._trips_us)
        jitter_us = sum(abs(us - trip_us) for us in self._trips_us) // len(self._trips_us)
        over_us = (us - trip_us - _JITTERS_COUNT * jitter_us for us in self._waits_us)
        return sum(min(max(0, us), _LONGEST_WORK_US) for us in over_us)


SERVER_SHARE = 0.05
"""Of a core of the server, which polling may cost."""
_FEWEST_COUNT = 4
_MOST_COUNT = 60
_LONGEST_S = 10.0
_LATE_RATIO = 1.5


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one poll may spend: requests, the server's work, and time."""

    api: PollingApi
    allowance_count: int
    work_us: int
    end_mono_s: float
    """When the next poll is due: after it no optional request is made."""
    requests_per_s: int

    def halved(self) -> Allowance:
        """Return the allowance for the first half of what a poll asks."""
        now_s = time.monotonic()
        return replace(self, end_mono_s=now_s + max(0.0, self.end_mono_s - now_s) / 2)

    def as_long_again(self, began_mono_s: float) -> Allowance:
        """Return the allowance for the second half: as much time as the first half took.

        On a slow link that is later than the next poll was due.
        """
        now_s = time.monotonic()
        end_s = max(self.end_mono_s, 2 * now_s - began_mono_s)
        count = self.api.requests_count + int(self.requests_per_s * (end_s - now_s))
        count = max(count, self.allowance_count)
        return replace(self, end_mono_s=end_s, allowance_count=count)

    @property
    def left_count(self) -> int:
        """How many requests may still be made."""
        return max(0, self.allowance_count - self.api.requests_count)

    @property
    def in_time(self) -> bool:
        """Tell whether the next poll is not due yet."""
        return time.monotonic() < self.end_mono_s

    @property
    def has_room(self) -> bool:
        """Tell whether one more optional request is within the allowance."""
        return self.in_time and self.left_count > 0 and self.api.server_us < self.work_us

    @property
    def has_half(self) -> bool:
        """Tell whether more than half of the work is left."""
        return self.has_room and self.api.server_us < self.work_us // 2


class PollInterval:
    """Finds the pause between polls that keeps the server's share small."""

    def __init__(self, requests_per_s: int) -> None:
        self._requests_per_s = requests_per_s
        self._work_us: list[int] = []
        self.interval_s = 0.0

    def next_allowance(self, api: PollingApi, wanted_s: float) -> Allowance:
        """Return the allowance of the next poll, which starts `wanted_s` after the last one."""
        self.interval_s = max(self.interval_s, wanted_s)
        count = int(self._requests_per_s * self.interval_s)
        work_us = int(SERVER_SHARE * self.interval_s * 1e6)
        end_mono_s = time.monotonic() + self.interval_s
        count = min(_MOST_COUNT, max(_FEWEST_COUNT, count))
        return Allowance(api, count, work_us, end_mono_s, self._requests_per_s)

    @staticmethod
    def link_reason(api: PollingApi, elapsed_s: float, wanted_s: float) -> str | None:
        """Return that a poll took longer than wanted because of the link, if that is so."""
        per_s = api.bytes_per_s
        if per_s is None or elapsed_s < _LATE_RATIO * wanted_s:
            return None
        if api.received_bytes / per_s < elapsed_s / 2:
            return None
        return f"one poll takes {elapsed_s:.1f} s: the link carries {bytes_text(per_s)}/s"

    def forget(self) -> None:
        """Start again: the server is another one, or has recovered."""
        self._work_us, self.interval_s = [], 0.0

    def after(self, server_us: int, wanted_s: float, *, far: bool = False) -> str | None:
        """Set the pause from the work of a poll; return why it is longer than wanted.

        The median of the last three is used, because one slow answer does not make a slow
        server; their minimum where the server is far, because a network may be slow twice.
        """
        self._work_us = [*self._work_us[-2:], server_us]
        middle_us = median(self._work_us) if self._work_us[2:] else min(self._work_us)
        least_us = min(self._work_us) if self._work_us[2:] else 0
        work_s = (least_us if far else middle_us) / 1e6
        self.interval_s = max(wanted_s, min(_LONGEST_S, work_s / SERVER_SHARE))
        if self.interval_s <= wanted_s:
            return None
        return f"one poll costs the server {work_s * 1000:.0f} ms"
