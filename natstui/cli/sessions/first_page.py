"""The findings of recordings, printed while Spark starts, and what an analysis contradicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from glob import glob
from pathlib import Path
from typing import Any

from natstui.analysis.report.sections import rows_of
from natstui.clean import clean_line
from natstui.errors import SessionError
from natstui.model.findings.catalogue.consumers import (
    FLOOR_BLOCKED,
    LAGGING,
    NEVER_ACKED,
    POISON,
    UNREACHABLE,
)
from natstui.model.findings.catalogue.every import KINDS
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.catalogue.streams import (
    STREAM_FULL,
    STREAM_FULL_SOON,
    STREAM_NEARLY_FULL,
    STREAM_UNREACHABLE,
    STREAM_WITHOUT_LEADER,
)
from natstui.model.findings.thresholds import (
    MIN_TIME_TO_DRAIN_S,
    NEAR_LIMIT_SHARE,
    STALE_ROWS_AFTER_S,
)
from natstui.model.records.findings import FindingReport
from natstui.session.files.folder import is_session
from natstui.units import duration_text, moment_text

_MAX_SESSIONS_READ = 3
MAX_FINDINGS_SHOWN = 10
_RECORDED_FINDINGS_HEADING = "From the recording"
_KIND_BY_CODE = {kind.code: kind for kind in KINDS.values()}


class RecordedFindings:
    """The findings that were recorded in sessions: shown before Spark has results, then compared
    with them.
    """

    def __init__(self, patterns: tuple[str, ...]) -> None:
        """Read the findings; `patterns` are folders, globs or URLs, of which only local folders
        are read.
        """
        paths = (Path(path) for pattern in patterns for path in sorted(glob(pattern)))
        folders = [folder for folder in paths if is_session(folder)][:_MAX_SESSIONS_READ]
        self._findings_by_session = {folder.name: _read_findings(folder) for folder in folders}

    def lines(self) -> list[str]:
        """Return the worst 10 findings of each session as lines; empty without findings."""
        lines = []
        for session, findings in self._findings_by_session.items():
            if findings:
                lines.append(f"{_RECORDED_FINDINGS_HEADING} {clean_line(session)}:")
                lines += _first_lines([f"  {_finding_line(finding)}" for finding in findings])
        return lines

    def contradiction_lines(self, result: dict[str, Any]) -> list[str]:
        """Return a sentence for each finding that is open at the end and that the analysis
        contradicts, the first 10 of all sessions.

        `result` is what `run_job` returns.
        """
        return _first_lines(
            [
                f"The analysis contradicts {_finding_name(finding)}: {reason}"
                for session, findings in self._findings_by_session.items()
                for finding in findings
                if finding.until_at_us is None
                for reason in _contradictions(_AnalysedFinding(finding, result, session))
            ]
        )


def _first_lines(lines: list[str]) -> list[str]:
    more_count = len(lines) - MAX_FINDINGS_SHOWN
    more_lines = [f"  … and {more_count} more"] if more_count > 0 else []
    return lines[:MAX_FINDINGS_SHOWN] + more_lines


def _read_findings(folder: Path) -> list[FindingReport]:
    """Return the recorded findings of a session, the worst first; empty if the session is
    unreadable.
    """
    from natstui.session.read.findings import read_findings

    try:
        findings = [finding for finding in read_findings(folder) if finding.code in _KIND_BY_CODE]
    except SessionError:
        return []
    return sorted(
        findings,
        key=lambda finding: (
            -_KIND_BY_CODE[finding.code].severity_level,
            finding.until_at_us is not None,
            finding.since_at_us,
        ),
    )


def _finding_name(finding: FindingReport) -> str:
    subject = " > ".join(filter(None, (finding.stream, finding.consumer)))
    kind = _KIND_BY_CODE[finding.code]
    return clean_line(f"{kind.word} ({kind.code}) of {subject or kind.entity}")


def _finding_line(finding: FindingReport) -> str:
    """Return a finding as one line, with a visible character for each control character."""
    since_us, until_us = finding.since_at_us, finding.until_at_us
    duration = "open" if until_us is None else f"for {duration_text((until_us - since_us) / 1e6)}"
    severity = _KIND_BY_CODE[finding.code].severity
    time_text = f"since {moment_text(since_us)} UTC, {duration}"
    return clean_line(f"{severity} {_finding_name(finding)}: {finding.text} · {time_text}")


class _AnalysedFinding:
    """A finding that is open at the end of a session, and the rows of the analysis about it."""

    def __init__(self, finding: FindingReport, result: dict[str, Any], session: str) -> None:
        self.finding = finding
        self._result = result
        self._session = session

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table about the stream or consumer of the finding.

        Of a table without creation times, they may be about an older one with the same name.
        """
        finding = self.finding
        for row in rows_of(self._result, table, self._session):
            names = (row["stream"] or "", row.get("consumer") or "")
            created_at_us = row.get("created_at_us", finding.created_at_us)
            if (*names, created_at_us) == (
                finding.stream,
                finding.consumer,
                finding.created_at_us,
            ):
                yield row

    def session_end_us(self) -> int:
        """Return the time of the last poll; 0 if it is unknown."""
        ends = [row["end_at_us"] for row in rows_of(self._result, "session", self._session)]
        return int(ends[0] or 0) if ends else 0


