"""What a worker works with: its orders, the clock, its tally, and when to send."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from natstui.bench.job.content import SenderSettings
from natstui.bench.job.digits import Int64s
from natstui.bench.job.protocol import Go, Orders
from natstui.bench.job.schedule import Schedule
from natstui.bench.job.tally import Tally
from natstui.jetstream.connection.client import Client

RUN_KEY = "natstui_run"
"""In the metadata of a stream that a run created: the run."""
_DELETE = "STREAM.DELETE."


async def remove(client: Client, verb: str, run_id: str, timeout_s: float | None = None) -> bool:
    """Send an API verb that removes what a run created; False where that is of somebody else now.

    A stream may have been deleted and created again during the run. Raises the request errors.
    """
    if verb.startswith(_DELETE):
        name = verb.removeprefix(_DELETE)
        reply = await client.request(f"STREAM.INFO.{name}", timeout_s=timeout_s)
        if (json.loads(reply)["config"].get("metadata") or {}).get(RUN_KEY) != run_id:
            return False
    await client.request(verb, timeout_s=timeout_s)
    return True


@dataclass(slots=True)
class Job:
    """The state of a worker that its patterns share."""

    orders: Orders
    client: Client
    tally: Tally
    schedule: Schedule
    go_ns: int = 0
    end_ns: int | None = None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    running: asyncio.Event = field(default_factory=asyncio.Event)
    """Cleared while paused."""
    cleanup: list[str] = field(default_factory=list)
    """API verbs that remove what this worker made itself."""
    sending: SenderSettings = field(init=False)
    collectors: list[Callable[[], None]] = field(default_factory=list)
    """Called before a report: each adds to the tally what it has not counted yet."""

    def __post_init__(self) -> None:
        self.sending = SenderSettings(self.orders)

    def begin(self, go: Go) -> None:
        """Take the times all workers start by; one that joins late begins where the others are."""
        self.go_ns, self.end_ns = go.go_ns, go.end_ns
        self.tally.steady_ns, self.tally.steady_end_ns = go.steady_ns, go.end_ns
        if go.begun_ns < go.go_ns:
            self.schedule = self.schedule.rest(go.go_ns - go.begun_ns)
        self.running.set()

    def change_rate(self, per_s: float) -> None:
        """Follow another rate from now on."""
        self.schedule = self.schedule.changed(time.monotonic_ns() - self.go_ns, per_s)

    async def sleep(self, duration_s: float) -> None:
        """Wait; a long wait ends early when the job stops."""
        if duration_s < 0.02:
            await asyncio.sleep(max(duration_s, 0))
            return
        waiting = asyncio.ensure_future(self.stopping.wait())
        await asyncio.wait({waiting}, timeout=duration_s)
        waiting.cancel()


class RetryPolicy:
    """Decides whether a refused message is sent again: the server may be coming back.

    A server that restarts, or a stream that changes its leader, refuses for a while what it took
    before. Without an earlier success or a lost connection, a refusal is final.
    """

    AGAIN_S = 0.1
    """How long to wait before the same message is sent again."""

    def __init__(self, job: Job) -> None:
        self._patience_ns = round(job.orders.role.timeout_s * 1e9)
        self._tally = job.tally
        self._was_good = False
        self._since_ns: int | None = None

    def succeeded(self) -> None:
        """Note an answer as it should be."""
        self._was_good, self._since_ns = True, None

    def should_retry(
        self, code: int | None, err_code: int | None, *, was_lost: bool = False, count: int = 1
    ) -> bool:
        """Tell whether refused messages are sent again, and count them; False when for good.

        `code` is 503 where nobody answers; `was_lost`: there was another connection before.
        """
        nobody = code == _NOBODY and err_code is None
        if not (nobody or err_code in _UNAVAILABLE) or not (self._was_good or was_lost):
            return False
        now_ns = time.monotonic_ns()
        self._since_ns = self._since_ns or now_ns
        if now_ns - self._since_ns > self._patience_ns:
            return False
        self._tally.add("retried_msgs", count)
        return True


_NOBODY = 503
_UNAVAILABLE = frozenset({10008, 10118, 10176, 10208})
"""JetStream is temporarily unavailable; the stream is offline; an atomic batch is incomplete, or a
fast batch is unknown, as after a restart, which forgets the open batches."""


@dataclass(frozen=True, slots=True)
class Due:
    """Messages to send now."""

    first: int
    """Number of the first of them, from 0."""
    due_ns: Int64s
    now_ns: int

    @property
    def count(self) -> int:
        """How many."""
        return len(self.due_ns)


_BREATH_NS = 550_000
"""At a high rate, so much later the next messages are sent, all that fell due meanwhile together:
one by one they cost several times the CPU. What the system takes to wake us comes on top, and of
a hundred messages 99 shall not be a millisecond late."""


class Pace:
    """Says when and how many messages to send, by the schedule or as fast as possible."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.taken = 0
        """Messages handed out so far."""
        self._taken_ns = 0
        share = job.orders.share_msgs
        self._share = 1 << 40 if share is None else share

    async def take(self, most: int) -> Due | None:
        """Wait until something is due and return it; None when there is nothing more to send."""
        while not self._job.stopping.is_set():
            if not self._job.running.is_set():
                await self._job.sleep(0.02)
                continue
            now_ns = time.monotonic_ns()
            count = min(most, self._left())
            if not count or (self._job.end_ns is not None and now_ns >= self._job.end_ns):
                return None
            if not self._job.schedule.is_open:
                return self._hand_out(np.full(count, now_ns), now_ns)
            due = self._job.schedule.due_count(now_ns - self._job.go_ns) - self.taken
            again_ns = self._taken_ns + _BREATH_NS
            if 0 < due < count and now_ns < again_ns < (self._job.end_ns or 1 << 62):
                await self._job.sleep((again_ns - now_ns) / 1e9)
                continue
            if due > 0:
                times = self._job.schedule.due_ns(self.taken, min(count, due))
                return self._hand_out(times + self._job.go_ns, now_ns)
            total = self._job.schedule.total_count()
            if total is not None and self.taken >= total:
                return None
            await self._until_next(now_ns)
        return None

    async def take_one(self) -> tuple[int, int] | None:
        """Return the number of the next message and when it is due; None when there is no more.

        The same as `take(1)`, quicker in a closed loop.
        """
        job = self._job
        if not job.schedule.is_open and job.running.is_set() and not job.stopping.is_set():
            now_ns, number = time.monotonic_ns(), self.taken
            if number >= self._share or (job.end_ns is not None and now_ns >= job.end_ns):
                return None
            self.taken = number + 1
            return number, now_ns
        due = await self.take(1)
        return None if due is None else (due.first, int(due.due_ns[0]))

    def close(self) -> None:
        """Count what the schedule owed and was not sent."""
        if self._job.schedule.is_open:
            until_ns = min(time.monotonic_ns(), self._job.end_ns or 1 << 62) - self._job.go_ns
            owed = self._job.schedule.due_before(until_ns)
            share = self._job.orders.share_msgs
            owed = owed if share is None else min(owed, share)
            self._job.tally.add("missed_msgs", max(owed - self.taken, 0))

    def _left(self) -> int:
        return self._share - self.taken

    def _hand_out(self, due_ns: Int64s, now_ns: int) -> Due:
        due = Due(self.taken, due_ns, now_ns)
        self.taken += due.count
        self._taken_ns = now_ns
        if self._job.schedule.is_open:
            self._job.tally.late(due_ns, now_ns)
        return due

    async def _until_next(self, now_ns: int) -> None:
        next_ns = int(self._job.schedule.due_ns(self.taken, 1)[0]) + self._job.go_ns
        if self._job.end_ns is not None:
            next_ns = min(next_ns, self._job.end_ns)
        await self._job.sleep((next_ns - now_ns) / 1e9)


def made_for(run_id: str) -> str:
    """Return the description of consumers that workers make for themselves."""
    return f"made by natstui for benchmark {run_id}"
