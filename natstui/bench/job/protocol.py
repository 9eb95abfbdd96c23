"""The protocol of the controller and its workers: one JSON object per line, both ways."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from natstui.decoding import decoder_of
from natstui.model.bench.counts import Counts, Latencies
from natstui.model.bench.plan import Payload, Role


class _Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="say"):
    """A line of the protocol."""


@dataclass(frozen=True, slots=True)
class CreatedStream:
    """A stream that a run created, and deletes unless others have published to it."""

    created: str
    """Its creation time, as the server printed it."""
    subjects: tuple[str, ...]


class Orders(_Line, frozen=True, tag="orders"):
    """The first line for a worker; it contains secrets, so it comes by stdin."""

    connection: str
    """A line of `Connection.to_line`."""
    run_id: str
    role: Role
    worker_id: int
    publisher_id: int
    """Unique among all workers of the run; part of every stamp."""
    which: int
    """Index among the workers that share the role's schedule."""
    of: int
    """Number of the workers that share the role's schedule."""
    share_msgs: int | None
    """How many messages it sends or requests; None: until it is stopped."""
    stamp_of: Payload | None
    """The common payload of the received messages; None: stamps are not read."""
    epoch_ns: int = 0
    """A time before the first message of the run is due (CLOCK_MONOTONIC); part of every stamp."""
    stream: str | None = None
    consumer: str | None = None
    deliver_subject: str | None = None
    deliver_group: str | None = None
    """Deliver group of a push consumer that several receivers share."""
    first_seq: int = 1
    """First sequence of the stream, for readers of stored messages."""
    last_seq: int = 0
    stored_msgs: int = 0
    """Number of stored messages, for their readers."""
    responses: str | None = None
    """The stream of the responses."""
    response_subject: str | None = None
    """Prefix of response subjects; the number of the requester follows."""
    cleanup: tuple[str, ...] = ()
    """API verbs to send when the controller ends unexpectedly."""
    created: dict[str, CreatedStream] = {}
    """The streams that the run created, by name."""


class Go(_Line, frozen=True, tag="go"):
    """Every worker is ready: start. Times are CLOCK_MONOTONIC."""

    go_ns: int
    steady_ns: int
    end_ns: int | None
    begun_ns: int
    """When the run started: earlier than `go_ns` for a worker that joins later."""


class Rate(_Line, frozen=True, tag="rate"):
    """Change the rate; the worker's own share of it."""

    per_s: float


class NewPayload(_Line, frozen=True, tag="payload"):
    """Change the payload; the place of the stamp is unchanged."""

    payload: Payload


class Pause(_Line, frozen=True, tag="pause"):
    """Pause until Resume."""


class Resume(_Line, frozen=True, tag="resume"):
    """Resume."""


class Stop(_Line, frozen=True, tag="stop"):
    """Finish: send the counts and Done."""


class Die(_Line, frozen=True, tag="die"):
    """Report, then end as in a crash."""


class Ready(_Line, frozen=True, tag="ready"):
    """Connected and subscribed."""

    pid: int
    at_ns: int
    """Time of its subscription (CLOCK_MONOTONIC): it receives later messages."""


class Report(_Line, frozen=True, tag="report"):
    """The counts since the last report."""

    at_ns: int
    """Time of counting (CLOCK_MONOTONIC)."""
    interval_s: float
    counts: Counts
    latencies: Latencies
    cpu_s: float
    """CPU time used in the interval."""


class Log(_Line, frozen=True, tag="log"):
    """A message for people."""

    text: str


class Done(_Line, frozen=True, tag="done"):
    """The last line of a worker: its totals."""

    counts: Counts
    last_sent_ns: int
    last_received_ns: int
    seen: dict[str, dict[str, str]]
    died: bool = False


class WorkerFailure(_Line, frozen=True, tag="failed"):
    """The worker cannot continue; a Done follows when it had started."""

    sentence: str
    exit_code: int


Down = Orders | Go | Rate | NewPayload | Pause | Resume | Stop | Die
Up = Ready | Report | Log | Done | WorkerFailure

_encoder = msgspec.json.Encoder()
_down: msgspec.json.Decoder[Down] = decoder_of(Down)
_up: msgspec.json.Decoder[Up] = decoder_of(Up)


def encode(line: Down | Up) -> bytes:
    """Return a line as JSON with its line feed."""
    return _encoder.encode(line) + b"\n"


def decode_down(line: bytes) -> Down:
    """Return the decoded line of a controller; raises msgspec.DecodeError for another one."""
    return _down.decode(line)


def decode_up(line: bytes) -> Up:
    """Return the decoded line of a worker; raises msgspec.DecodeError for another one."""
    return _up.decode(line)
