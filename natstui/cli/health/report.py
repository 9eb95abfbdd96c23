"""What is told of the findings of a server: chosen, counted, and judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from natstui.model.findings.catalogue.kind import Severity
from natstui.model.findings.finding import Finding, worst_first
from natstui.model.findings.severities import is_at_least
from natstui.model.findings.verdict import consumer_findings, stream_findings
from natstui.model.live.state import State


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
        """Tell whether a finding is told."""
        entity = finding.entity
        if not is_at_least(finding.kind.severity, self.least):
            return False
        if self.consumer is not None:
            return (entity.stream, entity.consumer) == self.consumer
        return self.stream is None or entity.stream == self.stream


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

    def count(self, severity: Severity) -> int:
        """Return how many findings are of a severity."""
        return sum(one.kind.severity == severity for one in self.findings)


def report_on(
    state: State,
    chosen: Chosen,
    problem: str | None = None,
    over: Sequence[Finding] | None = None,
    *,
    with_silenced: bool = False,
) -> Report:
    """Return what is wrong now; `problem` is why not everything could be looked at.

    `over`: what was wrong before, when it is about a whole recording. `with_silenced`: tell also
    what somebody silenced.
    """
    findings = state.findings
    every = {id(one): one for one in (*findings.open(), *findings.silenced(), *(over or ()))}
    streams, consumers = state.streams, state.consumers
    for row in range(len(streams)):
        every |= {id(one): one for one in stream_findings(state, row)}
    for row in range(len(consumers)):
        every |= {id(one): one for one in consumer_findings(state, row)}
    taken = sorted(filter(chosen.takes, every.values()), key=worst_first)
    found = tuple(one for one in taken if with_silenced or findings.silence_of(one) is None)
    problem = problem or (None if taken else _missing(state, chosen))
    verdict = _verdict(found)
    if problem is not None and verdict is not Verdict.CRITICAL:
        verdict = Verdict.UNKNOWN
    counts = len(streams), len(consumers)
    recorded, hidden_count = over is not None, len(taken) - len(found)
    return Report(verdict, found, *counts, state.now_at_us, problem, recorded, hidden_count)


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
            return f"there is no consumer {'/'.join(chosen.consumer)}"
    elif chosen.stream is not None and chosen.stream not in state.streams.roster.rows_of_stream:
        return f"there is no stream {chosen.stream}"
    return None
