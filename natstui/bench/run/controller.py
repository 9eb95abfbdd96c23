"""Runs one benchmark: starts the workers together, reads their reports, and sums up the result."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, TypeVar

from natstui.bench.job.content import check_payload_sizes, payload_stamp_layout
from natstui.bench.job.protocol import (
    PauseCommand,
    PayloadChange,
    RateChange,
    ResumeCommand,
    StartCommand,
    StopCommand,
)
from natstui.bench.job.schedule import segment_at
from natstui.bench.job.tally import WorkerTimes
from natstui.bench.plan.check import plan_errors, with_file_size
from natstui.bench.result.accounting import ConsumerSpan, WorkerCounts, has_shared_messages
from natstui.bench.result.run_result import RunOutcome, WorkerEnd, make_result
from natstui.bench.result.server_process import ServerCpu, ServerProcess
from natstui.bench.run.assets import RunAssets, RunTarget, new_run_id
from natstui.bench.run.knee import KneeDetector
from natstui.bench.run.orders import added_orders, all_orders
from natstui.bench.run.state import RunState, now_us
from natstui.bench.run.worker_processes import WorkerProcess
from natstui.config.connection import Connection
from natstui.errors import (
    ActionRefusal,
    Conflict,
    ConnectionLost,
    JetStreamUnavailable,
    NatstuiError,
    NotFound,
    RequestTimedOut,
    SessionError,
    UsageError,
)
from natstui.feed import Sink
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.connection.journal import Journal, ReservedLine
from natstui.jetstream.connection.writer import (
    READ_ONLY,
    Asset,
    JournalDraft,
    MissingConfirmation,
    Writer,
)
from natstui.model.assets.loss import Loss
from natstui.model.bench.payload_text import PAYLOAD_HELP, describe_payload, parse_payload
from natstui.model.bench.plan import BenchmarkPlan, Fault, Payload, RateSegment, Role
from natstui.model.bench.result import BenchmarkResult, EndKind
from natstui.model.bench.timeline import Timeline
from natstui.model.records.benchmark import (
    BenchmarkFinished,
    BenchmarkPlanned,
    BenchmarkProgress,
    PhaseName,
    RunChange,
)
from natstui.model.records.confirmation import Confirmation
from natstui.model.records.link import LinkChanged
from natstui.units import counted
from natstui.values import replace


class RunJournalEntry:
    """The journal entry of a run that publishes to existing streams, or acks their messages.

    A run that only reads, or works on its own stream, has no journal entry.
    """

    def __init__(
        self, writer: Writer, plan: BenchmarkPlan, run_id: str, target: RunTarget
    ) -> None:
        self.result: BenchmarkResult | None = None
        """The result of the run; None if it ended before the start."""
        self.failure: SessionError | None = None
        """The error that kept the end of the run out of the journal."""
        self._writer = writer
        self._plan = plan
        self._reserved_line: ReservedLine | None = None
        has_changes = any(role.traits.sends or _sends_acks(role) for role in plan.roles)
        self._journal_draft = (
            _make_journal_draft(plan, run_id, target) if has_changes and target.streams else None
        )

    def __enter__(self) -> RunJournalEntry:
        """Write the start of the run to the journal; if that fails, raises SessionError."""
        if self._journal_draft is not None:
            self._reserved_line = self._writer.journal_begin(self._journal_draft)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """Write the end of the run to the journal; `failure` is the error if that fails."""
        if self._journal_draft is None or self._reserved_line is None:
            return
        message_counts = (
            None if self.result is None else _journal_message_counts(self._plan, self.result)
        )
        failure_text = None
        if error is not None:
            failure_text = str(error) if isinstance(error, NatstuiError) else "natstui was ended"
        try:
            self._writer.journal_end(
                self._reserved_line, self._journal_draft, message_counts, failure_text
            )
        except SessionError as failure:
            self.failure = failure


def _sends_acks(role: Role) -> bool:
    return role.traits.has_shared_consumer and role.acks != "none"


def _make_journal_draft(plan: BenchmarkPlan, run_id: str, target: RunTarget) -> JournalDraft:
    streams = ", ".join(target.streams)
    target_text = f"{target.consumer} of {streams}" if target.consumer else streams
    roles = [f"{role.workers_count} {role.pattern}" for role in plan.roles]
    request_fields = {
        "run": run_id,
        "what": target_text,
        "title": plan.title,
        "roles": ", ".join(roles),
    }
    asset = None
    if target.created_at_us is not None:
        loss = Loss((target.loss_text,) if target.loss_text else (), None)
        asset = Asset({}, target.created_at_us, None, loss, target.stream_created_at_us)
    return JournalDraft(
        "benchmark", target.streams[0], target.consumer, request_fields, target=asset
    )


def _journal_message_counts(plan: BenchmarkPlan, result: BenchmarkResult) -> dict[str, Any]:
    """Return the numbers of published, received and acked messages, for the journal."""
    roles = {role.name: role for role in plan.roles}
    published_msgs = received_msgs = acked_msgs = 0
    for worker in result.workers:
        role, counts = roles[worker.role], worker.counts
        if role.traits.sends:
            stored_msgs = counts.acked_msgs + counts.duplicate_acked_msgs
            published_msgs += stored_msgs if role.traits.is_stored else counts.sent_msgs
        if role.traits.receives:
            received_msgs += counts.received_msgs + counts.foreign_msgs
        if _sends_acks(role):
            # One acknowledgement is for all messages before it.
            acked_msgs += counts.received_msgs if role.acks == "all" else counts.acks_sent_msgs
    return {
        "published_msgs": published_msgs,
        "received_msgs": received_msgs,
        "acknowledged_msgs": acked_msgs,
        "verdict": result.verdict,
    }


def role_with_payload(plan: BenchmarkPlan, role: Role, text: str) -> Role:
    """Return a role of a running plan with the payload that a text describes.

    Raises UsageError for an invalid one, and ActionRefusal for one that cannot be changed during
    the run.
    """
    try:
        changed_role = replace(role, payload=with_file_size(parse_payload(text, role.payload)))
    except ValueError as error:
        raise UsageError(f"{error}; write {PAYLOAD_HELP}") from error
    for error_text in plan_errors(replace(plan, roles=(changed_role,), faults=())):
        raise UsageError(error_text)
    planned_role = next(
        role_planned for role_planned in plan.roles if role_planned.name == role.name
    )
    _check_stamp(planned_role.payload, changed_role)
    return changed_role


def _check_stamp(planned_payload: Payload, changed_role: Role) -> None:
    """Raise ActionRefusal if the new payload lacks the stamp that the receivers read."""
    stamp_layout = payload_stamp_layout(planned_payload)
    if not stamp_layout.length:
        return
    if (changed_role.payload.kind == "json") != stamp_layout.is_hex:
        raise ActionRefusal("a run cannot change between JSON and bytes: start a new one")
    min_bytes = stamp_layout.offset + stamp_layout.width
    if changed_role.payload.size_bytes < min_bytes and not stamp_layout.is_hex:
        raise ActionRefusal(
            f"messages of this run contain a time stamp and need {min_bytes} bytes: start a "
            "new run for smaller ones"
        )


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


_START_TIMEOUT_S = 30.0
_START_TIMEOUT_PER_WORKER_S = 5.0
"""Additional start time per worker: they share the processors."""
_FINAL_REPORT_TIMEOUT_S = 20.0
_RETRY_DELAY_S = 0.5
_Reply = TypeVar("_Reply")
_HEAD_START_NS = 60_000_000
"""Time from sending the start command to the start: long enough for every worker to read it."""


def refuse_read_only(connection: Connection) -> None:
    """Raise ActionRefusal in read-only mode."""
    if connection.read_only:
        raise ActionRefusal(f"{READ_ONLY}, and a benchmark publishes messages")


class Benchmark:
    """One run. Call `run()` once; the other methods may be called while it runs."""

    def __init__(
        self,
        plan: BenchmarkPlan,
        connection: Connection,
        sink: Sink,
        confirmed_name: str | None = None,
        decided_on: Confirmation | None = None,
        runs_count: int = 1,
    ) -> None:
        """Create a run without workers; `confirmed_name` is the name that was typed to confirm it.

        `decided_on` is the confirmation that was shown: the run is refused for another target.
        `runs_count` is the number of repetitions, over which the confirmation counts losses.
        """
        self._runs_count = runs_count
        self.plan = plan
        self._confirmed_name = confirmed_name
        self.decided_on = decided_on
        """The confirmation of the run's target, set by its check."""
        self.run_id = new_run_id()
        self.link: LinkChanged | None = None
        """The connection of the run, with its server; None before it."""
        self._connection = connection
        self._state = RunState(plan, self.run_id, sink)
        self._started_count_by_role = {role.name: role.workers_count for role in plan.roles}
        self._schedule_by_role = {role.name: role.schedule for role in plan.roles}
        self._changed_payload_by_role: dict[str, Payload] = {}
        """Role → the changed payload of its senders, if it was changed during the run."""
        self._added_workers_by_role = Counter[str]()
        """Role → the number of workers that were added by hand."""
        self._max_payload_bytes: int | None = None
        self._timeline: Timeline | None = None

    @property
    def failure(self) -> NatstuiError | None:
        """Return the error that ended the run early; None without one."""
        return self._state.failure

    def worker_pids(self) -> list[int]:
        """Return the process ids of the running workers."""
        return [member.process.pid for member in self._state.pool.members if not member.has_exited]

    @property
    def timeline(self) -> Timeline | None:
        """Return the messages of the measured part by time; None before the end of the run."""
        return self._timeline

    async def run(self, start_at_us: int | None = None) -> BenchmarkResult:
        """Run to the end and return the result, a partial one after a failure.

        With `start_at_us` (UTC µs) the workers wait for that time. Raises MissingConfirmation if
        the name must be typed, because of production or messages of others, and another
        NatstuiError if nothing could be measured.
        """
        state = self._state
        kept_asset_texts = tuple[str, ...]()
        client = await connect(self._connection)
        self.link = client.link
        assets = state.assets = RunAssets(client, self.plan, self.run_id, self._runs_count)
        try:
            target = await self._checked_target(client, assets)
            state.sink.add(BenchmarkPlanned(now_us(), self.run_id, self.plan))
            state.enter_phase("starting")
            for note in target.notes:
                state.add_remark(note)
            self._max_payload_bytes = client.nc.max_payload
            check_payload_sizes(self.plan, self._max_payload_bytes)
            with RunJournalEntry(
                self._make_writer(client), self.plan, self.run_id, target
            ) as journal_entry:
                await assets.create()
                if assets.keeps_no_messages:
                    state.add_remark(
                        f"{assets.stream} keeps none of the stored messages: it has interest "
                        "retention and no consumer"
                    )
                await self._start_workers(assets)
                # Before the run begins, because it reads every process of this machine.
                server_url = self.link.server_url if self.link else None
                server_process = await asyncio.to_thread(ServerProcess.find, server_url)
                self._send_start(start_at_us)
                await self._wait_for_start()
                result = journal_entry.result = await self._measure(
                    assets, server_process.start_measurement()
                )
            state.failure = state.failure or journal_entry.failure
        finally:
            try:
                await state.pool.end_all()
                kept_asset_texts = await assets.remove(state.pool.count_published_msgs())
                for text in kept_asset_texts:
                    state.log(text)
            finally:
                await client.close()
        if kept_asset_texts:
            result = replace(result, notes=(*result.notes, *kept_asset_texts))
        state.enter_phase("finished")
        state.sink.add(BenchmarkFinished(now_us(), self.run_id, result, None))
        return result

    async def check(self) -> None:
        """Raise the error that would refuse the run before its start, if any.

        It connects for this check alone.
        """
        client = await connect(self._connection)
        try:
            assets = RunAssets(client, self.plan, self.run_id, self._runs_count)
            await self._checked_target(client, assets)
        finally:
            await client.close()

    async def _checked_target(self, client: Client, assets: RunAssets) -> RunTarget:
        """Return the target of the run, and set `decided_on`.

        Raises ActionRefusal, MissingConfirmation without the typed name, and Conflict for another
        target than was confirmed.
        """
        target, writer = await assets.find_target(), self._make_writer(client)
        if target.loss_text is not None or self._connection.production:
            writer.check_target(target.name, target.created_at_us)
        confirmation = Confirmation(
            "",
            target.name,
            needed=True,
            created_at_us=target.created_at_us,
            place=writer.server_identity,
        )
        try:
            writer.check_allowed(target.name, self._confirmed_name, loss_text=target.loss_text)
        except MissingConfirmation as error:
            prompt_text = error.confirmation.question
            raise MissingConfirmation(
                str(error), replace(confirmation, question=prompt_text)
            ) from None
        self.decided_on = confirmation
        return target

    def _make_writer(self, client: Client) -> Writer:
        return Writer(client, Journal(), decided_on=self.decided_on)

    async def _start_workers(self, assets: RunAssets) -> None:
        """Start every worker and wait until all are ready."""
        pool = self._state.pool
        for orders in all_orders(self.plan, assets, self._connection.to_json_line()):
            await pool.start(orders)
        timeout_s = _START_TIMEOUT_S + _START_TIMEOUT_PER_WORKER_S * len(pool.members)
        await self._state.wait_until(
            lambda: (
                self._state.is_over
                or all(member.is_ready or member.is_over for member in pool.members)
            ),
            timeout_s,
        )
        if self._state.failure is not None:
            raise self._state.failure
        missing_names = [member.name for member in pool.members if not member.is_ready]
        if missing_names and not self._state.was_stopped:
            raise NatstuiError(
                f"workers {', '.join(missing_names)} were not ready in {timeout_s:g} s"
            )

    def _send_start(self, start_at_us: int | None) -> None:
        state, plan = self._state, self.plan
        state.read_clock()
        state.start_ns = time.monotonic_ns() + _HEAD_START_NS
        if start_at_us is not None:
            delay_s = (state.wall_us(state.start_ns) - start_at_us) / 1e6
            if delay_s > 0:
                state.add_remark(
                    f"it began {delay_s:.1f} s late: its workers were not ready in time"
                )
            else:
                state.start_ns -= round(delay_s * 1e9)
        state.steady_ns = state.start_ns + round((plan.warmup_s + plan.ramp_s) * 1e9)
        if plan.duration_s is not None:
            state.end_ns = state.steady_ns + round(plan.duration_s * 1e9)
        for member in state.pool.members:
            member.send_start(self._start_command(state.start_ns))

    async def _wait_for_start(self) -> None:
        """Wait until the workers start; raises ActionRefusal if the run is stopped before."""
        state = self._state
        while (remaining_s := (state.start_ns - time.monotonic_ns()) / 1e9) > 0:
            if state.failure is not None:
                raise state.failure
            if state.was_stopped:
                raise ActionRefusal("the run was stopped before it began")
            await state.wait_for_report(remaining_s)

    def _start_command(self, start_ns: int) -> StartCommand:
        state = self._state
        return StartCommand(
            start_ns=start_ns,
            steady_ns=max(start_ns, state.steady_ns),
            end_ns=state.end_ns,
            run_start_ns=state.start_ns,
        )

    async def _measure(self, assets: RunAssets, server: ServerProcess) -> BenchmarkResult:
        state = self._state
        watcher = RunWatcher(state, assets, self._cause_fault)
        try:
            await watcher.watch()
            state.enter_phase("drain")
            await watcher.drain()
        except NatstuiError as error:
            state.failure = state.failure or error
        server_cpu = server.cpu_since()
        state.pool.send_all(StopCommand())
        await state.wait_until(
            lambda: all(member.is_over for member in state.pool.members), _FINAL_REPORT_TIMEOUT_S
        )
        await state.pool.end_all()
        state.release_reports(is_final=True)
        outcome = await self._read_outcome(assets, server_cpu)
        result = make_result(outcome)
        began_at_us = state.wall_us(outcome.measured_start_ns)
        ended_at_us = began_at_us + round(result.duration_s * 1e6)
        self._timeline = state.timeline.timeline(began_at_us, ended_at_us)
        return result

    async def _read_outcome(self, assets: RunAssets, server_cpu: ServerCpu) -> RunOutcome:
        state = self._state
        stored_msgs: int | None = None
        notes: tuple[str, ...] = ()
        spans: dict[str, ConsumerSpan] = {}
        try:
            stored_msgs = await self._retry_while_unavailable(assets.read_stored_msgs)
            end_figures_by_role = await self._retry_while_unavailable(assets.read_consumer_figures)
            spans = {
                role: ConsumerSpan(assets.start_figures_by_role[role], figures)
                for role, figures in end_figures_by_role.items()
            }
        except Conflict as error:
            state.failure = state.failure or error
        except NatstuiError as error:
            unknown_text = (
                "stored" if stored_msgs is None else "delivered, so lost messages are unknown"
            )
            notes = (f"natstui could not read what the server {unknown_text}: {error}",)
            state.failure = state.failure or error
        return RunOutcome(
            plan=self.plan,
            started_at_us=state.started_at_us,
            steady_ns=state.steady_ns,
            ended_ns=time.monotonic_ns(),
            workers=[_worker_end(member, state.pool.members) for member in state.pool.members],
            latencies=state.latencies(),
            stored_msgs=stored_msgs,
            waiting_msgs=assets.waiting_msgs if assets.stream else None,
            was_stopped=state.was_stopped,
            failure=None if state.failure is None else str(state.failure),
            notes=(*state.remarks, *notes),
            consumers=spans,
            server_cpu=server_cpu,
        )

    async def _retry_while_unavailable(self, request: Callable[[], Awaitable[_Reply]]) -> _Reply:
        """Return the reply to a request, which is repeated for 30 s while a leader is missing.

        Raises the last error.
        """
        deadline_s = time.monotonic() + LEADER_TIMEOUT_S
        while True:
            try:
                return await request()
            except (RequestTimedOut, JetStreamUnavailable):
                if self._state.was_stopped or time.monotonic() > deadline_s:
                    raise
            await asyncio.sleep(_RETRY_DELAY_S)

    def stop(self) -> None:
        """End the run now; the result is marked partial."""
        self._state.was_stopped = True
        self._state.pool.send_all(StopCommand())
        self._state.wake()

    def change_rate(
        self, *, factor: float | None = None, per_s: float | None = None, role: str | None = None
    ) -> str:
        """Multiply the rates of roles by `factor`, or set them to `per_s` messages per second.

        The rate of a role is the sum over its running workers. `role` selects one role. Returns
        a sentence for people. Raises NotFound if no role has a rate, and ActionRefusal while
        workers are starting.
        """
        self._check_started()
        rated_roles = [
            (rated_role, members)
            for rated_role in self.plan.roles
            if rated_role.traits.has_rate
            and role in (None, rated_role.name)
            and self._schedule_by_role[rated_role.name]
            and (members := self._started_workers_of(rated_role.name))
        ]
        if not rated_roles:
            raise NotFound("no running role has a rate: all send as fast as possible")
        sentences, rate_texts = [], []
        for rated_role, members in rated_roles:
            segment = segment_at(self._schedule_by_role[rated_role.name], self._state.elapsed_s())
            worker_per_s = (
                segment.end_per_s / rated_role.workers_count * (factor or 1)
                if per_s is None
                else per_s / len(members)
            )
            schedule_per_s = worker_per_s * rated_role.workers_count
            self._schedule_by_role[rated_role.name] = (
                RateSegment(None, schedule_per_s, schedule_per_s),
            )
            for member in members:
                _send_rate(member, worker_per_s)
            rate_per_s = worker_per_s * len(members)
            verb = "sends" if rated_role.traits.sends else "gets"
            sentences.append(f"{rated_role.name} {verb} {rate_per_s:g} messages per second now")
            rate_texts.append(f"{rate_per_s:,.0f}/s")
        # From here on the rate has no planned steps, so there is no knee to find.
        self._state.knee = KneeDetector(replace(self.plan, roles=()))
        return self._note_change(sentences, "rate", ", ".join(rate_texts))

    def change_payload(self, text: str, role: str | None = None) -> str:
        """Change the payload of the senders, or of one role's; return a sentence for people.

        `text` is parsed by `parse_payload`. Raises NotFound without a sender, ActionRefusal for a
        payload that this run cannot send, and UsageError for an invalid text.
        """
        self._check_started()
        state = self._state
        assert self._max_payload_bytes is not None
        sender_roles = [
            sender_role for sender_role in self._sender_roles() if role in (None, sender_role.name)
        ]
        if not sender_roles:
            raise NotFound("no sending role is running")
        changed_roles = [
            role_with_payload(self.plan, sender_role, text) for sender_role in sender_roles
        ]
        check_payload_sizes(
            replace(self.plan, roles=tuple(changed_roles)), self._max_payload_bytes
        )
        if state.assets is not None:
            state.assets.check_change(changed_roles, self._added_workers_by_role)
        sentences = []
        for sender_role, changed_role in zip(sender_roles, changed_roles, strict=True):
            self._changed_payload_by_role[sender_role.name] = changed_role.payload
            for member in self._started_workers_of(sender_role.name):
                member.send(PayloadChange(payload=changed_role.payload))
            size_before_text, size_after_text = (
                describe_payload(sender_role.payload),
                describe_payload(changed_role.payload),
            )
            sentences.append(
                f"{sender_role.name} now sends {size_after_text} a message, not {size_before_text}"
            )
        return self._note_change(sentences)

    def _sender_roles(self) -> Iterator[Role]:
        """Yield the roles that send, with their current payload."""
        for role in self.plan.roles:
            if role.traits.sends:
                yield replace(
                    role, payload=self._changed_payload_by_role.get(role.name, role.payload)
                )

    def _note_change(
        self, sentences: list[str], change: RunChange | None = None, mark: str | None = None
    ) -> str:
        """Add a change, with its time, to the remarks of the result; return it as text.

        `change` is its kind, `mark` its label in charts.
        """
        text = ", ".join(sentences)
        self._state.add_remark(f"after {self._state.elapsed_s():.1f} s: {text}", change, mark)
        return text

    def kill_worker(self, role: str, worker_id: int | None = None) -> str:
        """Kill a worker of a role as in a crash; return a sentence for people.

        `worker_id` is its number in the role, None: the last worker. Raises NotFound if there is
        no such worker.
        """
        member = _find_worker(self._workers_of(role), role, worker_id)
        member.kill()
        self._state.log("is killed", member, "killed", f"-{member.name}")
        return f"worker {member.name} is killed"

    def pause_or_resume(self, role: str | None = None) -> str:
        """Pause the last worker of a role, or every worker, or resume paused ones.

        Returns a sentence for people. The schedule continues meanwhile: overdue messages are sent
        after the pause. Raises NotFound without a running worker, and ActionRefusal while workers
        are starting.
        """
        self._check_started()
        role_names = self._started_count_by_role if role is None else (role,)
        members = [member for name in role_names for member in self._started_workers_of(name)]
        chosen_members = members if role is None else members[-1:]
        if not chosen_members:
            raise NotFound("no worker is running that could be frozen")
        is_resume = all(member.name in self._state.paused_names for member in chosen_members)
        for member in chosen_members:
            self._pause_or_resume_worker(member, is_pause=not is_resume)
        workers_text = "every worker" if role is None else f"worker {chosen_members[0].name}"
        return f"{workers_text} is resumed" if is_resume else f"{workers_text} is paused"

    def _pause_or_resume_worker(self, member: WorkerProcess, *, is_pause: bool) -> None:
        member.send(PauseCommand() if is_pause else ResumeCommand())
        change = self._state.paused_names.add if is_pause else self._state.paused_names.discard
        change(member.name)
        self._state.log("is paused" if is_pause else "is resumed", member)

    async def add_worker(self, role: str, *, is_planned: bool = False) -> str:
        """Start another worker of a role; return a sentence for people.

        Raises NotFound without the role, and ActionRefusal if no worker can join, or if it would
        remove more messages of others than was confirmed. A planned worker was confirmed before.
        """
        state, matching_roles = (
            self._state,
            [plan_role for plan_role in self.plan.roles if plan_role.name == role],
        )
        if not matching_roles or state.assets is None or not state.start_ns:
            raise NotFound(f"no role {role!r} runs in this benchmark")
        if matching_roles[0].traits.is_push and matching_roles[0].workers_count == 1:
            raise ActionRefusal(
                f"the push consumer of role {role!r} has one receiver:"
                " start the run with two workers to add more"
            )
        if not is_planned:
            added_counts = self._added_workers_by_role + Counter([role])
            state.assets.check_change(self._sender_roles(), added_counts)
            self._added_workers_by_role = added_counts
        joining_role = replace(matching_roles[0], schedule=self._schedule_by_role[role])
        # Raised before the first await: another worker may join at the same moment.
        worker_id = self._started_count_by_role[role]
        publisher_id = sum(self._started_count_by_role.values())
        self._started_count_by_role[role] += 1
        line = self._connection.to_json_line()
        orders = added_orders(self.plan, state.assets, line, joining_role, worker_id, publisher_id)
        member = await state.pool.start(orders)
        await state.wait_until(lambda: member.is_ready or member.is_over, _START_TIMEOUT_S)
        if joining_role.traits.is_ordered:
            member.removed_before_start_msgs = await state.assets.read_dropped_msgs()
        if role in self._changed_payload_by_role:
            member.send(PayloadChange(payload=self._changed_payload_by_role[role]))
        member.send_start(self._start_command(time.monotonic_ns()))
        if self._schedule_by_role[role] is not joining_role.schedule:
            # It was changed while the worker started.
            (segment,) = self._schedule_by_role[role]
            _send_rate(member, segment.end_per_s / matching_roles[0].workers_count)
        state.log("is added", member, "added", f"+{member.name}")
        return f"worker {member.name} is added"

    async def _cause_fault(self, fault: Fault) -> None:
        """Kill, add, pause or resume a worker, as the plan requires."""
        if fault.kind == "kill":
            self.kill_worker(fault.role, fault.worker_id)
        elif fault.kind == "add":
            await self.add_worker(fault.role, is_planned=True)
        else:
            members = self._started_workers_of(fault.role)
            self._pause_or_resume_worker(
                _find_worker(members, fault.role, fault.worker_id), is_pause=fault.kind == "pause"
            )

    def _check_started(self) -> None:
        """Raise ActionRefusal while the first workers are starting."""
        if not self._state.start_ns:
            raise ActionRefusal("the workers are still starting: try again in a moment")

    def _workers_of(self, role: str) -> list[WorkerProcess]:
        """Return the workers of a role that have neither ended nor been killed."""
        return [
            member
            for member in self._state.pool.members
            if member.orders.role.name == role and not member.is_over and not member.was_killed
        ]

    def _started_workers_of(self, role: str) -> list[WorkerProcess]:
        """Return the running workers of a role without those that are joining."""
        return [member for member in self._workers_of(role) if member.was_started]


