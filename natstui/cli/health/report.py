"""What is told of the findings of a server: chosen, counted, and judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from natstui.model.clients.api_audit import ApiAudit
from natstui.model.findings.catalogue.every import KINDS
from natstui.model.findings.catalogue.kind import Kind, Severity
from natstui.model.findings.finding import Entity, Finding, worst_first
from natstui.model.findings.severities import is_at_least
from natstui.model.findings.verdict import consumer_findings, stream_findings
from natstui.model.live.state import State
from natstui.model.servers.versions import too_old


class Verdict(IntEnum):
    """The exit code: that of monitoring plugins."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which findings are told."""

    stream: str | None = None
    consumer: tuple[str, str] | None = None
    least: Severity = "warning"

    def takes(self, finding: Finding) -> bool:
        """Return whether a finding is told."""
        entity = finding.entity
        if not is_at_least(finding.kind.severity, self.least):
            return False
        if self.consumer is not None:
            # Of a stream that nobody saw, its consumers cannot be seen either.
            of_stream = not entity.consumer and not entity.has_row
            named = (entity.stream, self.consumer[1] if of_stream else entity.consumer)
            return named == self.consumer
        return self.stream is None or entity.stream == self.stream


@dataclass(frozen=True, slots=True)
class NotJudged:
    """Something that can be told only after a longer time than was watched."""

    kind: Kind
    entity: Entity | None = None
    """What it holds for now, though not for long enough yet; None: of anything."""


@dataclass(frozen=True, slots=True)
class Report:
    """The findings of one moment."""

    verdict: Verdict
    findings: tuple[Finding, ...]
    """The worst first."""
    streams_count: int
    consumers_count: int
    at_us: int
    unknown: str | None = None
    """Why it could not be told."""
    recorded: bool = False
    """It is about a whole recording: findings may be over."""
    silenced_count: int = 0
    """So many findings are left out, because somebody silenced them."""
    watched_s: float | None = None
    """For how long the server was watched; None where that is not known."""
    not_judged: tuple[NotJudged, ...] = ()
    audit: ApiAudit | None = None
    """What an audit of the API read, if one was asked for."""
    unread: tuple[str, ...] = ()
    """What could not be read of the servers and clients, and why: nothing is said of it."""

    def count(self, severity: Severity) -> int:
        """Return how many findings are of a severity."""
        return sum(finding.kind.severity == severity for finding in self.findings)


def report_on(
    state: State,
    chosen: Chosen,
    problem: str | None = None,
    over: Sequence[Finding] | None = None,
    *,
    with_silenced: bool = False,
    watched_s: float | None = None,
) -> Report:
    """Return what is wrong now; `problem` is why not everything could be looked at.

    `over`: what was wrong before, when it is about a whole recording. `with_silenced`: tell also
    what somebody silenced. `watched_s`: for how long.
    """
    findings = state.findings
    every = {id(one): one for one in (*findings.open(), *findings.silenced(), *(over or ()))}
    streams, consumers = state.streams, state.consumers
    for row in range(len(streams)):
        every |= {
            id(stream_finding): stream_finding for stream_finding in stream_findings(state, row)
        }
    for row in range(len(consumers)):
        every |= {
            id(consumer_finding): consumer_finding
            for consumer_finding in consumer_findings(state, row)
        }
    taken = sorted(filter(chosen.takes, every.values()), key=worst_first)
    found = tuple(one for one in taken if with_silenced or findings.silence_of(one) is None)
    problem = problem or (None if taken else _missing(state, chosen))
    unsupported = too_old(state.link.server_version) if state.link else None
    problem = "; ".join(filter(None, (unsupported, problem))) or None
    verdict = _verdict(found)
    if problem is not None and verdict is not Verdict.CRITICAL:
        verdict = Verdict.UNKNOWN
    counts = names_count(state)
    recorded, hidden_count = over is not None, len(taken) - len(found)
    return Report(
        verdict, found, *counts, state.now_at_us, problem, recorded, hidden_count, watched_s,
        tuple(_not_judged(state, chosen, watched_s)), unread=tuple(_unread(state)),
    )  # fmt: skip


def _unread(state: State) -> Iterator[str]:
    """Yield what is not known of servers and clients, and why."""
    if state.servers.newest is not None:
        yield from (f"{one.what}: {one.reason}" for one in state.servers.newest.missing)
    if state.clients is not None and state.clients.missing is not None:
        yield f"closed connections: {state.clients.missing}"


def names_count(state: State) -> tuple[int, int]:
    """Return how many streams and consumers there are, those without a row as well."""
    away = state.unreachable_streams - state.streams.roster.rows_of_stream.keys()
    consumers = state.consumers.roster
    gone = [
        name
        for name in state.unreachable_consumers
        if not any(
            consumers.keys[row][1] == name[1] for row in consumers.rows_of_stream.get(name[0], ())
        )
    ]
    return len(state.streams) + len(away), len(state.consumers) + len(gone)


def _not_judged(state: State, chosen: Chosen, watched_s: float | None) -> Iterator[NotJudged]:
    """Yield what may be wrong, and needs a longer time than was watched to be known."""
    if watched_s is None:
        return
    for entity, conditions in state.findings.watched.items():
        for condition in conditions:
            if not condition.raised and chosen.takes(condition.finding):
                yield NotJudged(condition.finding.kind, entity)
    for kind in KINDS.values():
        if kind.needs_s > watched_s and is_at_least(kind.severity, chosen.least):
            yield NotJudged(kind)


def _verdict(found: Sequence[Finding]) -> Verdict:
    severities = {one.kind.severity for one in found}
    if "critical" in severities:
        return Verdict.CRITICAL
    return Verdict.WARNING if "warning" in severities else Verdict.OK


def _missing(state: State, chosen: Chosen) -> str | None:
    """Return why what was asked about cannot be judged: it is not there."""
    if chosen.consumer is not None:
        rows = state.consumers.roster.rows_of_stream.get(chosen.consumer[0], ())
        names = {state.consumers.columns.name[row] for row in rows}
        if chosen.consumer[1] not in names:
            text = "/".join(chosen.consumer)
            away = chosen.consumer in state.unreachable_consumers
            if away or chosen.consumer[0] in state.unreachable_streams:
                return f"consumer {text} cannot be reached"
            return f"there is no consumer {text}"
    elif chosen.stream is not None and chosen.stream not in state.streams.roster.rows_of_stream:
        if chosen.stream in state.unreachable_streams:
            return f"stream {chosen.stream} cannot be reached"
        return f"there is no stream {chosen.stream}"
    return None
