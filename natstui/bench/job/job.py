"""The shared state of a worker: its orders, the clock, its tally, and its schedule."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from natstui.bench.job.content import SenderSettings
from natstui.bench.job.digits import Int64s
from natstui.bench.job.protocol import CreatedStream, Go, Orders
from natstui.bench.job.schedule import Schedule
from natstui.bench.job.tally import Tally
from natstui.jetstream.connection.client import Client
from natstui.model.assets.subjects import overlap
from natstui.model.bench.counts import Counts
from natstui.model.bench.plan import Role
from natstui.units import counted

_DELETE = "STREAM.DELETE."


def sent_subject(role: Role) -> str:
    """Return the subject that a role publishes to, as a filter if there are several."""
    return f"{role.subject}.*" if role.subjects_count > 1 else role.subject


def published_msgs(orders: Orders, counts: Counts) -> dict[str, int]:
    """Return how many messages a worker published, at most, to each stream that its run created.

    `counts` are those of the worker.
    """
    stored_msgs = (
        counts.sent_msgs - counts.duplicate_acked_msgs - counts.refused_msgs + counts.retried_msgs
    )
    return {name: stored_msgs for name in orders.created if _publishes_to(orders, name)}


def _publishes_to(orders: Orders, stream: str) -> bool:
    role = orders.role
    if stream == orders.responses:
        return role.traits.responds
    subjects = orders.created[stream].subjects
    return role.traits.is_stored or (
        role.traits.sends and any(overlap(sent_subject(role), subject) for subject in subjects)
    )


async def remove(
    client: Client,
    verb: str,
    created: Mapping[str, CreatedStream],
    own_msgs: Mapping[str, int],
    timeout_s: float | None = None,
) -> str:
    """Send an API verb that deletes an asset of a run; return why it is kept, or "" if deleted.

    `created` are the streams of the run: another one of their name may have come during the run,
    and is kept. So is a stream with messages of others: more than `own_msgs`, those that its
    workers have reported. Raises the request errors.
    """
    if verb.startswith(_DELETE):
        name = verb.removeprefix(_DELETE)
        info = json.loads(await client.request(f"STREAM.INFO.{name}", timeout_s=timeout_s))
        if info["created"] != created[name].created:
            return f"stream {name} was recreated during the run: natstui keeps it"
        last_seq: int = info["state"]["last_seq"]
        other_msgs = last_seq - own_msgs.get(name, 0)
        if other_msgs > 0:
            messages_text = counted(f"{other_msgs:,}", "message")
            return (
                f"stream {name} stored {messages_text} that no worker of this run has reported: "
                f"natstui keeps it, and natstui stream rm {name} removes it"
            )
    await client.request(verb, timeout_s=timeout_s)
    return ""


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
    """API verbs that delete the assets of this worker."""
    sending: SenderSettings = field(init=False)
    collectors: list[Callable[[], None]] = field(default_factory=list)
    """Called before a report: each adds uncounted messages to the tally."""

    def __post_init__(self) -> None:
        self.sending = SenderSettings(self.orders)

    def begin(self, go: Go) -> None:
        """Set the start, steady phase and end of the run, common to all workers.

        A worker that joins later starts at the current time.
        """
        self.go_ns, self.end_ns = go.go_ns, go.end_ns
        self.tally.steady_ns, self.tally.steady_end_ns = go.steady_ns, go.end_ns
        if go.begun_ns < go.go_ns:
            self.schedule = self.schedule.rest(go.go_ns - go.begun_ns)
        self.running.set()

    def change_rate(self, per_s: float) -> None:
        """Send with this rate of messages per second from now on, of this worker alone."""
        self.schedule = self.schedule.changed(time.monotonic_ns() - self.go_ns, per_s)

    async def sleep(self, duration_s: float) -> None:
        """Sleep; a long sleep ends early when the job stops."""
        if duration_s < 0.02:
            await asyncio.sleep(max(duration_s, 0))
            return
        waiting = asyncio.ensure_future(self.stopping.wait())
        await asyncio.wait({waiting}, timeout=duration_s)
        waiting.cancel()


class RetryPolicy:
    """Decides whether a refused message is sent again, because the server may come back.

    A server that restarts, or a stream that changes its leader, temporarily refuses messages.
    Without an earlier success or a lost connection, a refusal is final.
    """

    AGAIN_S = 0.1
    """Pause before the same message is sent again."""

    def __init__(self, job: Job) -> None:
        self._patience_ns = round(job.orders.role.timeout_s * 1e9)
        self._tally = job.tally
        self._was_good = False
        self._since_ns: int | None = None

    def succeeded(self) -> None:
        """Note an accepted message: later refusals may be temporary."""
        self._was_good, self._since_ns = True, None

    def should_retry(
        self, code: int | None, err_code: int | None, *, was_lost: bool = False, count: int = 1
    ) -> bool:
        """Return whether `count` refused messages are sent again, and count them as retried if so.

        `code` is 503 without a responder, `err_code` that of JetStream; `was_lost`: there was
        another connection before. False for a final refusal, and once refusals have lasted for the
        timeout of the role.
        """
        has_no_responder = code == _NO_RESPONDERS and err_code is None
        if not (has_no_responder or err_code in _UNAVAILABLE) or not (self._was_good or was_lost):
            return False
        now_ns = time.monotonic_ns()
        self._since_ns = self._since_ns or now_ns
        if now_ns - self._since_ns > self._patience_ns:
            return False
        self._tally.add("retried_msgs", count)
        return True


_NO_RESPONDERS = 503
_UNAVAILABLE = frozenset({10008, 10118, 10176, 10208})
"""Error codes: JetStream is temporarily unavailable; the stream is offline; an atomic batch is
incomplete, or a fast batch is unknown, as after a restart, which forgets the open batches.
"""


@dataclass(frozen=True, slots=True)
class Due:
    """Messages to send now."""

    first: int
    """Number of the first of them, from 0."""
    due_ns: Int64s
    now_ns: int

    @property
    def count(self) -> int:
        """Return the number of messages to send now."""
        return len(self.due_ns)


_SEND_DELAY_NS = 550_000
"""Delay of sending at a high rate, to send all messages due meanwhile together: one by one they
cost several times the CPU. The system's wake-up time is added, and of a hundred messages 99 must
not be a millisecond late.
"""


class Pace:
    """Decides when to send how many messages: by the schedule, or as fast as possible."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.taken = 0
        """Number of messages returned so far."""
        self._taken_ns = 0
        share = job.orders.share_msgs
        self._share = 1 << 40 if share is None else share

    async def next_messages(self, max_msgs: int) -> Due | None:
        """Wait until messages are due, and return `max_msgs` of them at most.

        None at the end of the schedule, of the run or of the share of this worker.
        """
        while not self._job.stopping.is_set():
            if not self._job.running.is_set():
                await self._job.sleep(0.02)
                continue
            now_ns = time.monotonic_ns()
            count = min(max_msgs, self._left())
            if not count or (self._job.end_ns is not None and now_ns >= self._job.end_ns):
                return None
            if not self._job.schedule.is_open:
                return self._hand_out(np.full(count, now_ns), now_ns)
            due_count = self._job.schedule.due_count(now_ns - self._job.go_ns) - self.taken
            again_ns = self._taken_ns + _SEND_DELAY_NS
            if 0 < due_count < count and now_ns < again_ns < (self._job.end_ns or 1 << 62):
                await self._job.sleep((again_ns - now_ns) / 1e9)
                continue
            if due_count > 0:
                times = self._job.schedule.due_ns(self.taken, min(count, due_count))
                return self._hand_out(times + self._job.go_ns, now_ns)
            total = self._job.schedule.total_count()
            if total is not None and self.taken >= total:
                return None
            await self._until_next(now_ns)
        return None

    async def next_message(self) -> tuple[int, int] | None:
        """Return the number of the next message and when it is due; None at the end.

        The same as `next_messages(1)`, faster in a closed loop.
        """
        job = self._job
        if not job.schedule.is_open and job.running.is_set() and not job.stopping.is_set():
            now_ns, number = time.monotonic_ns(), self.taken
            if number >= self._share or (job.end_ns is not None and now_ns >= job.end_ns):
                return None
            self.taken = number + 1
            return number, now_ns
        due_msgs = await self.next_messages(1)
        return None if due_msgs is None else (due_msgs.first, int(due_msgs.due_ns[0]))

    def close(self) -> None:
        """Count the messages that were due and were not sent as missed."""
        if self._job.schedule.is_open:
            until_ns = min(time.monotonic_ns(), self._job.end_ns or 1 << 62) - self._job.go_ns
            due_count = self._job.schedule.due_before(until_ns)
            share = self._job.orders.share_msgs
            due_count = due_count if share is None else min(due_count, share)
            self._job.tally.add("missed_msgs", max(due_count - self.taken, 0))

    def _left(self) -> int:
        return self._share - self.taken

    def _hand_out(self, due_ns: Int64s, now_ns: int) -> Due:
        due_msgs = Due(self.taken, due_ns, now_ns)
        self.taken += due_msgs.count
        self._taken_ns = now_ns
        if self._job.schedule.is_open:
            self._job.tally.late(due_ns, now_ns)
        return due_msgs

    async def _until_next(self, now_ns: int) -> None:
        next_ns = int(self._job.schedule.due_ns(self.taken, 1)[0]) + self._job.go_ns
        if self._job.end_ns is not None:
            next_ns = min(next_ns, self._job.end_ns)
        await self._job.sleep((next_ns - now_ns) / 1e9)


def consumer_description(run_id: str) -> str:
    """Return the description of consumers that workers create."""
    return f"made by natstui for benchmark {run_id}"
