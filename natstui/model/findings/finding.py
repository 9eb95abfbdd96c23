"""A raised finding, and all that are open or were: what the evaluator hands from poll to poll."""

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
"""So many findings that are over are kept."""


def with_names(advice: str, stream: str, consumer: str, sequence: str) -> str:
    """Return advice with the names that are known in its commands; an empty one is not."""
    names = {"STREAM": stream, "CONSUMER": consumer, "SEQ": sequence}

    def named(found: re.Match[str]) -> str:
        # They stand in commands for a shell, and a name may hold what a shell obeys.
        name = names[found[0]]
        return shlex.quote(name) if name else found[0]

    # In one go: a stream may itself be called CONSUMER.
    return _PLACEHOLDER.sub(named, advice)


class Entity(NamedTuple):
    """What a finding is about; recreated under its name, it is another one."""

    stream: str = ""
    """Empty for the account and for monitoring itself."""
    consumer: str = ""
    created_at_us: int = 0
    """0 for what no poll saw: the account, monitoring, names that have no row."""
    part: str = ""
    """What of it, where it has several: a source, what cannot be read."""

    @property
    def has_row(self) -> bool:
        """Return whether it is a stream or consumer that a poll saw: only then it has a time."""
        return self.created_at_us != 0

    @property
    def text(self) -> str:
        """For people: `ORDERS > billing`, `ORDERS`, `account`."""
        name = f"{self.stream} > {self.consumer}" if self.consumer else self.stream
        return " ".join(each for each in (name, self.part) if each) or "account"


def of_key(key: Key) -> Entity:
    """Return the entity of a row of streams or of consumers."""
    if len(key) == 3:
        return Entity(str(key[0]), str(key[1]), int(key[2]))
    return Entity(str(key[0]), "", int(key[1]))