def _find_worker(
    members: Sequence[WorkerProcess], role: str, worker_id: int | None
) -> WorkerProcess:
    """Return the worker `role`/`worker_id` in `members`, the last one for None.

    Raises NotFound if there is none.
    """
    for member in reversed(members):
        if worker_id in (None, member.orders.worker_id):
            return member
    raise NotFound(f"there is no worker {role}/{'*' if worker_id is None else worker_id}")


def _send_rate(member: WorkerProcess, per_s: float) -> None:
    """Let a worker send `per_s` messages per second, by a new rate of its schedule."""
    member.send(RateChange(per_s=per_s * member.orders.workers_count))


def _worker_end(member: WorkerProcess, members: Sequence[WorkerProcess]) -> WorkerEnd:
    """Return the final state of a worker; `members` are all workers of the run."""
    final_report = member.final_report
    worker_counts = WorkerCounts(
        name=member.name,
        role=member.orders.role,
        worker_id=member.orders.worker_id,
        publisher_id=member.orders.publisher_id,
        sent_before_subscribing_by_publisher={
            sender.orders.publisher_id: member.count_sent_before(sender) for sender in members
        },
        removed_before_start_msgs=member.removed_before_start_msgs,
        has_stamps=member.orders.received_payload is not None,
        reported_counts=member.counts,
        totals=None if final_report is None else final_report.counts,
        received_sequences=None if final_report is None else final_report.received_sequences,
    )
    return WorkerEnd(
        counts=worker_counts,
        times=WorkerTimes() if final_report is None else final_report.times,
        start_ns=member.start_ns,
        cpu_ratio=member.steady_cpu_s / member.steady_s if member.steady_s > 0.05 else None,
        end_kind=_end_kind(member),
        latencies=member.latencies.total(),
        most_in_flight_msgs=member.most_in_flight_msgs,
    )


def _end_kind(member: WorkerProcess) -> EndKind:
    if member.was_killed:
        return "killed"
    if member.final_report is None:
        return "died"
    return "done" if member.failure is None else "failed"
