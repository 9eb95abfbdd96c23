"""The severities of findings in their order, and how many there are of one in words."""

from __future__ import annotations

from natstui.model.findings.catalogue.kind import Severity
from natstui.units import counted

WORST_FIRST: tuple[Severity, ...] = ("critical", "warning", "info")
"""From what is broken to what is only worth knowing."""


def is_at_least(severity: Severity, least: Severity) -> bool:
    """Return whether a severity is the least one asked for, or worse."""
    return WORST_FIRST.index(severity) <= WORST_FIRST.index(least)


def severity_text(severity: Severity, count: int) -> str:
    """Return `4 critical`, `1 warning`, `7 warnings`, `2 info`."""
    return counted(count, severity) if severity == "warning" else f"{count} {severity}"
