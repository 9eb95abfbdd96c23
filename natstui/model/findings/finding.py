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
RESOLVED_KEPT = 200
"""Limit of ended findings that are kept."""


def with_names(advice: str, stream: str, consumer: str, sequence: str) -> str:
    """Return advice with the known (non-empty) names in its commands."""
    names = {"STREAM": stream, "CONSUMER": consumer, "SEQ": sequence}

    def named(found: re.Match[str]) -> str:
        # They stand in commands for a shell, and a name may hold what a shell obeys.
        name = names[found[0]]
        return shlex.quote(name) if name else found[0]

    # In one go: a stream may itself be called CONSUMER.
    return _PLACEHOLDER.sub(named, advice)


class Entity(NamedTuple):
    """The entity of a finding; a recreated stream or consumer is another entity."""

    stream: str = ""
    """Empty for the account and for monitoring itself."""
    consumer: str = ""
    created_at_us: int = 0
    """Creation time; 0 for the account, monitoring, and names without a row."""
    part: str = ""
    """The part of the entity, if it has several: a source, unavailable data."""

    @property
    def has_row(self) -> bool:
        """Return whether it is a stream or consumer with a row, and so with a creation time."""
        return self.created_at_us != 0

    @property
    def text(self) -> str:
        """Return its text for people: `ORDERS > billing`, `ORDERS`, `account`."""
        name = f"{self.stream} > {self.consumer}" if self.consumer else self.stream
        return " ".join(each for each in (name, self.part) if each) or "account"


def of_key(key: Key) -> Entity:
    """Return the entity of a row of streams or of consumers."""
    if len(key) == 3:
        return Entity(str(key[0]), str(key[1]), int(key[2]))
    return Entity(str(key[0]), "", int(key[1]))


