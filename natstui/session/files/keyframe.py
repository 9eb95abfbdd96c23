"""The first line of every segment: the complete state, so that a reader can start there."""

from __future__ import annotations

from typing import get_args

from msgspec import Struct

from natstui.lines import SCHEMA_VERSION
from natstui.model.bench.view import BenchmarkSoFar, make_benchmark_so_far
from natstui.model.findings.recorded import make_keyframe_findings
from natstui.model.live.evidence import evidence_to_record
from natstui.model.live.history import History
from natstui.model.live.snapshot import OfflineAsset, Snapshot, UnlistedConsumers
from natstui.model.live.state import State
from natstui.model.records.benchmark import BenchmarkRecord
from natstui.model.records.evidence import AcksCounted, AdvisoriesCounted, EvidenceSoFar
from natstui.model.records.findings import FindingsChanged, FindingsSoFar
from natstui.model.records.link import LinkChanged, Permitted
from natstui.model.records.record import (
    AckSample,
    Advisory,
    Configured,
    EngineStarted,
    Record,
    Restored,
    Unavailable,
)
from natstui.model.servers.watch import ServersRead, ServersSoFar
from natstui.values import replace

_STATE_RECORD_TYPES = (
    EngineStarted,
    LinkChanged,
    Permitted,
    Configured,
    Snapshot,
    Unavailable,
    Restored,
    Advisory,
    AdvisoriesCounted,
    AckSample,
    AcksCounted,
    EvidenceSoFar,
    FindingsChanged,
    FindingsSoFar,
    BenchmarkSoFar,
    ServersRead,
    ServersSoFar,
    *get_args(BenchmarkRecord),
)
_NO_HISTORY = History(())
"""A keyframe has no history, and keeping one would cost memory and time."""


class Keyframe(Struct, frozen=True):
    """The complete state at the start of a segment; it repeats earlier records, so an analysis
    ignores it.
    """

    at_us: int
    schema_version: int
    started: EngineStarted | None
    link: LinkChanged | None
    permitted: Permitted | None
    configured: Configured
    unavailable: tuple[Unavailable, ...]
    snapshot: Snapshot | None
    """Every row with its newest values, whenever it was polled."""
    benchmark: BenchmarkSoFar | None = None
    """The running benchmark; in the first keyframe also one that was over."""
    evidence: EvidenceSoFar | None = None
    """Counts of the advisories about consumers, streams and messages until then."""
    findings: FindingsSoFar | None = None
    """The open findings; null in a recording without findings."""
    servers: ServersSoFar | None = None
    """The servers; null where no source reported them."""

    def base_records(self) -> list[Record]:
        """Return the records of the engine, the connection, permissions, configurations,
        unavailable data and the counts of advisories.
        """
        records = (self.started, self.link, self.permitted)
        base_records: list[Record] = [record for record in records if record is not None]
        if self.configured.streams or self.configured.consumers:
            base_records.append(self.configured)
        base_records.extend(self.unavailable)
        if self.evidence is not None:
            base_records.append(self.evidence)
        return base_records

    def records(self) -> list[Record]:
        """Return the records that build the complete state."""
        other_records = (self.benchmark, self.snapshot, self.servers, self.findings)
        return self.base_records() + [record for record in other_records if record is not None]


class KeyframeBuilder:
    """A sink that can return the keyframe of the current state."""

    def __init__(self) -> None:
        self._state = State(stream_history=_NO_HISTORY, consumer_history=_NO_HISTORY)

    def add(self, record: Record) -> None:
        """Update the state with a record.

        This costs no more than to compare the names of the record's rows with those of the state.
        """
        if not isinstance(record, _STATE_RECORD_TYPES):
            return
        state = self._state.after(record)
        self._state = replace(
            state,
            stream_history=_NO_HISTORY,
            consumer_history=_NO_HISTORY,
            costs=state.costs[-1:],
            recent_events=(),
            ack_samples=(),
        )

    def keyframe(self, at_us: int, *, is_first: bool = True) -> Keyframe:
        """Return the keyframe of the current state; only with `is_first` it has a benchmark that
        is over.

        Later keyframes need not repeat that benchmark, because a reader finds it in the segment
        where it ended.
        """
        state = self._state
        benchmark = state.benchmark
        is_running = benchmark is not None and benchmark.finished is None
        streams = tuple(state.stream_configurations.values())
        consumers = tuple(state.consumer_configurations.values())
        return Keyframe(
            at_us=at_us,
            schema_version=SCHEMA_VERSION,
            started=state.started,
            link=state.link,
            permitted=state.permitted,
            configured=Configured(at_us, streams, consumers),
            unavailable=tuple(state.unavailable.values()),
            snapshot=_complete_snapshot(state),
            benchmark=make_benchmark_so_far(benchmark, at_us)
            if benchmark and (is_first or is_running)
            else None,
            evidence=evidence_to_record(state.evidence, at_us),
            findings=make_keyframe_findings(state.findings, at_us),
            servers=state.servers.so_far(at_us),
        )


def _complete_snapshot(state: State) -> Snapshot | None:
    """Return the newest values of every row as one poll; None before the first poll."""
    if not state.costs:
        return None
    last_poll = state.costs[-1]
    return Snapshot(
        taken_mono_us=last_poll.mono_us,
        taken_at_us=last_poll.at_us,
        streams=state.streams.columns,
        consumers=state.consumers.columns,
        streams_complete=True,
        consumers_complete=True,
        swept_streams=(),
        unreachable_streams=tuple(sorted(state.unreachable_streams)),
        unreachable_consumers=tuple(sorted(state.unreachable_consumers)),
        account=state.account,
        cost=last_poll.cost,
        offline=tuple(
            OfflineAsset(*name, reason) for name, reason in sorted(state.offline.items())
        ),
        unlisted=tuple(
            UnlistedConsumers(*stream_and_count)
            for stream_and_count in sorted(state.unlisted_consumers_count.items())
        ),
    )
