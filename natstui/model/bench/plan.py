"""What a benchmark shall do: roles, their payload and rate, the stream, phases and faults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from natstui.model.bench.patterns import Pattern as Pattern
from natstui.model.bench.patterns import PatternTraits, traits

Acks = Literal["explicit", "all", "none", "double"]
FaultKind = Literal["kill", "add", "pause", "resume"]

BENCHMARK_STREAM = "made by natstui for a benchmark"
"""The description of a stream that is made for a run, and deleted after it."""


@dataclass(frozen=True, slots=True)
class RateSegment:
    """A stretch of the schedule: the rate moves evenly from one value to another."""

    duration_s: float | None
    """None: it goes on for ever, and only the last segment may."""
    start_per_s: float
    end_per_s: float
    burst_msgs: int | None = None
    """Messages that fall due together; None: one by one."""


@dataclass(frozen=True, slots=True)
class Payload:
    """What messages are made of."""

    kind: Literal["fixed", "range", "file", "json"] = "fixed"
    size_bytes: int = 128
    size_max_bytes: int | None = None
    """The largest size of a range. Messages then have 16 sizes evenly spread over it, evenly often
    and in no order: each message its own, or 16 in a row where blocks are written."""
    file: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    msg_ids: bool = False
    """Carry `Nats-Msg-Id`, so that the server refuses a message it has already."""
    duplicate_ratio: float = 0.0
    """Share of messages that are sent a second time on purpose, with the same id."""


@dataclass(frozen=True, slots=True)
class Role:
    """One kind of worker: what it does, how many there are, and how fast."""

    name: str
    pattern: Pattern
    workers_count: int = 1
    subject: str = "bench"
    subjects_count: int = 1
    """Above 1, messages are spread over `<subject>.<n>`."""
    subjects_random: bool = False
    queue: str | None = None
    total_msgs: int | None = None
    """Of the role, over all its workers; None: until the time is up."""
    payload: Payload = field(default_factory=Payload)
    schedule: tuple[RateSegment, ...] = ()
    """Of the role, shared by its workers; empty: as fast as possible (closed loop)."""
    batch_msgs: int = 500
    """Messages per pull, per batch, or per block of a publisher."""
    window_msgs: int = 8000
    """Messages in flight without an acknowledgement."""
    consumer: str | None = None
    """An existing durable consumer; None: the benchmark makes one, shared by the role."""
    acks: Acks = "explicit"
    ack_wait_s: float = 30.0
    max_ack_pending_msgs: int = 10_000
    nak_ratio: float = 0.0
    term_ratio: float = 0.0
    never_ack_ratio: float = 0.0
    think_s: float = 0.0
    """Time a receiver spends on each message: a slow consumer."""
    timeout_s: float = 10.0
    """How long to wait for an acknowledgement, a reply or the last message."""

    @property
    def traits(self) -> PatternTraits:
        """What its pattern does."""
        return traits(self.pattern)


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """The stream (or KV bucket) a benchmark works on."""

    name: str
    create: bool = True
    """False: it exists already and is left as it is."""
    keep: bool = False
    """Leave the stream behind that was made for this run."""
    subjects: tuple[str, ...] = ()
    storage: Literal["file", "memory"] = "memory"
    replicas_count: int = 1
    retention: Literal["limits", "interest", "workqueue"] = "limits"
    discard: Literal["old", "new"] = "old"
    max_msgs: int | None = None
    max_bytes: int | None = None
    duplicate_window_s: float | None = None
    allow_batches: bool = False
    """Take atomic and fast batches, as far as the server is new enough for them."""
    history_count: int | None = None
    """Values kept per key; makes it a KV bucket named without `KV_`."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong on purpose, at a time after the start."""

    at_s: float
    kind: FaultKind
    role: str
    worker_id: int | None = None
    """Its number in the role; None: the last one."""


@dataclass(frozen=True, slots=True)
class BenchmarkPlan:
    """A whole benchmark, checked: everything a run needs to know but the connection."""

    title: str
    description: str
    roles: tuple[Role, ...]
    stream: StreamPlan | None
    duration_s: float | None
    """Of the measured part; None: until every sender has sent its messages."""
    warmup_s: float = 0.0
    ramp_s: float = 0.0
    drain_s: float = 10.0
    """Longest wait after the last message was sent for the last one to arrive."""
    faults: tuple[Fault, ...] = ()
    responses: StreamPlan | None = None
    """The second stream: where responses to stored requests come back."""
    assertions: tuple[str, ...] = ()
    """What must hold of the result, as `lost == 0`."""
