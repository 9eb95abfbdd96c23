"""The stamp in a message: its run, due time, publisher, sequence and time of sending.

24 bytes, three little-endian words of 64 bits:

    0 (1 bit) · first half of the run's id (11) · due time in ns since the run's epoch (52)
    0 (1 bit) · second half of the run's id (11) · publisher (12) · sequence (40)
    time of sending in ns of CLOCK_MONOTONIC

A stamp of 16 bytes has the first two words. Smaller messages have no stamp, and are only counted.
In a text payload the stamp is hexadecimal digits. A message without the run's id is foreign.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from natstui.bench.job.digits import Bytes2D, Int64s

STAMP_BYTES = 24
SHORT_STAMP_BYTES = 16
MAX_PUBLISHERS = 1 << 12
_ID_BITS, _TIME_BITS, _SEQ_BITS = 11, 52, 40
_PUBLISHER_MASK, _SEQ_MASK = MAX_PUBLISHERS - 1, (1 << _SEQ_BITS) - 1
_STAMP_STRUCT = struct.Struct("<qqq")
_HEX_DIGITS_BY_BYTE = np.frombuffer(
    b"".join(b"%02x" % value for value in range(256)), np.uint8
).reshape(-1, 2)


def _build_hex_values() -> Bytes2D:
    value_by_digit = np.zeros(256, np.uint8)
    for value, digit in enumerate(b"0123456789abcdef"):
        value_by_digit[digit] = value
    return value_by_digit


_VALUE_BY_HEX_DIGIT = _build_hex_values()


class StampLayout(Struct, frozen=True):
    """The position and length of the stamp in a payload, and the id of its run."""

    offset: int
    length: int
    """Length of the stamp: 24, 16 or 0 bytes."""
    is_hex: bool = False
    first_word_at_due_time_0: int = 0
    """First word of the stamp of a message that is due at 0 of CLOCK_MONOTONIC."""
    second_word_at_sequence_0: int = 0
    """Second word of the stamp of the first message of publisher 0."""
    epoch_ns: int = 0

    @property
    def width(self) -> int:
        """Return the length of the stamp in the payload, in bytes."""
        return self.length * 2 if self.is_hex else self.length

    def pack(self, due_ns: int, publisher: int, seq: int, sent_ns: int) -> bytes:
        """Return one stamp as bytes; times are of the steady clock in ns."""
        second_word = self.second_word_at_sequence_0 + (publisher << _SEQ_BITS) + seq
        stamp = _STAMP_STRUCT.pack(due_ns + self.first_word_at_due_time_0, second_word, sent_ns)[
            : self.length
        ]
        return stamp.hex().encode() if self.is_hex else stamp


NO_STAMP = StampLayout(0, 0)


def layout_of_run(layout: StampLayout, run_id: str, epoch_ns: int) -> StampLayout:
    """Return the layout with the id and the epoch of a run.

    `epoch_ns` is a time (CLOCK_MONOTONIC) before its first message.
    """
    stamp_id = zlib.crc32(run_id.encode()) % (1 << 2 * _ID_BITS)
    first_half, second_half = (half << _TIME_BITS for half in divmod(stamp_id, 1 << _ID_BITS))
    return StampLayout(
        layout.offset, layout.length, layout.is_hex, first_half - epoch_ns, second_half, epoch_ns
    )


class Stamps(Struct, frozen=True):
    """Stamps of this run read from many messages, as columns."""

    due_ns: Int64s
    publisher: Int64s
    seq: Int64s
    sent_ns: Int64s | None
    """Times of sending (CLOCK_MONOTONIC); None if the messages are too small for them."""
    own_run_mask: npt.NDArray[np.bool_] | None = None
    """Which of the messages have a stamp of this run; None: all."""


def binary_stamp_layout(size_bytes: int) -> StampLayout:
    """Return the layout of the stamp in a binary payload: 24, 16 or 0 bytes at its start."""
    if size_bytes >= STAMP_BYTES:
        return StampLayout(0, STAMP_BYTES)
    return StampLayout(0, SHORT_STAMP_BYTES if size_bytes >= SHORT_STAMP_BYTES else 0)


def write_stamps(
    payloads: Bytes2D,
    layout: StampLayout,
    due_ns: Int64s,
    publisher: int | Int64s,
    seqs: Int64s,
    sent_ns: int | Int64s,
) -> None:
    """Write one stamp into each row of (n, size) payloads; times are of the steady clock in ns."""
    stamp_words = layout.length // 8
    if not stamp_words:
        return
    stamps = np.empty((len(payloads), stamp_words), np.int64)
    stamps[:, 0] = due_ns + layout.first_word_at_due_time_0
    stamps[:, 1] = seqs + layout.second_word_at_sequence_0 + (publisher << _SEQ_BITS)
    if stamp_words == 3:
        stamps[:, 2] = sent_ns
    raw_stamps = stamps.view(np.uint8)
    if layout.is_hex:
        raw_stamps = _HEX_DIGITS_BY_BYTE[raw_stamps].reshape(len(payloads), layout.width)
    payloads[:, layout.offset : layout.offset + layout.width] = raw_stamps


def read_stamps(payloads: Bytes2D, layout: StampLayout) -> Stamps | None:
    """Return the stamps of (n, size) payloads, one per message of this run.

    None if payloads of this size have no room for a stamp.
    """
    if not layout.length or payloads.shape[1] < layout.offset + layout.width:
        return None
    raw_stamps = payloads[:, layout.offset : layout.offset + layout.width]
    if layout.is_hex:
        nibbles = _VALUE_BY_HEX_DIGIT[raw_stamps]
        raw_stamps = ((nibbles[:, 0::2] << 4) | nibbles[:, 1::2]).astype(np.uint8)
    # Each column is copied once, so that it is contiguous in memory: operations are faster then.
    stamp_words: Int64s = np.array(raw_stamps.view(np.int64).T, order="C")
    own_run_mask = None
    stamp_words[0] -= layout.first_word_at_due_time_0 + layout.epoch_ns
    stamp_words[1] -= layout.second_word_at_sequence_0
    # In a message of this run the highest bits of both words are now 0.
    foreign_bits = (stamp_words[0] | stamp_words[1]) >> _TIME_BITS
    if foreign_bits.any():
        own_run_mask = foreign_bits == 0
        stamp_words = stamp_words[:, own_run_mask]
    stamp_words[0] += layout.epoch_ns
    return Stamps(
        due_ns=stamp_words[0],
        publisher=(stamp_words[1] >> _SEQ_BITS) & _PUBLISHER_MASK,
        seq=stamp_words[1] & _SEQ_MASK,
        sent_ns=stamp_words[2] if layout.length == STAMP_BYTES else None,
        own_run_mask=own_run_mask,
    )
