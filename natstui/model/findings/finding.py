"""A finding, and all open and ended ones, which the evaluator passes from poll to poll."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct, field

from natstui.model.assets.configuration import ConsumerConfiguration, StreamConfiguration
from natstui.model.findings.catalogue.kind import (
    STREAM_LIMIT_BY_NUMBER_NAME,
    Kind,
    StreamLimit,
    with_limit,
)
from natstui.model.findings.facts.memory import RuleMemory
from natstui.model.keys import insert_keys
from natstui.model.live.known_rows import Roster, RowKey
from natstui.model.live.snapshot import ConsumerColumns, StreamColumns
from natstui.model.records.silences import Silence
from natstui.units import counted
from natstui.values import replace

_NAME_PLACEHOLDER_PATTERN = re.compile(r"\b(?:STREAM|CONSUMER|SEQ)\b")
NOT_IN_NEWEST_POLL = "not in the newest poll"
"""End of the evidence of a finding that may end soon."""
MAX_ENDED_FINDINGS = 200
"""Limit of ended findings that are kept."""


def insert_names(advice: str, stream: str, consumer: str, sequence: str) -> str:
    """Return advice with the non-empty names in its commands, quoted for a shell."""
    names = {"STREAM": stream, "CONSUMER": consumer, "SEQ": sequence}

    def insert_name(match: re.Match[str]) -> str:
        # The commands are for a shell, and a name may contain its special characters.
        name = names[match[0]]
        return shlex.quote(name) if name else match[0]

    # All at once: a stream may be named CONSUMER.
    return _NAME_PLACEHOLDER_PATTERN.sub(insert_name, advice)


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


def entity_of_key(key: RowKey) -> Entity:
    """Return the entity of a stream or consumer by the key of its row."""
    if len(key) == 3:
        return Entity(str(key[0]), str(key[1]), int(key[2]))
    return Entity(str(key[0]), "", int(key[1]))


class Symptom(Struct, frozen=True):
    """The evidence of a condition, such as "no open pulls", that holds now."""

    text: str
    """The evidence, as a sentence for people."""
    since_us: int | None = None
    """Start of the condition, UTC; None for the time of the first evidence."""
    sequences: tuple[int, ...] = ()
    """Sequences of the affected messages, the worst first."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Name of a deciding fact → its value."""
    report_after_s: float | None = None
    """Time that the condition must hold before its report; None for that of the catalogue."""


class Finding(Struct, frozen=True):
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
        return next(
            (
                STREAM_LIMIT_BY_NUMBER_NAME[name]
                for name in self.numbers
                if name in STREAM_LIMIT_BY_NUMBER_NAME
            ),
            None,
        )

    @property
    def act(self) -> str:
        """Return what to do: the advice of the kind with the names of this finding."""
        return self.advice()

    def advice(self, key_by_id: Mapping[str, str] | None = None) -> str:
        """Return what to do, with the user's keys; the default key of those not in `key_by_id`."""
        limit, advice = self.limit, insert_keys(self.kind.act_template, key_by_id)
        if limit is not None:
            advice = with_limit(advice, limit)
        sequence = str(self.sequences[0]) if self.sequences else ""
        return insert_names(advice, self.entity.stream, self.entity.consumer, sequence)


class WatchedCondition(Struct, frozen=True):
    """A condition of an entity, from its first evidence until its finding, if any, ends."""

    finding: Finding
    first_mono_us: int
    """Time of the first evidence, on the engine's clock."""
    is_raised: bool
    """Whether the finding is reported."""
    absent_mono_us: int | None = None
    """Time since which the condition does not hold, on the engine's clock; None if it holds."""
    absent_at_us: int = 0
    """The same, UTC."""
    is_hidden: bool = False
    """Whether another cause of the same topic is reported instead, or will be soon."""
    is_recurring: bool = False
    """Whether the same finding has ended a short time before, see `recurrence_s` of its kind."""

    @property
    def leave_s(self) -> float:
        """Return the time that the condition must be absent before its finding ends."""
        kind = self.finding.kind
        return max(kind.leave_s, kind.recurrence_s) if self.is_recurring else kind.leave_s

    @property
    def reported_finding(self) -> Finding:
        """Return the finding; if the newest poll did not show it, its evidence says so."""
        if self.absent_mono_us is None:
            return self.finding
        return replace(self.finding, text=f"{self.finding.text}; {NOT_IN_NEWEST_POLL}")


