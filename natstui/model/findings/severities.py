"""The severities of findings in their order, and numbers of findings as text."""

from __future__ import annotations

from natstui.model.findings.catalogue.kind import Severity
from natstui.units import counted

WORST_FIRST: tuple[Severity, ...] = ("critical", "warning", "info")
"""Severities, the worst first."""


def is_at_least(severity: Severity, min_severity: Severity) -> bool:
    """Return whether a severity is as severe as `min_severity`, or more."""
    return WORST_FIRST.index(severity) <= WORST_FIRST.index(min_severity)


def severity_text(severity: Severity, count: int) -> str:
    """Return a number of findings as text: `4 critical`, `1 warning`, `7 warnings`, `2 info`."""
    return counted(count, severity) if severity == "warning" else f"{count} {severity}"
