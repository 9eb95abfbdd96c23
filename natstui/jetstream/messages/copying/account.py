"""What became of the messages of a copy, and where one that was stopped goes on."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import platformdirs

from natstui.decoding import decoder_of
from natstui.errors import SessionError
from natstui.files import write_complete
from natstui.parsing import reason
from natstui.paths import private_folder

MOST_RANGES = 100_000
"""Ranges of refused sequences that are kept to send them again; a copy with more stops."""

Ranges = list[list[int]]
"""First and last sequence of each, ascending: as long as a list of sequences is short."""


def add_seq(ranges: Ranges, seq: int) -> None:
    """Add a sequence to ranges: to the last one where it follows that."""
    if ranges and seq == ranges[-1][1] + 1:
        ranges[-1][1] = seq
    elif not ranges or not ranges[-1][0] <= seq <= ranges[-1][1]:
        ranges.append([seq, seq])


def merged_ranges(*several: Ranges) -> Ranges:
    """Return the sequences of several ranges as few ranges, ascending."""
    merged: Ranges = []
    for first, last in sorted(pair for ranges in several for pair in ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], last)
        else:
            merged.append([first, last])
    return merged


def ranges_from(ranges: Ranges, seq: int) -> Ranges:
    """Return what is in ranges from a sequence on."""
    return [[max(first, seq), last] for first, last in ranges if last >= seq]


def seqs_of(ranges: Ranges) -> Iterator[int]:
    """Yield the sequences in ranges."""
    for first, last in ranges:
        yield from range(first, last + 1)


def pairs_of(ranges: Ranges) -> Iterator[tuple[list[int], list[int]]]:
    """Yield two neighbouring ranges at a time; the last one with itself where it is alone."""
    for index in range(0, len(ranges), 2):
        yield ranges[index], ranges[min(index + 1, len(ranges) - 1)]


@dataclass(slots=True)
class Account:
    """Every message that was read is in one of the other counts, or still on its way."""

    read_msgs: int = 0
    payload_bytes: int = 0
    acknowledged_msgs: int = 0
    """The target stored them now."""
    confirmed_msgs: int = 0
    """Of those, how many were sent again after the connection was lost."""
    duplicate_msgs: int = 0
    """The target had them already, by their id."""
    refused_msgs: int = 0
    unknown_msgs: int = 0
    """Sent, and no answer says whether they are stored."""
    gone_msgs: int = 0
    """Looked for by their sequence and not there any more."""
    removed_seqs: tuple[int, int] | None = None
    """First and last that the source removed while the copy was stopped, before it read them."""
    without_rollup_msgs: int = 0
    """Sent without the header that would have removed other messages."""
    refusals: Counter[str] = field(default_factory=Counter)
    """Reason → messages."""
    refused_ranges: Ranges = field(default_factory=list)
    is_overfull: bool = False
    """Whether more was refused than can be kept to send it again."""
    target_created_at_us: dict[str, int] = field(default_factory=dict)
    """When each stream was created that stored messages of the copy."""
    stored_ranges: dict[str, Ranges] = field(default_factory=dict)
    """The sequences under which each of them acknowledged messages of the copy."""
    not_kept: Counter[str] = field(default_factory=Counter)
    """Reason → acknowledged messages that the target did not keep."""
    unchecked: list[str] = field(default_factory=list)
    """Streams of which nobody knows what they kept: their state may not be read."""
    first_seq: int | None = None
    last_seq: int = 0
    """Of what was read."""
    done_seq: int = 0
    """What became of everything up to here is known."""
    is_stopped: bool = False

    @property
    def kept_msgs(self) -> int:
        """Return how many messages were stored now and stayed."""
        return max(0, self.acknowledged_msgs - self.not_kept.total())

    @property
    def target_first_seq(self) -> dict[str, int]:
        """Return the sequence of the first message that each stream stored of the copy."""
        return {
            stream: min(first for first, _ in ranges)
            for stream, ranges in self.stored_ranges.items()
        }

    def store(self, stream: str, seq: int) -> None:
        """Count a message that a stream stored."""
        self.acknowledged_msgs += 1
        ranges = self.stored_ranges.setdefault(stream, [])
        add_seq(ranges, seq)
        if len(ranges) > MOST_RANGES:
            ranges[:] = merged_ranges(ranges)
        if len(ranges) > MOST_RANGES:
            # Between them are messages of others: these count as if they were of the copy.
            ranges[:] = [[first, last] for (first, _), (_, last) in pairs_of(ranges)]

    def refuse(self, seq: int, reason: str) -> None:
        """Count a message that the target does not take."""
        self.refused_msgs += 1
        self.refusals[reason] += 1
        add_seq(self.refused_ranges, seq)
        if len(self.refused_ranges) > MOST_RANGES:
            self.refused_ranges = merged_ranges(self.refused_ranges)
            self.is_overfull = len(self.refused_ranges) > MOST_RANGES

    def lose_all(self, reason: str) -> None:
        """Count everything that was read as refused: what it was written into is gone."""
        self.acknowledged_msgs, self.refused_msgs = 0, self.read_msgs
        self.refusals = Counter({reason: self.read_msgs})
        self.refused_ranges = []


_FORMAT = 2
"""Changes what a copy is found under: what an older natstui kept is not continued."""


class State(msgspec.Struct, kw_only=True):
    """Where a copy is, as it is kept on the disk."""

    end_seq: int
    done_seq: int = 0
    refused_ranges: Ranges = []
    source_created_at_us: int = 0
    target_created_at_us: dict[str, int] = {}
    target_first_seq: dict[str, int] = {}
    saved_at_us: int = 0
    is_settled: bool = True
    """Whether nothing was on its way when this was written."""

    @property
    def age_s(self) -> float:
        """Return how long ago this was written."""
        return time.time() - self.saved_at_us / 1e6


class StateFile:
    """Keeps where a copy is; the same copy finds it again."""

    def __init__(self, of: dict[str, Any]) -> None:
        text = json.dumps({**of, "format": _FORMAT}, sort_keys=True).encode()
        name = f"{hashlib.sha256(text).hexdigest()[:24]}.json"
        self.path: Path = platformdirs.user_state_path("natstui") / "copies" / name

    def read(self) -> State | None:
        """Return where it was stopped, None when it was not; raises SessionError."""
        try:
            return decoder_of(State).decode(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            raise SessionError(f"{self.path} cannot be read: {reason(error)}") from error

    def write(self, state: State) -> None:
        """Keep it, in one step; raises SessionError."""
        state.saved_at_us = time.time_ns() // 1000
        try:
            private_folder(self.path.parent)
            write_complete(self.path, msgspec.json.encode(state), mode=0o600)
        except OSError as error:
            raise SessionError(f"{self.path} cannot be written: {error}") from error

    def remove(self) -> None:
        """Forget it: there is nothing to go on with."""
        self.path.unlink(missing_ok=True)
