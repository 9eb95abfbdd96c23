"""One recording in a list of recordings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """One session of the library."""

    folder: str
    id: str
    """Name of the folder."""
    name: str
    server: str
    started_at_us: int
    ended_at_us: int
    size_bytes: int
    streams_count: int | None
    """Known near the end; None when there was no poll."""
    consumers_count: int | None
    polls_count: int
    benchmarks_count: int
    gaps_count: int
    """Times something could not be recorded, and what was deleted to keep within a limit."""
    status: str
    """`recording`, `complete`, or `cut off`."""
    notes: tuple[str, ...]
    problem: str | None = None
    """Why it cannot be read."""
