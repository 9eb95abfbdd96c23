"""The stamp in a message: when it was due, who sent it, which one it is, when it was sent.

24 bytes, little-endian: due time in ns of the run's CLOCK_MONOTONIC (8), publisher × 2⁴⁸ plus
sequence (8), time of sending (8). 16 bytes hold the first two; less hold no stamp, and such
messages are only counted. In a text payload the stamp is 48 hexadecimal digits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from natstui.bench.job.digits import Bytes2D, Int64s

STAMP_BYTES = 24
SHORT_STAMP_BYTES = 16
_SEQ_BITS = 48
_SEQ_MASK = (1 << _SEQ_BITS) - 1
_TO_HEX = np.frombuffer(b"".join(b"%02x" % value for value in range(256)), np.uint8).reshape(-1, 2)


def _hex_values() -> Bytes2D:
    table = np.zeros(256, np.uint8)
    for value, digit in enumerate(b"0123456789abcdef"):
        table[digit] = value
    return table


_FROM_HEX = _hex_values()


@dataclass(frozen=True, slots=True)
class StampPlace:
    """Where the stamp is inside a payload."""

    offset: int
    length: int
    """Bytes of the stamp proper: 24, 16 or 0."""
    as_hex: bool = False

    @property
    def width(self) -> int:
        """Bytes it takes in the payload."""
        return self.length * 2 if self.as_hex else self.length


NO_STAMP = StampPlace(0, 0)


@dataclass(frozen=True, slots=True)
class Stamps:
    """Stamps read from many messages, as columns."""

    due_ns: Int64s
    publisher: Int64s
    seq: Int64s
    sent_ns: Int64s | None
    """None when the messages were too small to carry it."""


def place_for(size_bytes: int) -> StampPlace:
    """Return the stamp a binary payload of this size has room for."""
    if size_bytes >= STAMP_BYTES:
        return StampPlace(0, STAMP_BYTES)
    return StampPlace(0, SHORT_STAMP_BYTES if size_bytes >= SHORT_STAMP_BYTES else 0)


def write_stamps(
    payloads: Bytes2D,
    place: StampPlace,
    due_ns: Int64s,
    publisher: int,
    seqs: Int64s,
    sent_ns: int,
) -> None:
    """Write one stamp into each row of (n, size) payloads."""
    words = place.length // 8
    if not words:
        return
    stamps = np.empty((len(payloads), words), np.int64)
    stamps[:, 0] = due_ns
    stamps[:, 1] = seqs + (publisher << _SEQ_BITS)
    if words == 3:
        stamps[:, 2] = sent_ns
    raw = stamps.view(np.uint8)
    if place.as_hex:
        raw = _TO_HEX[raw].reshape(len(payloads), place.width)
    payloads[:, place.offset : place.offset + place.width] = raw


def read_stamps(payloads: Bytes2D, place: StampPlace) -> Stamps | None:
    """Return the stamps of (n, size) payloads; None when they carry none."""
    if not place.length or payloads.shape[1] < place.offset + place.width:
        return None
    raw = payloads[:, place.offset : place.offset + place.width]
    if place.as_hex:
        nibbles = _FROM_HEX[raw]
        raw = ((nibbles[:, 0::2] << 4) | nibbles[:, 1::2]).astype(np.uint8)
    # Each column is copied once by itself: what works on it then finds all of it together.
    words: Int64s = np.array(raw.view(np.int64).T, order="C")
    return Stamps(
        due_ns=words[0],
        publisher=words[1] >> _SEQ_BITS,
        seq=words[1] & _SEQ_MASK,
        sent_ns=words[2] if place.length == STAMP_BYTES else None,
    )