class ConsumerFindingCounts(NamedTuple):
    """The numbers of open findings about the consumers of one stream."""

    critical_count: int
    warnings_count: int


class FindingCounts(Struct, frozen=True):
    """The numbers of open findings, and the entities that every evaluation checks."""

    open_by_severity_count: Mapping[str, int]
    """Severity → number of open findings."""
    consumers_by_stream_count: Mapping[str, ConsumerFindingCounts]
    """Stream → numbers of open findings of its consumers; only streams with any."""
    always_checked: frozenset[Entity]
    """Entities without a row, and entities with events."""


class FindingCounter:
    """Updates the counts of open findings with each change: there may be 50,000 findings."""

    def __init__(
        self,
        before: FindingCounts | None,
        conditions: Mapping[Entity, tuple[WatchedCondition, ...]],
    ) -> None:
        """Start with the counts `before`; if None, count the open findings of `conditions`."""
        self._open_by_severity = dict(before.open_by_severity_count) if before else {}
        self._consumers_by_stream = dict(before.consumers_by_stream_count) if before else {}
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
            if condition.is_raised:
                self.add(condition.finding, -1)
        for condition in current:
            if condition.is_raised:
                self.add(condition.finding, 1)

    def add(self, finding: Finding, count: int) -> None:
        """Add an open finding to the counts (`count` 1), or remove it (`count` -1)."""
        severity, entity = finding.kind.severity, finding.entity
        self._open_by_severity[severity] = self._open_by_severity.get(severity, 0) + count
        if not entity.consumer or severity == "info":
            return
        critical_count, warnings_count = self._consumers_by_stream.get(entity.stream, (0, 0))
        if severity == "critical":
            critical_count += count
        else:
            warnings_count += count
        if critical_count or warnings_count:
            self._consumers_by_stream[entity.stream] = ConsumerFindingCounts(
                critical_count, warnings_count
            )
        else:
            self._consumers_by_stream.pop(entity.stream, None)

    def add_event(self, entity: Entity) -> None:
        """Add an entity with an event to those that every evaluation checks."""
        self._always_checked.add(entity)

    def make_counts(self) -> FindingCounts:
        """Return the current counts."""
        return FindingCounts(
            self._open_by_severity, self._consumers_by_stream, frozenset(self._always_checked)
        )


class Evaluation(Struct, frozen=True):
    """The data of an evaluation that the next one compares, to find changes."""

    mono_us: int = 0
    consumers: Roster | None = None
    consumer_columns: ConsumerColumns | None = None
    streams: Roster | None = None
    stream_columns: StreamColumns | None = None
    postponed_rows: tuple[int, ...] = ()
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
    memory: RuleMemory = field(default_factory=RuleMemory)
    """Data about the rows beyond their history."""


