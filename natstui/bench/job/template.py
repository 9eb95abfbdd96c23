"""Repeated frames of a publisher: entire protocol blocks from a few array columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from natstui.bench.job.digits import Bytes2D, Int64s, write_digits
from natstui.bench.job.stamps import StampPlace, write_stamps

SEQ_DIGITS = 12
_MOST_BYTES = 4 << 20

Part = bytes | tuple[str, int]
"""Fixed bytes, or a number: its name and width in digits."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The format of a published message; numbers in it are named and of fixed width."""

    subject: Sequence[Part]
    payload: bytes
    place: StampPlace
    reply: Sequence[Part] = ()
    headers: Sequence[Sequence[Part]] = ()
    """One `Name: value` line each, without its CR LF."""


class Template:
    """A block of equal frames, into whose rows stamps and numbers are written."""

    def __init__(self, frame: Frame, max_frames: int) -> None:
        self.payload_bytes = len(frame.payload)
        self.fields: dict[str, slice] = {}
        """Name of a number → its position."""
        head = self._assemble(frame)
        start = len(head)
        row = np.frombuffer(head + frame.payload + b"\r\n", np.uint8)
        self.payload = slice(start, start + len(frame.payload))
        self._place = frame.place
        self.most = max(min(max_frames, _MOST_BYTES // len(row)), 1)
        """Maximum of frames in a block; less than requested for large frames."""
        self._rows: Bytes2D = np.tile(row, (self.most, 1))

    @property
    def frame_bytes(self) -> int:
        """Return the length of one frame in bytes."""
        return int(self._rows.shape[1])

    def blank(self) -> bytes:
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
        """Return (n, length) bytes: a frame for each of `due_ns`, valid until the next call.

        `numbers` are the further numbers of the frame by name, one per message. Times are of the
        steady clock in ns.
        """
        rows = self._rows[: len(due_ns)]
        if self._place.length:
            write_stamps(rows[:, self.payload], self._place, due_ns, publisher, seqs, sent_ns)
        for name, values in (numbers or {}).items():
            if name in self.fields:
                write_digits(rows[:, self.fields[name]], values)
        return rows

    def _assemble(self, frame: Frame) -> bytes:
        """Return everything before the payload, and store the positions of the numbers."""
        lines: list[Part] = []
        for header in frame.headers:
            lines += [*header, b"\r\n"]
        header_bytes = 0
        if lines:
            lines = [b"NATS/1.0\r\n", *lines, b"\r\n"]
            header_bytes = sum(len(part) if isinstance(part, bytes) else part[1] for part in lines)
        sizes = b"%d" % (header_bytes + self.payload_bytes)
        if lines:
            sizes = b"%d " % header_bytes + sizes
        reply: list[Part] = [*frame.reply, b" "] if frame.reply else []
        verb = b"HPUB " if lines else b"PUB "
        text = bytearray()
        for part in [verb, *frame.subject, b" ", *reply, sizes, b"\r\n", *lines]:
            if isinstance(part, bytes):
                text += part
            else:
                self.fields[part[0]] = slice(len(text), len(text) + part[1])
                text += b"0" * part[1]
        return bytes(text)
