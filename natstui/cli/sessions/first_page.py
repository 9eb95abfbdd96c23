"""The first page of an analysis: what a recording itself says, while Spark starts."""

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
from natstui.model.records.findings import FindingTold
from natstui.session.files.folder import INFO
from natstui.session.read.judged import told_findings
from natstui.units import duration_text, moment_text

MOST_SESSIONS = 3
MOST_SHOWN = 10
HEAD = "From the recording"
_KIND_OF_CODE = {kind.code: kind for kind in KINDS.values()}


class FirstPage:
    """The findings that recordings hold; known without Spark, and held to its answers later."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        """`patterns` are folders, globs or URLs; only folders of this machine can be read."""
        found = (Path(path) for pattern in patterns for path in sorted(glob(pattern)))
        folders = [folder for folder in found if (folder / INFO).is_file()][:MOST_SESSIONS]
        self._found = {folder.name: _findings(folder) for folder in folders}

    def lines(self) -> list[str]:
        """Return the page: of each session its worst findings; empty where it holds none."""
        lines = []
        for session, findings in self._found.items():
            if findings:
                lines.append(f"{HEAD} {clean_line(session)}:")
                lines += [f"  {_text(finding)}" for finding in findings[:MOST_SHOWN]]
                if len(findings) > MOST_SHOWN:
                    lines.append(f"  … and {len(findings) - MOST_SHOWN} more")
        return lines

    def contradicted(self, result: dict[str, Any]) -> list[str]:
        """Return a sentence for each finding that was open at the end, and that is not so."""
        return [
            f"The analysis contradicts {_name(finding)}: {why}"
            for session, findings in self._found.items()
            for finding in findings[:MOST_SHOWN]
            if finding.until_at_us is None
            for why in _against(finding, result, session)
        ]


def _findings(folder: Path) -> list[FindingTold]:
    """Return the findings of a session, the worst first; what cannot be read Spark reports."""
    try:
        found = [
            told_finding
            for told_finding in told_findings(folder)
            if told_finding.code in _KIND_OF_CODE
        ]
    except SessionError:
        return []
    return sorted(
        found,
        key=lambda one: (
            -_KIND_OF_CODE[one.code].severity_level,
            one.until_at_us is not None,
            one.since_at_us,
        ),
    )


def _name(finding: FindingTold) -> str:
    subject = " > ".join(filter(None, (finding.stream, finding.consumer)))
    kind = _KIND_OF_CODE[finding.code]
    return clean_line(f"{kind.word} ({kind.code}) of {subject or kind.entity}")


def _text(finding: FindingTold) -> str:
    """Return a finding as one harmless line."""
    since, until = finding.since_at_us, finding.until_at_us
    lasted = "open" if until is None else f"for {duration_text((until - since) / 1e6)}"
    severity = _KIND_OF_CODE[finding.code].severity
    when = f"since {moment_text(since)} UTC, {lasted}"
    return clean_line(f"{severity} {_name(finding)}: {finding.text} · {when}")


def _against(finding: FindingTold, result: dict[str, Any], session: str) -> Iterator[str]:
    """Yield why the rows of the analysis say otherwise at the end of the session."""
    if finding.code == FALLING_BEHIND.code:
        for row in _rows(result, "lag", session, finding):
            waits_s, drain_s = row["behind_last_s"], row["drain_s"]
            if drain_s is not None and waits_s is not None and waits_s < FALLING_BEHIND_S:
                yield (
                    f"{row['pending_last_msgs']} pending at the end, delivered within "
                    f"{duration_text(drain_s)}"
                )
    if finding.code in (S_NEAR.code, S_FULL_SOON.code):
        for row in _rows(result, "capacity", session, finding):
            ahead = [row[f"{what}_full_in_s"] for what in ("msgs", "bytes")]
            shares = [
                row[f"stored_{what}"] / row[f"max_{what}"]
                for what in ("msgs", "bytes")
                if row[f"max_{what}"]
            ]
            if shares and max(shares) < NEAR_SHARE and ahead == [None, None]:
                yield f"{max(shares) * 100:.0f} % full, and no limit will be reached at this rate"


def _rows(
    result: dict[str, Any], table: str, session: str, finding: FindingTold
) -> Iterator[dict[str, Any]]:
    for row in rows_of(result, table, session):
        names = (row["stream"], row.get("consumer") or "", row["created_at_us"])
        if names == (finding.stream, finding.consumer, finding.created_at_us):
            yield row
