"""The protocol of the controller and its workers: one JSON object per line, both ways."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from natstui.bench.job.tally import WorkerTimes
from natstui.decoding import decoder_of
from natstui.model.bench.counts import Counts, Latencies
from natstui.model.bench.plan import Payload, Role


class _Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """A line of the protocol."""


class CreatedStream(Struct, frozen=True):
    """A stream that a run created, and deletes unless others have published to it."""

    created_time: str
    """Its creation time, as the server wrote it."""
    subjects: tuple[str, ...]


class Orders(_Line, frozen=True, tag="orders"):
    """The first line for a worker: its role, its connection and the assets of the run.

    It contains secrets, so it is sent by stdin.
    """

    connection: str
    """The connection as the JSON of `Connection.to_json_line`."""
    run_id: str
    role: Role
    worker_id: int
    publisher_id: int
    """Number of the worker, unique in the run; part of every stamp."""
    worker_index: int
    """Index among the workers that share the role's schedule."""
    workers_count: int
    """Number of the workers that share the role's schedule."""
    share_msgs: int | None
    """Number of messages that it sends or requests; None: until it is stopped."""
    received_payload: Payload | None
    """The payload of all messages that the worker receives; None: it reads no stamps."""
    epoch_ns: int = 0
    """A time before the first message of the run is due (CLOCK_MONOTONIC); part of every stamp."""
    stream: str | None = None
    consumer: str | None = None
    deliver_subject: str | None = None
    deliver_group: str | None = None
    """Deliver group of a push consumer that several receivers share."""
    first_seq: int = 1
    """First and last sequence of the stream, for readers of stored messages."""
    last_seq: int = 0
    stored_msgs: int = 0
    """Number of stored messages, for their readers."""
    responses: str | None = None
    """The stream of the responses."""
    response_subject: str | None = None
    """Prefix of response subjects; the number of the requester follows."""
    delete_verbs: tuple[str, ...] = ()
    """API verbs to send when the controller ends unexpectedly."""
    created_streams: dict[str, CreatedStream] = {}
    """The streams that the run created, by name."""


class StartCommand(_Line, frozen=True, tag="start"):
    """A command to start at `start_ns`, when every worker is ready. Times are CLOCK_MONOTONIC."""

    start_ns: int
    steady_ns: int
    end_ns: int | None
    run_start_ns: int
    """When the run started: earlier than `start_ns` for a worker that joins later."""


class RateChange(_Line, frozen=True, tag="rate"):
    """A command to send with another rate."""

    per_s: float
    """Messages per second of the schedule that the worker shares with `workers_count` workers."""


class PayloadChange(_Line, frozen=True, tag="payload"):
    """A command to send another payload; the offset of its stamp is the same."""

    payload: Payload


class PauseCommand(_Line, frozen=True, tag="pause"):
    """A command to pause until a `ResumeCommand`."""


class ResumeCommand(_Line, frozen=True, tag="resume"):
    """A command to resume after a `PauseCommand`."""


class StopCommand(_Line, frozen=True, tag="stop"):
    """A command to finish: the worker writes its last report and a `FinalReport`."""


class CrashCommand(_Line, frozen=True, tag="crash"):
    """A command to report, and then to end as in a crash."""


class ReadyReport(_Line, frozen=True, tag="ready"):
    """The report that the worker is connected and subscribed."""

    pid: int
    at_ns: int
    """Time of its subscription (CLOCK_MONOTONIC): it receives later messages."""


class Report(_Line, frozen=True, tag="report"):
    """The counts since the last report."""

    at_ns: int
    """Time at which they were counted (CLOCK_MONOTONIC)."""
    interval_s: float
    counts: Counts
    latencies: Latencies
    cpu_s: float
    """CPU time used in the interval."""


class LogLine(_Line, frozen=True, tag="log"):
    """A sentence for the log of the run."""

    text: str


class FinalReport(_Line, frozen=True, tag="final"):
    """The last line of a worker: its totals and the sequences that it received."""

    counts: Counts
    times: WorkerTimes
    received_sequences: dict[str, dict[str, str]]
    """The result of `ReceivedSequences.dump`."""
    is_requested_crash: bool = False
    """Whether the worker ends because of a `CrashCommand`."""


class WorkerFailure(_Line, frozen=True, tag="failed"):
    """The report that the worker cannot continue; a `FinalReport` follows if it had started."""

    sentence: str
    exit_code: int


ControllerLine = (
    Orders
    | StartCommand
    | RateChange
    | PayloadChange
    | PauseCommand
    | ResumeCommand
    | StopCommand
    | CrashCommand
)
WorkerLine = ReadyReport | Report | LogLine | FinalReport | WorkerFailure

_encoder = msgspec.json.Encoder()
_controller_decoder: msgspec.json.Decoder[ControllerLine] = decoder_of(ControllerLine)
_worker_decoder: msgspec.json.Decoder[WorkerLine] = decoder_of(WorkerLine)


def encode(line: ControllerLine | WorkerLine) -> bytes:
    """Return a line as JSON with its line feed."""
    return _encoder.encode(line) + b"\n"


def decode_controller_line(line: bytes) -> ControllerLine:
    """Return the decoded line of the controller; raises msgspec.DecodeError for any other text."""
    return _controller_decoder.decode(line)


def decode_worker_line(line: bytes) -> WorkerLine:
    """Return the decoded line of a worker; raises msgspec.DecodeError for any other text."""
    return _worker_decoder.decode(line)
