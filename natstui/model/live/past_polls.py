"""Older polls without rows, only with history and cost: a seek sends hundreds of these."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable

from msgspec import Struct

from natstui.model.live.snapshot import PollCost

NUMBER_BYTES = 8


class PastPoll(Struct, frozen=True):
    """One poll, without its rows."""

    taken_mono_us: int
    taken_at_us: int
    cost: PollCost
    api_requests_count: int | None
    api_errors_count: int | None


class PastPolls(Struct, frozen=True):
    """The history of older polls with the same rows as the state, for rates after a seek.

    A replay sends it before a newer, complete poll; it is never recorded.
    """

    at_us: int
    """Time of the newest poll."""
    polls: tuple[PastPoll, ...]
    streams: dict[str, bytes]
    """Column → unsigned 64-bit numbers, the lowest byte first: every row of a poll, in the order
    of the rows of the state, then the next poll. The columns are those a history keeps."""
    consumers: dict[str, bytes]


def to_bytes(numbers: Iterable[int]) -> bytes:
    """Return numbers encoded as in `PastPolls`, 8 bytes each, the lowest byte first.

    Raises OverflowError for a number that is negative or above 64 bits.
    """
    integers = array("Q", numbers)
    if sys.byteorder == "big":
        integers.byteswap()
    return integers.tobytes()


def to_numbers(encoded_numbers: bytes) -> array[int]:
    """Return the numbers that `to_bytes` encoded."""
    numbers = array("Q", encoded_numbers)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
