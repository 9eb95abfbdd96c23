"""Which findings are told to whom, and when: each once when it has held, and once when it ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal

from natstui.config.settings import Alert
from natstui.model.findings.finding import Entity, Finding, Findings
from natstui.model.findings.severities import is_at_least

_Key = tuple[str, str, Entity, int]
"""Alert, code, entity, since when: a finding that comes again is another one."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to tell."""

    alert: str
    """The name of the rule."""
    status: Literal["open", "resolved"]
    finding: Finding


class Notices:
    """Finds what is to be told after each judged moment. Pure but for what was told."""

    def __init__(self, alerts: Mapping[str, Alert]) -> None:
        self._alerts = alerts
        self._told: dict[_Key, Finding] = {}
        """What was told and is still open."""

    def after(self, findings: Findings, now_us: int, own: Iterable[Finding] = ()) -> list[Notice]:
        """Return what is new since the last call; `own` are open findings of the alerts."""
        held: dict[_Key, Finding] = {}
        for finding in (*findings.open(), *own):
            for name, alert in self._alerts.items():
                if takes(alert, finding) and now_us - finding.since_us >= alert.hold_s * 1e6:
                    held[name, finding.kind.code, finding.entity, finding.since_us] = finding
        opened = [
            Notice(key[0], "open", one) for key, one in held.items() if key not in self._told
        ]
        over = {(one.kind.code, one.entity, one.since_us): one for one in findings.resolved}
        ended = [
            Notice(key[0], "resolved", over.get(key[1:]) or replace(one, until_us=now_us))
            for key, one in self._told.items()
            if key not in held and findings.silence_of(one) is None
        ]
        self._told = held
        return [*ended, *opened]


def takes(alert: Alert, finding: Finding) -> bool:
    """Return whether an alert is about a finding."""
    kind = finding.kind
    if alert.codes and kind.code not in alert.codes:
        return False
    if not is_at_least(kind.severity, alert.min_severity):
        return False
    return alert.entity is None or any(
        fnmatchcase(name, alert.entity) for name in names_of(finding.entity)
    )


def names_of(entity: Entity) -> Iterator[str]:
    """Yield what the pattern of an alert may match."""
    if entity.consumer:
        yield f"{entity.stream}/{entity.consumer}"
    elif entity.stream:
        yield entity.stream
    else:
        yield entity.text