class Findings(Struct, frozen=True):
    """All findings at one time, and the data to update them."""

    conditions: Mapping[Entity, tuple[WatchedCondition, ...]] = field(default_factory=dict)
    """Entity → its watched conditions, raised or not."""
    resolved: tuple[Finding, ...] = ()
    """The newest ended findings, oldest first."""
    ended: tuple[Finding, ...] = ()
    """All findings that the newest evaluation ended."""
    are_from_recording: bool = False
    """Whether the findings are from a recording, so that none are evaluated."""
    evaluation: Evaluation = field(default_factory=Evaluation)
    silences: Mapping[tuple[Entity, str], Silence] = field(default_factory=dict)
    """Entity and code → its current silence."""
    counts: FindingCounts | None = None
    """Numbers of open findings, including silenced ones; None: not counted."""

    def count_open_findings(self) -> FindingCounts:
        """Return the numbers of open findings that are not silenced."""
        if self.counts is not None and not self.silences:
            return self.counts
        counter = FindingCounter(self.counts, self.conditions)
        for entity, code in self.silences:
            for condition in self.conditions.get(entity, ()):
                if condition.is_raised and condition.finding.kind.code == code:
                    counter.add(condition.finding, -1)
        return counter.make_counts()

    def find_silence(self, finding: Finding) -> Silence | None:
        """Return the silence of a finding; None if it is not silenced."""
        if not self.silences:
            return None
        return self.silences.get((finding.entity, finding.kind.code))

    def list_open_findings_of(self, entity: Entity) -> tuple[Finding, ...]:
        """Return the open findings of an entity, including silenced ones, the worst first."""
        conditions = self.conditions.get(entity, ())
        return tuple(
            sorted(
                (condition.reported_finding for condition in conditions if condition.is_raised),
                key=severity_sort_key,
            )
        )

    def find_worst_finding(self, entity: Entity) -> Finding | None:
        """Return the worst open finding of an entity that is not silenced; None without one."""
        worst_finding: Finding | None = None
        for condition in self.conditions.get(entity, ()):
            is_worse = worst_finding is None or severity_sort_key(
                condition.finding
            ) < severity_sort_key(worst_finding)
            if condition.is_raised and is_worse and self.find_silence(condition.finding) is None:
                worst_finding = condition.reported_finding
        return worst_finding

    def list_open_findings(self) -> list[Finding]:
        """Return every open finding that is not silenced, the worst first."""
        return sorted(self.iterate_open_findings(), key=severity_sort_key)

    def iterate_open_findings(self) -> Iterator[Finding]:
        """Yield every open finding that is not silenced, in no order."""
        return (
            finding for finding in self._iterate_raised() if self.find_silence(finding) is None
        )

    def list_silenced_findings(self) -> list[Finding]:
        """Return every open finding that is silenced, the worst first."""
        silenced_findings = (
            finding for finding in self._iterate_raised() if self.find_silence(finding) is not None
        )
        return sorted(silenced_findings, key=severity_sort_key) if self.silences else []

    def _iterate_raised(self) -> Iterator[Finding]:
        return (
            condition.reported_finding
            for conditions in self.conditions.values()
            for condition in conditions
            if condition.is_raised
        )


MIN_GROUPED_FINDINGS = 4
"""Minimum number of findings of a kind that are shown as one line."""


class FindingGroup(Struct, frozen=True):
    """Findings of one kind that are shown as one line: the worst, and the others."""

    worst: Finding
    others: tuple[Finding, ...] = ()

    @property
    def others_text(self) -> str:
        """Return `and 12 others`; empty without others."""
        return f"and {counted(len(self.others), 'other')}" if self.others else ""


def group_findings(findings: Iterable[Finding]) -> list[FindingGroup]:
    """Return groups of findings, the worst first.

    Four or more open findings of a kind are one group, as are four or more ended ones; each other
    finding is a group of its own.
    """
    findings_by_kind_and_is_open: dict[tuple[Kind, bool], list[Finding]] = {}
    for finding in findings:
        findings_by_kind_and_is_open.setdefault(
            (finding.kind, finding.until_us is None), []
        ).append(finding)
    lines = []
    for group in findings_by_kind_and_is_open.values():
        if len(group) < MIN_GROUPED_FINDINGS:
            lines += [FindingGroup(finding) for finding in group]
            continue
        # There may be 50,000: they need no order among themselves.
        worst = min(group, key=lambda finding: (*severity_sort_key(finding), finding.entity))
        others = tuple(finding for finding in group if finding is not worst)
        lines.append(FindingGroup(worst, others))
    return sorted(lines, key=lambda line: severity_sort_key(line.worst))


def severity_sort_key(finding: Finding) -> tuple[int, bool, int]:
    """Return a sort key by severity, then findings about servers first, then the oldest first.

    Findings about a server explain findings about its streams.
    """
    is_of_server = finding.kind.entity == "server"
    return -finding.kind.severity_level, not is_of_server, finding.since_us
