"""Reads and writes the decimal digits of many numbers at once, in columns of bytes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bytes2D = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]

_ASCII_ZERO = 48
_WORD_DTYPE = np.dtype("<u8")
_JOIN_STEPS = tuple(
    tuple(np.array(number, _WORD_DTYPE) for number in mask_multiplier_shift)
    for mask_multiplier_shift in (
        (0x0F0F0F0F0F0F0F0F, (10 << 8) + 1, 8),
        (0x00FF00FF00FF00FF, (100 << 16) + 1, 16),
        (0x0000FFFF0000FFFF, (10_000 << 32) + 1, 32),
    )
)
"""Bit masks, multipliers and shifts that join pairs of digits, of pairs, and of fours."""


def write_digits(columns: Bytes2D, numbers: Int64s) -> None:
    """Write numbers as ASCII digits into (n, width) columns, right-aligned with leading zeros."""
    remaining = numbers
    for column in range(columns.shape[1] - 1, -1, -1):
        remaining, digit = np.divmod(remaining, 10)
        columns[:, column] = digit + _ASCII_ZERO


def read_digits(columns: Bytes2D) -> Int64s:
    """Return the numbers whose ASCII digits are the rows of (n, width) columns, width at most 19.

    Eight digits are one word of 64 bits, in which they are joined to pairs, fours and the number.
    """
    rows_count, width = columns.shape
    padded_digits = np.zeros((rows_count, -(-width // 8) * 8), np.uint8)
    padded_digits[:, padded_digits.shape[1] - width :] = columns
    digit_words = padded_digits.view(_WORD_DTYPE)
    for mask, multiplier, shift in _JOIN_STEPS:
        digit_words &= mask
        digit_words *= multiplier
        digit_words >>= shift
    numbers = digit_words[:, 0].astype(np.int64)
    for column in range(1, digit_words.shape[1]):
        numbers *= 10**8
        numbers += digit_words[:, column].astype(np.int64)
    return numbers


def are_digits(columns: Bytes2D) -> npt.NDArray[np.bool_]:
    """Return a mask of the shape of `columns`: which bytes are decimal digits in ASCII."""
    return (columns - np.uint8(_ASCII_ZERO)) < np.uint8(10)
