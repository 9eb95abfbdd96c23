"""Sends the requests of one poller, and measures their cost for the server and the link."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict, deque
from collections.abc import Coroutine, Mapping
from statistics import median_low
from typing import Any, TypeVar

from nats.aio.msg import Msg

from natstui.clock import steady_s, steady_us
from natstui.errors import RequestFailed
from natstui.jetstream.connection.client import Client, TimedReply
from natstui.jetstream.connection.transport import thread_time_us
from natstui.jetstream.polling.budget.shares import (
    FIRST_VIEW_WORK_S,
    RequestWindow,
    ResourceShare,
    WorkMeter,
)
from natstui.model.live.polling_limit import LINK_SHARE, SERVER_SHARE

T = TypeVar("T")
_INFO = "INFO"
_DIRECT_GET = "DIRECT.GET"
_KEPT_ROUND_TRIPS_COUNT = 5
_MAX_AHEAD_REPLY_AGE_S = 5.0
"""Maximum age of the reply to a request that was sent ahead."""
_KEPT_REPLY_COSTS_COUNT = 64
_IGNORED_JITTERS_COUNT = 4
_LONG_TRIP_S = 0.02
_SLOW_LINK_BYTES_PER_S = 1_000_000
_FIRST_PACKET_BYTES = 1_500
_SLOW_TRANSFER_S = 0.25
_SPEED_VARIATION_RATIO = 2
"""Factor of variation of a slow link's speed."""
_MIN_MEASURED_BYTES = 2_000
_KEPT_RATES_COUNT = 3


class LinkThroughput:
    """The measured throughput of the connection, in bytes per second."""

    def __init__(self) -> None:
        self._measured_bytes_per_s: deque[float] = deque(maxlen=_KEPT_RATES_COUNT)

    @property
    def usual_bytes_per_s(self) -> float | None:
        """Return the usual speed of the link; None while no reply was long enough to
        measure it.
        """
        return median_low(self._measured_bytes_per_s) if self._measured_bytes_per_s else None

    @property
    def max_bytes_per_s(self) -> float:
        """Return the highest recent speed; infinite while unknown."""
        return max(self._measured_bytes_per_s, default=float("inf"))

    def reset(self) -> None:
        """Discard the measured throughput: the link is another one."""
        self._measured_bytes_per_s.clear()

    def add_reply(self, reply: TimedReply) -> None:
        """Measure the throughput from a reply that arrived in several reads."""
        arrival = reply.arrival
        measured_bytes = arrival.message_bytes - arrival.first_bytes
        elapsed_us = arrival.ended_mono_us - arrival.began_mono_us
        # While we computed ourselves, bytes may have waited for us: that is not the link's speed.
        is_mostly_own_time = 2 * (arrival.ended_thread_us - arrival.began_thread_us) > elapsed_us
        if measured_bytes >= _MIN_MEASURED_BYTES and elapsed_us > 0 and not is_mostly_own_time:
            self._measured_bytes_per_s.append(measured_bytes * 1e6 / elapsed_us)

    def ensure_min_throughput(self, transferred_bytes: int, elapsed_s: float) -> None:
        """Raise measurements below this throughput, which the link has just had.

        On a busy machine a process waits between two reads, and a fast link looks slow; the low
        estimate would prevent requests that show that it is fast.
        """
        if elapsed_s > 0:
            min_bytes_per_s = transferred_bytes / elapsed_s
            self._measured_bytes_per_s = deque(
                (max(bytes_per_s, min_bytes_per_s) for bytes_per_s in self._measured_bytes_per_s),
                _KEPT_RATES_COUNT,
            )


class RequestLimiter:
    """Limits the requests in any window of one second."""

    def __init__(self, requests_per_s: float) -> None:
        self._sent_at_s: deque[float] = deque(maxlen=max(1, int(requests_per_s)))
        self._turn_lock = asyncio.Lock()

    async def wait_for_turn(self) -> None:
        """Wait until one more request is within the limit."""
        async with self._turn_lock:
            if len(self._sent_at_s) == self._sent_at_s.maxlen:
                wait_s = self._sent_at_s[0] + 1.0 - steady_s()
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
            self._sent_at_s.append(steady_s())


