"""The protocol parser of the wire client: bytes in, runs of equally laid out messages out.

Messages of a load have frames of equal length, so a read is mostly one two-dimensional array.
A run is cut where the layout changes; a control line comes out by itself. What a frame's length
is follows from its own size token alone, so nothing inside a payload can be taken for a frame.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from natstui.bench.job.digits import Bytes2D, are_digits
from natstui.errors import NatstuiError

_HEAD = re.compile(
    rb"(?:MSG|(?P<h>H)MSG)[ \t]+(?P<subject>\S+)[ \t]+(?P<sid>\d+)"
    rb"(?:[ \t]+(?P<reply>[^\s]*[^\s\d][^\s]*|\d+(?=[ \t]+\d+[ \t]+\d+\Z)))?"
    rb"(?P<sizes>(?:[ \t]+\d+){1,2})[ \t]*\Z"
)
_CONTROL = (b"PING", b"PONG", b"INFO", b"+OK", b"-ERR")
_CRLF = b"\r\n"
_LONGEST_LINE_BYTES = 4 << 20
_STATUS_AT = len(b"NATS/1.0")
_SCALAR_ROWS = 16
"""Number of frames that are compared one by one before arrays are cheaper."""
_KNOWN_LINES = 256
_WORD_BYTES = 8
_NEARLY_A_DIGIT = 0xF0
"""Mask of the first half of a byte: with it a byte is a digit, or one of the six signs after the
digits.
"""


class ProtocolBroken(NatstuiError):
    """The server sent data that is not the NATS protocol."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The positions of the parts of a frame."""

    sid: int
    subject: slice
    reply: slice | None
    head_bytes: int
    """Length of the control line with its CR LF."""
    header_bytes: int
    """Length of the headers at the start of the payload; 0 without headers."""
    size_bytes: int
    """Length of headers and payload."""

    @property
    def frame_bytes(self) -> int:
        """Return the length of the entire frame, with its last CR LF."""
        return self.head_bytes + self.size_bytes + 2

    @property
    def payload(self) -> slice:
        """Return the position of the payload without headers."""
        return slice(self.head_bytes + self.header_bytes, self.head_bytes + self.size_bytes)

    @property
    def headers(self) -> slice:
        """Return the position of the headers."""
        return slice(self.head_bytes, self.head_bytes + self.header_bytes)


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive messages of one layout: one row of bytes each."""

    layout: Layout
    rows: Bytes2D
    status: int | None = None
    """Code of a server's status message (100, 404, 503 …); such a run has one row."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def payloads(self) -> Bytes2D:
        """Return the payloads as (n, size) bytes."""
        return self.rows[:, self.layout.payload]

    @property
    def subjects(self) -> Bytes2D:
        """Return the subjects as (n, length) bytes."""
        return self.rows[:, self.layout.subject]

    @property
    def replies(self) -> Bytes2D | None:
        """Return the reply subjects as (n, length) bytes; None without any."""
        return None if self.layout.reply is None else self.rows[:, self.layout.reply]

    def text(self, row: int, part: slice) -> bytes:
        """Return the bytes of one part of the message in a row."""
        return self.rows[row, part].tobytes()


class Framer:
    """Splits a stream of bytes, in chunks of any size, into runs and control lines."""

    def __init__(self) -> None:
        self._rest = b""
        self._layouts: dict[bytes, Layout] = {}

    @property
    def is_empty(self) -> bool:
        """Return whether no part of a frame is stored."""
        return not self._rest

    def feed(self, data: bytes) -> Iterator[Run | bytes]:
        """Yield the runs and control lines that new bytes complete, in order; store the rest.

        Raises ProtocolBroken.
        """
        if self._rest:
            data = self._rest + data
            self._rest = b""
        position = 0
        while position < len(data):
            end = data.find(_CRLF, position)
            if end < 0:
                if len(data) - position > _LONGEST_LINE_BYTES:
                    raise ProtocolBroken("the server sent a control line without an end")
                break
            line = data[position:end]
            if line.startswith((b"MSG", b"HMSG")):
                layout = self._layouts.get(line) or self._learn(line)
                run = self._run(data, position, layout)
                if run is None:
                    break
                position += len(run) * layout.frame_bytes
                yield run
            elif line.upper().startswith(_CONTROL):
                position = end + 2
                yield line + _CRLF
            else:
                raise ProtocolBroken(f"the server sent an unknown control line: {line[:60]!r}")
        self._rest = data[position:]

    def reset(self) -> None:
        """Discard an incomplete frame: its connection was lost."""
        self._rest = b""

    def _run(self, data: bytes, position: int, layout: Layout) -> Run | None:
        """Return the run that starts here; None without a complete frame."""
        complete = (len(data) - position) // layout.frame_bytes
        if not complete:
            return None
        status = _status(data, position, layout)
        count = 1 if status is not None else _equal_heads(data, position, layout, complete)
        frames = count or complete
        frame_bytes = np.frombuffer(data, np.uint8, frames * layout.frame_bytes, position)
        rows = frame_bytes.reshape(frames, layout.frame_bytes)
        if count is None:
            rows = rows[: _equal_rows(rows, layout)]
        if rows[:, -2:].tobytes() != _CRLF * len(rows):
            raise ProtocolBroken("the server sent a message that is longer than announced")
        return Run(layout, rows, status)

    def _learn(self, line: bytes) -> Layout:
        """Parse a control line; cache it, because without a reply the same comes again."""
        layout = _read_layout(line)
        if layout.reply is None:
            if len(self._layouts) >= _KNOWN_LINES:
                self._layouts.clear()
            self._layouts[line] = layout
        return layout


