"""The account of a copy's messages, and the position where a stopped copy continues."""

from __future__ import annotations

import hashlib
import json
import math
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec
import platformdirs

from natstui.decoding import decoder_of
from natstui.errors import SessionError
from natstui.files import write_complete
from natstui.parsing import reason
from natstui.paths import private_folder

MOST_SUBJECTS = 10_000
MOST_RANGES = 100_000
"""Limit of refused sequence ranges that are stored to send them again; a copy with more stops."""

Ranges = list[list[int]]
"""First and last sequence of each range, ascending."""


def add_seq(ranges: Ranges, seq: int) -> None:
    """Add a sequence to ranges, extending the last one if consecutive."""
    if ranges and seq == ranges[-1][1] + 1:
        ranges[-1][1] = seq
    elif not ranges or not ranges[-1][0] <= seq <= ranges[-1][1]:
        ranges.append([seq, seq])


def _add_bounded(ranges: Ranges, seq: int) -> None:
    """Add a sequence to ranges of which there are at most `MOST_RANGES`."""
    add_seq(ranges, seq)
    if len(ranges) > MOST_RANGES:
        ranges[:] = merged_ranges(ranges)
    if len(ranges) > MOST_RANGES:
        # Between them are messages of others: these count as if they were of the copy.
        ranges[:] = [[first, last] for (first, _), (_, last) in pairs_of(ranges)]


def merged_ranges(*several: Ranges) -> Ranges:
    """Return the sequences of several ranges as few ranges, ascending."""
    ranges_merged: Ranges = []
    for first, last in sorted(pair for ranges in several for pair in ranges):
        if ranges_merged and first <= ranges_merged[-1][1] + 1:
            ranges_merged[-1][1] = max(ranges_merged[-1][1], last)
        else:
            ranges_merged.append([first, last])
    return ranges_merged


def ranges_from(ranges: Ranges, seq: int) -> Ranges:
    """Return the part of ranges from a sequence on."""
    return [[max(first, seq), last] for first, last in ranges if last >= seq]


def has_seq(ranges: Ranges, seq: int) -> bool:
    """Return whether a sequence is in ascending ranges."""
    index = bisect_right(ranges, seq, key=itemgetter(0)) - 1
    return index >= 0 and seq <= ranges[index][1]


def seqs_of(ranges: Ranges) -> Iterator[int]:
    """Yield the sequences in ranges."""
    for first, last in ranges:
        yield from range(first, last + 1)


def pairs_of(ranges: Ranges) -> Iterator[tuple[list[int], list[int]]]:
    """Yield pairs of neighbouring ranges; a single one with itself."""
    for index in range(0, len(ranges), 2):
        yield ranges[index], ranges[min(index + 1, len(ranges) - 1)]


@dataclass(slots=True)
class Account:
    """Counts of a copy: every message that was read is in one of them, or still in flight."""

    read_msgs: int = 0
    payload_bytes: int = 0
    acknowledged_msgs: int = 0
    """Stored by the target now."""
    confirmed_msgs: int = 0
    """Number of these that were sent again after the connection was lost."""
    duplicate_msgs: int = 0
    """Already stored by the target, according to their id."""
    refused_msgs: int = 0
    unknown_msgs: int = 0
    """Sent, without a reply that shows whether they are stored."""
    gone_msgs: int = 0
    """Requested by sequence, but deleted meanwhile."""
    removed_seqs: tuple[int, int] | None = None
    """First and last sequence that the source deleted before they were copied."""
    without_rollup_msgs: int = 0
    """Sent without the headers of a roll-up or schedule, which would have deleted others."""
    refusals: Counter[str] = field(default_factory=Counter)
    """Reason → messages."""
    refused_ranges: Ranges = field(default_factory=list)
    is_overfull: bool = False
    """Whether more messages were refused than can be stored to send them again."""
    target_created_at_us: dict[str, int] = field(default_factory=dict)
    """Stream that stored messages of the copy → its creation time."""
    target_newest: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Stream → its newest message soon after it stored the first one: its sequence and time."""
    stored_ranges: dict[str, Ranges] = field(default_factory=dict)
    """Stream → the sequences of the copy's acknowledged messages."""
    stored_subjects: dict[str, Counter[str]] = field(default_factory=dict)
    """Stream → acknowledged messages by subject, for the first `MOST_SUBJECTS` of them."""
    had_ranges: dict[str, Ranges] = field(default_factory=dict)
    """Stream → the sequences of what it stored before: of duplicates, and of a stopped copy."""
    no_longer_there: Counter[str] = field(default_factory=Counter)
    """Reason → messages that the target stored before, and does not have any more."""
    may_be_consumed: bool = True
    """Whether these may all have been acknowledged by consumers, whose acks delete messages."""
    not_kept: Counter[str] = field(default_factory=Counter)
    """Reason → acknowledged messages that the target did not keep."""
    unchecked: list[str] = field(default_factory=list)
    """Streams whose state may not be read, so that it is unknown what they kept."""
    first_seq: int | None = None
    last_seq: int = 0
    """Last sequence that was read."""
    done_seq: int = 0
    """Sequence up to which the result of every message is known."""
    is_stopped: bool = False

    @property
    def in_flight_msgs(self) -> int:
        """Return how many messages were sent and have no result yet."""
        return self.read_msgs - self.acknowledged_msgs - self.duplicate_msgs - self.refused_msgs

    @property
    def kept_msgs(self) -> int:
        """Return how many messages were stored now and kept."""
        return max(0, self.acknowledged_msgs - self.not_kept.total())

    def read(self, seq: int, payload_bytes: int) -> None:
        """Count a message that was read, whatever becomes of it."""
        self.read_msgs += 1
        self.payload_bytes += payload_bytes
        self.first_seq = self.first_seq or seq
        self.last_seq = seq

    def miss(self, first_seq: int, last_seq: int) -> None:
        """Add sequences that the source deleted before they were copied."""
        before = self.removed_seqs or (first_seq, last_seq)
        self.removed_seqs = min(before[0], first_seq), max(before[1], last_seq)

    def store(self, stream: str, seq: int, subject: str) -> None:
        """Count a message that a stream stored."""
        self.acknowledged_msgs += 1
        subjects = self.stored_subjects.setdefault(stream, Counter())
        if subject in subjects or len(subjects) < MOST_SUBJECTS:
            subjects[subject] += 1
        _add_bounded(self.stored_ranges.setdefault(stream, []), seq)

    def had(self, stream: str, seq: int) -> None:
        """Count a message that a stream stored before."""
        self.duplicate_msgs += 1
        _add_bounded(self.had_ranges.setdefault(stream, []), seq)

    def refuse(self, seq: int, reason: str) -> None:
        """Count a message that the target refuses."""
        self.refused_msgs += 1
        self.refusals[reason] += 1
        add_seq(self.refused_ranges, seq)
        if len(self.refused_ranges) > MOST_RANGES:
            self.refused_ranges = merged_ranges(self.refused_ranges)
            self.is_overfull = len(self.refused_ranges) > MOST_RANGES

    def lose_newest(self, lost_msgs: int, reason: str) -> None:
        """Count the newest messages of a file as refused: the disk did not take them."""
        self.acknowledged_msgs, self.refused_msgs = self.read_msgs - lost_msgs, lost_msgs
        self.refusals = Counter({reason: lost_msgs}) if lost_msgs else Counter()


