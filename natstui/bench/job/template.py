"""Blocks of PUB or HPUB protocol messages (frames) of one layout, filled from a few arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from natstui.bench.job.digits import Bytes2D, Int64s, write_digits
from natstui.bench.job.stamps import StampLayout, write_stamps

SEQ_DIGITS = 12
_MAX_BLOCK_BYTES = 4 << 20


class NumberField(NamedTuple):
    """A number in a frame, with leading zeros: each frame has its own value."""

    name: str
    digits_count: int


FramePart = bytes | NumberField


class FrameFormat(Struct, frozen=True):
    """The format of a published message; each of its numbers has a name and a fixed width."""

    subject: Sequence[FramePart]
    payload: bytes
    stamp_layout: StampLayout
    reply_subject: Sequence[FramePart] = ()
    headers: Sequence[Sequence[FramePart]] = ()
    """The header lines, `Name: value` each without its CR LF."""


class FrameTemplate:
    """A block of equal frames, into whose rows stamps and numbers are written."""

    def __init__(self, frame_format: FrameFormat, max_frames: int) -> None:
        self.payload_bytes = len(frame_format.payload)
        self.number_positions: dict[str, slice] = {}
        """Name of a number → the position of its digits in the frame."""
        head = self._build_head(frame_format)
        start = len(head)
        blank_row = np.frombuffer(head + frame_format.payload + b"\r\n", np.uint8)
        self.payload_position = slice(start, start + len(frame_format.payload))
        self._stamp_layout = frame_format.stamp_layout
        self.max_frames = max(min(max_frames, _MAX_BLOCK_BYTES // len(blank_row)), 1)
        """Maximum of frames in a block, which has at most 4 MiB."""
        self._rows: Bytes2D = np.tile(blank_row, (self.max_frames, 1))

    @property
    def frame_bytes(self) -> int:
        """Return the length of one frame in bytes."""
        return int(self._rows.shape[1])

    def blank_frame(self) -> bytes:
        """Return one frame with all its numbers 0."""
        frame: bytes = self._rows[0].tobytes()
        return frame

    def fill(
        self,
        due_ns: Int64s,
        sent_ns: int,
        publisher: int,
        seqs: Int64s,
        numbers_by_name: dict[str, Int64s] | None = None,
    ) -> Bytes2D:
        """Return (n, length) bytes: a frame for each time of `due_ns`, valid until the next call.

        `numbers_by_name`: name of a number → its value in each frame. Times are of the steady
        clock in ns.
        """
        rows = self._rows[: len(due_ns)]
        if self._stamp_layout.length:
            payloads = rows[:, self.payload_position]
            write_stamps(payloads, self._stamp_layout, due_ns, publisher, seqs, sent_ns)
        for name, values in (numbers_by_name or {}).items():
            if name in self.number_positions:
                write_digits(rows[:, self.number_positions[name]], values)
        return rows

    def _build_head(self, frame_format: FrameFormat) -> bytes:
        """Return a frame up to its payload, and store the position of each number in it."""
        header_block: list[FramePart] = []
        for header in frame_format.headers:
            header_block += [*header, b"\r\n"]
        header_bytes = 0
        if header_block:
            header_block = [b"NATS/1.0\r\n", *header_block, b"\r\n"]
            header_bytes = sum(
                len(part) if isinstance(part, bytes) else part.digits_count
                for part in header_block
            )
        size_tokens = b"%d" % (header_bytes + self.payload_bytes)
        if header_block:
            size_tokens = b"%d " % header_bytes + size_tokens
        reply_subject: list[FramePart] = (
            [*frame_format.reply_subject, b" "] if frame_format.reply_subject else []
        )
        verb = b"HPUB " if header_block else b"PUB "
        head = bytearray()
        for part in [
            verb,
            *frame_format.subject,
            b" ",
            *reply_subject,
            size_tokens,
            b"\r\n",
            *header_block,
        ]:
            if isinstance(part, bytes):
                head += part
            else:
                self.number_positions[part.name] = slice(len(head), len(head) + part.digits_count)
                head += b"0" * part.digits_count
        return bytes(head)
