"""Plan of the sessions to read, and of the parts in which small sessions share files.

A part of a table is one session, or several small ones read by one run. It is written completely
and dropped completely, so that a killed run leaves no part that looks complete. If a session of a
part changes, all sessions of the part are read again; the changed one is being recorded, and gets
a part of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from natstui.analysis.bronze.files import SegmentFile, fingerprints

SMALL_BYTES = 256 * 1024
"""Maximum size of a session that may share a part."""
MOST_ALONE_COUNT = 50
"""Number of small sessions with own parts from which they are read again into one part."""


class CompleteSession(NamedTuple):
    """The part and the fingerprint of a session whose tables are complete."""

    fingerprint: str
    part: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The sessions that a run reads, and the parts of all sessions."""

    new: dict[str, str]
    """Session to read → its fingerprint."""
    parts: dict[str, str]
    """Session → part in which its rows are, or will be written."""
    stay: set[str]
    """The parts that are kept."""


def plan_sessions(
    files: list[SegmentFile],
    complete: dict[str, CompleteSession],
    part_of_many: Callable[[int], str],
) -> Plan:
    """Return the plan for sessions with these files.

    `part_of_many` returns the name of a part for a number of sessions.
    """
    marks = fingerprints(files)
    changed = {
        session
        for session, mark in marks.items()
        if session in complete and complete[session].fingerprint != mark
    }
    unread = {session for session in marks if session not in complete}
    small = _small(files)
    with_own_part = {
        session for session in small - changed - unread if complete[session].part == session
    }
    if unread and len(with_own_part) >= MOST_ALONE_COUNT:
        unread |= with_own_part
    dropped_parts = {complete[session].part for session in changed | unread if session in complete}
    # Sessions that are not asked for are read again when they are.
    unread |= {
        session
        for session in marks.keys() - changed
        if session in complete and complete[session].part in dropped_parts
    }
    together = sorted(unread & small)
    parts = {session: session for session in changed | unread}
    if len(together) > 1:
        parts |= dict.fromkeys(together, part_of_many(len(together)))
    new = {session: marks[session] for session in sorted(parts)}
    kept_part_of = {
        session: complete_session.part
        for session, complete_session in complete.items()
        if complete_session.part not in dropped_parts
    }
    return Plan(new, kept_part_of | parts, set(kept_part_of.values()))


def _small(files: list[SegmentFile]) -> set[str]:
    sizes: Counter[str] = Counter()
    for file in files:
        sizes[file.session] += file.size_bytes
    return {session for session, size_bytes in sizes.items() if size_bytes <= SMALL_BYTES}
