"""The result of a benchmark: rates, latencies, the account of every message, a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from natstui.model.bench.counts import Counts, Latencies
from natstui.model.bench.patterns import Pattern

EndedHow = Literal["done", "killed", "died", "failed"]
Verdict = Literal["ok", "incomplete", "failed", "stopped"]


@dataclass(frozen=True, slots=True)
class WorkerResult:
    """One worker over the whole run."""

    role: str
    worker_id: int
    pattern: Pattern
    counts: Counts
    cpu_ratio: float | None
    """Mean share of one core in the measured part."""
    rate_per_s: float | None
    """Its own rate in the measured part: sent or received."""
    ended: EndedHow
    latency: str | None = None
    """Which of its latencies the next two are of: the most telling one it measured."""
    p50_ns: int | None = None
    p99_ns: int | None = None
    most_in_flight_msgs: int | None = None
    """The most that waited for an answer, or to be acknowledged by it, as it reported."""


@dataclass(frozen=True, slots=True)
class Accounting:
    """Where every message is; the sums are equal, or sentences say which are not."""

    sent_msgs: int
    acked_msgs: int
    duplicate_acked_msgs: int
    refused_msgs: int
    unanswered_msgs: int
    missed_msgs: int
    stored_msgs: int | None
    """Asked of the server; None without a stream."""
    expected_msgs: int | None
    """What all receivers together should have received; None when it is unknown."""
    received_msgs: int
    distinct_msgs: int | None
    """Different messages received, summed over groups; None when they carry no stamp."""
    redelivered_msgs: int
    """Deliveries of a message after its first, by the server's count where it has one."""
    duplicate_msgs: int
    """Received more than once by the same group, beyond the first time."""
    lost_msgs: int | None
    """Not received, and no longer with the server to be delivered."""
    out_of_order_msgs: int
    closes: bool
    missing: tuple[str, ...] = ()
    """One sentence for each sum that is not equal."""
    delivered_msgs: int | None = None
    """Deliveries of shared consumers, every repeat counted, asked of the server: received and
    unread together. None without such a consumer."""
    unread_msgs: int | None = None
    """Delivered by the server and read by nobody: their worker was killed or gone."""
    unsettled_msgs: int | None = None
    """Delivered and not acknowledged at the end, asked of the server."""
    foreign_msgs: int = 0
    """Received from senders of other runs or programs, every repeat counted; in no other sum."""
    retried_msgs: int = 0
    """Refused while the server came back, and sent again: each is in one of the sums above."""

    measures: bool = True
    """Some message was sent or received in the measured part."""
    responses_msgs: int | None = None
    """Responses that came back to who asked, every repeat counted; None where nobody asks."""
    unresponded_msgs: int | None = None
    """Stored requests without any response, that wait in the stream no more."""

    @property
    def complaints(self) -> tuple[str, ...]:
        """What is wrong: lost messages, and sums that are not equal."""
        lost = (f"{self.lost_msgs} messages were lost",) if self.lost_msgs else ()
        silent = self.unresponded_msgs
        unresponded = (f"{silent} requests got no response",) if silent else ()
        return (*self._unmeasured(), *lost, *unresponded, *self.missing)

    def _unmeasured(self) -> tuple[str, ...]:
        if self.measures:
            return ()
        if self.sent_msgs or self.received_msgs:
            return ("nothing was measured: every message fell into ramp and warm-up",)
        return ("nothing was measured: no message was sent and none received",)


@dataclass(frozen=True, slots=True)
class PreviousRun:
    """What a run is compared with: the last complete one of the same plan."""

    name: str
    """In the run library."""
    at_us: int
    publish_per_s: float | None
    receive_per_s: float | None
    latency: str | None
    """Which latency the next one is of: the most telling one that was measured."""
    p99_ns: int | None
    lost_msgs: int | None


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """The result of one run: the object of `--json`."""

    title: str
    started_at_us: int
    duration_s: float
    """Of the measured part."""
    verdict: Verdict
    partial: bool
    """It ended before its time; the figures are those up to then."""
    notes: tuple[str, ...]
    """What limits the figures: client-bound, missed its rate, not accounted."""
    publish_per_s: float | None
    receive_per_s: float | None
    fan_out_ratio: float | None
    """Received per stored or sent message."""
    fairness_ratio: float | None
    """Jain's index over the receivers, else the senders: 1 is even, 1/n is one worker alone."""
    latencies: Latencies
    counts: Counts
    accounting: Accounting
    workers: tuple[WorkerResult, ...]
    server_cpu_ratio: float | None = None
    """Of one core, from GO to the last message; above 1 the server used several."""
    server_cpu_unknown: str | None = None
    """Why `server_cpu_ratio` is None: it is elsewhere, or not to be seen."""
