"""The report of a server's findings: selected, counted, and judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum

from msgspec import Struct

from natstui.model.clients.api_audit import ApiAudit
from natstui.model.findings.catalogue.every import KINDS
from natstui.model.findings.catalogue.kind import Kind, Severity
from natstui.model.findings.finding import Entity, Finding, severity_sort_key
from natstui.model.findings.severities import is_at_least
from natstui.model.findings.verdict import consumer_findings, stream_findings
from natstui.model.live.state import State
from natstui.model.servers.versions import version_problem


class Verdict(IntEnum):
    """The verdict about a server; its number is the exit code, as in monitoring plugins."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


class FindingSelection(Struct, frozen=True):
    """Selects findings by stream or consumer, and by minimum severity."""

    stream: str | None = None
    consumer: tuple[str, str] | None = None
    min_severity: Severity = "warning"

    def selects(self, finding: Finding) -> bool:
        """Return whether a finding is selected.

        With a consumer, also selects the findings of its stream if the stream cannot be read.
        """
        entity = finding.entity
        if not is_at_least(finding.kind.severity, self.min_severity):
            return False
        if self.consumer is not None:
            # The consumers of a stream without a row cannot be read either.
            is_unread_stream = not entity.consumer and not entity.has_row
            names = (entity.stream, self.consumer[1] if is_unread_stream else entity.consumer)
            return names == self.consumer
        return self.stream is None or entity.stream == self.stream


class UnjudgedCondition(Struct, frozen=True):
    """A condition that cannot be judged yet: the server was not watched for long enough."""

    kind: Kind
    entity: Entity | None = None
    """The entity that meets the condition now, but not long enough yet; None: the kind cannot be
    judged for any entity.
    """


class Report(Struct, frozen=True):
    """The verdict and the findings of one moment, or of an entire recording."""

    verdict: Verdict
    findings: tuple[Finding, ...]
    """The findings, the worst first."""
    streams_count: int
    consumers_count: int
    at_us: int
    unknown_reason: str | None = None
    """Why the report is incomplete; None if it is complete."""
    silenced_count: int = 0
    """Number of silenced findings that are left out."""
    watched_s: float | None = None
    """How long the server was watched; None if unknown."""
    unjudged_conditions: tuple[UnjudgedCondition, ...] = ()
    audit: ApiAudit | None = None
    """Result of an API audit, if requested."""
    unread_texts: tuple[str, ...] = ()
    """What could not be read of servers and clients, and why; there are no findings about that."""

    def count(self, severity: Severity) -> int:
        """Return the number of findings of a severity."""
        return sum(finding.kind.severity == severity for finding in self.findings)


def create_report(
    state: State,
    selection: FindingSelection,
    problem: str | None = None,
    ended_findings: Sequence[Finding] | None = None,
    *,
    includes_silenced: bool = False,
    watched_s: float | None = None,
) -> Report:
    """Return the report of the selected findings of a state, the worst first.

    `problem` is the reason why something could not be read: the verdict is unknown then, unless a
    finding is critical. `ended_findings` are the ended findings of a recording, None for a server.
    `watched_s` is how long the server was watched: kinds of findings that need more time are not
    judged.
    """
    findings = state.findings
    finding_by_id = {
        id(finding): finding
        for finding in (
            *findings.list_open_findings(),
            *findings.list_silenced_findings(),
            *(ended_findings or ()),
        )
    }
    streams, consumers = state.streams, state.consumers
    for row in range(len(streams)):
        finding_by_id |= {
            id(stream_finding): stream_finding for stream_finding in stream_findings(state, row)
        }
    for row in range(len(consumers)):
        finding_by_id |= {
            id(consumer_finding): consumer_finding
            for consumer_finding in consumer_findings(state, row)
        }
    selected_findings = sorted(
        filter(selection.selects, finding_by_id.values()), key=severity_sort_key
    )
    reported_findings = tuple(
        finding
        for finding in selected_findings
        if includes_silenced or findings.find_silence(finding) is None
    )
    problem = problem or (None if selected_findings else _missing_reason(state, selection))
    unsupported_text = version_problem(state.link.server_version) if state.link else None
    problem = "; ".join(filter(None, (unsupported_text, problem))) or None
    verdict = _worst_verdict(reported_findings)
    if problem is not None and verdict is not Verdict.CRITICAL:
        verdict = Verdict.UNKNOWN
    counts = _count_assets(state, selection)
    silenced_count = len(selected_findings) - len(reported_findings)
    return Report(
        verdict, reported_findings, *counts, state.now_at_us, problem, silenced_count,
        watched_s, tuple(_find_unjudged_conditions(state, selection, watched_s)),
        unread_texts=tuple(_unread_texts(state)),
    )  # fmt: skip


def _unread_texts(state: State) -> Iterator[str]:
    """Yield a text for each kind of data about servers and clients that could not be read, with
    the reason.
    """
    if state.servers.newest is not None:
        yield from (
            f"{unread_source.what}: {unread_source.reason}"
            for unread_source in state.servers.newest.missing
        )
    if state.clients is not None and state.clients.missing is not None:
        yield f"closed connections: {state.clients.missing}"


def _count_assets(state: State, selection: FindingSelection) -> tuple[int, int]:
    """Return the numbers of selected streams and consumers, including unreachable ones."""
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


def _find_unjudged_conditions(
    state: State, selection: FindingSelection, watched_s: float | None
) -> Iterator[UnjudgedCondition]:
    """Yield the conditions that need a longer time than the server was watched."""
    if watched_s is None:
        return
    for entity, conditions in state.findings.conditions.items():
        for condition in conditions:
            is_judged = condition.is_raised or condition.is_hidden
            if not is_judged and selection.selects(condition.finding):
                yield UnjudgedCondition(condition.finding.kind, entity)
    for kind in KINDS.values():
        if kind.needs_s > watched_s and is_at_least(kind.severity, selection.min_severity):
            yield UnjudgedCondition(kind)


def _worst_verdict(findings: Sequence[Finding]) -> Verdict:
    severities = {finding.kind.severity for finding in findings}
    if "critical" in severities:
        return Verdict.CRITICAL
    return Verdict.WARNING if "warning" in severities else Verdict.OK


def _missing_reason(state: State, selection: FindingSelection) -> str | None:
    """Return why the selected stream or consumer has no row: it does not exist or is unreachable.

    None if it has one, or if everything is selected.
    """
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
