"""Which sessions are read, and what lies together: a file for each of many small ones is dear.

A part of a table is one session, or small ones that were read by one run. It is written whole and
dropped whole, so that whatever kills a run leaves nothing that another would take for complete.
When one session of a part changes, all of the part are read again; the one that has changed is a
part of its own from then on: it is being recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from natstui.analysis.bronze.files import SegmentFile, fingerprints

SMALL_BYTES = 256 * 1024
"""Sessions up to this size may lie together."""
MOST_ALONE_COUNT = 50
"""When so many small sessions lie alone, they are read again to lie together."""


class Kept(NamedTuple):
    """What is known of a session whose tables are complete."""

    fingerprint: str
    part: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run reads."""

    new: dict[str, str]
    """The sessions that are read, each with its fingerprint."""
    parts: dict[str, str]
    """In which part the rows of every session are, or go."""
    stay: set[str]
    """The parts that stay."""


def planned(
    files: list[SegmentFile],
    kept: dict[str, Kept],
    part_of_many: Callable[[int], str],
) -> Plan:
    """Return what to read of sessions with these files.

    `part_of_many` names a part for so many sessions.
    """
    marks = fingerprints(files)
    changed = {one for one, mark in marks.items() if one in kept and kept[one].fingerprint != mark}
    fresh = {one for one in marks if one not in kept}
    small = _small(files)
    alone = {one for one in small - changed - fresh if kept[one].part == one}
    if fresh and len(alone) >= MOST_ALONE_COUNT:
        fresh |= alone
    gone = {kept[one].part for one in changed | fresh if one in kept}
    # Sessions that are not asked for are read again when they are.
    fresh |= {one for one in marks.keys() - changed if one in kept and kept[one].part in gone}
    together = sorted(fresh & small)
    parts = {one: one for one in changed | fresh}
    if len(together) > 1:
        parts |= dict.fromkeys(together, part_of_many(len(together)))
    new = {one: marks[one] for one in sorted(parts)}
    stay = {one: of.part for one, of in kept.items() if of.part not in gone}
    return Plan(new, stay | parts, set(stay.values()))


def _small(files: list[SegmentFile]) -> set[str]:
    sizes: Counter[str] = Counter()
    for file in files:
        sizes[file.session] += file.size_bytes
    return {session for session, size_bytes in sizes.items() if size_bytes <= SMALL_BYTES}
