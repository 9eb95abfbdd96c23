"""Counts what happened to the messages of a copy, and stores the position where a stopped copy
continues.
"""

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
from natstui.files import write_atomic_file
from natstui.parsing import describe_parse_error
from natstui.paths import create_private_folder

MAX_COUNTED_SUBJECTS = 10_000
MAX_RANGES = 100_000
"""Maximum number of ranges of refused sequences, which are stored to send them again. A copy with
more stops."""

FirstAndLastSeqs = list[list[int]]
"""First and last sequence of each range, ascending."""


def add_seq(ranges: FirstAndLastSeqs, seq: int) -> None:
    """Add a sequence to ranges: to the last range if it is the next one, else as another range."""
    if ranges and seq == ranges[-1][1] + 1:
        ranges[-1][1] = seq
    elif not ranges or not ranges[-1][0] <= seq <= ranges[-1][1]:
        ranges.append([seq, seq])


def _add_bounded(ranges: FirstAndLastSeqs, seq: int) -> None:
    """Add a sequence to ranges; merge neighbours if there are more than `MAX_RANGES`."""
    add_seq(ranges, seq)
    if len(ranges) > MAX_RANGES:
        ranges[:] = merged_ranges(ranges)
    if len(ranges) > MAX_RANGES:
        # The sequences between two merged ranges, of other publishers, count as copied as well.
        ranges[:] = [[first, last] for (first, _), (_, last) in pair_neighbours(ranges)]


def merged_ranges(*range_lists: FirstAndLastSeqs) -> FirstAndLastSeqs:
    """Return all sequences of several lists of ranges, in as few ranges as possible, ascending."""
    merged: FirstAndLastSeqs = []
    for first, last in sorted(pair for ranges in range_lists for pair in ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], last)
        else:
            merged.append([first, last])
    return merged


def ranges_from(ranges: FirstAndLastSeqs, seq: int) -> FirstAndLastSeqs:
    """Return the ranges without the sequences before `seq`."""
    return [[max(first, seq), last] for first, last in ranges if last >= seq]


def ranges_until(ranges: FirstAndLastSeqs, seq: int) -> FirstAndLastSeqs:
    """Return the ranges without the sequences after `seq`."""
    return [[first, min(last, seq)] for first, last in ranges if first <= seq]


def has_seq(ranges: FirstAndLastSeqs, seq: int) -> bool:
    """Return whether a sequence is in ascending ranges."""
    range_index = bisect_right(ranges, seq, key=itemgetter(0)) - 1
    return range_index >= 0 and seq <= ranges[range_index][1]


def seqs_of(ranges: FirstAndLastSeqs) -> Iterator[int]:
    """Yield the sequences in ranges."""
    for first, last in ranges:
        yield from range(first, last + 1)