def _contradictions(analysed: _AnalysedFinding) -> Iterator[str]:
    """Yield the reasons why rows of the analysis contradict a finding at the end."""
    for kinds, find_reasons in (*_CHECKS, (_kinds_with_pending_msgs(), _find_nothing_pending)):
        if _KIND_BY_CODE[analysed.finding.code] in kinds:
            yield from find_reasons(analysed)


@cache
def _kinds_with_pending_msgs() -> frozenset[Kind]:
    """Return the kinds that only consumers with pending messages have, except lagging."""
    # The rules take longer to load than a known result.
    from natstui.model.findings.causes.consumers import CONSUMER_CAUSES, HAS_PENDING

    causes = (cause for cause in CONSUMER_CAUSES if cause.required_flags == HAS_PENDING)
    return frozenset(cause.kind for cause in causes) - {LAGGING}


def _find_short_drain(analysed: _AnalysedFinding) -> Iterator[str]:
    for row in analysed.rows("lag"):
        behind_s, drain_s = row["behind_last_s"], row["drain_s"]
        if drain_s is not None and behind_s is not None and behind_s < MIN_TIME_TO_DRAIN_S:
            yield (
                f"{row['pending_last_msgs']} pending at the end, delivered within "
                f"{duration_text(drain_s)}"
            )


def _find_nothing_pending(analysed: _AnalysedFinding) -> Iterator[str]:
    for row in analysed.rows("lag"):
        is_seen = (row["unseen_s"] or 0) <= STALE_ROWS_AFTER_S
        if is_seen and row["pending_last_msgs"] == 0:
            yield "no message was pending at the end"


def _find_moved_ack_floor(analysed: _AnalysedFinding) -> Iterator[str]:
    rows = sorted(analysed.rows("stuck"), key=lambda row: int(row["end_at_us"]))
    if rows and not rows[-1]["open"] and rows[-1]["end_at_us"] > analysed.finding.since_at_us:
        yield f"its ack floor moved after {moment_text(rows[-1]['end_at_us'])} UTC"


def _find_ack_of_message(analysed: _AnalysedFinding) -> Iterator[str]:
    acked_sequences = {row["stream_seq"] for row in analysed.rows("poison") if row["acked"]}
    for sequence in analysed.finding.sequences[:1]:
        if sequence in acked_sequences:
            yield f"message {sequence} was acked"


def _find_elected_leader(analysed: _AnalysedFinding) -> Iterator[str]:
    for row in analysed.rows("availability"):
        is_later = row["start_at_us"] > analysed.finding.since_at_us
        if row["kind"] == "leader_change" and is_later:
            yield f"a leader was elected at {moment_text(row['start_at_us'])} UTC: {row['detail']}"
            return


def _find_reply_of_leader(analysed: _AnalysedFinding) -> Iterator[str]:
    ends_us = [
        row["end_at_us"] for row in analysed.rows("availability") if row["kind"] == "unreachable"
    ]
    last_end_us = max(ends_us, default=0)
    # A poll may read only some of the streams and consumers.
    is_long_before_end = analysed.session_end_us() - last_end_us > STALE_ROWS_AFTER_S * 1e6
    if last_end_us > analysed.finding.since_at_us and is_long_before_end:
        yield f"its leader replied after {moment_text(last_end_us)} UTC"


def _find_free_room(analysed: _AnalysedFinding) -> Iterator[str]:
    if "max_consumers" in (analysed.finding.numbers or ()):
        # No table has the number of consumers.
        return
    for row in analysed.rows("capacity"):
        units = [unit for unit in ("msgs", "bytes") if row[f"max_{unit}"]]
        fill_ratios = [row[f"stored_{unit}"] / row[f"max_{unit}"] for unit in units]
        if not fill_ratios or max(fill_ratios) >= NEAR_LIMIT_SHARE:
            continue
        percent_text = f"{max(fill_ratios) * 100:.0f} % full"
        if analysed.finding.code == STREAM_FULL.code:
            yield f"{percent_text} at the end"
        elif not any(_may_grow(row[f"growth_{unit}_per_s"]) for unit in units):
            yield f"{percent_text} at the end, and it did not grow"


def _may_grow(growth_per_s: float | None) -> bool:
    return growth_per_s is None or growth_per_s > 0


_Check = Callable[[_AnalysedFinding], Iterator[str]]
_CHECKS: tuple[tuple[frozenset[Kind], _Check], ...] = (
    (frozenset({LAGGING}), _find_short_drain),
    (frozenset({NEVER_ACKED, FLOOR_BLOCKED}), _find_moved_ack_floor),
    (frozenset({POISON}), _find_ack_of_message),
    (frozenset({STREAM_WITHOUT_LEADER}), _find_elected_leader),
    (frozenset({STREAM_UNREACHABLE, UNREACHABLE}), _find_reply_of_leader),
    (frozenset({STREAM_NEARLY_FULL, STREAM_FULL_SOON, STREAM_FULL}), _find_free_room),
)
"""Kinds of findings, and the function that yields what contradicts them."""
