"""One message at a time, without arrays: for them a single row costs as much as five hundred."""

from __future__ import annotations

import struct
import time

import numpy as np

from natstui.bench.content import (
    header_parts,
    payload_texts,
    repeats,
    stamp_place,
    subject_parts,
    which_size,
)
from natstui.bench.protocol import Orders
from natstui.bench.tally import Tally
from natstui.bench.template import SEQ_DIGITS, Frame, Template

_STAMP = struct.Struct("<qqq")


class SingleFrame:
    """The frames of a sender with one message in flight."""

    def __init__(self, orders: Orders, inbox: bytes) -> None:
        role = orders.role
        self._place = stamp_place(role.payload)
        reply = (inbox + b".", ("reply", SEQ_DIGITS))
        frames = [
            Template(
                Frame(subject_parts(orders), text, self._place, reply, header_parts(orders)), 1
            )
            for text in payload_texts(role.payload)
        ]
        self._frames = [(bytearray(one.blank()), one.fields, one.payload) for one in frames]
        self._identity = orders.publisher_id << 48
        self._subjects = role.subjects_count
        self._random = np.random.default_rng(orders.publisher_id) if role.subjects_random else None
        self._repeats = repeats(role.payload.duplicate_ratio)
        self._has_repeats = role.payload.duplicate_ratio > 0

    def make(self, number: int, due_ns: int, now_ns: int) -> tuple[bytes, int]:
        """Return the frame of a message, and its payload's size."""
        frame, fields, payload = self._frames[which_size(number, self._frames)]
        seq = int(self._repeats(np.array([number]))[0]) if self._has_repeats else number
        place = self._place
        if place.length:
            stamp = _STAMP.pack(due_ns, self._identity + seq, now_ns)[: place.length]
            start = payload.start + place.offset
            frame[start : start + place.width] = stamp.hex().encode() if place.as_hex else stamp
        for name, where in fields.items():
            value = number if name == "reply" else seq
            if name == "subject":
                value = self._spread(seq)
            frame[where] = b"%0*d" % (where.stop - where.start, value)
        return bytes(frame), payload.stop - payload.start

    def _spread(self, seq: int) -> int:
        if self._random is None:
            return seq % self._subjects
        return int(self._random.integers(self._subjects))


class SingleTimes:
    """Times of single answers, handed to the tally together."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._rows: list[tuple[int, int, int, int]] = []

    def add(self, due_ns: int, sent_ns: int, extra: int) -> None:
        """Note an answer that is here now; `extra` is what the caller wants to sum."""
        self._rows.append((due_ns, sent_ns, time.monotonic_ns(), extra))

    def acked(self) -> None:
        """Count the answers as acknowledgements; `extra` said which were duplicates."""
        if self._rows:
            columns = np.array(self._rows, np.int64)
            self._rows = []
            duplicates = int(columns[:, 3].sum())
            self._tally.acked(columns[:, 0], columns[:, 1], columns[:, 2], duplicates)

    def replied(self) -> None:
        """Count the answers as replies; `extra` was the size of each."""
        if self._rows:
            columns = np.array(self._rows, np.int64)
            self._rows = []
            steady = self._tally.timed("rtt", columns[:, 0], columns[:, 1], columns[:, 2])
            last_ns = int(columns[-1, 2])
            self._tally.replied(len(columns), int(columns[:, 3].sum()), steady, last_ns)
