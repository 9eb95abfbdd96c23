"""Every event is a `Record`; every request to the engine is a `Command`.

`moment_of` returns the position of a record on a timeline, live and replayed by the same rule.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from natstui.model.assets.configuration import ConsumerConfiguration, StreamConfiguration
from natstui.model.bench.view import BenchmarkSoFar
from natstui.model.clients.api_audit import API_AUDIT_S
from natstui.model.clients.watch import ClientsRead, ConnectionsRead
from natstui.model.live.past_polls import PastPolls
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.analysis import (
    AnalysisCommand,
    AnalysisFinished,
    AnalysisProgress,
    AnalysisRecord,
    StartAnalysis,
    StopAnalysis,
)
from natstui.model.records.benchmark import BenchmarkCommand, BenchmarkRecord, StartBenchmark
from natstui.model.records.evidence import (
    AcksCounted,
    AdvisoriesCounted,
    EvidenceSoFar,
    SubjectsCounted,
)
from natstui.model.records.findings import FindingsChanged, FindingsSoFar
from natstui.model.records.link import LinkChanged, Permitted
from natstui.model.records.managing import (
    ManagingCommand,
    ManagingRecord,
    SaveTemplate,
    SilenceFinding,
)
from natstui.model.records.recording import (
    ChangeSession,
    ChangeSpeed,
    ClockStepped,
    ExportSelection,
    Gap,
    ListSessions,
    PauseReplay,
    Play,
    RecordingChanged,
    ReplayMarks,
    ReplayPosition,
    ReplayReset,
    SeekMark,
    SeekTo,
    StartRecording,
    Step,
    StopRecording,
)
from natstui.model.records.silences import Silenced
from natstui.model.records.stores import BackupCommand, GetFile, LookAtFile, PutFile
from natstui.model.servers.watch import ServersRead, ServersSoFar


@dataclass(frozen=True, slots=True)
class EngineStarted:
    """The first record of an engine: its identity, and the settings of the viewer."""

    at_us: int
    natstui_version: str
    schema_version: int
    target: str
    """The connection target, for people: a context, a profile or an address without secrets."""
    read_only: bool
    production: bool
    interval_s: float
    theme: str
    ascii_only: bool
    mouse: bool
    keys: dict[str, str]
    """Action id → keys, for actions the user has moved."""
    colour: str | None = None
    """Colour that marks this system: a name as `red`, or `#rrggbb`."""
    account: str | None = None
    """Another account that is watched read-only through the system account."""


@dataclass(frozen=True, slots=True)
class Configured:
    """Configurations seen for the first time, or changed."""

    at_us: int
    streams: tuple[StreamConfiguration, ...]
    consumers: tuple[ConsumerConfiguration, ...]


BULK = "JSZ"
"""What is unavailable when bulk replies are: they replace lists, and nothing waits for them."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Something could not be read; its last values become stale."""

    at_us: int
    what: str
    """The API verb or source, as `STREAM.LIST` or `CONSUMER.LIST.ORDERS`."""
    reason: str
    denied_subject: str | None = None
    """The subject the user has no permission for, when that is the reason."""


@dataclass(frozen=True, slots=True)
class Restored:
    """Something that was unavailable can be read again."""

    at_us: int
    what: str


@dataclass(frozen=True, slots=True)
class Advisory:
    """An event that the server published (`$JS.EVENT.ADVISORY.>`), or should have.

    Servers publish no event of type `stream_rolled_back`: a last sequence that decreased.
    """

    at_us: int
    type: str
    """The last word of the advisory's type, as `max_deliver` or `stream_leader_elected`."""
    stream: str | None
    consumer: str | None
    text: str
    """One sentence for people."""
    body_json: str
    """The advisory as the server sent it, or the numbers of an unpublished one."""


@dataclass(frozen=True, slots=True)
class AckSample:
    """A sampled acknowledgement (`$JS.EVENT.METRIC.CONSUMER.ACK.>`)."""

    at_us: int
    stream: str
    consumer: str
    stream_seq: int
    consumer_seq: int
    deliveries_count: int
    ack_ns: int
    """From delivery to acknowledgement (`ack_time`)."""


