"""Decides which findings are sent by which rule: once after the hold time of the rule, and once
when they end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from msgspec import Struct

from natstui.config.settings import Alert
from natstui.model.findings.finding import Entity, Finding, Findings
from natstui.model.findings.severities import is_at_least
from natstui.values import replace


class _NoticeKey(NamedTuple):
    """Identifies a finding that a rule reports; a finding that occurs again has another key."""

    alert: str
    code: str
    entity: Entity
    since_us: int


class Notice(Struct, frozen=True):
    """A finding that a rule reports, at its start (`open`) or end (`resolved`)."""

    alert: str
    """The name of its rule."""
    status: Literal["open", "resolved"]
    finding: Finding


class Notices:
    """Decides which findings each rule reports; remembers the reported findings that are still
    open.

    Does no I/O: the caller passes the time and sends the notices.
    """

    def __init__(self, alerts: Mapping[str, Alert]) -> None:
        self._alerts = alerts
        self._reported_findings: dict[_NoticeKey, Finding] = {}
        """Sent findings that are still open."""

    def update(
        self, findings: Findings, now_us: int, own_findings: Iterable[Finding] = ()
    ) -> list[Notice]:
        """Return the new notices, first those of resolved findings; remember the open findings as
        reported.

        `now_us` is the time in UTC µs; a finding is due `hold_s` of its rule after its start, and
        stays due while it is open, also if the clock is set back.
        `own_findings` are open findings about the rules themselves, such as a webhook that fails.
        """
        due_findings: dict[_NoticeKey, Finding] = {}
        for finding in (*findings.list_open_findings(), *own_findings):
            for name, alert in self._alerts.items():
                if not matches_rule(alert, finding):
                    continue
                notice_key = _NoticeKey(name, finding.kind.code, finding.entity, finding.since_us)
                is_hold_time_over = now_us - finding.since_us >= alert.hold_s * 1e6
                if is_hold_time_over or notice_key in self._reported_findings:
                    due_findings[notice_key] = finding
        opened_notices = [
            Notice(notice_key.alert, "open", finding)
            for notice_key, finding in due_findings.items()
            if notice_key not in self._reported_findings
        ]
        resolved_by_code_entity_start = {
            (finding.kind.code, finding.entity, finding.since_us): finding
            for finding in findings.resolved
        }
        resolved_notices = [
            Notice(
                notice_key.alert,
                "resolved",
                resolved_by_code_entity_start.get(notice_key[1:])
                or replace(finding, until_us=now_us),
            )
            for notice_key, finding in self._reported_findings.items()
            if notice_key not in due_findings and findings.find_silence(finding) is None
        ]
        self._reported_findings = due_findings
        return [*resolved_notices, *opened_notices]


def matches_rule(alert: Alert, finding: Finding) -> bool:
    """Return whether a rule reports a finding: its codes, minimum severity and pattern all
    match.
    """
    kind = finding.kind
    if alert.codes and kind.code not in alert.codes:
        return False
    if not is_at_least(kind.severity, alert.min_severity):
        return False
    return alert.entity is None or any(
        fnmatchcase(name, alert.entity) for name in entity_names(finding.entity)
    )


def entity_names(entity: Entity) -> Iterator[str]:
    """Yield the names that `entity` of a rule may match.

    `STREAM/CONSUMER` of a consumer, `STREAM` of a stream, else the text of the entity.
    """
    if entity.consumer:
        yield f"{entity.stream}/{entity.consumer}"
    elif entity.stream:
        yield entity.stream
    else:
        yield entity.text
