"""One run of a benchmark: workers started, let go together, watched, counted and ended."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, TypeVar

from natstui.bench.job.content import check_fits, payload_place
from natstui.bench.job.protocol import Go, NewPayload, Pause, Rate, Resume, Stop
from natstui.bench.job.schedule import segment_at
from natstui.bench.plan.check import mistakes, sized
from natstui.bench.result.accounting import ConsumerSpan, WorkerBook
from natstui.bench.result.outcome import RunOutcome, WorkerEnd, conclude
from natstui.bench.result.server_process import ServerCpu, ServerProcess
from natstui.bench.run.assets import RunAssets, RunTarget, new_run_id
from natstui.bench.run.knee import Knee
from natstui.bench.run.orders import added_orders, all_orders
from natstui.bench.run.progress import PATIENCE_S, Watcher
from natstui.bench.run.state import RunState, now_us
from natstui.bench.run.worker_processes import WorkerProcess
from natstui.config.connection import Connection
from natstui.errors import (
    JetStreamUnavailable,
    NatstuiError,
    NotFound,
    Refused,
    RequestTimedOut,
    SessionError,
    UsageError,
)
from natstui.feed import Sink
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.connection.journal import Journal, Room
from natstui.jetstream.connection.writer import (
    READ_ONLY,
    Asset,
    JournalDraft,
    NotConfirmed,
    Writer,
)
from natstui.model.assets.loss import Loss
from natstui.model.bench.payload_words import HOW, payload_of, payload_words
from natstui.model.bench.plan import BenchmarkPlan, Fault, Payload, RateSegment, Role
from natstui.model.bench.result import BenchmarkResult, EndedHow
from natstui.model.bench.timeline import Timeline
from natstui.model.records.benchmark import BenchmarkFinished, BenchmarkPlanned, RunChange
from natstui.model.records.link import LinkChanged
from natstui.model.records.managing import Confirmation


class RunEntry:
    """The entry of a run that publishes to existing streams, or acknowledges their messages.

    Nothing is journalled of a run that only reads, or has a stream of its own.
    """

    def __init__(
        self, writer: Writer, plan: BenchmarkPlan, run_id: str, target: RunTarget
    ) -> None:
        self.result: BenchmarkResult | None = None
        """What is known at the end; None: it ended before it had begun."""
        self.failure: SessionError | None = None
        """Why its end is not in the journal."""
        self._writer = writer
        self._plan = plan
        self._room: Room | None = None
        changes = any(role.traits.sends or _acks(role) for role in plan.roles)
        self._draft = _draft(plan, run_id, target) if changes and target.streams else None

    def __enter__(self) -> RunEntry:
        """Journal the begin; raises SessionError, and nothing is sent then."""
        if self._draft is not None:
            self._room = self._writer.note_begin(self._draft)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """Journal the end; a result is not lost because of a journal that cannot be written."""
        if self._draft is None or self._room is None:
            return
        after = None if self.result is None else _after(self._plan, self.result)
        reason = None
        if error is not None:
            reason = str(error) if isinstance(error, NatstuiError) else "natstui was ended"
        try:
            self._writer.note_end(self._room, self._draft, after, reason)
        except SessionError as failure:
            self.failure = failure


def _acks(role: Role) -> bool:
    return role.traits.has_shared_consumer and role.acks != "none"


def _draft(plan: BenchmarkPlan, run_id: str, target: RunTarget) -> JournalDraft:
    streams = ", ".join(target.streams)
    place = f"{target.consumer} of {streams}" if target.consumer else streams
    roles = [f"{role.workers_count} {role.pattern}" for role in plan.roles]
    asked = {"run": run_id, "what": place, "title": plan.title, "roles": ", ".join(roles)}
    found = None
    if target.created_at_us is not None:
        loss = Loss((target.loses,) if target.loses else (), None)
        found = Asset({}, target.created_at_us, {}, loss, target.stream_created_at_us)
    return JournalDraft("benchmark", target.streams[0], target.consumer, asked, found=found)


def _after(plan: BenchmarkPlan, result: BenchmarkResult) -> dict[str, Any]:
    """Return what was published, received and acknowledged, as far as the workers said."""
    roles = {role.name: role for role in plan.roles}
    published = received = acknowledged = 0
    for worker in result.workers:
        role, counts = roles[worker.role], worker.counts
        if role.traits.sends:
            stored = counts.acked_msgs + counts.duplicate_acked_msgs
            published += stored if role.traits.is_stored else counts.sent_msgs
        if role.traits.receives:
            received += counts.received_msgs + counts.foreign_msgs
        if _acks(role):
            # One acknowledgement is for all messages before it.
            acknowledged += counts.received_msgs if role.acks == "all" else counts.acks_sent_msgs
    return {
        "published_msgs": published,
        "received_msgs": received,
        "acknowledged_msgs": acknowledged,
        "verdict": result.verdict,
    }


def changed_payload(plan: BenchmarkPlan, role: Role, text: str) -> Role:
    """Return a role of a running plan with another payload. Raises UsageError and Refused."""
    try:
        changed = replace(role, payload=sized(payload_of(text, role.payload)))
    except ValueError as error:
        raise UsageError(f"{error}; write {HOW}") from error
    for mistake in mistakes(replace(plan, roles=(changed,), faults=())):
        raise UsageError(mistake)
    begun = next(one for one in plan.roles if one.name == role.name)
    _check_stamp(begun.payload, changed)
    return changed


def _check_stamp(begun: Payload, changed: Role) -> None:
    """Refuse what would leave receivers looking for a stamp where there is none."""
    place = payload_place(begun)
    if not place.length:
        return
    if (changed.payload.kind == "json") != place.as_hex:
        raise Refused("a run cannot change between JSON and bytes: start a new one")
    least_bytes = place.offset + place.width
    if changed.payload.size_bytes < least_bytes and not place.as_hex:
        raise Refused(
            f"messages of this run contain a time stamp and need {least_bytes} bytes: start a "
            "new run for smaller ones"
        )


_START_S = 30.0
_START_OF_EACH_S = 5.0
"""They start side by side, and share what processors there are."""
_LAST_WORD_S = 20.0
_RETRY_S = 0.5
_Reply = TypeVar("_Reply")
_HEAD_START_NS = 60_000_000
"""From GO to the start: long enough for every worker to have read it."""


def refuse_read_only(connection: Connection) -> None:
    """Raise Refused where nothing may be written."""
    if connection.read_only:
        raise Refused(f"{READ_ONLY}, and a benchmark publishes messages")


class Benchmark:
    """One run. `run()` once; the other methods may be called while it runs."""

    def __init__(
        self,
        plan: BenchmarkPlan,
        connection: Connection,
        sink: Sink,
        confirmed: str | None = None,
        decided_on: Confirmation | None = None,
    ) -> None:
        """`confirmed` is the name as it was typed, where a run has to be confirmed.

        `decided_on` is what was shown then: the run is refused on anything else.
        """
        self.plan = plan
        self._confirmed = confirmed
        self.decided_on = decided_on
        """What the run works on; known once it is checked."""
        self.run_id = new_run_id()
        self.link: LinkChanged | None = None
        """The server it runs against."""
        self._connection = connection
        self._state = RunState(plan, self.run_id, sink)
        self._started_count = {role.name: role.workers_count for role in plan.roles}
        self._rates = {role.name: role.schedule for role in plan.roles}
        self._payloads: dict[str, Payload] = {}
        """By role, what its senders were told to send instead of what was planned."""
        self._max_payload_bytes: int | None = None
        self._timeline: Timeline | None = None

    @property
    def failure(self) -> NatstuiError | None:
        """What ended the run before its time, with its exit code."""
        return self._state.failure

    def worker_pids(self) -> list[int]:
        """Return the process ids of the workers that live."""
        return [member.process.pid for member in self._state.pool.members if not member.gone]

    @property
    def timeline(self) -> Timeline | None:
        """When the messages of the measured part came; None before the run is over."""
        return self._timeline

    async def run(self, start_at_us: int | None = None) -> BenchmarkResult:
        """Run to the end and return the result, a partial one when something failed on the way.

        With `start_at_us` the workers are started at once, and begin at that time of day. Raises
        a NatstuiError when nothing could be measured: no connection, stream or worker; and
        NotConfirmed where the name was not typed, in production and where it takes of others.
        """
        state, kept = self._state, tuple[str, ...]()
        client = await connect(self._connection)
        self.link = client.link
        assets = state.assets = RunAssets(client, self.plan, self.run_id)
        try:
            target = await self._checked_target(client, assets)
            state.sink.add(BenchmarkPlanned(now_us(), self.run_id, self.plan))
            state.enter("starting")
            self._max_payload_bytes = client.nc.max_payload
            check_fits(self.plan, self._max_payload_bytes)
            with RunEntry(self._writer(client), self.plan, self.run_id, target) as entry:
                await assets.build()
                await self._assemble(assets)
                self._go(start_at_us)
                await self._wait_for_begin()
                result = entry.result = await self._measure(assets)
            state.failure = state.failure or entry.failure
        finally:
            try:
                await state.pool.dismiss()
                # A server that is gone cannot be asked to delete anything; leftovers expire.
                with contextlib.suppress(NatstuiError):
                    kept = await assets.remove()
            finally:
                await client.close()
        if kept:
            result = replace(result, notes=(*result.notes, *kept))
        state.enter("finished")
        state.sink.add(BenchmarkFinished(now_us(), self.run_id, result, None))
        return result

    async def check(self) -> None:
        """Connect once and raise what would refuse the run, before its moment; close."""
        client = await connect(self._connection)
        try:
            await self._checked_target(client, RunAssets(client, self.plan, self.run_id))
        finally:
            await client.close()

    async def _checked_target(self, client: Client, assets: RunAssets) -> RunTarget:
        """Return what the run works on. Raises Refused, NotConfirmed and Conflict."""
        target, writer = await assets.target(), self._writer(client)
        if target.loses is not None or self._connection.production:
            writer.check_target(target.name, target.created_at_us)
        shown = Confirmation(
            "", target.name, needed=True, created_at_us=target.created_at_us, place=writer.place
        )
        try:
            writer.check(target.name, self._confirmed, loses=target.loses)
        except NotConfirmed as error:
            question = error.confirmation.question
            raise NotConfirmed(str(error), replace(shown, question=question)) from None
        self.decided_on = shown
        return target

    def _writer(self, client: Client) -> Writer:
        return Writer(client, Journal(), decided_on=self.decided_on)

    async def _assemble(self, assets: RunAssets) -> None:
        """Start every worker and wait until all are there."""
        pool = self._state.pool
        for orders in all_orders(self.plan, assets, self._connection.to_line()):
            await pool.start(orders)
        within_s = _START_S + _START_OF_EACH_S * len(pool.members)
        await self._state.until(
            lambda: (
                self._state.over or all(member.ready or member.over for member in pool.members)
            ),
            within_s,
        )
        if self._state.failure is not None:
            raise self._state.failure
        absent = [member.name for member in pool.members if not member.ready]
        if absent and not self._state.stopped:
            raise NatstuiError(f"workers {', '.join(absent)} were not ready in {within_s:g} s")

    def _go(self, start_at_us: int | None) -> None:
        state, plan = self._state, self.plan
        state.go_ns = time.monotonic_ns() + _HEAD_START_NS
        if start_at_us is not None:
            late_s = (state.wall_us(state.go_ns) - start_at_us) / 1e6
            if late_s > 0:
                state.remark(f"it began {late_s:.1f} s late: its workers were not ready in time")
            else:
                state.go_ns -= round(late_s * 1e9)
        state.steady_ns = state.go_ns + round((plan.warmup_s + plan.ramp_s) * 1e9)
        if plan.duration_s is not None:
            state.end_ns = state.steady_ns + round(plan.duration_s * 1e9)
        for member in state.pool.members:
            member.let_go(self._go_at(state.go_ns))

    async def _wait_for_begin(self) -> None:
        """Return when the workers begin. Raises Refused when the run is stopped before that."""
        state = self._state
        while (left_s := (state.go_ns - time.monotonic_ns()) / 1e9) > 0:
            if state.failure is not None:
                raise state.failure
            if state.stopped:
                raise Refused("the run was stopped before it began")
            await state.changes(left_s)

    def _go_at(self, go_ns: int) -> Go:
        state = self._state
        return Go(
            go_ns=go_ns,
            steady_ns=max(go_ns, state.steady_ns),
            end_ns=state.end_ns,
            begun_ns=state.go_ns,
        )

    async def _measure(self, assets: RunAssets) -> BenchmarkResult:
        state = self._state
        watcher = Watcher(state, assets, self._face)
        server = ServerProcess.find(self.link.server_url if self.link else None)
        try:
            await watcher.watch()
            state.enter("drain")
            await watcher.drain()
        except NatstuiError as error:
            state.failure = state.failure or error
        cpu = server.until_now()
        state.pool.tell_all(Stop())
        await state.until(lambda: all(member.over for member in state.pool.members), _LAST_WORD_S)
        await state.pool.dismiss()
        state.release(everything=True)
        result = conclude(await self._ending(assets, cpu))
        began_at_us = state.wall_us(state.steady_ns)
        ended_at_us = began_at_us + round(result.duration_s * 1e6)
        self._timeline = state.timeline.timeline(began_at_us, ended_at_us)
        return result

    async def _ending(self, assets: RunAssets, cpu: ServerCpu) -> RunOutcome:
        state = self._state
        stored: int | None = None
        notes: tuple[str, ...] = ()
        spans: dict[str, ConsumerSpan] = {}
        try:
            stored = await self._retry_while_away(assets.stored_msgs)
            ends = await self._retry_while_away(assets.figures)
            spans = {role: ConsumerSpan(assets.begun[role], end) for role, end in ends.items()}
        except NatstuiError as error:
            what = "stored" if stored is None else "delivered, so lost messages are unknown"
            notes = (f"natstui could not read what the server {what}: {error}",)
            state.failure = state.failure or error
        return RunOutcome(
            plan=self.plan,
            started_at_us=state.started_at_us,
            steady_ns=state.steady_ns,
            ended_ns=time.monotonic_ns(),
            workers=[_end(member, state.pool.members) for member in state.pool.members],
            latencies=state.latencies(),
            stored_msgs=stored,
            waiting_msgs=assets.waiting_msgs if assets.stream else None,
            stopped=state.stopped,
            failure=None if state.failure is None else str(state.failure),
            notes=(*state.remarks, *notes),
            consumers=spans,
            server_cpu=cpu,
        )

    async def _retry_while_away(self, request: Callable[[], Awaitable[_Reply]]) -> _Reply:
        """Return the reply to a request, repeated while a leader is away. Raises NatstuiError."""
        give_up = time.monotonic() + PATIENCE_S
        while True:
            try:
                return await request()
            except (RequestTimedOut, JetStreamUnavailable):
                if self._state.stopped or time.monotonic() > give_up:
                    raise
            await asyncio.sleep(_RETRY_S)

    def stop(self) -> None:
        """End now; the result is marked partial."""
        self._state.stopped = True
        self._state.pool.tell_all(Stop())
        self._state.wake()

    def change_rate(
        self, *, factor: float | None = None, per_s: float | None = None, role: str | None = None
    ) -> str:
        """Multiply or set the rate of the senders; return a sentence. Raises NotFound."""
        chosen = [
            one
            for one in self.plan.roles
            if one.traits.sends and role in (None, one.name) and self._rates[one.name]
        ]
        if not chosen:
            raise NotFound("no running role has a rate: all send as fast as possible")
        sentences, rates = [], []
        for one in chosen:
            now = segment_at(self._rates[one.name], self._state.elapsed_s())
            rate_per_s = per_s if per_s is not None else now.end_per_s * (factor or 1)
            self._rates[one.name] = (RateSegment(None, rate_per_s, rate_per_s),)
            for member in self._of(one.name):
                member.send(Rate(per_s=rate_per_s / one.workers_count))
            sentences.append(f"{one.name} sends {rate_per_s:g} messages per second now")
            rates.append(f"{rate_per_s:,.0f}/s")
        # From here on the rate has no planned steps, so there is no knee to look for.
        self._state.knee = Knee(replace(self.plan, roles=()))
        return self._changed(sentences, "rate", ", ".join(rates))

    def change_payload(self, text: str, role: str | None = None) -> str:
        """Let the senders send something else from now on; return a sentence.

        `text` is as in `model.bench.payload_words`. Raises NotFound, Refused and UsageError.
        """
        state = self._state
        if not state.go_ns or self._max_payload_bytes is None:
            raise Refused("the workers are still starting: try again in a moment")
        found = [one for one in self._sending() if role in (None, one.name)]
        if not found:
            raise NotFound("no sending role is running")
        changed = [changed_payload(self.plan, one, text) for one in found]
        check_fits(replace(self.plan, roles=tuple(changed)), self._max_payload_bytes)
        sentences = []
        for one, new in zip(found, changed, strict=True):
            self._payloads[one.name] = new.payload
            for member in self._of(one.name):
                member.send(NewPayload(payload=new.payload))
            before, after = payload_words(one.payload), payload_words(new.payload)
            sentences.append(f"{one.name} now sends {after} a message, not {before}")
        return self._changed(sentences)

    def _sending(self) -> Iterator[Role]:
        """Yield the roles that send, with what they send now."""
        for role in self.plan.roles:
            if role.traits.sends:
                yield replace(role, payload=self._payloads.get(role.name, role.payload))

    def _changed(
        self, sentences: list[str], change: RunChange | None = None, mark: str | None = None
    ) -> str:
        """Let the result say that what ran was not what was planned, and since when."""
        text = ", ".join(sentences)
        self._state.remark(f"after {self._state.elapsed_s():.1f} s: {text}", change, mark)
        return text

    def kill_worker(self, role: str, worker_id: int | None = None) -> str:
        """Let a worker die as in a crash; return a sentence. Raises NotFound."""
        member = self._find(role, worker_id)
        member.kill()
        self._state.log("is killed", member, "killed", f"-{member.name}")
        return f"worker {member.name} is killed"

    def hold_workers(self, role: str | None = None) -> str:
        """Let the last worker of a role, or everybody, do nothing, or go on; return a sentence.

        A schedule goes on meanwhile: what it owes is sent as soon as its senders may. Raises
        NotFound, and Refused while workers are starting.
        """
        if not self._state.go_ns:
            raise Refused("the workers are still starting: try again in a moment")
        names = self._started_count if role is None else (role,)
        # Who is added and still starts would not understand it.
        there = [
            one for name in names for one in self._of(name) if one.ready and not one.was_killed
        ]
        chosen = there if role is None else there[-1:]
        if not chosen:
            raise NotFound("no worker is running that could be frozen")
        goes_on = all(one.name in self._state.held for one in chosen)
        for member in chosen:
            self._hold(member, paused=not goes_on)
        who = "every worker" if role is None else f"worker {chosen[0].name}"
        return f"{who} goes on" if goes_on else f"{who} does nothing now"

    def _hold(self, member: WorkerProcess, *, paused: bool) -> None:
        member.send(Pause() if paused else Resume())
        change = self._state.held.add if paused else self._state.held.discard
        change(member.name)
        self._state.log("is paused" if paused else "is resumed", member)

    async def add_worker(self, role: str) -> str:
        """Start one more worker; return a sentence. Raises NotFound, and Refused."""
        state, found = self._state, [one for one in self.plan.roles if one.name == role]
        if not found or state.assets is None or not state.go_ns:
            raise NotFound(f"no role {role!r} runs in this benchmark")
        if found[0].traits.is_push and found[0].workers_count == 1:
            raise Refused(
                f"the push consumer of role {role!r} has one receiver:"
                " start the run with two workers to add more"
            )
        one = replace(found[0], schedule=self._rates[role])
        worker_id, number = self._started_count[role], len(state.pool.members)
        self._started_count[role] += 1
        line = self._connection.to_line()
        orders = added_orders(self.plan, state.assets, line, one, worker_id, number)
        member = await state.pool.start(orders)
        await state.until(lambda: member.ready or member.over, _START_S)
        if one.traits.is_ordered:
            member.gone_before_msgs = await state.assets.dropped_msgs()
        if role in self._payloads:
            member.send(NewPayload(payload=self._payloads[role]))
        member.let_go(self._go_at(time.monotonic_ns()))
        state.log("is added", member, "added", f"+{member.name}")
        return f"worker {member.name} is added"

    async def _face(self, fault: Fault) -> None:
        """Let something go wrong on purpose."""
        if fault.kind == "kill":
            self.kill_worker(fault.role, fault.worker_id)
        elif fault.kind == "add":
            await self.add_worker(fault.role)
        else:
            self._hold(self._find(fault.role, fault.worker_id), paused=fault.kind == "pause")

    def _of(self, role: str) -> list[WorkerProcess]:
        return [
            member
            for member in self._state.pool.members
            if member.orders.role.name == role and not member.over
        ]

    def _find(self, role: str, worker_id: int | None) -> WorkerProcess:
        for member in reversed(self._of(role)):
            if worker_id in (None, member.orders.worker_id) and not member.was_killed:
                return member
        raise NotFound(f"there is no worker {role}/{'*' if worker_id is None else worker_id}")


def _end(member: WorkerProcess, everybody: Sequence[WorkerProcess]) -> WorkerEnd:
    """Return what is known of a worker that has ended."""
    done = member.done
    book = WorkerBook(
        name=member.name,
        role=member.orders.role,
        worker_id=member.orders.worker_id,
        publisher_id=member.orders.publisher_id,
        due_from={one.orders.publisher_id: member.due_from_of(one) for one in everybody},
        gone_before_msgs=member.gone_before_msgs,
        has_stamps=member.orders.stamp_of is not None,
        reported=member.counts,
        totals=None if done is None else done.counts,
        seen=None if done is None else done.seen,
    )
    return WorkerEnd(
        book=book,
        last_sent_ns=0 if done is None else done.last_sent_ns,
        last_received_ns=0 if done is None else done.last_received_ns,
        cpu_ratio=member.steady_cpu_s / member.steady_s if member.steady_s > 0.05 else None,
        ended=_how(member),
        latencies=member.latencies.total(),
        most_in_flight_msgs=member.most_in_flight_msgs,
    )


def _how(member: WorkerProcess) -> EndedHow:
    if member.was_killed:
        return "killed"
    if member.done is None:
        return "died"
    return "done" if member.failed is None else "failed"