_FORMAT = 7
"""Version of the state: an older one is not continued."""


class SkippedSequences(msgspec.Struct, frozen=True):
    """Sequences of a range without a message."""

    count: int = 0
    seqs: tuple[int, int] | None = None
    """The first and the last of them."""

    def with_range(self, first_seq: int, last_seq: int) -> SkippedSequences:
        """Return these and those of a range behind them."""
        begin_seq = self.seqs[0] if self.seqs else first_seq
        return SkippedSequences(self.count + last_seq - first_seq + 1, (begin_seq, last_seq))


class State(msgspec.Struct, kw_only=True):
    """The stored position of a copy."""

    begin_seq: int = 1
    """The first sequence to copy when this copy began."""
    end_seq: int
    done_seq: int = 0
    lacking_count: int = 0
    """How many sequences of a range had no message when this copy began."""
    skipped: SkippedSequences = SkippedSequences()
    """The sequences of a range up to `done_seq` that had no message when they were to be read."""
    removed_seqs: tuple[int, int] | None = None
    """First and last sequence that the source deleted before they were copied, as far as known."""
    refused_ranges: Ranges = []
    source_created_at_us: int = 0
    source_newest: tuple[int, int] = (0, 0)
    """The newest message of the source when this copy began: its sequence and time."""
    target_created_at_us: dict[str, int] = {}
    target_newest: dict[str, tuple[int, int]] = {}
    target_ranges: dict[str, Ranges] = {}
    """Stream → the sequences of the copy's acknowledged messages."""
    unknown_msgs: int = 0
    """Limit of the messages without a known result: in flight when this was written, or sent
    after that.
    """
    sent_at_us: int = 0
    """When the oldest of them was sent."""
    file_bytes: int = 0
    """Length of the lines of a file up to `done_seq`."""
    file_sha256: str = ""
    source_lines_count: int = 0
    """Lines up to `done_seq` of the file that messages are read from, and their checksum."""
    source_sha256: str = ""

    @property
    def first_seq(self) -> int:
        """Return the first sequence that has to be sent again, or sent at all."""
        return self.refused_ranges[0][0] if self.refused_ranges else self.done_seq + 1

    @property
    def age_s(self) -> float:
        """Return the time since the oldest message without a known result was sent.

        Infinite when that is later than now: the clock was set back, and nobody knows.
        """
        age_s = time.time() - self.sent_at_us / 1e6
        return age_s if age_s >= 0 else math.inf


class StateFile:
    """The file with the position of a copy; the same copy finds it again."""

    def __init__(self, identity: dict[str, Any]) -> None:
        text = json.dumps({**identity, "format": _FORMAT}, sort_keys=True).encode()
        name = f"{hashlib.sha256(text).hexdigest()[:24]}.json"
        self.path: Path = platformdirs.user_state_path("natstui") / "copies" / name

    def read(self) -> State | None:
        """Return the state of a stopped copy, None without one; raises SessionError."""
        try:
            return decoder_of(State).decode(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            raise SessionError(f"{self.path} cannot be read: {reason(error)}") from error

    def write(self, state: State) -> None:
        """Write the state atomically; raises SessionError."""
        try:
            private_folder(self.path.parent)
            write_complete(self.path, msgspec.json.encode(state), mode=0o600)
        except OSError as error:
            raise SessionError(f"{self.path} cannot be written: {error}") from error

    def remove(self) -> None:
        """Delete the state."""
        self.path.unlink(missing_ok=True)
