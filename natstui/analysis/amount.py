"""How much is recorded: what decides how Spark is started, before it is. Imports no Spark."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from itertools import islice
from pathlib import Path

from natstui.analysis.folders import files_of, is_url, unescaped

_PACKED_TIMES = 12
"""A sealed segment holds about so many times its size."""
_LEAST_SAMPLE_BYTES = 80
"""Text of a sample in a large poll; of a small one, what is said once per poll is added."""
_POLL = b'{"kind":"snapshot",'
_LINES_COUNT = 200
"""The first poll is among so many lines."""


def recorded_bytes(sessions: list[str]) -> int | None:
    """Return about how much text is recorded in folders given as globs; None for URLs."""
    if any(map(is_url, sessions)):
        return None
    return sum(map(_text_bytes, map(unescaped, sessions)))


def recorded_samples_count(sessions: list[str]) -> int | None:
    """Return about how many samples are recorded in folders given as globs; None for URLs.

    As if each poll of a session had been as its first one is.
    """
    if any(map(is_url, sessions)):
        return None
    folders = map(unescaped, sessions)
    return sum(round(_text_bytes(one) / _sample_bytes(Path(one))) for one in folders)


def _text_bytes(folder: str) -> int:
    paths = [f"{folder}/{name}" for name in files_of(folder)]
    return sum(
        os.path.getsize(path) * (_PACKED_TIMES if path.endswith(".gz") else 1) for path in paths
    )


def _sample_bytes(folder: Path) -> float:
    """Return how long the text of a sample is in the first poll of a session."""
    for name in files_of(str(folder))[1:2]:
        path = folder / name
        try:
            with gzip.open(path) if name.endswith(".gz") else path.open("rb") as lines:
                for line in islice(lines, _LINES_COUNT):
                    if line.startswith(_POLL):
                        poll = json.loads(line)
                        samples = [*poll["streams"]["name"], *poll["consumers"]["name"]]
                        return len(line) / max(1, len(samples))
        except (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError):
            # A damaged recording is analysed all the same.
            break
    return _LEAST_SAMPLE_BYTES
