"""Decimal numbers in columns of bytes: the digits of many messages at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bytes2D = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]

_ZERO = 48
_WORD = np.dtype("<u8")
_JOINED = tuple(
    tuple(np.array(number, _WORD) for number in numbers)
    for numbers in (
        (0x0F0F0F0F0F0F0F0F, (10 << 8) + 1, 8),
        (0x00FF00FF00FF00FF, (100 << 16) + 1, 16),
        (0x0000FFFF0000FFFF, (10_000 << 32) + 1, 32),
    )
)
"""Which bits count, what joins two neighbours, and where their number then is."""


def write_digits(columns: Bytes2D, numbers: Int64s) -> None:
    """Write numbers right-aligned with leading zeros into their (n, width) columns."""
    rest = numbers
    for column in range(columns.shape[1] - 1, -1, -1):
        rest, digit = np.divmod(rest, 10)
        columns[:, column] = digit + _ZERO


def read_digits(columns: Bytes2D) -> Int64s:
    """Return the numbers whose digits fill (n, width) columns, width at most 19.

    Eight digits are one word, in which neighbours are joined: ones to twos, to fours, to eight.
    """
    count, width = columns.shape
    padded = np.zeros((count, -(-width // 8) * 8), np.uint8)
    padded[:, padded.shape[1] - width :] = columns
    words = padded.view(_WORD)
    for digits, joins, shift in _JOINED:
        words &= digits
        words *= joins
        words >>= shift
    numbers = words[:, 0].astype(np.int64)
    for column in range(1, words.shape[1]):
        numbers *= 10**8
        numbers += words[:, column].astype(np.int64)
    return numbers


def are_digits(columns: Bytes2D) -> npt.NDArray[np.bool_]:
    """Tell which bytes are decimal digits."""
    return (columns - np.uint8(_ZERO)) < np.uint8(10)