class PollingApi:
    """Sends the requests of one poller to the JetStream API, and measures link and server."""

    def __init__(self, client: Client, requests_per_s: float | None) -> None:
        self._client = client
        self._limiter = RequestLimiter(requests_per_s) if requests_per_s else None
        self._info_first_byte_trips_us: deque[int] = deque(maxlen=_KEPT_ROUND_TRIPS_COUNT)
        self._info_complete_trips_us: deque[int] = deque(maxlen=_KEPT_ROUND_TRIPS_COUNT)
        self._throughput = LinkThroughput()
        self.row_bytes_by_kind: dict[str, float] = {}
        """Mean size of a list row, by kind: STREAM or CONSUMER."""
        self._tasks_sent_ahead: dict[tuple[str, str], asyncio.Task[TimedReply]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._last_reply_began_us = 0
        self._errors_count = 0
        self.window = RequestWindow()
        self._reset_costs()
        self.begin_poll()

    def _reset_costs(self) -> None:
        now_s = steady_s()
        self.work = ResourceShare(SERVER_SHARE, FIRST_VIEW_WORK_S, now_s)
        self.link = ResourceShare(LINK_SHARE, 0.0, now_s)
        self.leaves_link_share = False
        """Whether requests wait so that others have their share of the link: not during the first
        view.
        """
        self._work_meter = WorkMeter()
        self._work_us_by_requested_us: OrderedDict[int, float] = OrderedDict()
        """Cost of the newest replies, by time of the request."""

    def begin_poll(self) -> None:
        """Reset the counters for another poll."""
        self.requests_count = 0
        self.received_bytes = 0
        self.work_us = 0.0
        """Work of the server for the replies of this poll."""

    async def request(
        self, verb: str, body: Mapping[str, Any] | None = None, timeout_s: float | None = None
    ) -> tuple[bytes, int]:
        """Return the reply and the µs it took; raises what `Client.request` raises."""
        reply = await self.request_timed(verb, body, timeout_s)
        return reply.data, reply.arrival.ended_mono_us - reply.requested_mono_us

    async def request_timed(
        self, verb: str, body: Mapping[str, Any] | None = None, timeout_s: float | None = None
    ) -> TimedReply:
        """Return the reply with its times; raises what `Client.request` raises."""
        ahead_task = self._tasks_sent_ahead.pop((verb, json.dumps(body)), None)
        if ahead_task is not None:
            reply = await ahead_task
            if steady_s() - reply.arrival.began_mono_us / 1e6 < _MAX_AHEAD_REPLY_AGE_S:
                return reply
        return await self._send(verb, body, timeout_s)

    def request_ahead(self, verb: str, body: Mapping[str, Any] | None) -> None:
        """Send a request for which `request_timed` will be called soon."""
        key = (verb, json.dumps(body))
        if key not in self._tasks_sent_ahead:
            self._tasks_sent_ahead[key] = self.spawn(self._send(verb, body, None))

    def spawn(self, request: Coroutine[None, None, T]) -> asyncio.Task[T]:
        """Run a request in parallel to the polls; `reset_for_new_link` cancels it."""
        task = asyncio.create_task(request)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        return task

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        """Retrieve the error of a task that is not awaited, or Python would log it."""
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()

    async def reset_for_new_link(self) -> None:
        """Cancel open requests and discard the measurements: the link is another one."""
        cancelled_tasks = list(self._tasks)
        self._tasks_sent_ahead.clear()
        self._throughput.reset()
        self.row_bytes_by_kind.clear()
        self.window.reset()
        self._reset_costs()
        for task in cancelled_tasks:
            task.cancel()
        if cancelled_tasks:
            await asyncio.wait(cancelled_tasks)

    @property
    def arrived_bytes(self) -> int:
        """Return all bytes received over the link so far."""
        return self._client.nc.arrived_bytes

    def max_transfer_s(self, bytes_count: int) -> float:
        """Return the longest time (s) that the link may need for `bytes_count` bytes."""
        return _SPEED_VARIATION_RATIO * bytes_count / (self.bytes_per_s or float("inf"))

    async def _send(
        self, verb: str, body: Mapping[str, Any] | None, timeout_s: float | None
    ) -> TimedReply:
        if self._limiter is not None:
            await self._limiter.wait_for_turn()
        self.requests_count += 1
        requested_thread_us, arrived_before_bytes = thread_time_us(), self.arrived_bytes
        try:
            reply = await self._client.request_timed(verb, body, timeout_s)
        except RequestFailed as error:
            # The server counts it among the errors of the account.
            self._errors_count += error.err_code is not None
            raise
        self._measure_reply(verb, reply, requested_thread_us, arrived_before_bytes)
        return reply

    def pop_errors_count(self) -> int:
        """Return the number of error replies since the last call, and reset it."""
        errors_count, self._errors_count = self._errors_count, 0
        return errors_count

    async def get_direct(self, stream: str, body: Mapping[str, Any], timeout_s: float) -> Msg:
        """Return the reply to a direct get, from any replica; it may have a status.

        Raises what `Client.request_subject` raises.
        """
        if self._limiter is not None:
            await self._limiter.wait_for_turn()
        self.requests_count += 1
        requested_us, requested_thread_us = steady_us(), thread_time_us()
        arrived_before_bytes = self.arrived_bytes
        subject = f"{self._client.prefix}.{_DIRECT_GET}.{stream}"
        msg = await self._client.request_subject(
            subject, json.dumps(body).encode(), timeout_s=timeout_s
        )
        reply = TimedReply(msg.data, requested_us, self._client.nc.arrival_of(msg))
        self._measure_reply(_DIRECT_GET, reply, requested_thread_us, arrived_before_bytes)
        return msg

    def _measure_reply(
        self, verb: str, reply: TimedReply, requested_thread_us: int, arrived_before_bytes: int
    ) -> None:
        """Update the measurements of server and link from a reply.

        `requested_thread_us` is the processor time of this thread at the request, and
        `arrived_before_bytes` is the number of bytes received before it.
        """
        self.received_bytes += len(reply.data)
        self._throughput.add_reply(reply)
        elapsed_s = steady_s() - reply.requested_mono_us / 1e6
        self._throughput.ensure_min_throughput(
            self.arrived_bytes - arrived_before_bytes, elapsed_s
        )
        wait_us, is_mostly_own_time = self._wait_us(reply, requested_thread_us)
        arrived_with_previous = reply.arrival.began_mono_us == self._last_reply_began_us
        self._last_reply_began_us = reply.arrival.began_mono_us
        if verb == _INFO or not self._info_first_byte_trips_us:
            arrival = reply.arrival
            self._info_first_byte_trips_us.append(wait_us)
            self._info_complete_trips_us.append(arrival.ended_mono_us - reply.requested_mono_us)
        # A reply that comes in one piece with another one took its time together with that.
        measured_us = (
            None
            if is_mostly_own_time or arrived_with_previous
            else self._work_beyond_trip_us(wait_us)
        )
        self._add_reply_cost(request_kind_of(verb), reply, measured_us)
        self._adapt_request_window(reply, requested_thread_us)

    def _wait_us(self, reply: TimedReply, requested_thread_us: int) -> tuple[int, bool]:
        """Return how long (µs) the link was idle before a reply began, for round trip and server
        work, and whether natstui itself computed for most of that time.

        A server completes a reply before it sends the first byte; the time of the bytes after it,
        and of those still in flight before it, is the link's. While natstui computes, the reply
        may already be there.
        """
        arrival = reply.arrival
        wait_began_us = max(reply.requested_mono_us, arrival.silent_since_mono_us)
        wait_began_thread_us = max(requested_thread_us, arrival.silent_since_thread_us)
        transfer_us = self.max_transfer_s(arrival.read_bytes) * 1e6
        elapsed_us = max(0, arrival.began_mono_us - wait_began_us)
        own_cpu_us = max(0, arrival.began_thread_us - wait_began_thread_us)
        return max(0, round(elapsed_us - own_cpu_us - transfer_us)), 2 * own_cpu_us >= elapsed_us

    def _add_reply_cost(self, kind: str, reply: TimedReply, measured_us: int | None) -> None:
        """Add the cost of a reply for the server and the link."""
        size_bytes, now_s = len(reply.data), steady_s()
        work_us = self._work_meter.work_us(kind, size_bytes, measured_us)
        self.work_us += work_us
        self.work.spend(work_us / 1e6, now_s)
        self._work_us_by_requested_us[reply.requested_mono_us] = work_us
        while len(self._work_us_by_requested_us) > _KEPT_REPLY_COSTS_COUNT:
            self._work_us_by_requested_us.popitem(last=False)
        self.link.spend(size_bytes / self._throughput.max_bytes_per_s, now_s)

    def _adapt_request_window(self, reply: TimedReply, requested_thread_us: int) -> None:
        """Adapt the limit of open requests to the time that a reply took."""
        arrival, now_s = reply.arrival, steady_s()
        transfer_s = len(reply.data) / (self.bytes_per_s or float("inf"))
        own_cpu_s = max(0, arrival.began_thread_us - requested_thread_us) / 1e6
        waited_s = (arrival.began_mono_us - reply.requested_mono_us) / 1e6 - own_cpu_s
        usual_reply_s = min(self._info_complete_trips_us) / 1e6 + transfer_s
        self.window.record_reply(waited_s, usual_reply_s, reply.requested_mono_us / 1e6, now_s)

    def exclude_from_work(self, reply: TimedReply) -> None:
        """Subtract the work counted for a reply for which the server only waited for others."""
        work_us = self._work_us_by_requested_us.pop(reply.requested_mono_us, 0.0)
        self._work_meter.discard_newest()
        self.work_us -= work_us
        self.work.spend(-work_us / 1e6, steady_s())

    @property
    def bytes_per_s(self) -> float | None:
        """Return the speed of the link; None while no reply was long enough to measure it."""
        return self._throughput.usual_bytes_per_s

    @property
    def is_link_free(self) -> bool:
        """Return whether the link may be used now."""
        return not self.leaves_link_share or self.link.left_s(steady_s()) > 0

    @property
    def max_open_count(self) -> int:
        """Return the limit of requests that are open at once."""
        return self.window.count

    @property
    def trip_s(self) -> float:
        """Return the median round trip of a request and a short reply; 0 while unknown."""
        return (
            median_low(self._info_complete_trips_us) / 1e6 if self._info_complete_trips_us else 0.0
        )

    @property
    def max_trip_us(self) -> int:
        """Return the maximum time of a request and the first bytes of a long reply on the link."""
        return round((self.trip_s + self.max_transfer_s(_FIRST_PACKET_BYTES)) * 1e6)

    @property
    def is_network_delay_long(self) -> bool:
        """Return whether delays of the network can be as long as the work of the server."""
        return (
            self.trip_s > _LONG_TRIP_S
            or (self.bytes_per_s or _SLOW_LINK_BYTES_PER_S) < _SLOW_LINK_BYTES_PER_S
        )

    def is_slow_to_transfer(self, size_bytes: float) -> bool:
        """Return whether so many bytes would block the link for more than 0.25 s."""
        return size_bytes > _SLOW_TRANSFER_S * (self.bytes_per_s or float("inf"))

    @property
    def slowness(self) -> float:
        """Return the factor by which the server is slower than usual; 1 at least."""
        return self._work_meter.slowness

    @property
    def prefix(self) -> str:
        """Return the prefix of API subjects."""
        return self._client.prefix

    @property
    def is_clustered(self) -> bool:
        """Return whether our server belongs to a cluster."""
        return bool(self._client.nc.server_info.get("cluster"))

    def usual_work_s(self, kind: str) -> float:
        """Return the usual work (s) of the server for a reply to a kind of request."""
        return self._work_meter.usual_us(kind) / 1e6

    def _work_beyond_trip_us(self, wait_us: int) -> int:
        """Return the work (µs) in the time of a reply: what exceeds a round trip of INFO.

        INFO costs nearly nothing, so its recent round trips contain the delays that network and
        busy machines add to every reply, and how much these vary.
        """
        trip_us = median_low(self._info_first_byte_trips_us)
        jitter_us = sum(
            abs(single_trip_us - trip_us) for single_trip_us in self._info_first_byte_trips_us
        ) // len(self._info_first_byte_trips_us)
        return max(0, wait_us - trip_us - _IGNORED_JITTERS_COUNT * jitter_us)


def request_kind_of(verb: str) -> str:
    """Return the kind of a request: CONSUMER.LIST for CONSUMER.LIST.ORDERS."""
    return ".".join(verb.split(".", 2)[:2])
