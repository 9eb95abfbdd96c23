"""Findings as a recording holds them: those that changed, and all that are open at a moment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FindingTold:
    """One finding as it was told; the same code of the same entity is open once at a time."""

    code: str
    """Of the catalogue, as `NT-C07`."""
    stream: str
    """Empty for the account and for monitoring itself."""
    consumer: str
    """Empty where it is not about a consumer."""
    created_at_us: int
    """When the stream or consumer was created; 0 for the others."""
    part: str
    """What of it, where it has several: a source, what cannot be read."""
    since_at_us: int
    """Since when it holds."""
    text: str
    """The evidence, as a sentence for people."""
    sequences: tuple[int, ...] = ()
    """Messages that it is about, the worst first."""
    numbers: dict[str, float] | None = None
    """The evidence as numbers, by name."""
    until_at_us: int | None = None
    """When it was over; null while it is open."""


@dataclass(frozen=True, slots=True)
class FindingsChanged:
    """Findings that were raised or are over, and now and then what others tell by now."""

    at_us: int
    findings: tuple[FindingTold, ...]


@dataclass(frozen=True, slots=True)
class FindingsSoFar:
    """Every finding that is open now."""

    at_us: int
    findings: tuple[FindingTold, ...]
