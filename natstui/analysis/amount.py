"""How much is recorded: what decides how Spark is started, before it is. Imports no Spark."""

from __future__ import annotations

import os

from natstui.analysis.folders import files_of, is_url, unescaped

_PACKED_TIMES = 12
"""A sealed segment holds about so many times its size."""


def recorded_bytes(sessions: list[str]) -> int | None:
    """Return about how much text is recorded in folders given as globs; None for URLs."""
    if any(map(is_url, sessions)):
        return None
    return sum(map(_text_bytes, map(unescaped, sessions)))


def _text_bytes(folder: str) -> int:
    paths = [f"{folder}/{name}" for name in files_of(folder)]
    return sum(
        os.path.getsize(path) * (_PACKED_TIMES if path.endswith(".gz") else 1) for path in paths
    )
