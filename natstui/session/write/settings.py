"""Settings of the recorder: its folder, its limits, the length of a segment."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct


class RecorderSettings(Struct, frozen=True):
    """The folder of a recording, its limits, and when a segment is sealed."""

    sessions: Path
    """The folder of all sessions."""
    name: str = ""
    retain_s: float | None = None
    """Sealed segments older than this are deleted."""
    max_bytes: int | None = None
    """Limit of all segments; above it, the oldest sealed segments are deleted."""
    payloads: bool = False
    segment_s: float = 60.0
    """Age at which a segment is sealed."""
    segment_bytes: int = 32 << 20
    """Size of the records of a segment, without its keyframe, at which it is sealed."""
