"""The immutable state after each record; it is the same live, headless and in a replay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct, field

from natstui.model.assets.configuration import ConsumerConfiguration, StreamConfiguration
from natstui.model.bench.view import BenchmarkSoFar, BenchmarkView
from natstui.model.clients.watch import ClientsRead, ConnectionsRead, ConnectionWatch
from natstui.model.findings.finding import Findings
from natstui.model.findings.recorded import apply_finding_changes
from natstui.model.live.evidence import (
    AdvisoryEvidence,
    EvidenceRecord,
    evidence_from_record,
    with_arrival_time,
)
from natstui.model.live.history import CONSUMER_COLUMNS, STREAM_COLUMNS, History
from natstui.model.live.known_rows import AssetRows, merge_consumers, merge_streams, without_leader
from natstui.model.live.past_polls import PastPolls
from natstui.model.live.snapshot import Account, ConsumerColumns, PollCost, Snapshot, StreamColumns
from natstui.model.records.analysis import AnalysisProgress
from natstui.model.records.benchmark import BenchmarkRecord
from natstui.model.records.evidence import (
    AcksCounted,
    AdvisoriesCounted,
    EvidenceSoFar,
    SubjectsCounted,
)
from natstui.model.records.findings import FindingsChanged, FindingsSoFar
from natstui.model.records.link import LinkChanged, Permitted
from natstui.model.records.listening import Listened
from natstui.model.records.managing import ManagingRecord
from natstui.model.records.messages import Answered, Tailed
from natstui.model.records.record import (
    AckSample,
    Advisory,
    Configured,
    EngineStarted,
    Noted,
    Outcome,
    Record,
    Restored,
    Unavailable,
    now_us,
)
from natstui.model.records.recording import (
    ClockStepped,
    Gap,
    RecordingChanged,
    ReplayMarks,
    ReplayPosition,
    ReplayReset,
)
from natstui.model.records.silences import Silence, Silenced
from natstui.model.records.stores import FileMoved
from natstui.model.records.tap import TapResults
from natstui.model.servers.watch import (
    NO_SERVERS,
    ServersRead,
    ServersSoFar,
    ServerWatch,
    watch_of_keyframe,
)
from natstui.values import replace

EVENTS_KEPT = 5_000
ACK_SAMPLES_KEPT = 2_000
COSTS_KEPT = 120

EventRecord = (
    Advisory
    | LinkChanged
    | Noted
    | Outcome
    | Unavailable
    | Restored
    | Configured
    | Gap
    | ClockStepped
)


class TimedPollCost(Struct, frozen=True):
    """The cost and time of one poll."""

    mono_us: int
    at_us: int
    cost: PollCost
    api_requests_count: int | None
    """The account's counter of requests by all clients at that time."""
    api_errors_count: int | None


