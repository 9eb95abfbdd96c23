"""Findings in a recording: changes, and all open findings at one time."""

from __future__ import annotations

from msgspec import Struct


class FindingReport(Struct, frozen=True):
    """A reported finding; each code is open once per entity."""

    code: str
    """Code in the catalogue, as `NT-C07`."""
    stream: str
    """Empty for the account and for monitoring itself."""
    consumer: str
    """Empty if the finding is not about a consumer."""
    created_at_us: int
    """Creation time of the stream or consumer; 0 for other entities."""
    part: str
    """The part of the entity, if it has several: a source, an unavailable API verb."""
    since_at_us: int
    """Start of the finding."""
    text: str
    """The evidence, as a sentence for people."""
    sequences: tuple[int, ...] = ()
    """Sequences of the affected messages, the worst first."""
    numbers: dict[str, float] | None = None
    """The evidence as numbers, by name."""
    until_at_us: int | None = None
    """End of the finding; null while it is open."""


class FindingsChanged(Struct, frozen=True):
    """Raised and ended findings, and new texts of open ones."""

    at_us: int
    findings: tuple[FindingReport, ...]


class FindingsSoFar(Struct, frozen=True):
    """Every finding that is open now."""

    at_us: int
    findings: tuple[FindingReport, ...]