@dataclass(frozen=True, slots=True)
class Seen:
    """A condition that holds now: the words and the numbers that show it."""

    text: str
    """The evidence, as a sentence for people."""
    since_us: int | None = None
    """Since when, where that can be told; else since it was seen first."""
    sequences: tuple[int, ...] = ()
    """Messages that it is about, the worst first."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """The facts that it rests on, by name."""
    hold_s: float | None = None
    """How long it holds before it is reported, where the cause knows better than the catalogue."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong or risky: since when, and on what evidence."""

    kind: Kind
    entity: Entity
    since_us: int
    """Since when it holds, UTC."""
    text: str
    sequences: tuple[int, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    """The facts that it rests on, by name: those that are known."""
    until_us: int | None = None
    """When it was over; None while it is open."""

    @property
    def severity_level(self) -> int:
        """Where it sorts: the worst has the highest."""
        return self.kind.severity_level

    @property
    def limit(self) -> StreamLimit | None:
        """The limit of its stream that is reached; None where it is about none."""
        return next((STREAM_LIMITS[name] for name in self.numbers if name in STREAM_LIMITS), None)

    @property
    def act(self) -> str:
        """What to do about it: the advice of its kind, with the names and limit that are known."""
        limit, advice = self.limit, self.kind.act
        if limit is not None:
            advice = with_limit(advice, limit)
        sequence = str(self.sequences[0]) if self.sequences else ""
        return with_names(advice, self.entity.stream, self.entity.consumer, sequence)


@dataclass(frozen=True, slots=True)
class Watched:
    """A condition that holds or held until a moment ago, of one entity."""

    finding: Finding
    first_mono_us: int
    """When it was first seen, on the engine's clock."""
    raised: bool
    missed_mono_us: int | None = None
    """Since when it is not seen any more, on the engine's clock."""
    missed_us: int = 0
    """The same, UTC."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How many findings are open, counted as they come and go: there may be 50,000."""

    every_count: Mapping[str, int]
    """Severity → open findings."""
    below_count: Mapping[str, tuple[int, int]]
    """Stream → critical findings and warnings of its consumers; none where all is well."""
    apart: frozenset[Entity]
    """What has no row of its own, and to what something happened."""


class Counting:
    """The counts while findings change."""

    def __init__(
        self, before: Counts | None, watched: Mapping[Entity, tuple[Watched, ...]]
    ) -> None:
        """`before` are the counts of what is watched; None: they are counted."""
        self._every = dict(before.every_count) if before else {}
        self._below = dict(before.below_count) if before else {}
        self._apart = set(before.apart) if before else set()
        if before is None:
            for entity, some in watched.items():
                self.change(entity, (), some)

    @property
    def apart(self) -> frozenset[Entity]:
        """What has no row of its own, and to what something happened."""
        return frozenset(self._apart)

    def change(self, entity: Entity, before: Iterable[Watched], after: Iterable[Watched]) -> None:
        """Count what is known of an entity now in the place of what was known before."""
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
        """Count one open finding more, or one less."""
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
        """Note that something happened to an entity, which is looked for at each judgement."""
        self._apart.add(entity)

    def counts(self) -> Counts:
        """Return how much is open now."""
        return Counts(self._every, self._below, frozenset(self._apart))


@dataclass(frozen=True, slots=True)
class Seat:
    """What the evaluator keeps of the state that it judged last, to find what changed since."""

    mono_us: int = 0
    consumers: Roster | None = None
    consumer_columns: ConsumerColumns | None = None
    streams: Roster | None = None
    stream_columns: StreamColumns | None = None
    waiting: tuple[int, ...] = ()
    """Rows of consumers that were polled and not judged yet: there were too many at once."""
    consumer_settings: Mapping[tuple[str, str], ConsumerConfiguration] = field(
        default_factory=dict
    )
    stream_settings: Mapping[str, StreamConfiguration] = field(default_factory=dict)
    attentive: frozenset[tuple[str, str]] = frozenset()
    """Consumers to look at though nothing of them moves, for a setting of theirs."""
    filtered: frozenset[tuple[str, str]] = frozenset()
    """Consumers with filters: one that delivered nothing may match nothing."""
    attentive_streams: frozenset[str] = frozenset()
    with_ephemerals: frozenset[str] = frozenset()
    """Streams with consumers that are not durable: clients may leave them behind."""
    memory: Memory = field(default_factory=Memory)
    """What is known beyond the history of the rows."""


@dataclass(frozen=True, slots=True)
class Findings:
    """All findings of a moment."""

    watched: Mapping[Entity, tuple[Watched, ...]] = field(default_factory=dict)
    """What is open or about to be, by its entity."""
    resolved: tuple[Finding, ...] = ()
    """The newest that are over, oldest first."""
    ended: tuple[Finding, ...] = ()
    """All that the newest judgement ended, however many."""
    recorded: bool = False
    """They come from a recording, and are not judged again."""
    seat: Seat = field(default_factory=Seat)
    silences: Mapping[tuple[Entity, str], Silence] = field(default_factory=dict)
    """What nobody wants to hear of now, by entity and code."""
    counts: Counts | None = None
    """How much is open, silenced ones as well; None: it is not counted."""

    def open_counts(self) -> Counts:
        """Return how much is open and not silenced."""
        if self.counts is not None and not self.silences:
            return self.counts
        counting = Counting(self.counts, self.watched)
        for entity, code in self.silences:
            for seen in self.watched.get(entity, ()):
                if seen.raised and seen.finding.kind.code == code:
                    counting.add(seen.finding, -1)
        return counting.counts()

    def silence_of(self, finding: Finding) -> Silence | None:
        """Return why nobody wants to hear of a finding now; None where it is told."""
        if not self.silences:
            return None
        return self.silences.get((finding.entity, finding.kind.code))

    def of(self, entity: Entity) -> tuple[Finding, ...]:
        """Return the open findings of one entity, silenced ones as well, the worst first."""
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
"""So many findings of one kind are one line with their count."""


@dataclass(frozen=True, slots=True)
class FoldedFinding:
    """A finding, and others of the same kind that one line reports with it."""

    first: Finding
    others: tuple[Finding, ...] = ()

    @property
    def others_text(self) -> str:
        """Return `and 12 others`; empty where it is alone."""
        return f"and {counted(len(self.others), 'other')}" if self.others else ""


def folded(findings: Iterable[Finding]) -> list[FoldedFinding]:
    """Return lines for findings, the worst first: one for all of a kind, from four of them on.

    What is open is not folded with what is over.
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
    """Return where a finding sorts: the worst first, of equals servers, then the oldest.

    What is wrong with a server explains what is wrong with its streams.
    """
    is_of_server = finding.kind.entity == "server"
    return -finding.kind.severity_level, not is_of_server, finding.since_us
