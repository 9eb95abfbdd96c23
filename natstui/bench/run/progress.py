"""Follows a run: enters its phases, causes its faults, and waits until all messages arrived."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from natstui.bench.job.protocol import StopCommand
from natstui.bench.result.accounting import has_shared_messages
from natstui.bench.run.assets import RunAssets
from natstui.bench.run.state import RunState, now_us
from natstui.bench.run.worker_processes import WorkerProcess
from natstui.errors import (
    Conflict,
    ConnectionLost,
    JetStreamUnavailable,
    NatstuiError,
    RequestTimedOut,
)
from natstui.model.bench.plan import Fault
from natstui.model.records.benchmark import (
    BenchmarkProgress,
    PhaseName,
)
from natstui.units import counted

_CHECK_INTERVAL_S = 0.05
_CONSUMER_POLL_S = 0.4
_QUIET_TIMEOUT_S = 1.0
"""Time without a message after which missing core messages count as lost."""

LEADER_TIMEOUT_S = 30.0
"""Limit of waiting for a new leader."""
WAIT_REPORT_AFTER_S = 3.0
"""Time without a message after which the run logs that it waits."""
IDLE_TIMEOUT_S = 60.0
"""Time without a message after which a stream reader ends: twice the usual ack wait."""
UNREACHABLE_ERRORS = (ConnectionLost, RequestTimedOut, JetStreamUnavailable)
"""Errors of a missing server or leader, which may be temporary."""

FaultCallback = Callable[[Fault], Awaitable[None]]


class RunWatcher:
    """Follows one run from its start to its last message."""

    def __init__(self, state: RunState, assets: RunAssets, cause_fault: FaultCallback) -> None:
        self._state, self._assets, self._cause_fault = state, assets, cause_fault
        self._faults = sorted(state.plan.faults, key=lambda fault: fault.at_s)
        self._pending_and_ack_pending_msgs: tuple[int, int] | None = None
        self._stored_msgs: int | None = None
        self._consumers_polled_at_s = 0.0
        self._fault_tasks: list[asyncio.Task[None]] = []
        self._has_found_knee = False
        self._unreachable_since_s: float | None = None
        self._received_msgs = 0
        self._last_received_at_s: float | None = None
        """Time of the last received message, or of the first check; None before that check."""
        self._has_logged_waiting = False

    async def watch(self) -> None:
        """Follow the run until every sender has ended, or until the run ends early.

        Raises the errors of `_check_idle` and `_poll_consumers`.
        """
        elapsed_s = 0.0
        phases = self._phases()
        while not self._state.is_over and not await self._is_finished():
            # On a busy machine more than one phase may have begun since the last check.
            while phases and phases[0][1] <= self._state.elapsed_s():
                self._state.enter_phase(phases.pop(0)[0])
            await self._state.wait_for_report(_CHECK_INTERVAL_S)
            await self._poll_consumers()
            self._check_idle()
            elapsed_s = self._state.elapsed_s()
            self._check_knee(elapsed_s)
            while self._faults and self._faults[0].at_s <= elapsed_s:
                # In a task, because a worker needs time to start.
                self._fault_tasks.append(asyncio.create_task(self._try_fault(self._faults.pop(0))))
        await asyncio.gather(*self._fault_tasks)
        self._check_knee(elapsed_s)
        if not self._has_found_knee and (text := self._state.knee.no_sharp_rise_text(elapsed_s)):
            self._state.add_remark(text)

    def _check_idle(self) -> None:
        """Log that a run without an end waits for messages.

        Raises NatstuiError after 60 s without a message if all receivers are stream readers.
        """
        members, plan = self._state.pool.members, self._state.plan
        receivers = [member for member in members if member.orders.role.traits.receives]
        has_own_end = any(member.orders.role.traits.has_own_end for member in members)
        if has_own_end or not receivers or self._state.end_ns is not None:
            return
        received_msgs, now_s = sum(map(_count_different_msgs, receivers)), time.monotonic()
        if (
            self._last_received_at_s is None
            or received_msgs != self._received_msgs
            or self._state.paused_names
        ):
            self._received_msgs, self._last_received_at_s = received_msgs, now_s
        idle_s = now_s - self._last_received_at_s
        goal_msgs = sum(role.total_msgs or 0 for role in plan.roles)
        count_text = f"{received_msgs:,} of {goal_msgs:,}" if goal_msgs else f"{received_msgs:,}"
        receiver_traits = [receiver.orders.role.traits for receiver in receivers]
        has_only_readers = all(
            traits.consumes and not traits.stores_responses for traits in receiver_traits
        )
        if has_only_readers and idle_s > IDLE_TIMEOUT_S:
            raise NatstuiError(
                f"{counted(count_text, 'message')} arrived, then none for {IDLE_TIMEOUT_S:g} s: "
                f"publish to {self._assets.stream}, or set an end (--duration)"
            )
        if idle_s > WAIT_REPORT_AFTER_S and not self._has_logged_waiting:
            self._has_logged_waiting = True
            end_text = (
                f"the run ends when none arrives for {IDLE_TIMEOUT_S:g} s"
                if has_only_readers
                else "the run continues until stopped"
            )
            self._state.log(f"waiting for messages: {count_text} arrived so far; {end_text}")

    def _check_knee(self, elapsed_s: float) -> None:
        """Stop the senders of a stepped rate after a sharp rise of latency, and add a remark."""
        if not self._has_found_knee and (text := self._state.knee.sharp_rise_text(elapsed_s)):
            self._has_found_knee = True
            self._state.add_remark(text)
            for member in self._state.pool.members:
                if member.orders.role.traits.sends and not member.is_over:
                    member.send(StopCommand())

    async def _try_fault(self, fault: Fault) -> None:
        try:
            await self._cause_fault(fault)
        except NatstuiError as error:
            self._state.add_remark(f"{fault.kind} at {fault.at_s:g} s did not happen: {error}")

    async def drain(self) -> None:
        """Wait until all sent messages have arrived, for at most `drain_s` of the plan."""
        if not any(role.traits.sends for role in self._state.plan.roles):
            return
        deadline_s = time.monotonic() + self._state.plan.drain_s
        self._state.last_report_ns = max(self._state.last_report_ns, time.monotonic_ns())
        while not self._state.is_over and time.monotonic() < deadline_s:
            if await self._have_all_arrived():
                return
            await self._state.wait_for_report(_CHECK_INTERVAL_S)
            await self._poll_consumers()

    async def _is_finished(self) -> bool:
        """Return whether every sender has ended; without senders, whether the receivers have."""
        members, plan = self._state.pool.members, self._state.plan
        senders = [member for member in members if member.orders.role.traits.has_own_end]
        if senders:
            return all(sender.is_over for sender in senders)
        if self._state.end_ns is not None and time.monotonic_ns() > self._state.end_ns:
            return True
        receivers = [member for member in members if member.orders.role.traits.receives]
        goals_msgs = [role.total_msgs for role in plan.roles if role.total_msgs is not None]
        if goals_msgs:
            return self._have_all_received(receivers, sum(goals_msgs))
        has_stream_receivers = any(receiver.orders.role.traits.consumes for receiver in receivers)
        return (
            has_stream_receivers
            and plan.duration_s is None
            and await self._have_consumed_all(receivers)
        )

    def _phases(self) -> list[tuple[PhaseName, float]]:
        """Return the phases of the plan, each with its start in s after the start of the run."""
        plan, phases = self._state.plan, list[tuple[PhaseName, float]]()
        # First the rates rise, then the warm-up has the full rate.
        if plan.ramp_s:
            phases.append(("ramp", 0.0))
        if plan.warmup_s:
            phases.append(("warmup", plan.ramp_s))
        return [*phases, ("steady", plan.ramp_s + plan.warmup_s)]

    async def _have_all_arrived(self) -> bool:
        receivers = [
            member
            for member in self._state.pool.members
            if member.orders.role.traits.receives and not member.is_over
        ]
        consumers = [receiver for receiver in receivers if receiver.orders.role.traits.consumes]
        if consumers and not await self._have_consumed_all(consumers):
            return False
        quiet_s = (time.monotonic_ns() - self._state.last_report_ns) / 1e9
        return quiet_s > _QUIET_TIMEOUT_S or all(
            self._have_all_received([receiver], self._count_sent_to(receiver))
            for receiver in receivers
            if receiver not in consumers
        )

    def _count_sent_to(self, subscriber: WorkerProcess) -> int:
        """Return how many messages were sent to a subscriber's subject after it subscribed."""
        return sum(
            member.counts.sent_msgs - subscriber.count_sent_before(member)
            for member in self._state.pool.members
            if member.orders.role.traits.sends
            and member.orders.role.subject == subscriber.orders.role.subject
        )

    async def _have_consumed_all(self, receivers: list[WorkerProcess]) -> bool:
        """Return whether the receivers have all messages of their consumers.

        Returns False while a server restarts; raises its error after 30 s.
        """
        try:
            has_consumed_all = await self._check_consumed_all(receivers)
        except UNREACHABLE_ERRORS:
            now_s = time.monotonic()
            self._unreachable_since_s = self._unreachable_since_s or now_s
            if now_s - self._unreachable_since_s > LEADER_TIMEOUT_S:
                raise
            return False
        self._unreachable_since_s = None
        return has_consumed_all

    async def _check_consumed_all(self, receivers: list[WorkerProcess]) -> bool:
        """Return whether the receivers have all messages of their consumers.

        Raises the error of an unreachable server.
        """
        stored_msgs = await self._assets.read_stored_msgs() or 0
        for receiver in receivers:
            deliverable_msgs = self._assets.deliverable_msgs(receiver.orders.role, stored_msgs)
            deliverable_msgs = (
                None
                if deliverable_msgs is None
                else deliverable_msgs - receiver.removed_before_start_msgs
            )
            if deliverable_msgs is not None and not self._have_all_received(
                [receiver], deliverable_msgs
            ):
                return False
        self._pending_and_ack_pending_msgs = await self._assets.read_pending()
        return self._pending_and_ack_pending_msgs in (None, (0, 0))

    def _have_all_received(self, receivers: list[WorkerProcess], expected_msgs: int) -> bool:
        """Return whether every receiver, or sharing group, received `expected_msgs`."""
        received_msgs_by_role: dict[str, int] = {}
        for member in self._state.pool.members:
            if member.orders.role.traits.receives:
                name = member.orders.role.name
                different_msgs = _count_different_msgs(member)
                received_msgs_by_role[name] = received_msgs_by_role.get(name, 0) + different_msgs
        return all(
            (
                received_msgs_by_role[receiver.orders.role.name]
                if has_shared_messages(receiver.orders.role)
                else _count_different_msgs(receiver)
            )
            >= expected_msgs
            for receiver in receivers
        )

    async def _poll_consumers(self) -> None:
        """Read the state of stream and consumers every 0.4 s, and report the progress.

        Raises Conflict if the stream or a consumer was recreated.
        """
        if time.monotonic() - self._consumers_polled_at_s < _CONSUMER_POLL_S:
            return
        self._consumers_polled_at_s = time.monotonic()
        try:
            async with asyncio.timeout(_CONSUMER_POLL_S):
                self._stored_msgs = await self._assets.read_stored_msgs()
                self._pending_and_ack_pending_msgs = await self._assets.read_pending()
        except Conflict:
            raise
        except (NatstuiError, TimeoutError) as error:
            # A server that does not answer now is what some benchmarks are about.
            self._stored_msgs = self._pending_and_ack_pending_msgs = None
            if isinstance(error, NatstuiError):
                self._state.log(str(error))
        self._report_progress()

    def _report_progress(self) -> None:
        state, pending_and_ack_pending = self._state, self._pending_and_ack_pending_msgs
        done_ratio = self._done_ratio()
        elapsed_s = state.elapsed_s()
        state.sink.add(
            BenchmarkProgress(
                at_us=now_us(),
                run_id=state.run_id,
                phase=state.phase,
                elapsed_s=elapsed_s,
                left_s=elapsed_s / done_ratio - elapsed_s if done_ratio else None,
                done_ratio=done_ratio,
                counts=state.counts(),
                pending_msgs=None
                if pending_and_ack_pending is None
                else pending_and_ack_pending[0],
                ack_pending_msgs=None
                if pending_and_ack_pending is None
                else pending_and_ack_pending[1],
                stored_msgs=self._stored_msgs,
            )
        )

    def _done_ratio(self) -> float | None:
        plan, state = self._state.plan, self._state
        if state.end_ns is not None:
            total_s = (state.end_ns - state.start_ns) / 1e9
            return min(state.elapsed_s() / total_s, 1.0)
        counts = state.counts()
        goal_msgs = sum(role.total_msgs or 0 for role in plan.roles if role.traits.sends)
        if goal_msgs:
            return min(counts.sent_msgs / goal_msgs, 1.0)
        goal_msgs = sum(role.total_msgs or 0 for role in plan.roles if role.traits.reads_stored)
        goal_msgs = goal_msgs or self._assets.waiting_msgs
        return min(counts.received_msgs / goal_msgs, 1.0) if goal_msgs else None


def _count_different_msgs(receiver: WorkerProcess) -> int:
    """Return how many different messages a receiver received.

    A receiver of a stream also counts messages of other senders.
    """
    counts = receiver.counts
    foreign_msgs = counts.foreign_msgs if receiver.orders.role.traits.consumes else 0
    return counts.received_msgs + foreign_msgs - counts.duplicate_msgs
