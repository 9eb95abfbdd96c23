"""The first page of an analysis: findings in the recordings, shown while Spark starts."""

from __future__ import annotations

from collections.abc import Iterator
from glob import glob
from pathlib import Path
from typing import Any

from natstui.analysis.report.sections import rows_of
from natstui.clean import clean_line
from natstui.errors import SessionError
from natstui.model.findings.catalogue.consumers import FALLING_BEHIND
from natstui.model.findings.catalogue.every import KINDS
from natstui.model.findings.catalogue.streams import S_FULL_SOON, S_NEAR
from natstui.model.findings.thresholds import FALLING_BEHIND_S, NEAR_SHARE
from natstui.model.records.findings import FindingReport
from natstui.session.files.folder import INFO
from natstui.session.read.judged import told_findings
from natstui.units import duration_text, moment_text

MOST_SESSIONS = 3
MOST_SHOWN = 10
HEADING = "From the recording"
_KIND_OF_CODE = {kind.code: kind for kind in KINDS.values()}


class FirstPage:
    """The recorded findings of sessions: available without Spark, compared with its results."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        """Read the findings; `patterns` are folders, globs or URLs, of which only local folders
        are read.
        """
        paths = (Path(path) for pattern in patterns for path in sorted(glob(pattern)))
        folders = [folder for folder in paths if (folder / INFO).is_file()][:MOST_SESSIONS]
        self._findings_by_session = {folder.name: _read_findings(folder) for folder in folders}

    def lines(self) -> list[str]:
        """Return the worst 10 findings of each session as lines; empty without findings."""
        lines = []
        for session, findings in self._findings_by_session.items():
            if findings:
                lines.append(f"{HEADING} {clean_line(session)}:")
                lines += [f"  {_finding_line(finding)}" for finding in findings[:MOST_SHOWN]]
                if len(findings) > MOST_SHOWN:
                    lines.append(f"  … and {len(findings) - MOST_SHOWN} more")
        return lines

    def contradicted(self, result: dict[str, Any]) -> list[str]:
        """Return a sentence for each finding that is open at the end and that the analysis
        contradicts.

        `result` is what `run_job` returns.
        """
        return [
            f"The analysis contradicts {_finding_name(finding)}: {reason}"
            for session, findings in self._findings_by_session.items()
            for finding in findings[:MOST_SHOWN]
            if finding.until_at_us is None
            for reason in _contradictions(finding, result, session)
        ]


def _read_findings(folder: Path) -> list[FindingReport]:
    """Return the findings of a session, worst first; unreadable ones are reported by Spark."""
    try:
        findings = [
            told_finding
            for told_finding in told_findings(folder)
            if told_finding.code in _KIND_OF_CODE
        ]
    except SessionError:
        return []
    return sorted(
        findings,
        key=lambda finding: (
            -_KIND_OF_CODE[finding.code].severity_level,
            finding.until_at_us is not None,
            finding.since_at_us,
        ),
    )


def _finding_name(finding: FindingReport) -> str:
    subject = " > ".join(filter(None, (finding.stream, finding.consumer)))
    kind = _KIND_OF_CODE[finding.code]
    return clean_line(f"{kind.word} ({kind.code}) of {subject or kind.entity}")


def _finding_line(finding: FindingReport) -> str:
    """Return a finding as one harmless line."""
    since_us, until_us = finding.since_at_us, finding.until_at_us
    duration = "open" if until_us is None else f"for {duration_text((until_us - since_us) / 1e6)}"
    severity = _KIND_OF_CODE[finding.code].severity
    time_text = f"since {moment_text(since_us)} UTC, {duration}"
    return clean_line(f"{severity} {_finding_name(finding)}: {finding.text} · {time_text}")


def _contradictions(finding: FindingReport, result: dict[str, Any], session: str) -> Iterator[str]:
    """Yield why the rows of the analysis contradict a finding at the end of the session."""
    if finding.code == FALLING_BEHIND.code:
        for row in _rows_of_finding(result, "lag", session, finding):
            waits_s, drain_s = row["behind_last_s"], row["drain_s"]
            if drain_s is not None and waits_s is not None and waits_s < FALLING_BEHIND_S:
                yield (
                    f"{row['pending_last_msgs']} pending at the end, delivered within "
                    f"{duration_text(drain_s)}"
                )
    if finding.code in (S_NEAR.code, S_FULL_SOON.code):
        for row in _rows_of_finding(result, "capacity", session, finding):
            full_in_s = [row[f"{limit_name}_full_in_s"] for limit_name in ("msgs", "bytes")]
            shares = [
                row[f"stored_{limit_name}"] / row[f"max_{limit_name}"]
                for limit_name in ("msgs", "bytes")
                if row[f"max_{limit_name}"]
            ]
            if shares and max(shares) < NEAR_SHARE and full_in_s == [None, None]:
                yield f"{max(shares) * 100:.0f} % full, and no limit will be reached at this rate"


def _rows_of_finding(
    result: dict[str, Any], table: str, session: str, finding: FindingReport
) -> Iterator[dict[str, Any]]:
    for row in rows_of(result, table, session):
        names = (row["stream"], row.get("consumer") or "", row["created_at_us"])
        if names == (finding.stream, finding.consumer, finding.created_at_us):
            yield row
