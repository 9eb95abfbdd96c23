"""The shared state of a worker: its orders, times, counts and schedule; retries and pacing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from msgspec import Struct

from natstui.bench.job.content import SenderSettings
from natstui.bench.job.digits import Int64s
from natstui.bench.job.protocol import CreatedStream, Orders, StartCommand
from natstui.bench.job.schedule import Schedule
from natstui.bench.job.tally import Tally
from natstui.jetstream.connection.client import Client
from natstui.model.assets.subjects import overlap
from natstui.model.bench.counts import Counts
from natstui.model.bench.plan import Role
from natstui.units import counted

_STREAM_DELETE_PREFIX = "STREAM.DELETE."


def sent_subject(role: Role) -> str:
    """Return the subject that a role publishes to; with several subjects, a filter for them."""
    return f"{role.subject}.*" if role.subjects_count > 1 else role.subject


def published_msgs_by_stream(orders: Orders, counts: Counts) -> dict[str, int]:
    """Return stream → messages that a worker with these counts published to it.

    Only streams that the run created are included. The numbers are upper limits: a message without
    an ack counts as published.
    """
    stored_msgs = (
        counts.sent_msgs - counts.duplicate_acked_msgs - counts.refused_msgs + counts.retried_msgs
    )
    return {name: stored_msgs for name in orders.created_streams if _publishes_to(orders, name)}


def _publishes_to(orders: Orders, stream: str) -> bool:
    role = orders.role
    if stream == orders.responses:
        return role.traits.stores_responses
    subjects = orders.created_streams[stream].subjects
    return role.traits.is_stored or (
        role.traits.sends and any(overlap(sent_subject(role), subject) for subject in subjects)
    )


async def delete_asset(
    client: Client,
    verb: str,
    created_streams: Mapping[str, CreatedStream],
    own_msgs_by_stream: Mapping[str, int],
    timeout_s: float | None = None,
) -> str:
    """Delete an asset of a run by an API verb; return the reason why it is kept, "" if deleted.

    A stream is kept if it was recreated during the run (`created_streams` has those of the run),
    or if it has more messages than the run's workers published to it (`own_msgs_by_stream`).
    Raises the request errors.
    """
    if verb.startswith(_STREAM_DELETE_PREFIX):
        name = verb.removeprefix(_STREAM_DELETE_PREFIX)
        info = await client.stream_info(name, timeout_s=timeout_s)
        if info.created != created_streams[name].created_time:
            return f"stream {name} was recreated during the run: natstui keeps it"
        msgs_of_others = info.state.last_seq - own_msgs_by_stream.get(name, 0)
        if msgs_of_others > 0:
            messages_text = counted(f"{msgs_of_others:,}", "message")
            return (
                f"stream {name} stored {messages_text} that no worker of this run has reported: "
                f"natstui keeps it, and natstui stream rm {name} removes it"
            )
    await client.request(verb, timeout_s=timeout_s)
    return ""


@dataclass(slots=True)
class Job:
    """The state of a worker: its orders, its connection, its counts and its schedule."""

    orders: Orders
    client: Client
    tally: Tally
    schedule: Schedule
    start_ns: int = 0
    end_ns: int | None = None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    running: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while the worker may send; cleared before the start and while it is paused."""
    delete_verbs: list[str] = field(default_factory=list)
    """API verbs that delete the assets of this worker."""
    sender_settings: SenderSettings = field(init=False)
    flush_callbacks: list[Callable[[], None]] = field(default_factory=list)
    """Functions to call before a report: each adds uncounted messages to the tally."""

    def __post_init__(self) -> None:
        self.sender_settings = SenderSettings(self.orders)

    def begin(self, command: StartCommand) -> None:
        """Set the times of the start, of the steady phase and of the end of the run.

        A worker that joins later skips the part of the schedule before its start.
        """
        self.start_ns, self.end_ns = command.start_ns, command.end_ns
        self.tally.steady_ns, self.tally.steady_end_ns = command.steady_ns, command.end_ns
        if command.run_start_ns < command.start_ns:
            self.schedule = self.schedule.cut_before(command.start_ns - command.run_start_ns)
        self.running.set()

    def change_rate(self, per_s: float) -> None:
        """Change the rate of the shared schedule to `per_s` messages per second from now on."""
        self.schedule = self.schedule.with_rate(time.monotonic_ns() - self.start_ns, per_s)

    async def sleep(self, duration_s: float) -> None:
        """Sleep for `duration_s`; a sleep of 20 ms or more ends early when the job stops."""
        if duration_s < 0.02:
            await asyncio.sleep(max(duration_s, 0))
            return
        stop_task = asyncio.ensure_future(self.stopping.wait())
        await asyncio.wait({stop_task}, timeout=duration_s)
        stop_task.cancel()


class RetryPolicy:
    """Decides whether a refused message is sent again.

    A server that restarts, or a stream that changes its leader, temporarily refuses messages.
    Without an earlier success or a lost connection, a refusal is final.
    """

    RETRY_DELAY_S = 0.1
    """Pause before the same message is sent again."""

    def __init__(self, job: Job) -> None:
        self._timeout_ns = round(job.orders.role.timeout_s * 1e9)
        self._tally = job.tally
        self._had_accepted_message = False
        self._refused_since_ns: int | None = None

    def note_success(self) -> None:
        """Note an accepted message: later refusals may be temporary."""
        self._had_accepted_message, self._refused_since_ns = True, None

    def should_retry(
        self,
        status: int | None,
        err_code: int | None,
        *,
        was_connection_lost: bool = False,
        count: int = 1,
    ) -> bool:
        """Return whether `count` refused messages are sent again, and count them as retried if so.

        `status` is that of the reply (503: no responder), `err_code` the error code of JetStream.
        `was_connection_lost`: the connection was lost before. Returns False for a final refusal,
        and after refusals for longer than the timeout of the role.
        """
        has_no_responder = status == _NO_RESPONDERS_STATUS and err_code is None
        if not (has_no_responder or err_code in _TEMPORARY_ERR_CODES):
            return False
        if not (self._had_accepted_message or was_connection_lost):
            return False
        now_ns = time.monotonic_ns()
        self._refused_since_ns = self._refused_since_ns or now_ns
        if now_ns - self._refused_since_ns > self._timeout_ns:
            return False
        self._tally.add("retried_msgs", count)
        return True


