"""What the controller and its workers say to each other: one JSON object per line, both ways."""

from __future__ import annotations

import msgspec

from natstui.decoding import decoder_of
from natstui.model.bench.counts import Counts, Latencies
from natstui.model.bench.plan import Payload, Role


class _Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="say"):
    """One line."""


class Orders(_Line, frozen=True, tag="orders"):
    """The first line a worker gets; it holds secrets, which is why it comes by stdin."""

    connection: str
    """A line of `Connection.to_line`."""
    run_id: str
    role: Role
    worker_id: int
    publisher_id: int
    """Unique among all workers of the run; part of every stamp."""
    which: int
    """Its place among the workers that share the role's schedule …"""
    of: int
    """… and how many they are."""
    share_msgs: int | None
    """How many messages it sends, or takes when it asks for them; None: until it is stopped."""
    stamp_of: Payload | None
    """What senders of this run make its messages of; None: it does not look for stamps."""
    epoch_ns: int = 0
    """Before anything of the run was due (CLOCK_MONOTONIC); part of every stamp."""
    stream: str | None = None
    consumer: str | None = None
    deliver_subject: str | None = None
    deliver_group: str | None = None
    """Of a push consumer that several receivers share."""
    first_seq: int = 1
    """Of the stream, for those who ask for stored messages …"""
    last_seq: int = 0
    stored_msgs: int = 0
    """… and how many there are."""
    responses: str | None = None
    """The stream of the responses …"""
    response_subject: str | None = None
    """… and what its subjects begin with; behind it comes the number of who asked."""
    cleanup: tuple[str, ...] = ()
    """API verbs to send when the controller is gone without a word."""


class Go(_Line, frozen=True, tag="go"):
    """Every worker has started: begin. Times are CLOCK_MONOTONIC."""

    go_ns: int
    steady_ns: int
    end_ns: int | None
    begun_ns: int
    """When the run began: earlier than `go_ns` for a worker that joins in the middle."""


class Rate(_Line, frozen=True, tag="rate"):
    """Send at this rate from now on; the worker's own share of it."""

    per_s: float


class NewPayload(_Line, frozen=True, tag="payload"):
    """Send this from now on; the stamp stays where it was."""

    payload: Payload


class Pause(_Line, frozen=True, tag="pause"):
    """Do nothing until told to go on."""


class Resume(_Line, frozen=True, tag="resume"):
    """Go on."""


class Stop(_Line, frozen=True, tag="stop"):
    """Finish: count up and say Done."""


class Die(_Line, frozen=True, tag="die"):
    """Report, then end as a crash would."""


class Ready(_Line, frozen=True, tag="ready"):
    """Connected and subscribed."""

    pid: int
    at_ns: int
    """When it was (CLOCK_MONOTONIC): what is sent later is for it."""


class Report(_Line, frozen=True, tag="report"):
    """What happened since the last report."""

    at_ns: int
    """When it was counted up (CLOCK_MONOTONIC)."""
    interval_s: float
    counts: Counts
    latencies: Latencies
    cpu_s: float
    """CPU time used in the interval."""


class Log(_Line, frozen=True, tag="log"):
    """Something a person wants to know."""

    text: str


class Done(_Line, frozen=True, tag="done"):
    """The last line of a worker: its totals, by its own count."""

    counts: Counts
    last_sent_ns: int
    last_received_ns: int
    seen: dict[str, dict[str, str]]
    died: bool = False


class WorkerFailure(_Line, frozen=True, tag="failed"):
    """The worker cannot go on; a Done follows when it had begun."""

    sentence: str
    exit_code: int


Down = Orders | Go | Rate | NewPayload | Pause | Resume | Stop | Die
Up = Ready | Report | Log | Done | WorkerFailure

_encoder = msgspec.json.Encoder()
_down: msgspec.json.Decoder[Down] = decoder_of(Down)
_up: msgspec.json.Decoder[Up] = decoder_of(Up)


def encode(line: Down | Up) -> bytes:
    """Return a line with its line feed."""
    return _encoder.encode(line) + b"\n"


def decode_down(line: bytes) -> Down:
    """Return what the controller said."""
    return _down.decode(line)


def decode_up(line: bytes) -> Up:
    """Return what a worker said."""
    return _up.decode(line)