class State(Struct, frozen=True):
    """All that is known of the system, the recorder and the replay at one time."""

    now_mono_us: int = 0
    """Time of the newest poll, on the engine's clock."""
    now_at_us: int = 0
    """Time of the newest record that makes the state newer, UTC.

    Data of servers and connections do not.
    """
    started: EngineStarted | None = None
    link: LinkChanged | None = None
    permitted: Permitted | None = None
    account: Account | None = None
    account_mono_us: int = 0
    """Time of `account`; before `now_mono_us` if it could not be read since."""
    costs: tuple[TimedPollCost, ...] = ()
    streams: AssetRows[StreamColumns] = field(default_factory=lambda: AssetRows(StreamColumns()))
    consumers: AssetRows[ConsumerColumns] = field(
        default_factory=lambda: AssetRows(ConsumerColumns())
    )
    stream_history: History = field(default_factory=lambda: History(STREAM_COLUMNS))
    consumer_history: History = field(default_factory=lambda: History(CONSUMER_COLUMNS))
    stream_configurations: Mapping[str, StreamConfiguration] = field(default_factory=dict)
    consumer_configurations: Mapping[tuple[str, str], ConsumerConfiguration] = field(
        default_factory=dict
    )
    unreachable_streams: frozenset[str] = frozenset()
    unreachable_consumers: frozenset[tuple[str, str]] = frozenset()
    offline: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(stream, consumer or "") that its server refuses to run → the reason."""
    unlisted_consumers_count: Mapping[str, int] = field(default_factory=dict)
    """Stream → number of its consumers that are missing in its list of consumers."""
    servers: ServerWatch = NO_SERVERS
    """The servers over time, if they may be read."""
    clients: ClientsRead | None = None
    """Counts of the account's connections; None while unknown."""
    connections: ConnectionWatch | None = None
    """The account's connections; None unless `[session] connections` requests them."""
    unavailable: Mapping[str, Unavailable] = field(default_factory=dict)
    """Request or source → the record with the reason why it cannot be read."""
    recent_events: tuple[EventRecord, ...] = ()
    """The newest events, oldest first."""
    ack_samples: tuple[AckSample, ...] = ()
    evidence: AdvisoryEvidence = field(default_factory=AdvisoryEvidence)
    """Counts of advisories about consumers, streams and their messages."""
    subject_counts: Mapping[tuple[str, str], SubjectsCounted] = field(default_factory=dict)
    """(stream, filter) → the newest count, of existing streams."""
    findings: Findings = field(default_factory=Findings)
    """The findings: computed by `natstui.model.findings.evaluate`, or recorded."""
    silences: tuple[Silence, ...] = ()
    """Silenced findings, each with its end."""
    recording: RecordingChanged | None = None
    """The newest record of the recorder; None before the first recording."""
    replay: ReplayPosition | None = None
    """The position of a replay; None live, and while a seek is running."""
    replay_marks: ReplayMarks | None = None
    benchmark: BenchmarkView | None = None
    """The running or last benchmark; None before the first."""

    def rowless_streams(self) -> frozenset[str]:
        """Return the unreachable streams of which only the name is known."""
        return self.unreachable_streams - self.streams.roster.rows_of_stream.keys()

    def rowless_consumers(self) -> frozenset[tuple[str, str]]:
        """Return (stream, consumer) of each consumer of which only the name is known."""
        if not self.unreachable_consumers:
            return frozenset()
        return self.unreachable_consumers - {key[:2] for key in self.consumers.roster.keys}

    def after(self, record: Record) -> State:
        """Return the state after one more record."""
        if isinstance(record, ManagingRecord | AnalysisProgress | Silenced):
            return _after_reply(self, record)
        if isinstance(record, ServersRead | ServersSoFar | ClientsRead | ConnectionsRead):
            return _after_reading(self, record)
        match record:
            case Snapshot():
                return _after_snapshot(self, record)
            case Configured():
                return _after_configured(self, record)
            case EngineStarted() | LinkChanged() | Permitted():
                return _after_link_change(self, record)
            case Unavailable() | Restored():
                return _after_availability(self, record)
            case AckSample() | AcksCounted() | AdvisoriesCounted() | EvidenceSoFar():
                return _after_evidence(self, record)
            case FindingsChanged() | FindingsSoFar():
                return _after_findings(self, record)
            case SubjectsCounted():
                return _after_subjects_counted(self, record)
            case Advisory() | Noted() | Outcome() | Gap() | ClockStepped():
                return _add_event(self, record)
            case (
                RecordingChanged() | ReplayReset() | PastPolls() | ReplayPosition() | ReplayMarks()
            ):
                return _after_recorder(self, record)
            case _:
                return _after_benchmark(self, record)


def shown_at_us(state: State) -> int:
    """Return the shown time: the position of a replay, else the time of the newest record."""
    return state.now_at_us if state.replay is None else state.replay.at_us


def _after_link_change(state: State, record: EngineStarted | LinkChanged | Permitted) -> State:
    match record:
        case EngineStarted():
            # A new engine reads again what the previous one could not read.
            at_us = now_us(state.now_at_us, record)
            return replace(state, started=record, unavailable={}, now_at_us=at_us)
        case LinkChanged():
            return replace(_add_event(state, record), link=record)
        case Permitted():
            return replace(state, permitted=record, now_at_us=now_us(state.now_at_us, record))


def _after_reading(
    state: State, record: ServersRead | ServersSoFar | ClientsRead | ConnectionsRead
) -> State:
    match record:
        case ServersRead():
            return replace(state, servers=state.servers.after(record))
        case ServersSoFar():
            # A keyframe repeats what is known: it is no event.
            return replace(state, servers=watch_of_keyframe(record))
        case ClientsRead():
            return replace(state, clients=record)
        case ConnectionsRead():
            newer, previous = ConnectionWatch(record.connections, record.at_us), state.connections
            return replace(
                state, connections=newer if previous is None else previous.after(record)
            )


def _after_reply(state: State, record: ManagingRecord | AnalysisProgress | Silenced) -> State:
    match record:
        case Silenced():
            return replace(state, silences=record.silences)
        case Answered() | Tailed() | TapResults() | FileMoved() | Listened() | AnalysisProgress():
            # Replies belong to one request, and do not change the state.
            return state


def _after_benchmark(state: State, record: BenchmarkRecord | BenchmarkSoFar) -> State:
    if isinstance(record, BenchmarkSoFar):
        # A keyframe repeats what is known: it is no event.
        return replace(state, benchmark=record.view())
    benchmark = (state.benchmark or BenchmarkView()).after(record)
    return replace(state, benchmark=benchmark, now_at_us=now_us(state.now_at_us, record))