@dataclass(frozen=True, slots=True)
class Symptom:
    """The evidence of a condition that holds now."""

    text: str
    """The evidence, as a sentence for people."""
    since_us: int | None = None
    """Start of the condition, if known; else it is the time of the first evidence."""
    sequences: tuple[int, ...] = ()
    """Sequences of the affected messages, the worst first."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Name of a deciding fact → its value."""
    hold_s: float | None = None
    """Time before it is reported, if the cause overrides that of the catalogue."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding: its kind, entity, start and evidence."""

    kind: Kind
    entity: Entity
    since_us: int
    """Its start, UTC."""
    text: str
    sequences: tuple[int, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Name of a deciding fact → its value, for known ones."""
    until_us: int | None = None
    """Its end; None while it is open."""

    @property
    def severity_level(self) -> int:
        """Return its severity for sorting; the worst has the highest."""
        return self.kind.severity_level

    @property
    def limit(self) -> StreamLimit | None:
        """Return the reached limit of its stream; None for other findings."""
        return next((STREAM_LIMITS[name] for name in self.numbers if name in STREAM_LIMITS), None)

    @property
    def act(self) -> str:
        """Return the advice of its kind, with the known names and limit."""
        limit, advice = self.limit, self.kind.act
        if limit is not None:
            advice = with_limit(advice, limit)
        sequence = str(self.sequences[0]) if self.sequences else ""
        return with_names(advice, self.entity.stream, self.entity.consumer, sequence)


@dataclass(frozen=True, slots=True)
class Watched:
    """A condition of an entity that holds, or held until a moment ago."""

    finding: Finding
    first_mono_us: int
    """Time of the first evidence, on the engine's clock."""
    raised: bool
    missed_mono_us: int | None = None
    """Time since which it is absent, on the engine's clock."""
    missed_us: int = 0
    """The same, UTC."""
    hidden: bool = False
    """Whether another cause of the same topic is reported instead of it, or will be soon."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of open findings, updated with each change, as there may be 50,000."""

    every_count: Mapping[str, int]
    """Severity → open findings."""
    below_count: Mapping[str, tuple[int, int]]
    """Stream → numbers of critical findings and warnings of its consumers; only with any."""
    apart: frozenset[Entity]
    """Entities without a row, and entities with events."""


class Counting:
    """The counts during an evaluation."""

    def __init__(
        self, before: Counts | None, watched: Mapping[Entity, tuple[Watched, ...]]
    ) -> None:
        """Create from `before`, the counts of `watched`; None: these are counted."""
        self._every = dict(before.every_count) if before else {}
        self._below = dict(before.below_count) if before else {}
        self._apart = set(before.apart) if before else set()
        if before is None:
            for entity, some in watched.items():
                self.change(entity, (), some)

    @property
    def apart(self) -> frozenset[Entity]:
        """Return the entities without a row, and those with events."""
        return frozenset(self._apart)

    def change(self, entity: Entity, before: Iterable[Watched], after: Iterable[Watched]) -> None:
        """Replace the counts of an entity's previous conditions by those of its current ones."""
        if not entity.has_row and after:
            self._apart.add(entity)
        elif not after:
            self._apart.discard(entity)
        for seen in before:
            if seen.raised:
                self.add(seen.finding, -1)
        for seen in after:
            if seen.raised:
                self.add(seen.finding, 1)

    def add(self, finding: Finding, count: int) -> None:
        """Add `count`, 1 or -1, for an open finding."""
        severity, entity = finding.kind.severity, finding.entity
        self._every[severity] = self._every.get(severity, 0) + count
        if not entity.consumer or severity == "info":
            return
        critical, warnings = self._below.get(entity.stream, (0, 0))
        if severity == "critical":
            critical += count
        else:
            warnings += count
        if critical or warnings:
            self._below[entity.stream] = (critical, warnings)
        else:
            self._below.pop(entity.stream, None)

    def happened(self, entity: Entity) -> None:
        """Store that an entity has an event, which is checked at each evaluation."""
        self._apart.add(entity)

    def counts(self) -> Counts:
        """Return the current counts."""
        return Counts(self._every, self._below, frozenset(self._apart))


@dataclass(frozen=True, slots=True)
class Seat:
    """The data of the previous evaluation, to find changes."""

    mono_us: int = 0
    consumers: Roster | None = None
    consumer_columns: ConsumerColumns | None = None
    streams: Roster | None = None
    stream_columns: StreamColumns | None = None
    waiting: tuple[int, ...] = ()
    """Rows of consumers that wait for their evaluation, because there were too many at once."""
    consumer_settings: Mapping[tuple[str, str], ConsumerConfiguration] = field(
        default_factory=dict
    )
    stream_settings: Mapping[str, StreamConfiguration] = field(default_factory=dict)
    attentive: frozenset[tuple[str, str]] = frozenset()
    """Consumers that are checked for their settings, although their counters are unchanged."""
    filtered: frozenset[tuple[str, str]] = frozenset()
    """Consumers with filters, whose filters may match nothing."""
    attentive_streams: frozenset[str] = frozenset()
    with_ephemerals: frozenset[str] = frozenset()
    """Streams with ephemeral consumers, which clients may leave behind."""
    memory: Memory = field(default_factory=Memory)
    """Data of the rows beyond their history."""


@dataclass(frozen=True, slots=True)
class Findings:
    """All findings of a moment."""

    watched: Mapping[Entity, tuple[Watched, ...]] = field(default_factory=dict)
    """Entity → its conditions, open ones and those that may become open."""
    resolved: tuple[Finding, ...] = ()
    """The newest ended findings, oldest first."""
    ended: tuple[Finding, ...] = ()
    """All findings that the newest evaluation ended."""
    recorded: bool = False
    """Whether they are from a recording, and not evaluated again."""
    seat: Seat = field(default_factory=Seat)
    silences: Mapping[tuple[Entity, str], Silence] = field(default_factory=dict)
    """Entity and code → its current silence."""
    counts: Counts | None = None
    """Numbers of open findings, including silenced ones; None: not counted."""

    def open_counts(self) -> Counts:
        """Return the numbers of open findings that are not silenced."""
        if self.counts is not None and not self.silences:
            return self.counts
        counting = Counting(self.counts, self.watched)
        for entity, code in self.silences:
            for seen in self.watched.get(entity, ()):
                if seen.raised and seen.finding.kind.code == code:
                    counting.add(seen.finding, -1)
        return counting.counts()

    def silence_of(self, finding: Finding) -> Silence | None:
        """Return the silence of a finding; None if it is not silenced."""
        if not self.silences:
            return None
        return self.silences.get((finding.entity, finding.kind.code))

    def of(self, entity: Entity) -> tuple[Finding, ...]:
        """Return the open findings of an entity, including silenced ones, the worst first."""
        watched = self.watched.get(entity, ())
        return tuple(sorted((w.finding for w in watched if w.raised), key=worst_first))

    def worst(self, entity: Entity) -> Finding | None:
        """Return the worst open finding of one entity that is not silenced."""
        worst_finding: Finding | None = None
        for seen in self.watched.get(entity, ()):
            worse = worst_finding is None or worst_first(seen.finding) < worst_first(worst_finding)
            if seen.raised and worse and self.silence_of(seen.finding) is None:
                worst_finding = seen.finding
        return worst_finding

    def open(self) -> list[Finding]:
        """Return every open finding that is not silenced, the worst first."""
        return sorted(self.told(), key=worst_first)

    def told(self) -> Iterator[Finding]:
        """Yield every open finding that is not silenced, in no order."""
        return (finding for finding in self._raised() if self.silence_of(finding) is None)

    def silenced(self) -> list[Finding]:
        """Return every open finding that is silenced, the worst first."""
        hidden = (finding for finding in self._raised() if self.silence_of(finding) is not None)
        return sorted(hidden, key=worst_first) if self.silences else []

    def _raised(self) -> Iterator[Finding]:
        return (w.finding for each in self.watched.values() for w in each if w.raised)


FOLDED_FROM = 4
"""Number of findings of a kind from which they are one line with their count."""


@dataclass(frozen=True, slots=True)
class FoldedFinding:
    """A finding, with others of the same kind in the same line."""

    first: Finding
    others: tuple[Finding, ...] = ()

    @property
    def others_text(self) -> str:
        """Return `and 12 others`; empty without others."""
        return f"and {counted(len(self.others), 'other')}" if self.others else ""


def folded(findings: Iterable[Finding]) -> list[FoldedFinding]:
    """Return lines for findings, the worst first, with four or more of a kind in one line.

    Open findings are not folded with ended ones.
    """
    alike: dict[tuple[Kind, bool], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((finding.kind, finding.until_us is None), []).append(finding)
    lines = []
    for some in alike.values():
        if len(some) < FOLDED_FROM:
            lines += [FoldedFinding(finding) for finding in some]
            continue
        # There may be 50,000: they need no order among themselves.
        first = min(some, key=lambda finding: (*worst_first(finding), finding.entity))
        others = tuple(finding for finding in some if finding is not first)
        lines.append(FoldedFinding(first, others))
    return sorted(lines, key=lambda line: worst_first(line.first))


def worst_first(finding: Finding) -> tuple[int, bool, int]:
    """Return the sort key of a finding: the worst first, then those of servers, then the oldest.

    Findings about a server explain those about its streams.
    """
    is_of_server = finding.kind.entity == "server"
    return -finding.kind.severity_level, not is_of_server, finding.since_us
