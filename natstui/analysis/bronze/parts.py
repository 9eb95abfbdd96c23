"""Plans which sessions are read, and which small sessions share a part.

A part of a silver table has one session, or several small ones read by one run. It is written and
deleted completely, so that a killed run leaves no part that seems complete. If a session of a part
changes, all sessions of the part are read again; the changed one, which is being recorded, gets
its own part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct

from natstui.analysis.bronze.files import SegmentFile, session_fingerprints

MAX_SMALL_SESSION_BYTES = 256 * 1024
"""Maximum size of a session that may share a part."""
MIN_SESSIONS_TO_MERGE_COUNT = 50
"""Number of small sessions with own parts from which they are read again into a shared part."""


class CompleteSession(NamedTuple):
    """The fingerprint and the part of a session whose silver tables are complete."""

    fingerprint: str
    part: str


class SessionPlan(Struct, frozen=True):
    """The sessions that a run reads, and the parts of all sessions."""

    fingerprint_by_session_to_read: dict[str, str]
    """Session to read → its fingerprint."""
    part_by_session: dict[str, str]
    """Session → part in which its rows are, or will be written."""
    kept_parts: set[str]
    """Names of the parts that are not deleted."""


def plan_sessions(
    files: list[SegmentFile],
    complete_sessions: dict[str, CompleteSession],
    shared_part_name: Callable[[int], str],
) -> SessionPlan:
    """Return the plan for the sessions of `files`.

    `complete_sessions` are the sessions of earlier runs. `shared_part_name` returns the name of a
    part for a number of sessions.
    """
    fingerprints = session_fingerprints(files)
    changed_sessions = {
        session
        for session, fingerprint in fingerprints.items()
        if session in complete_sessions and complete_sessions[session].fingerprint != fingerprint
    }
    unread_sessions = {session for session in fingerprints if session not in complete_sessions}
    small_sessions = _find_small_sessions(files)
    sessions_with_own_part = {
        session
        for session in small_sessions - changed_sessions - unread_sessions
        if complete_sessions[session].part == session
    }
    if unread_sessions and len(sessions_with_own_part) >= MIN_SESSIONS_TO_MERGE_COUNT:
        unread_sessions |= sessions_with_own_part
    dropped_parts = {
        complete_sessions[session].part
        for session in changed_sessions | unread_sessions
        if session in complete_sessions
    }
    # Other sessions of deleted parts, which are not in `files`, are read again when requested.
    unread_sessions |= {
        session
        for session in fingerprints.keys() - changed_sessions
        if session in complete_sessions and complete_sessions[session].part in dropped_parts
    }
    sharing_sessions = sorted(unread_sessions & small_sessions)
    parts = {session: session for session in changed_sessions | unread_sessions}
    if len(sharing_sessions) > 1:
        parts |= dict.fromkeys(sharing_sessions, shared_part_name(len(sharing_sessions)))
    fingerprint_by_session_to_read = {session: fingerprints[session] for session in sorted(parts)}
    part_by_session = {
        session: complete_session.part
        for session, complete_session in complete_sessions.items()
        if complete_session.part not in dropped_parts
    }
    return SessionPlan(
        fingerprint_by_session_to_read, part_by_session | parts, set(part_by_session.values())
    )


def _find_small_sessions(files: list[SegmentFile]) -> set[str]:
    bytes_by_session: Counter[str] = Counter()
    for file in files:
        bytes_by_session[file.session] += file.size_bytes
    return {
        session
        for session, size_bytes in bytes_by_session.items()
        if size_bytes <= MAX_SMALL_SESSION_BYTES
    }