def pair_neighbours(ranges: FirstAndLastSeqs) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the ranges in pairs: the first two, the next two, and so on; a last one that is left
    over, together with itself.
    """
    for range_index in range(0, len(ranges), 2):
        yield ranges[range_index], ranges[min(range_index + 1, len(ranges) - 1)]


@dataclass(slots=True)
class CopyAccount:
    """Counts of a copy. Each message that was read is acknowledged, duplicate or refused, or still
    in flight.
    """

    read_msgs: int = 0
    payload_bytes: int = 0
    acknowledged_msgs: int = 0
    """Messages that the target stored during this copy."""
    confirmed_msgs: int = 0
    """Number of acknowledged messages that had been sent more than once."""
    duplicate_msgs: int = 0
    """Messages that the target had stored before, according to their id."""
    refused_msgs: int = 0
    unknown_msgs: int = 0
    """Messages that were sent, but for which no reply says whether they are stored."""
    gone_msgs: int = 0
    """Messages that were requested by their sequence, but were already deleted."""
    removed_seqs: tuple[int, int] | None = None
    """First and last of the sequences that the source deleted before they were copied."""
    without_rollup_msgs: int = 0
    """Messages that were sent without their headers of a roll-up or schedule, which would have
    deleted other messages."""
    refusals: Counter[str] = field(default_factory=Counter)
    """Reason → number of messages refused for it."""
    refused_ranges: FirstAndLastSeqs = field(default_factory=list)
    is_overfull: bool = False
    """Whether there are more refused ranges than can be stored to send them again."""
    target_created_at_us: dict[str, int] = field(default_factory=dict)
    """Stream that stored messages of the copy → its creation time in UTC µs."""
    target_newest: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Stream → sequence and time of its newest message, soon after it stored the first copy."""
    stored_ranges: dict[str, FirstAndLastSeqs] = field(default_factory=dict)
    """Stream → the sequences of the copy's acknowledged messages."""
    stored_subjects: dict[str, Counter[str]] = field(default_factory=dict)
    """Stream → number of acknowledged messages by subject, of `MAX_COUNTED_SUBJECTS` at most."""
    stored_before_ranges: dict[str, FirstAndLastSeqs] = field(default_factory=dict)
    """Stream → the sequences of copies that it had stored before: duplicates, and the messages of
    a stopped copy.
    """
    no_longer_there: Counter[str] = field(default_factory=Counter)
    """Reason → number of copies that the target stored before and has deleted."""
    may_be_consumed: bool = True
    """Whether all messages in `no_longer_there` may have been deleted by acks of consumers."""
    not_kept: Counter[str] = field(default_factory=Counter)
    """Reason → number of acknowledged messages that the target did not keep."""
    unchecked: list[str] = field(default_factory=list)
    """Streams of which it is unknown what they kept, because their state may not be read."""
    first_seq: int | None = None
    last_seq: int = 0
    """Last sequence that was read."""
    done_seq: int = 0
    """Sequence up to which the result of every message is known."""
    is_stopped: bool = False

    @property
    def in_flight_msgs(self) -> int:
        """Return how many messages were sent but have no result yet."""
        return self.read_msgs - self.acknowledged_msgs - self.duplicate_msgs - self.refused_msgs

    @property
    def kept_msgs(self) -> int:
        """Return how many messages the target stored during this copy, and kept."""
        return max(0, self.acknowledged_msgs - self.not_kept.total())

    def count_read(self, seq: int, payload_bytes: int) -> None:
        """Count a message that was read from the source."""
        self.read_msgs += 1
        self.payload_bytes += payload_bytes
        self.first_seq = self.first_seq or seq
        self.last_seq = seq

    def add_removed(self, first_seq: int, last_seq: int) -> None:
        """Add a range of sequences that the source deleted before they were copied."""
        seqs_before = self.removed_seqs or (first_seq, last_seq)
        self.removed_seqs = min(seqs_before[0], first_seq), max(seqs_before[1], last_seq)

    def count_stored(self, stream: str, seq: int, subject: str) -> None:
        """Count a message that a stream stored."""
        self.acknowledged_msgs += 1
        subjects = self.stored_subjects.setdefault(stream, Counter())
        if subject in subjects or len(subjects) < MAX_COUNTED_SUBJECTS:
            subjects[subject] += 1
        _add_bounded(self.stored_ranges.setdefault(stream, []), seq)

    def count_duplicate(self, stream: str, seq: int) -> None:
        """Count a message that a stream had stored before."""
        self.duplicate_msgs += 1
        _add_bounded(self.stored_before_ranges.setdefault(stream, []), seq)

    def count_refused(self, seq: int, reason: str) -> None:
        """Count a message that the target refuses."""
        self.refused_msgs += 1
        self.refusals[reason] += 1
        add_seq(self.refused_ranges, seq)
        if len(self.refused_ranges) > MAX_RANGES:
            self.refused_ranges = merged_ranges(self.refused_ranges)
            self.is_overfull = len(self.refused_ranges) > MAX_RANGES

    def lose_newest(self, lost_msgs: int, reason: str) -> None:
        """Count the last `lost_msgs` messages as refused: the file could not be written."""
        self.acknowledged_msgs, self.refused_msgs = self.read_msgs - lost_msgs, lost_msgs
        self.refusals = Counter({reason: lost_msgs}) if lost_msgs else Counter()


