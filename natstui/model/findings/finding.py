"""A finding, and all open and ended ones, which the evaluator passes from poll to poll."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from natstui.model.assets.configuration import ConsumerConfiguration, StreamConfiguration
from natstui.model.findings.catalogue.kind import STREAM_LIMITS, Kind, StreamLimit, with_limit
from natstui.model.findings.facts.memory import Memory
from natstui.model.live.snapshot import ConsumerColumns, StreamColumns
from natstui.model.live.table import Key, Roster
from natstui.model.records.silences import Silence
from natstui.units import counted

_PLACEHOLDER = re.compile(r"\b(?:STREAM|CONSUMER|SEQ)\b")
MAX_RESOLVED = 200
"""Limit of ended findings that are kept."""


def insert_names(advice: str, stream: str, consumer: str, sequence: str) -> str:
    """Return advice with the non-empty names in its commands, quoted for a shell."""
    names = {"STREAM": stream, "CONSUMER": consumer, "SEQ": sequence}

    def named(match: re.Match[str]) -> str:
        # The commands are for a shell, and a name may contain its special characters.
        name = names[match[0]]
        return shlex.quote(name) if name else match[0]

    # All at once: a stream may be named CONSUMER.
    return _PLACEHOLDER.sub(named, advice)


class Entity(NamedTuple):
    """The entity that a finding is about; a recreated stream or consumer is another entity."""

    stream: str = ""
    """Empty for the account and for monitoring itself."""
    consumer: str = ""
    created_at_us: int = 0
    """Creation time; 0 for the account, monitoring, and names without a row."""
    part: str = ""
    """The part of the entity, if it has several: a source, unavailable data."""

    @property
    def has_row(self) -> bool:
        """Return whether the entity is a stream or consumer with a row."""
        return self.created_at_us != 0

    @property
    def text(self) -> str:
        """Return the name of the entity for people: `ORDERS > billing`, `ORDERS`, `account`."""
        name = f"{self.stream} > {self.consumer}" if self.consumer else self.stream
        return " ".join(part for part in (name, self.part) if part) or "account"


def entity_of_key(key: Key) -> Entity:
    """Return the entity of a stream or consumer by the key of its row."""
    if len(key) == 3:
        return Entity(str(key[0]), str(key[1]), int(key[2]))
    return Entity(str(key[0]), "", int(key[1]))


@dataclass(frozen=True, slots=True)
class Symptom:
    """The evidence of a condition that holds now."""

    text: str
    """The evidence, as a sentence for people."""
    since_us: int | None = None
    """Start of the condition, UTC; None for the time of the first evidence."""
    sequences: tuple[int, ...] = ()
    """Sequences of the affected messages, the worst first."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Name of a deciding fact → its value."""
    hold_s: float | None = None
    """Time that the condition must hold before its report; None for that of the catalogue."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A reported condition of an entity: its kind, start and evidence."""

    kind: Kind
    entity: Entity
    since_us: int
    """Start of the finding, UTC."""
    text: str
    sequences: tuple[int, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Name of a deciding fact → its value, for known ones."""
    until_us: int | None = None
    """End of the finding, UTC; None while it is open."""

    @property
    def severity_level(self) -> int:
        """Return the number for sorting by severity; the worst finding has the highest."""
        return self.kind.severity_level

    @property
    def limit(self) -> StreamLimit | None:
        """Return the limit of the stream that is reached; None for other findings."""
        return next((STREAM_LIMITS[name] for name in self.numbers if name in STREAM_LIMITS), None)

    @property
    def act(self) -> str:
        """Return what to do: the advice of the kind with the names of this finding."""
        limit, advice = self.limit, self.kind.act
        if limit is not None:
            advice = with_limit(advice, limit)
        sequence = str(self.sequences[0]) if self.sequences else ""
        return insert_names(advice, self.entity.stream, self.entity.consumer, sequence)


@dataclass(frozen=True, slots=True)
class WatchedCondition:
    """A condition of an entity that holds, or has held until its finding ends."""

    finding: Finding
    first_mono_us: int
    """Time of the first evidence, on the engine's clock."""
    raised: bool
    """Whether the finding is reported."""
    absent_mono_us: int | None = None
    """Time since which the condition does not hold, on the engine's clock; None if it holds."""
    absent_at_us: int = 0
    """The same, UTC."""
    hidden: bool = False
    """Whether another cause of the same topic is reported instead, or will be soon."""


@dataclass(frozen=True, slots=True)
class FindingCounts:
    """The numbers of open findings, and the entities that every evaluation checks."""

    open_by_severity_count: Mapping[str, int]
    """Severity → number of open findings."""
    consumers_by_stream_count: Mapping[str, tuple[int, int]]
    """Stream → numbers of critical findings and warnings of its consumers; only with any."""
    always_checked: frozenset[Entity]
    """Entities without a row, and entities with events."""


class FindingCounter:
    """Updates the counts of open findings with each change: there may be 50,000 findings."""

    def __init__(
        self,
        before: FindingCounts | None,
        conditions: Mapping[Entity, tuple[WatchedCondition, ...]],
    ) -> None:
        """Start from `before`, the counts of `conditions`; None: count them."""
        self._by_severity = dict(before.open_by_severity_count) if before else {}
        self._by_stream = dict(before.consumers_by_stream_count) if before else {}
        self._always_checked = set(before.always_checked) if before else set()
        if before is None:
            for entity, entity_conditions in conditions.items():
                self.replace_counts(entity, (), entity_conditions)

    @property
    def always_checked(self) -> frozenset[Entity]:
        """Return the entities without a row, and those with events."""
        return frozenset(self._always_checked)

    def replace_counts(
        self,
        entity: Entity,
        previous: Iterable[WatchedCondition],
        current: Iterable[WatchedCondition],
    ) -> None:
        """Subtract an entity's previous conditions from the counts, and add the current ones."""
        if not entity.has_row and current:
            self._always_checked.add(entity)
        elif not current:
            self._always_checked.discard(entity)
        for condition in previous:
            if condition.raised:
                self.add(condition.finding, -1)
        for condition in current:
            if condition.raised:
                self.add(condition.finding, 1)

    def add(self, finding: Finding, count: int) -> None:
        """Add an open finding to the counts (`count` 1), or remove it (`count` -1)."""
        severity, entity = finding.kind.severity, finding.entity
        self._by_severity[severity] = self._by_severity.get(severity, 0) + count
        if not entity.consumer or severity == "info":
            return
        critical, warnings = self._by_stream.get(entity.stream, (0, 0))
        if severity == "critical":
            critical += count
        else:
            warnings += count
        if critical or warnings:
            self._by_stream[entity.stream] = (critical, warnings)
        else:
            self._by_stream.pop(entity.stream, None)

    def add_event(self, entity: Entity) -> None:
        """Have an entity with an event checked at each evaluation."""
        self._always_checked.add(entity)

    def make_counts(self) -> FindingCounts:
        """Return the current counts."""
        return FindingCounts(self._by_severity, self._by_stream, frozenset(self._always_checked))


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The data of an evaluation that the next one compares, to find changes."""

    mono_us: int = 0
    consumers: Roster | None = None
    consumer_columns: ConsumerColumns | None = None
    streams: Roster | None = None
    stream_columns: StreamColumns | None = None
    waiting_rows: tuple[int, ...] = ()
    """Rows of consumers whose evaluation was postponed, because there were too many."""
    consumer_settings: Mapping[tuple[str, str], ConsumerConfiguration] = field(
        default_factory=dict
    )
    stream_settings: Mapping[str, StreamConfiguration] = field(default_factory=dict)
    checked_consumers: frozenset[tuple[str, str]] = frozenset()
    """Consumers whose settings allow findings with inconspicuous counters."""
    filtered_consumers: frozenset[tuple[str, str]] = frozenset()
    """Consumers with filters, which may match nothing."""
    checked_streams: frozenset[str] = frozenset()
    """Streams whose settings allow findings with inconspicuous counters."""
    streams_with_ephemerals: frozenset[str] = frozenset()
    """Streams with ephemeral consumers, which clients may leave behind."""
    memory: Memory = field(default_factory=Memory)
    """Data about the rows beyond their history."""


@dataclass(frozen=True, slots=True)
class Findings:
    """All findings at one time, and the data to update them."""

    conditions: Mapping[Entity, tuple[WatchedCondition, ...]] = field(default_factory=dict)
    """Entity → its watched conditions, raised or not."""
    resolved: tuple[Finding, ...] = ()
    """The newest ended findings, oldest first."""
    ended: tuple[Finding, ...] = ()
    """All findings that the newest evaluation ended."""
    recorded: bool = False
    """Whether the findings are from a recording, so that none are evaluated."""
    evaluation: Evaluation = field(default_factory=Evaluation)
    silences: Mapping[tuple[Entity, str], Silence] = field(default_factory=dict)
    """Entity and code → its current silence."""
    counts: FindingCounts | None = None
    """Numbers of open findings, including silenced ones; None: not counted."""

    def count_open(self) -> FindingCounts:
        """Return the numbers of open findings that are not silenced."""
        if self.counts is not None and not self.silences:
            return self.counts
        counter = FindingCounter(self.counts, self.conditions)
        for entity, code in self.silences:
            for condition in self.conditions.get(entity, ()):
                if condition.raised and condition.finding.kind.code == code:
                    counter.add(condition.finding, -1)
        return counter.make_counts()

    def find_silence(self, finding: Finding) -> Silence | None:
        """Return the silence of a finding; None if it is not silenced."""
        if not self.silences:
            return None
        return self.silences.get((finding.entity, finding.kind.code))

    def list_open_of(self, entity: Entity) -> tuple[Finding, ...]:
        """Return the open findings of an entity, including silenced ones, the worst first."""
        conditions = self.conditions.get(entity, ())
        return tuple(
            sorted(
                (condition.finding for condition in conditions if condition.raised),
                key=worst_first,
            )
        )

    def find_worst(self, entity: Entity) -> Finding | None:
        """Return the worst open finding of an entity that is not silenced; None without one."""
        worst_finding: Finding | None = None
        for condition in self.conditions.get(entity, ()):
            is_worse = worst_finding is None or worst_first(condition.finding) < worst_first(
                worst_finding
            )
            if condition.raised and is_worse and self.find_silence(condition.finding) is None:
                worst_finding = condition.finding
        return worst_finding

    def list_open(self) -> list[Finding]:
        """Return every open finding that is not silenced, the worst first."""
        return sorted(self.iterate_open(), key=worst_first)

    def iterate_open(self) -> Iterator[Finding]:
        """Yield every open finding that is not silenced, in no order."""
        return (finding for finding in self._raised() if self.find_silence(finding) is None)

    def list_silenced(self) -> list[Finding]:
        """Return every open finding that is silenced, the worst first."""
        hidden = (finding for finding in self._raised() if self.find_silence(finding) is not None)
        return sorted(hidden, key=worst_first) if self.silences else []

    def _raised(self) -> Iterator[Finding]:
        return (
            condition.finding
            for conditions in self.conditions.values()
            for condition in conditions
            if condition.raised
        )


MIN_GROUPED = 4
"""Minimum number of findings of a kind that are shown as one line."""


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """A line of findings of one kind: the worst, and the others."""

    first: Finding
    others: tuple[Finding, ...] = ()

    @property
    def others_text(self) -> str:
        """Return `and 12 others`; empty without others."""
        return f"and {counted(len(self.others), 'other')}" if self.others else ""


def group_findings(findings: Iterable[Finding]) -> list[FindingGroup]:
    """Return the lines for findings, the worst first; four or more of a kind are one line.

    Open and ended findings are in different lines.
    """
    findings_by_kind: dict[tuple[Kind, bool], list[Finding]] = {}
    for finding in findings:
        findings_by_kind.setdefault((finding.kind, finding.until_us is None), []).append(finding)
    lines = []
    for group in findings_by_kind.values():
        if len(group) < MIN_GROUPED:
            lines += [FindingGroup(finding) for finding in group]
            continue
        # There may be 50,000: they need no order among themselves.
        worst = min(group, key=lambda finding: (*worst_first(finding), finding.entity))
        others = tuple(finding for finding in group if finding is not worst)
        lines.append(FindingGroup(worst, others))
    return sorted(lines, key=lambda line: worst_first(line.first))


def worst_first(finding: Finding) -> tuple[int, bool, int]:
    """Return a sort key: first the most severe findings, then those about servers, the oldest.

    Findings about a server explain findings about its streams.
    """
    is_of_server = finding.kind.entity == "server"
    return -finding.kind.severity_level, not is_of_server, finding.since_us
