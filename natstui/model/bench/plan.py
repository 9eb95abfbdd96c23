"""The plan of a benchmark: roles with payload and rate, the stream, phases and faults."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from natstui.model.bench.patterns import Pattern as Pattern
from natstui.model.bench.patterns import PatternTraits, traits

Acks = Literal["explicit", "all", "none", "double"]
FaultKind = Literal["kill", "add", "pause", "resume"]

BENCHMARK_STREAM_DESCRIPTION = "made by natstui for a benchmark"
"""Description of a stream that is created for a run and deleted after it."""
SERVICE_QUEUE_GROUP = "natstui-bench"
"""Queue group of services that name none."""


class RateSegment(Struct, frozen=True):
    """A segment of the schedule, in which the rate changes linearly from one value to another."""

    duration_s: float | None
    """None: without an end, which only the last segment may have."""
    start_per_s: float
    end_per_s: float
    burst_msgs: int | None = None
    """Number of messages that are due at the same time; None: one by one."""


class Payload(Struct, frozen=True):
    """The content of messages."""

    kind: Literal["fixed", "range", "file", "json"] = "fixed"
    size_bytes: int = 128
    size_max_bytes: int | None = None
    """The largest size of a range. Messages then have 16 sizes evenly spread over it, evenly often
    and in no order: each message its own, or 16 in a row where blocks are written."""
    file: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    msg_ids: bool = False
    """Whether messages have a `Nats-Msg-Id`, so that the server drops repeated ones."""
    duplicate_ratio: float = 0.0
    """Share of messages that are sent a second time on purpose, with the same id."""


class Role(Struct, frozen=True):
    """A kind of worker: its pattern, number of workers, and rate."""

    name: str
    pattern: Pattern
    workers_count: int = 1
    subject: str = "bench"
    subjects_count: int = 1
    """Above 1, messages are spread over `<subject>.<n>`."""
    subjects_random: bool = False
    queue: str | None = None
    total_msgs: int | None = None
    """Messages of all workers of the role together; None: until the end of the duration."""
    payload: Payload = field(default_factory=Payload)
    schedule: tuple[RateSegment, ...] = ()
    """Schedule of the role, shared by its workers; empty: as fast as possible (closed loop)."""
    batch_msgs: int = 500
    """Messages per pull, per batch, or per block of a publisher."""
    window_msgs: int = 8000
    """Limit of messages in flight without an ack."""
    consumer: str | None = None
    """An existing durable consumer; None: the benchmark creates one, shared by the role."""
    acks: Acks = "explicit"
    ack_wait_s: float = 30.0
    max_ack_pending_msgs: int = 10_000
    nak_ratio: float = 0.0
    term_ratio: float = 0.0
    never_ack_ratio: float = 0.0
    think_s: float = 0.0
    """Processing time of a receiver per message, for a slow consumer."""
    timeout_s: float = 10.0
    """Maximum wait for an ack, a reply or the last message."""

    @property
    def traits(self) -> PatternTraits:
        """Return the traits of the role's pattern."""
        return traits(self.pattern)


class StreamPlan(Struct, frozen=True):
    """The stream (or KV bucket) of a benchmark."""

    name: str
    create: bool = True
    """Whether it is created; False: it exists already and is not changed."""
    keep: bool = False
    """Whether a stream created for this run is kept."""
    subjects: tuple[str, ...] = ()
    storage: Literal["file", "memory"] = "memory"
    replicas_count: int = 1
    retention: Literal["limits", "interest", "workqueue"] = "limits"
    discard: Literal["old", "new"] = "old"
    max_msgs: int | None = None
    max_bytes: int | None = None
    duplicate_window_s: float | None = None
    allow_batches: bool = False
    """Whether it accepts atomic and fast batches, if the server supports them."""
    history_count: int | None = None
    """Values kept per key; set for a KV bucket, whose name is without `KV_`."""


class Fault(Struct, frozen=True):
    """A planned fault, at a time after the start."""

    at_s: float
    kind: FaultKind
    role: str
    worker_id: int | None = None
    """Its number in the role; None: the last one."""


class BenchmarkPlan(Struct, frozen=True):
    """A validated plan of a benchmark: everything that a run needs except the connection."""

    title: str
    description: str
    roles: tuple[Role, ...]
    stream: StreamPlan | None
    duration_s: float | None
    """Duration of the measured part; None: until every sender has sent its messages."""
    warmup_s: float = 0.0
    ramp_s: float = 0.0
    drain_s: float = 10.0
    """Maximum wait for the last message to arrive after it was sent."""
    faults: tuple[Fault, ...] = ()
    responses: StreamPlan | None = None
    """The second stream, for responses to stored requests."""
    assertions: tuple[str, ...] = ()
    """Conditions of the result, as `lost == 0`."""
