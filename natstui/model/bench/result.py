"""The result of a benchmark: rates, latencies, the account of every message, and a verdict."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from natstui.model.bench.counts import Counts, Latencies
from natstui.model.bench.patterns import Pattern
from natstui.units import counted, was_or_were

BUSY_WORKER_CPU_RATIO = 0.9
"""CPU use of a worker, as a share of a core, above which the worker limits the result."""

EndKind = Literal["done", "killed", "died", "failed"]
Verdict = Literal["ok", "incomplete", "failed", "stopped"]


class WorkerResult(Struct, frozen=True):
    """The result of a worker over the entire run."""

    role: str
    worker_id: int
    pattern: Pattern
    counts: Counts
    cpu_ratio: float | None
    """Mean share of one core in the measured part."""
    rate_per_s: float | None
    """Its rate in the measured part, of sent or received messages."""
    ended: EndKind
    latency: str | None = None
    """Name of the latency of the next two fields: the most important measured one."""
    p50_ns: int | None = None
    p99_ns: int | None = None
    most_in_flight_msgs: int | None = None
    """Maximum of its messages without a reply or ack, at the times of its reports."""


class Accounting(Struct, frozen=True):
    """The account of every message; `missing` has a sentence for each sum that does not add up."""

    sent_msgs: int
    acked_msgs: int
    duplicate_acked_msgs: int
    refused_msgs: int
    unanswered_msgs: int
    missed_msgs: int
    stored_msgs: int | None
    """Stored messages, by the server; None without a stream."""
    expected_msgs: int | None
    """Messages that all receivers together should have received; None if unknown."""
    received_msgs: int
    distinct_msgs: int | None
    """Different messages received, summed over groups; None without stamps."""
    redelivered_msgs: int
    """Deliveries of messages after the first one, by the server's count if it has one."""
    duplicate_msgs: int
    """Messages received again by the same group."""
    lost_msgs: int | None
    """Messages that were not received, and will not be delivered."""
    out_of_order_msgs: int
    closes: bool
    missing: tuple[str, ...] = ()
    """A sentence for each sum that does not add up."""
    delivered_msgs: int | None = None
    """Deliveries of shared consumers with all redeliveries, by the server: received and unread
    ones. None without such a consumer."""
    unread_msgs: int | None = None
    """Delivered messages that no worker read, because it was killed or had ended."""
    unsettled_msgs: int | None = None
    """Delivered messages that were not acked at the end, by the server."""
    foreign_msgs: int = 0
    """Messages from senders of other runs or programs, with repeats; in no other sum."""
    retried_msgs: int = 0
    """Messages refused by a restarting server and sent again; each is in one of the sums above."""

    measures: bool = True
    """Whether any message was sent or received in the measured part."""
    responses_msgs: int | None = None
    """Responses that requesters received, with repeats; None without requesters."""
    unresponded_msgs: int | None = None
    """Stored requests without a response that are no longer pending in the stream."""

    @property
    def incomplete_reasons(self) -> tuple[str, ...]:
        """Return a sentence for each reason why the result is incomplete: no measurement, lost
        messages, requests without a response, and sums that do not add up.
        """
        lost_msgs, unresponded_msgs = self.lost_msgs or 0, self.unresponded_msgs
        reasons = [*self._no_measurement_texts()]
        if lost_msgs:
            reasons.append(f"{counted(lost_msgs, 'message')} {was_or_were(lost_msgs)} lost")
        if unresponded_msgs:
            reasons.append(f"{counted(unresponded_msgs, 'request')} got no response")
        return (*reasons, *self.missing)

    def _no_measurement_texts(self) -> tuple[str, ...]:
        if self.measures:
            return ()
        if self.sent_msgs or self.received_msgs:
            return ("nothing was measured: every message fell into ramp and warm-up",)
        return ("nothing was measured: no message was sent and none received",)


class PreviousRun(Struct, frozen=True):
    """The last complete run of the same plan, for a comparison."""

    name: str
    """Its name in the run library."""
    at_us: int
    publish_per_s: float | None
    receive_per_s: float | None
    latency: str | None
    """Name of the latency of the next field: the most important measured one."""
    p99_ns: int | None
    lost_msgs: int | None


class BenchmarkResult(Struct, frozen=True):
    """The result of a run: the object of `--json`."""

    title: str
    started_at_us: int
    duration_s: float
    """Duration of the measured part."""
    verdict: Verdict
    partial: bool
    """Whether it ended early; the figures are those until then."""
    notes: tuple[str, ...]
    """Limits of the figures: client-bound, missed its rate, not accounted."""
    publish_per_s: float | None
    receive_per_s: float | None
    fan_out_ratio: float | None
    """Received messages per stored or sent message."""
    fairness_ratio: float | None
    """Jain's index over the receivers, else the senders: 1 is even, 1/n is one worker alone."""
    latencies: Latencies
    counts: Counts
    accounting: Accounting
    workers: tuple[WorkerResult, ...]
    server_cpu_ratio: float | None = None
    """The server's CPU use from GO to the last message; 1 is one core."""
    server_cpu_unknown: str | None = None
    """Reason why `server_cpu_ratio` is None: the server is remote, or its process not readable."""
