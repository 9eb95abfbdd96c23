"""The report of a server's findings: selected, counted, and judged."""

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
from natstui.model.servers.versions import version_problem


class Verdict(IntEnum):
    """The exit code, as in monitoring plugins."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


@dataclass(frozen=True, slots=True)
class FindingSelection:
    """The selection of findings: by stream or consumer, from a severity on."""

    stream: str | None = None
    consumer: tuple[str, str] | None = None
    min_severity: Severity = "warning"

    def selects(self, finding: Finding) -> bool:
        """Return whether a finding is selected.

        A finding of a stream that cannot be read is selected for its consumers too.
        """
        entity = finding.entity
        if not is_at_least(finding.kind.severity, self.min_severity):
            return False
        if self.consumer is not None:
            # Of a stream that nobody saw, its consumers cannot be seen either.
            of_stream = not entity.consumer and not entity.has_row
            names = (entity.stream, self.consumer[1] if of_stream else entity.consumer)
            return names == self.consumer
        return self.stream is None or entity.stream == self.stream


@dataclass(frozen=True, slots=True)
class NotJudged:
    """A condition that needs a longer time than was watched to be judged."""

    kind: Kind
    entity: Entity | None = None
    """The entity for which it is true now, though not long enough yet; None: any entity."""


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict and the findings of one moment, or of an entire recording."""

    verdict: Verdict
    findings: tuple[Finding, ...]
    """The findings, the worst first."""
    streams_count: int
    consumers_count: int
    at_us: int
    unknown: str | None = None
    """Why the report is incomplete, if so."""
    recorded: bool = False
    """Whether it is about an entire recording, so that findings may have ended."""
    silenced_count: int = 0
    """Number of silenced findings that are left out."""
    watched_s: float | None = None
    """How long the server was watched; None if unknown."""
    not_judged: tuple[NotJudged, ...] = ()
    audit: ApiAudit | None = None
    """Result of an API audit, if requested."""
    unread: tuple[str, ...] = ()
    """What could not be read of servers and clients, and why: it is not judged."""

    def count(self, severity: Severity) -> int:
        """Return the number of findings of a severity."""
        return sum(finding.kind.severity == severity for finding in self.findings)


def report_on(
    state: State,
    selection: FindingSelection,
    problem: str | None = None,
    ended_findings: Sequence[Finding] | None = None,
    *,
    with_silenced: bool = False,
    watched_s: float | None = None,
) -> Report:
    """Return the report of the selected findings of a state, the worst first.

    `problem` is why not everything could be read: without critical findings the verdict is unknown
    then. `ended_findings` are those of an entire recording, None for a server. `with_silenced`
    includes silenced findings. `watched_s` is how long the server was watched: shorter than a kind
    of finding needs, that kind is not judged.
    """
    findings = state.findings
    candidates_by_id = {
        id(finding): finding
        for finding in (*findings.open(), *findings.silenced(), *(ended_findings or ()))
    }
    streams, consumers = state.streams, state.consumers
    for row in range(len(streams)):
        candidates_by_id |= {
            id(stream_finding): stream_finding for stream_finding in stream_findings(state, row)
        }
    for row in range(len(consumers)):
        candidates_by_id |= {
            id(consumer_finding): consumer_finding
            for consumer_finding in consumer_findings(state, row)
        }
    selected = sorted(filter(selection.selects, candidates_by_id.values()), key=worst_first)
    reported = tuple(
        finding for finding in selected if with_silenced or findings.silence_of(finding) is None
    )
    problem = problem or (None if selected else _missing_reason(state, selection))
    unsupported_text = version_problem(state.link.server_version) if state.link else None
    problem = "; ".join(filter(None, (unsupported_text, problem))) or None
    verdict = _worst_verdict(reported)
    if problem is not None and verdict is not Verdict.CRITICAL:
        verdict = Verdict.UNKNOWN
    counts = _count_assets(state, selection)
    is_recorded, silenced_count = ended_findings is not None, len(selected) - len(reported)
    return Report(
        verdict, reported, *counts, state.now_at_us, problem, is_recorded, silenced_count,
        watched_s, tuple(_find_not_judged(state, selection, watched_s)),
        unread=tuple(_unread_texts(state)),
    )  # fmt: skip


def _unread_texts(state: State) -> Iterator[str]:
    """Yield what is unknown about servers and clients, and why."""
    if state.servers.newest is not None:
        yield from (
            f"{missing.what}: {missing.reason}" for missing in state.servers.newest.missing
        )
    if state.clients is not None and state.clients.missing is not None:
        yield f"closed connections: {state.clients.missing}"


def _count_assets(state: State, selection: FindingSelection) -> tuple[int, int]:
    """Return the number of selected streams and consumers, also of those without a row."""
    streams = {name for (name, *_) in state.streams.roster.keys} | state.unreachable_streams
    consumers = {(stream, name) for (stream, name, *_) in state.consumers.roster.keys}
    consumers |= state.unreachable_consumers
    stream = selection.consumer[0] if selection.consumer else selection.stream
    if stream is not None:
        streams &= {stream}
        consumers = {name for name in consumers if name[0] == stream}
    if selection.consumer is not None:
        consumers &= {selection.consumer}
    return len(streams), len(consumers)


def _find_not_judged(
    state: State, selection: FindingSelection, watched_s: float | None
) -> Iterator[NotJudged]:
    """Yield conditions that need a longer time than was watched to be judged."""
    if watched_s is None:
        return
    for entity, conditions in state.findings.watched.items():
        for condition in conditions:
            is_judged = condition.raised or condition.hidden
            if not is_judged and selection.selects(condition.finding):
                yield NotJudged(condition.finding.kind, entity)
    for kind in KINDS.values():
        if kind.needs_s > watched_s and is_at_least(kind.severity, selection.min_severity):
            yield NotJudged(kind)


def _worst_verdict(findings: Sequence[Finding]) -> Verdict:
    severities = {finding.kind.severity for finding in findings}
    if "critical" in severities:
        return Verdict.CRITICAL
    return Verdict.WARNING if "warning" in severities else Verdict.OK


def _missing_reason(state: State, selection: FindingSelection) -> str | None:
    """Return why the selection cannot be judged: it does not exist or is unreachable."""
    if selection.consumer is not None:
        rows = state.consumers.roster.rows_of_stream.get(selection.consumer[0], ())
        names = {state.consumers.columns.name[row] for row in rows}
        if selection.consumer[1] not in names:
            text = "/".join(selection.consumer)
            is_unreachable = selection.consumer in state.unreachable_consumers
            if is_unreachable or selection.consumer[0] in state.unreachable_streams:
                return f"consumer {text} cannot be reached"
            return f"there is no consumer {text}"
    elif (
        selection.stream is not None
        and selection.stream not in state.streams.roster.rows_of_stream
    ):
        if selection.stream in state.unreachable_streams:
            return f"stream {selection.stream} cannot be reached"
        return f"there is no stream {selection.stream}"
    return None
