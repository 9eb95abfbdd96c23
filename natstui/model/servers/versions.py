"""Versions of nats-server with different behaviour at the same JetStream API level."""

from __future__ import annotations

import re

Version = tuple[int, int, int]  # as (2, 11, 4)
VersionRanges = tuple[tuple[Version, Version], ...]
"""Ranges of versions: from the first on, before the second."""

OLDEST_SUPPORTED_VERSION: Version = (2, 10, 0)
"""The oldest server that natstui supports."""

VERSIONS_WITH_START_TIME_SKIPPING: VersionRanges = (
    ((0, 0, 0), (2, 11, 12)),
    ((2, 12, 0), (2, 12, 4)),
)
"""Versions in which a consumer by start time skips messages beside deleted ones (PR 7751)."""
VERSIONS_LIMITING_SUBJECTS_LATE: VersionRanges = (
    ((0, 0, 0), (2, 12, 10)),
    ((2, 14, 0), (2, 14, 2)),
)
"""Versions in which a first `max_msgs_per_subject` deletes messages later: with the next message,
or at a restart.
"""
VERSIONS_KEEPING_UNCONSUMED_MSGS: VersionRanges = (((0, 0, 0), (2, 15, 0)),)
"""Versions in which a stream without consumers keeps its messages when its retention becomes
interest.
"""

VERSIONS_BACKING_UP_FEWER_CONSUMERS: VersionRanges = (((0, 0, 0), (2, 15, 0)),)
"""Versions in which a snapshot lacks consumers in memory, or not on the server of the leader."""

_VERSION_PATTERN = re.compile(r"v?(\d+)\.(\d+)\.(\d+)", re.ASCII)


def version_of(text: str | None) -> Version | None:
    """Return the version that a server reports, as (2, 11, 4); None if it is no version."""
    match = _VERSION_PATTERN.match(text or "")
    return None if match is None else (int(match[1]), int(match[2]), int(match[3]))


def version_problem(text: str | None) -> str | None:
    """Return a sentence if a server version is not supported; None if it is, or is unknown."""
    version = version_of(text)
    if version is None or version >= OLDEST_SUPPORTED_VERSION:
        return None
    oldest = ".".join(map(str, OLDEST_SUPPORTED_VERSION[:2]))
    return f"nats-server {text} is not supported: natstui needs {oldest} or newer"


def is_version_in(text: str | None, ranges: VersionRanges) -> bool:
    """Return whether a server's version is in one of the ranges; an unknown one is in none."""
    version = version_of(text)
    return version is not None and any(start <= version < end for start, end in ranges)
