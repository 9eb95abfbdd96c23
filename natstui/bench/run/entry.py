"""What the journal keeps of a run: its begin and its end, where it works on what exists."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from natstui.bench.run.assets import RunTarget
from natstui.errors import NatstuiError, SessionError
from natstui.jetstream.connection.journal import Room
from natstui.jetstream.connection.writer import Asset, JournalDraft, Writer
from natstui.model.assets.loss import Loss
from natstui.model.bench.plan import BenchmarkPlan, Role
from natstui.model.bench.result import BenchmarkResult


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