@dataclass(frozen=True, slots=True)
class Noted:
    """A person wrote a note at this moment."""

    at_us: int
    text: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a command."""

    at_us: int
    command_id: int
    status: Literal["done", "refused", "failed"]
    text: str
    """One sentence for people."""
    body_json: str | None = None
    """The requested data, if the command requests data."""


Record = (
    EngineStarted
    | LinkChanged
    | Permitted
    | Configured
    | Snapshot
    | Unavailable
    | Restored
    | Advisory
    | AdvisoriesCounted
    | EvidenceSoFar
    | FindingsChanged
    | FindingsSoFar
    | AckSample
    | AcksCounted
    | SubjectsCounted
    | Noted
    | Outcome
    | RecordingChanged
    | Gap
    | ClockStepped
    | ReplayReset
    | PastPolls
    | ReplayPosition
    | ReplayMarks
    | BenchmarkRecord
    | BenchmarkSoFar
    | ManagingRecord
    | AnalysisRecord
    | Silenced
    | ServersRead
    | ServersSoFar
    | ClientsRead
    | ConnectionsRead
)


NEVER_RECORDED = (
    RecordingChanged,
    ReplayReset,
    PastPolls,
    ReplayPosition,
    ReplayMarks,
    AnalysisProgress,
    AnalysisFinished,
    BenchmarkSoFar,
    EvidenceSoFar,
    FindingsSoFar,
    Silenced,
    ServersSoFar,
    ClientsRead,
)
"""Kinds that are about recordings, replays, analyses and who looks on; what a keyframe repeats;
and facts of clients, of which only the findings are recorded."""


def kind_of(cls: type) -> str:
    """Return the kind with which the lines of a class begin: `LinkChanged` → `link_changed`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


@dataclass(frozen=True, slots=True)
class Watch:
    """Poll these first, and find out when their next message was stored: they are in view."""

    command_id: int
    streams: tuple[str, ...]
    consumers: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Prefer:
    """Poll these in every poll, after those in view: they have findings."""

    command_id: int
    consumers: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class SetInterval:
    """Poll at this interval from now on."""

    command_id: int
    interval_s: float


@dataclass(frozen=True, slots=True)
class SetPolling:
    """Pause or resume polling."""

    command_id: int
    on: bool


@dataclass(frozen=True, slots=True)
class PollNow:
    """Poll at once."""

    command_id: int


@dataclass(frozen=True, slots=True)
class Describe:
    """Reply with the entire INFO of a stream, or of a consumer, as the server sent it."""

    command_id: int
    stream: str
    consumer: str | None


@dataclass(frozen=True, slots=True)
class ReadApiAudit:
    """Poll nothing for `for_s`, and reply with the clients' requests to the JetStream API."""

    command_id: int
    for_s: float = API_AUDIT_S


@dataclass(frozen=True, slots=True)
class WriteNote:
    """Put a note into the records."""

    command_id: int
    text: str


EngineCommand = (
    Watch
    | Prefer
    | SetInterval
    | SetPolling
    | PollNow
    | Describe
    | ReadApiAudit
    | WriteNote
    | StartRecording
    | StopRecording
    | ListSessions
    | Play
    | PauseReplay
    | Step
    | SeekTo
    | SeekMark
    | ChangeSpeed
    | ExportSelection
    | ChangeSession
    | BenchmarkCommand
)

Command = EngineCommand | ManagingCommand | AnalysisCommand

HostCommand = (
    StartRecording
    | StopRecording
    | WriteNote
    | ExportSelection
    | ChangeSession
    | SilenceFinding
    | SaveTemplate
    | LookAtFile
    | PutFile
    | GetFile
    | BackupCommand
    | StartAnalysis
    | StopAnalysis
    | StartBenchmark
)
"""Commands that write files of the engine's machine, open a file of it that the user names, or
start or stop programs there.

Changes of the server are none of them, though they are journalled: read-only mode refuses them.
"""


_BY_THE_SERVERS_CLOCK = (Advisory, AdvisoriesCounted, AckSample, AcksCounted)
_SET_BACK_US = 2_000_000
"""Threshold of a clock change: a record that is earlier by this was created on another clock."""


def moment_us(latest_us: int, at_us: int) -> int:
    """Return the moment of a record made at `at_us` that came after one at `latest_us`.

    What was made earlier and came later, like an announcement that was still on its way when a
    poll was over, has a moment of its own right after: up to a moment it is there, or it is not.
    """
    return at_us if at_us >= latest_us else latest_us + 1


def now_us(before_us: int, record: Record) -> int:
    """Return the current time after a record. It decreases when the engine's clock was set."""
    at_us = record.taken_at_us if isinstance(record, Snapshot) else record.at_us
    # Announcements bear the server's clock, which may be another one.
    of_engine = not isinstance(record, _BY_THE_SERVERS_CLOCK)
    if of_engine and at_us < before_us - _SET_BACK_US:
        return at_us
    return moment_us(before_us, at_us)
