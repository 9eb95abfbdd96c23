"""Versions of nats-server with different behaviour at the same JetStream API level."""

from __future__ import annotations

import re

Version = tuple[int, int, int]
Ranges = tuple[tuple[Version, Version], ...]
"""Ranges of versions: from the first on, before the second."""

OLDEST: Version = (2, 10, 0)
"""The oldest server that natstui supports."""

SKIPS_BESIDE_DELETED: Ranges = (((0, 0, 0), (2, 11, 12)), ((2, 12, 0), (2, 12, 4)))
"""Versions in which a consumer by start time skips messages beside deleted ones (PR 7751)."""
KEEPS_OVER_FIRST_SUBJECT_LIMIT: Ranges = (((0, 0, 0), (2, 12, 10)), ((2, 14, 0), (2, 14, 2)))
"""Versions in which a first `max_msgs_per_subject` deletes messages later: with the next message,
or at a restart.
"""
KEEPS_WITHOUT_INTEREST: Ranges = (((0, 0, 0), (2, 15, 0)),)
"""Versions in which a stream without consumers keeps its messages when its retention becomes
interest.
"""

LEAVES_OUT_CONSUMERS: Ranges = (((0, 0, 0), (2, 15, 0)),)
"""Versions in which a snapshot lacks consumers in memory, or not on the server of the leader."""

_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)", re.ASCII)


def version_of(text: str | None) -> Version | None:
    """Return the version that a server reports, as (2, 11, 4); None if it is no version."""
    match = _VERSION.match(text or "")
    return None if match is None else (int(match[1]), int(match[2]), int(match[3]))


def version_problem(text: str | None) -> str | None:
    """Return the sentence that a server version is not supported; None if it is, or unknown."""
    version = version_of(text)
    if version is None or version >= OLDEST:
        return None
    oldest = ".".join(map(str, OLDEST[:2]))
    return f"nats-server {text} is not supported: natstui needs {oldest} or newer"


def is_in(text: str | None, ranges: Ranges) -> bool:
    """Return whether a server's version is in one of the ranges; an unknown one is in none."""
    version = version_of(text)
    return version is not None and any(start <= version < end for start, end in ranges)