def _after_past_polls(state: State, record: PastPolls) -> State:
    """Return the state with older polls in its histories; unchanged if they have other rows."""
    poll_times_us = [(poll.taken_mono_us, poll.taken_at_us) for poll in record.polls]
    try:
        streams = state.stream_history.with_older_polls(
            record.streams, state.streams.roster, poll_times_us
        )
        consumers = state.consumer_history.with_older_polls(
            record.consumers, state.consumers.roster, poll_times_us
        )
    except ValueError:
        return state
    costs = (
        TimedPollCost(
            poll.taken_mono_us,
            poll.taken_at_us,
            poll.cost,
            poll.api_requests_count,
            poll.api_errors_count,
        )
        for poll in record.polls[-COSTS_KEPT:]
    )
    recent_costs = (*state.costs, *costs)[-COSTS_KEPT:]
    return replace(state, costs=recent_costs, stream_history=streams, consumer_history=consumers)


def _after_recorder(
    state: State, record: RecordingChanged | ReplayReset | PastPolls | ReplayPosition | ReplayMarks
) -> State:
    match record:
        case RecordingChanged():
            return replace(state, recording=record)
        case ReplayReset():
            return State(replay_marks=state.replay_marks)
        case PastPolls():
            return _after_past_polls(state, record)
        case ReplayPosition():
            return replace(state, replay=record)
        case ReplayMarks():
            return replace(state, replay_marks=record)


def _add_event(state: State, record: EventRecord) -> State:
    evidence, now_at_us = state.evidence, now_us(state.now_at_us, record)
    if isinstance(record, Advisory):
        evidence = evidence.after((with_arrival_time(record, now_at_us),))
    return replace(
        state,
        recent_events=(*state.recent_events[1 - EVENTS_KEPT :], record),
        evidence=evidence,
        now_at_us=now_at_us,
    )


def _after_evidence(
    state: State, record: AckSample | AcksCounted | AdvisoriesCounted | EvidenceSoFar
) -> State:
    match record:
        case AckSample():
            return _add_events(state, [record])
        case AcksCounted() | AdvisoriesCounted():
            evidence = state.evidence.after((record,))
            return replace(state, evidence=evidence, now_at_us=now_us(state.now_at_us, record))
        case EvidenceSoFar():
            # A keyframe repeats what is known: it is no event.
            return replace(state, evidence=evidence_from_record(record))


def _after_subjects_counted(state: State, record: SubjectsCounted) -> State:
    counts = {**state.subject_counts, (record.stream, record.filter_subject): record}
    return replace(state, subject_counts=counts, now_at_us=now_us(state.now_at_us, record))


def _drop_outdated_counts(
    counts: Mapping[tuple[str, str], SubjectsCounted], streams: AssetRows[StreamColumns]
) -> Mapping[tuple[str, str], SubjectsCounted]:
    """Return the counts without deleted or recreated streams; the same object if unchanged."""
    outdated_names = [
        name
        for name, count in counts.items()
        if (count.stream, count.created_at_us) not in streams.roster.row_of
    ]
    return (
        {n: count for n, count in counts.items() if n not in outdated_names}
        if outdated_names
        else counts
    )


def _after_findings(state: State, record: FindingsChanged | FindingsSoFar) -> State:
    findings = apply_finding_changes(state.findings, record)
    if isinstance(record, FindingsSoFar):
        # A keyframe repeats what is known: it is no event.
        return replace(state, findings=findings)
    return replace(state, findings=findings, now_at_us=now_us(state.now_at_us, record))


def _after_availability(state: State, record: Unavailable | Restored) -> State:
    unavailable = {
        source: failure for source, failure in state.unavailable.items() if source != record.what
    }
    if isinstance(record, Unavailable):
        previous = state.unavailable.get(record.what)
        unavailable[record.what] = record
        # The same reason again is not another event.
        if previous is not None and previous.reason == record.reason:
            at_us = now_us(state.now_at_us, record)
            return replace(state, unavailable=MappingProxyType(unavailable), now_at_us=at_us)
    return replace(_add_event(state, record), unavailable=MappingProxyType(unavailable))


def _after_configured(state: State, record: Configured) -> State:
    streams = {**state.stream_configurations, **{c.name: c for c in record.streams}}
    consumers = {
        **state.consumer_configurations,
        **{(c.stream, c.name): c for c in record.consumers},
    }
    has_changed = any(
        previous is not None and previous.created_at_us == c.created_at_us and previous != c
        for c in record.streams
        for previous in (state.stream_configurations.get(c.name),)
    ) or any(
        previous is not None and previous.created_at_us == c.created_at_us and previous != c
        for c in record.consumers
        for previous in (state.consumer_configurations.get((c.stream, c.name)),)
    )
    state_with_event = _add_event(state, record) if has_changed else state
    return replace(
        state_with_event,
        stream_configurations=MappingProxyType(streams),
        consumer_configurations=MappingProxyType(consumers),
        now_at_us=now_us(state.now_at_us, record),
    )


