"""Blocks of frames of one layout, which are filled from a few array columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from natstui.bench.job.digits import Bytes2D, Int64s, write_digits
from natstui.bench.job.stamps import StampLayout, write_stamps

SEQ_DIGITS = 12
_MAX_BLOCK_BYTES = 4 << 20

FramePart = bytes | tuple[str, int]
"""Fixed bytes, or a number: its name and width in digits."""


@dataclass(frozen=True, slots=True)
class FrameFormat:
    """The format of a published message; its numbers have a name and a fixed width."""

    subject: Sequence[FramePart]
    payload: bytes
    stamp_layout: StampLayout
    reply: Sequence[FramePart] = ()
    headers: Sequence[Sequence[FramePart]] = ()
    """The header lines, `Name: value` each without its CR LF."""


class FrameTemplate:
    """A block of equal frames, into whose rows stamps and numbers are written."""

    def __init__(self, frame: FrameFormat, max_frames: int) -> None:
        self.payload_bytes = len(frame.payload)
        self.number_positions: dict[str, slice] = {}
        """Name of a number → the position of its digits in the frame."""
        head = self._assemble(frame)
        start = len(head)
        row = np.frombuffer(head + frame.payload + b"\r\n", np.uint8)
        self.payload_position = slice(start, start + len(frame.payload))
        self._stamp_layout = frame.stamp_layout
        self.max_frames = max(min(max_frames, _MAX_BLOCK_BYTES // len(row)), 1)
        """Maximum of frames in a block, which has at most 4 MiB."""
        self._rows: Bytes2D = np.tile(row, (self.max_frames, 1))

    @property
    def frame_bytes(self) -> int:
        """Return the length of one frame in bytes."""
        return int(self._rows.shape[1])

    def blank_frame(self) -> bytes:
        """Return one frame with all its numbers 0."""
        row: bytes = self._rows[0].tobytes()
        return row

    def fill(
        self,
        due_ns: Int64s,
        sent_ns: int,
        publisher: int,
        seqs: Int64s,
        numbers: dict[str, Int64s] | None = None,
    ) -> Bytes2D:
        """Return (n, length) bytes: a frame for each time of `due_ns`, valid until the next call.

        `numbers` are the named numbers of the frame, one per message. Times are of the steady
        clock in ns.
        """
        rows = self._rows[: len(due_ns)]
        if self._stamp_layout.length:
            payloads = rows[:, self.payload_position]
            write_stamps(payloads, self._stamp_layout, due_ns, publisher, seqs, sent_ns)
        for name, values in (numbers or {}).items():
            if name in self.number_positions:
                write_digits(rows[:, self.number_positions[name]], values)
        return rows

    def _assemble(self, frame: FrameFormat) -> bytes:
        """Return everything before the payload, and store the positions of the numbers."""
        lines: list[FramePart] = []
        for header in frame.headers:
            lines += [*header, b"\r\n"]
        header_bytes = 0
        if lines:
            lines = [b"NATS/1.0\r\n", *lines, b"\r\n"]
            header_bytes = sum(len(part) if isinstance(part, bytes) else part[1] for part in lines)
        sizes = b"%d" % (header_bytes + self.payload_bytes)
        if lines:
            sizes = b"%d " % header_bytes + sizes
        reply: list[FramePart] = [*frame.reply, b" "] if frame.reply else []
        verb = b"HPUB " if lines else b"PUB "
        head = bytearray()
        for part in [verb, *frame.subject, b" ", *reply, sizes, b"\r\n", *lines]:
            if isinstance(part, bytes):
                head += part
            else:
                self.number_positions[part[0]] = slice(len(head), len(head) + part[1])
                head += b"0" * part[1]
        return bytes(head)