_NO_RESPONDERS_STATUS = 503
_TEMPORARY_ERR_CODES = frozenset({10008, 10118, 10176, 10208})
"""Error codes: JetStream is temporarily unavailable; the stream is offline; an atomic batch is
incomplete, or a fast batch is unknown, as after a restart, which forgets the open batches.
"""


class DueMessages(Struct, frozen=True):
    """The messages to send now, with their due times."""

    first_number: int
    """Number of the first message, from 0."""
    due_ns: Int64s
    now_ns: int

    @property
    def count(self) -> int:
        """Return the number of messages to send now."""
        return len(self.due_ns)


_MIN_WRITE_INTERVAL_NS = 550_000
"""Minimum time between two writes at a high rate: all messages due meanwhile are sent together,
since one by one they cost several times the CPU. With the system's wake-up time, 99 of 100
messages must be sent less than a millisecond after their due time.
"""


class Pace:
    """Paces the sending of messages: by the schedule, or as fast as possible."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.returned_msgs = 0
        """Number of messages returned so far."""
        self._last_returned_ns = 0
        share_msgs = job.orders.share_msgs
        self._share_msgs = 1 << 40 if share_msgs is None else share_msgs

    async def next_messages(self, max_msgs: int) -> DueMessages | None:
        """Wait until messages are due, and return at most `max_msgs`; None after the last one.

        Messages end with the schedule, with the run, or with this worker's share of messages.
        """
        while not self._job.stopping.is_set():
            now_ns = time.monotonic_ns()
            count = min(max_msgs, self._remaining_count())
            if not count or (self._job.end_ns is not None and now_ns >= self._job.end_ns):
                return None
            if not self._job.running.is_set():
                await self._job.sleep(0.02)
                continue
            if not self._job.schedule.is_open_loop:
                return self._next_due(np.full(count, now_ns), now_ns)
            due_count = (
                self._job.schedule.due_count(now_ns - self._job.start_ns) - self.returned_msgs
            )
            next_write_ns = self._last_returned_ns + _MIN_WRITE_INTERVAL_NS
            if 0 < due_count < count and now_ns < next_write_ns < (self._job.end_ns or 1 << 62):
                await self._job.sleep((next_write_ns - now_ns) / 1e9)
                continue
            if due_count > 0:
                due_times_ns = self._job.schedule.due_ns(self.returned_msgs, min(count, due_count))
                return self._next_due(due_times_ns + self._job.start_ns, now_ns)
            total_count = self._job.schedule.total_count()
            if total_count is not None and self.returned_msgs >= total_count:
                return None
            await self._sleep_until_next(now_ns)
        return None

    async def next_message(self) -> tuple[int, int] | None:
        """Wait for the next message; return its number and due time (ns), None after the last one.

        It is the message of `next_messages(1)`, but found faster in a closed loop.
        """
        job = self._job
        if not job.schedule.is_open_loop and job.running.is_set() and not job.stopping.is_set():
            now_ns, number = time.monotonic_ns(), self.returned_msgs
            if number >= self._share_msgs or (job.end_ns is not None and now_ns >= job.end_ns):
                return None
            self.returned_msgs = number + 1
            return number, now_ns
        due_msgs = await self.next_messages(1)
        return None if due_msgs is None else (due_msgs.first_number, int(due_msgs.due_ns[0]))

    def close(self) -> None:
        """Count the messages that were due and not sent as missed; called once, at the end."""
        if self._job.schedule.is_open_loop:
            elapsed_ns = min(time.monotonic_ns(), self._job.end_ns or 1 << 62) - self._job.start_ns
            due_count = self._job.schedule.due_count_before(elapsed_ns)
            share_msgs = self._job.orders.share_msgs
            due_count = due_count if share_msgs is None else min(due_count, share_msgs)
            self._job.tally.add("missed_msgs", max(due_count - self.returned_msgs, 0))

    def _remaining_count(self) -> int:
        return self._share_msgs - self.returned_msgs

    def _next_due(self, due_ns: Int64s, now_ns: int) -> DueMessages:
        due_msgs = DueMessages(self.returned_msgs, due_ns, now_ns)
        self.returned_msgs += due_msgs.count
        self._last_returned_ns = now_ns
        if self._job.schedule.is_open_loop:
            self._job.tally.record_lateness(due_ns, now_ns)
        return due_msgs

    async def _sleep_until_next(self, now_ns: int) -> None:
        next_due_ns = int(self._job.schedule.due_ns(self.returned_msgs, 1)[0]) + self._job.start_ns
        if self._job.end_ns is not None:
            next_due_ns = min(next_due_ns, self._job.end_ns)
        await self._job.sleep((next_due_ns - now_ns) / 1e9)


def consumer_description(run_id: str) -> str:
    """Return the description of consumers that workers of a run create: a text with its id."""
    return f"made by natstui for benchmark {run_id}"