def _read_layout(line: bytes) -> Layout:
    match = _HEAD.match(line)
    if match is None:
        raise ProtocolBroken(f"the server sent a malformed message line: {line[:60]!r}")
    sizes = match["sizes"].split()
    if len(sizes) != (2 if match["h"] else 1):
        raise ProtocolBroken(f"the server sent a malformed message line: {line[:60]!r}")
    return Layout(
        sid=int(match["sid"]),
        subject=slice(*match.span("subject")),
        reply=None if match["reply"] is None else slice(*match.span("reply")),
        head_bytes=len(line) + 2,
        header_bytes=int(sizes[0]) if match["h"] else 0,
        size_bytes=int(sizes[-1]),
    )


def _status(data: bytes, position: int, layout: Layout) -> int | None:
    """Return the status code in the first line of the headers; None without one."""
    if not layout.header_bytes:
        return None
    start = position + layout.head_bytes + _STATUS_AT
    code = data[start + 1 : start + 4]
    return int(code) if data[start : start + 1] == b" " and code.isdigit() else None


def _fixed_bytes(layout: Layout) -> int:
    """Return how many bytes of a frame determine its layout."""
    head = layout.head_bytes + (_STATUS_AT + 1 if layout.header_bytes else 0)
    return min(head, layout.frame_bytes)


def _equal_heads(data: bytes, position: int, layout: Layout, complete_count: int) -> int | None:
    """Return how many frames start with the same bytes; None when arrays must decide.

    Short runs are common where sizes change from message to message: arrays do not pay there.
    """
    step, head = layout.frame_bytes, _fixed_bytes(layout)
    sizes = (layout.reply or layout.subject).stop
    first = data[position : position + head]
    for count in range(1, min(complete_count, _SCALAR_ROWS)):
        start = position + count * step
        if data[start : start + head] != first:
            # Other sizes are another layout; another subject or reply need not be.
            is_same = data[start + sizes : start + head] == first[sizes:]
            return None if is_same else count
    return complete_count if complete_count <= _SCALAR_ROWS else None


def _equal_rows(rows: Bytes2D, layout: Layout) -> int:
    """Return how many rows from the first on have its layout; only digits of names may differ.

    Bytes are compared eight at a time, which is much faster than one by one.
    """
    head = _fixed_bytes(layout)
    width = -(-head // _WORD_BYTES) * _WORD_BYTES
    padded = np.zeros((2, width), np.uint8)
    padded[0, :head], padded[1, :head] = rows[0, :head], _mask(rows[0, :head], layout)
    expected, mask = padded.view(np.int64)
    count, limit = 1, 8
    while count < len(rows):
        part = rows[count : min(limit, len(rows)), :head]
        heads = np.zeros((len(part), width), np.uint8)
        heads[:, :head] = part
        differs = heads.view(np.int64)
        differs ^= expected
        differs &= mask
        if differs.any():
            return count + int(np.argmax(differs.any(axis=1)))
        count, limit = count + len(part), limit * 16
    return count


def _mask(first: Bytes2D, layout: Layout) -> Bytes2D:
    """Return which bits must be equal: of digits in names only those that exclude a space."""
    mask = np.full(len(first), 0xFF, np.uint8)
    for name in (layout.subject, layout.reply):
        if name is not None:
            mask[name][are_digits(first[name])] = _NEARLY_A_DIGIT
    return mask