_STATE_FORMAT = 8
"""Version of the state's format; a state of an older one is not found."""


class SkippedSequences(msgspec.Struct, frozen=True):
    """Sequences in a range that have no message."""

    count: int = 0
    seqs: tuple[int, int] | None = None
    """The first and the last of them."""

    def with_range(self, first_seq: int, last_seq: int) -> SkippedSequences:
        """Return these sequences together with all those from `first_seq` to `last_seq`."""
        begin_seq = self.seqs[0] if self.seqs else first_seq
        return SkippedSequences(self.count + last_seq - first_seq + 1, (begin_seq, last_seq))


class CopyState(msgspec.Struct, kw_only=True):
    """The position of a copy, as stored in its file."""

    begin_seq: int = 1
    """The first sequence to copy when this copy began."""
    end_seq: int
    since_us: int | None = None
    until_us: int | None = None
    """The times of the selection: a relative time would be another one when the copy continues."""
    done_seq: int = 0
    lacking_count: int = 0
    """Number of sequences of a range that had no message when this copy began."""
    skipped: SkippedSequences = SkippedSequences()
    """The sequences of a range up to `done_seq` that had no message when they were to be read."""
    removed_seqs: tuple[int, int] | None = None
    """First and last sequence that the source deleted before they were copied, as far as known."""
    refused_ranges: FirstAndLastSeqs = []
    source_created_at_us: int = 0
    source_newest: tuple[int, int] = (0, 0)
    """The newest message of the source when this copy began: its sequence and time."""
    target_created_at_us: dict[str, int] = {}
    target_newest: dict[str, tuple[int, int]] = {}
    target_ranges: dict[str, FirstAndLastSeqs] = {}
    """Stream → the sequences of the copy's acknowledged messages."""
    unknown_msgs: int = 0
    """Maximum number of messages without a known result: those in flight when this was written,
    and those that may have been sent after that."""
    sent_at_us: int = 0
    """When the oldest of these messages was sent, in UTC µs."""
    file_bytes: int = 0
    """Length of the target file's lines up to `done_seq`."""
    file_sha256: str = ""
    source_lines_count: int = 0
    """Number of lines up to `done_seq` of the file from which messages are read."""
    source_sha256: str = ""
    """Checksum of these lines."""

    @property
    def first_seq(self) -> int:
        """Return the first sequence that a continued copy has to send."""
        next_seq = self.done_seq + 1
        return min(self.refused_ranges[0][0], next_seq) if self.refused_ranges else next_seq

    @property
    def age_s(self) -> float:
        """Return the seconds since the oldest message without a known result was sent.

        It is infinite if the clock was set back since, because the time is unknown then.
        """
        age_s = time.time() - self.sent_at_us / 1e6
        return age_s if age_s >= 0 else math.inf


class StateFile:
    """The file with the position of a copy. A copy with the same identity has the same file."""

    def __init__(self, identity: dict[str, Any]) -> None:
        text = json.dumps({**identity, "format": _STATE_FORMAT}, sort_keys=True).encode()
        name = f"{hashlib.sha256(text).hexdigest()[:24]}.json"
        self.path: Path = platformdirs.user_state_path("natstui") / "copies" / name

    def read(self) -> CopyState | None:
        """Return the state of a stopped copy; None if there is none.

        Raises SessionError if it cannot be read.
        """
        try:
            return decoder_of(CopyState).decode(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            raise SessionError(
                f"{self.path} cannot be read: {describe_parse_error(error)}"
            ) from error

    def write(self, state: CopyState) -> None:
        """Write the state atomically; raises SessionError if that fails."""
        try:
            create_private_folder(self.path.parent)
            write_atomic_file(self.path, msgspec.json.encode(state), mode=0o600)
        except OSError as error:
            raise SessionError(f"{self.path} cannot be written: {error}") from error

    def remove(self) -> None:
        """Delete the state."""
        self.path.unlink(missing_ok=True)
