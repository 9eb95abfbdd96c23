"""Decimal numbers in columns of bytes: the digits of many messages at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bytes2D = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]

_ZERO = 48


def write_digits(columns: Bytes2D, numbers: Int64s) -> None:
    """Write numbers right-aligned with leading zeros into their (n, width) columns."""
    rest = numbers
    for column in range(columns.shape[1] - 1, -1, -1):
        rest, digit = np.divmod(rest, 10)
        columns[:, column] = digit + _ZERO


def read_digits(columns: Bytes2D) -> Int64s:
    """Return the numbers whose digits fill (n, width) columns, width at most 19."""
    numbers = np.zeros(len(columns), np.int64)
    for column in range(columns.shape[1]):
        numbers *= 10
        numbers += columns[:, column]
        numbers -= _ZERO
    return numbers


def are_digits(columns: Bytes2D) -> npt.NDArray[np.bool_]:
    """Tell which bytes are decimal digits."""
    return (columns - np.uint8(_ZERO)) < np.uint8(10)
