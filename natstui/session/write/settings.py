"""Where and how a recording is written: its folder, its limits, the length of a segment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RecorderSettings:
    """Where and how a recording is written."""

    sessions: Path
    """The folder of all sessions."""
    name: str = ""
    retain_s: float | None = None
    """Sealed segments older than this are deleted."""
    max_bytes: int | None = None
    """When the segments take more, the oldest sealed ones are deleted."""
    payloads: bool = False
    segment_s: float = 60.0
    """Age at which a segment is sealed."""
    segment_bytes: int = 32 << 20
    """Size at which a segment is sealed."""