def _after_snapshot(state: State, snapshot: Snapshot) -> State:
    streams = merge_streams(state.streams, snapshot)
    consumers = merge_consumers(state.consumers, snapshot, streams)
    unreachable_streams = frozenset(snapshot.unreachable_streams)
    unreachable_consumers = frozenset(snapshot.unreachable_consumers)
    streams = without_leader(streams, unreachable_streams, 1) if unreachable_streams else streams
    consumers = (
        without_leader(consumers, unreachable_consumers, 2) if unreachable_consumers else consumers
    )
    mono_us, at_us = snapshot.taken_mono_us, snapshot.taken_at_us
    account = snapshot.account
    cost = TimedPollCost(
        mono_us, at_us, snapshot.cost,
        account.api_requests_count if account else None,
        account.api_errors_count if account else None,
    )  # fmt: skip
    return replace(
        state,
        now_mono_us=mono_us,
        now_at_us=now_us(state.now_at_us, snapshot),
        account=account or state.account,
        account_mono_us=mono_us if account else state.account_mono_us,
        costs=(*state.costs[1 - COSTS_KEPT :], cost),
        streams=streams,
        consumers=consumers,
        stream_history=state.stream_history.after(streams, mono_us, at_us),
        consumer_history=state.consumer_history.after(consumers, mono_us, at_us),
        stream_configurations=_drop_deleted_streams(state.stream_configurations, streams),
        consumer_configurations=_drop_deleted_consumers(state.consumer_configurations, consumers),
        subject_counts=_drop_outdated_counts(state.subject_counts, streams),
        evidence=state.evidence.without_recreated(state.consumers.roster, consumers.roster),
        unreachable_streams=unreachable_streams,
        unreachable_consumers=unreachable_consumers,
        offline={
            (offline.stream, offline.consumer): offline.reason for offline in snapshot.offline
        },
        unlisted_consumers_count={
            unlisted.stream: unlisted.consumers_count for unlisted in snapshot.unlisted
        },
    )


def _drop_deleted_streams(
    configurations: Mapping[str, StreamConfiguration], streams: AssetRows[StreamColumns]
) -> Mapping[str, StreamConfiguration]:
    """Return the configurations without deleted streams; the same object if unchanged."""
    if len(configurations) <= len(streams):
        return configurations
    rows_of_stream = streams.roster.rows_of_stream
    return MappingProxyType(
        {
            name: configuration
            for name, configuration in configurations.items()
            if name in rows_of_stream
        }
    )


def _drop_deleted_consumers(
    configurations: Mapping[tuple[str, str], ConsumerConfiguration],
    consumers: AssetRows[ConsumerColumns],
) -> Mapping[tuple[str, str], ConsumerConfiguration]:
    if len(configurations) <= len(consumers):
        return configurations
    existing_names = {(key[0], key[1]) for key in consumers.roster.keys}
    return MappingProxyType(
        {
            name: configuration
            for name, configuration in configurations.items()
            if name in existing_names
        }
    )


def apply_records(state: State, records: Iterable[Record]) -> State:
    """Return the state after `records`: as `State.after` for each, in a tenth of the time."""
    pending_records = list[EventRecord | AckSample]()
    for record in records:
        match record:
            case AckSample() | Advisory() | Noted() | Outcome() | Gap() | ClockStepped():
                pending_records.append(record)
            case _:
                state = _add_events(state, pending_records).after(record)
                pending_records = []
    return _add_events(state, pending_records)


def _add_events(state: State, records: Sequence[EventRecord | AckSample]) -> State:
    """Return the state with events and ack samples added; the same state without any."""
    if not records:
        return state
    recent_events = [event for event in records if not isinstance(event, AckSample)]
    samples = [event for event in records if isinstance(event, AckSample)]
    evidence_records, now_at_us = list[EvidenceRecord](), state.now_at_us
    for event in records:
        now_at_us = now_us(now_at_us, event)
        if isinstance(event, Advisory):
            evidence_records.append(with_arrival_time(event, now_at_us))
        elif isinstance(event, AckSample):
            evidence_records.append(event)
    return replace(
        state,
        recent_events=(*state.recent_events, *recent_events)[-EVENTS_KEPT:],
        ack_samples=(*state.ack_samples, *samples)[-ACK_SAMPLES_KEPT:],
        evidence=state.evidence.after(evidence_records),
        now_at_us=now_at_us,
    )
