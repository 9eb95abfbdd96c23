"""Every event is a `Record`; every request to the engine is a `Command`.

`moment_us` returns the position of a record on a timeline, live and replayed by the same rule.
"""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from natstui.model.assets.configuration import ConsumerConfiguration, StreamConfiguration
from natstui.model.bench.view import BenchmarkSoFar
from natstui.model.clients.api_audit import API_AUDIT_DURATION_S
from natstui.model.clients.watch import ClientsRead, ConnectionsRead
from natstui.model.live.past_polls import PastPolls
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.analysis import (
    AnalysisCommand,
    AnalysisProgress,
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
from natstui.model.records.stores import BackupCommand, GetFile, InspectFile, PutFile
from natstui.model.servers.watch import ServersRead, ServersSoFar


class EngineStarted(Struct, frozen=True):
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


class Configured(Struct, frozen=True):
    """Configurations seen for the first time, or changed."""

    at_us: int
    streams: tuple[StreamConfiguration, ...]
    consumers: tuple[ConsumerConfiguration, ...]


BULK_SOURCE = "JSZ"
"""The source in `Unavailable` for bulk replies."""


class Unavailable(Struct, frozen=True):
    """Something could not be read; its last values become stale."""

    at_us: int
    what: str
    """The API verb or source, as `STREAM.LIST` or `CONSUMER.LIST.ORDERS`."""
    reason: str
    denied_subject: str | None = None
    """The subject the user has no permission for, when that is the reason."""


class Restored(Struct, frozen=True):
    """Something that was unavailable can be read again."""

    at_us: int
    what: str


class Advisory(Struct, frozen=True):
    """An event that the server published (`$JS.EVENT.ADVISORY.>`), or should have.

    Servers publish no event of type `stream_rolled_back`: a last sequence that decreased.
    """

    at_us: int
    type: str
    """The end of the advisory's type, as `max_deliver` or `stream_leader_elected`."""
    stream: str | None
    consumer: str | None
    text: str
    """One sentence for people."""
    body_json: str
    """The advisory as the server sent it, or the numbers of an unpublished one."""


class AckSample(Struct, frozen=True):
    """A sampled acknowledgement (`$JS.EVENT.METRIC.CONSUMER.ACK.>`)."""

    at_us: int
    stream: str
    consumer: str
    stream_seq: int
    consumer_seq: int
    deliveries_count: int
    ack_ns: int
    """From delivery to acknowledgement (`ack_time`)."""


class Noted(Struct, frozen=True):
    """A note that the user wrote at this time."""

    at_us: int
    text: str


class Outcome(Struct, frozen=True):
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
    | AnalysisProgress
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
    BenchmarkSoFar,
    EvidenceSoFar,
    FindingsSoFar,
    Silenced,
    ServersSoFar,
    ClientsRead,
)
"""Records about recordings, replays, analyses and silences; records of keyframes; and counts of
connections, of which only the findings are recorded."""


def kind_of(cls: type) -> str:
    """Return the kind in the lines of a record class: `LinkChanged` → `link_changed`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


class SetViewedRows(Struct, frozen=True):
    """Poll the rows in view first, and read the age of their next message."""

    command_id: int
    streams: tuple[str, ...]
    consumers: tuple[tuple[str, str], ...]


class SetPriorityConsumers(Struct, frozen=True):
    """Poll the consumers with findings in every poll, after the rows in view."""

    command_id: int
    consumers: tuple[tuple[str, str], ...]


class SetInterval(Struct, frozen=True):
    """Poll at this interval from now on."""

    command_id: int
    interval_s: float


class SetPolling(Struct, frozen=True):
    """Pause or resume polling."""

    command_id: int
    on: bool


class PollNow(Struct, frozen=True):
    """Poll at once."""

    command_id: int


class Describe(Struct, frozen=True):
    """Reply with the entire INFO of a stream, or of a consumer, as the server sent it."""

    command_id: int
    stream: str
    consumer: str | None


class ReadApiAudit(Struct, frozen=True):
    """Poll nothing for `for_s`, and reply with the clients' requests to the JetStream API."""

    command_id: int
    for_s: float = API_AUDIT_DURATION_S


class WriteNote(Struct, frozen=True):
    """Put a note into the records."""

    command_id: int
    text: str


EngineCommand = (
    SetViewedRows
    | SetPriorityConsumers
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
    | InspectFile
    | PutFile
    | GetFile
    | BackupCommand
    | StartAnalysis
    | StopAnalysis
    | StartBenchmark
)
"""Commands that write or open files on the engine's machine, or start or stop programs there.

Changes of the server are not among them, though they write the journal: read-only mode refuses
them.
"""


_SERVER_CLOCK_RECORDS = (Advisory, AdvisoriesCounted, AckSample, AcksCounted)
_MIN_CLOCK_STEP_BACK_US = 2_000_000
"""Minimum step of the clock: a record that is earlier by more is after a change of the clock."""


def moment_us(latest_us: int, at_us: int) -> int:
    """Return the time on the timeline of a record of `at_us` that follows one at `latest_us`.

    A record that was created earlier and arrived later, as a delayed advisory, is 1 µs after the
    latest, so that the order on the timeline is that of arrival.
    """
    return at_us if at_us >= latest_us else latest_us + 1


def now_us(before_us: int, record: Record) -> int:
    """Return the time of the state after a record, in UTC µs; `before_us` is that before it.

    It decreases only if the clock of the engine was set back.
    """
    at_us = record.taken_at_us if isinstance(record, Snapshot) else record.at_us
    # Advisories have the time of the server's clock, which may be another one.
    is_engine_time = not isinstance(record, _SERVER_CLOCK_RECORDS)
    if is_engine_time and at_us < before_us - _MIN_CLOCK_STEP_BACK_US:
        return at_us
    return moment_us(before_us, at_us)
