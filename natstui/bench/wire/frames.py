"""The protocol parser of the wire client: it splits bytes into runs of frames.

A frame is one message with its control line; a run is consecutive frames of one layout. Messages
of a load have frames of equal length, so a read is mostly one two-dimensional array.
A run ends where the layout changes, or at a control line. The length of a frame is read from its
own size token only, so a payload that contains a frame is not mistaken for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from natstui.bench.job.digits import Bytes2D, are_digits
from natstui.errors import NatstuiError

_MSG_LINE_PATTERN = re.compile(
    rb"(?:MSG|(?P<h>H)MSG)[ \t]+(?P<subject>\S+)[ \t]+(?P<sid>\d+)"
    rb"(?:[ \t]+(?P<reply>[^\s]*[^\s\d][^\s]*|\d+(?=[ \t]+\d+[ \t]+\d+\Z)))?"
    rb"(?P<sizes>(?:[ \t]+\d+){1,2})[ \t]*\Z"
)
_CONTROL_VERBS = (b"PING", b"PONG", b"INFO", b"+OK", b"-ERR")
_CRLF = b"\r\n"
_MAX_LINE_BYTES = 4 << 20
_STATUS_OFFSET = len(b"NATS/1.0")
_MAX_ROWS_COMPARED_SINGLY = 16
"""Number of frames up to which comparing them one by one is cheaper than with arrays."""
_MAX_CACHED_LINES = 256
_WORD_BYTES = 8
_DIGIT_MASK = 0xF0
"""Mask of the upper four bits of a byte, which all digits share with the six characters after
them.
"""


class ProtocolError(NatstuiError):
    """An error for data from the server that is not the NATS protocol."""


class FrameLayout(Struct, frozen=True):
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


class FrameRun(Struct, frozen=True):
    """Consecutive frames of one layout, as an array with a row of bytes per frame."""

    layout: FrameLayout
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
        """Return the bytes of one part of the frame in a row."""
        return self.rows[row, part].tobytes()


class FrameParser:
    """Splits a stream of bytes, in chunks of any size, into runs and control lines."""

    def __init__(self) -> None:
        self._incomplete_bytes = b""
        self._layouts: dict[bytes, FrameLayout] = {}

    @property
    def is_empty(self) -> bool:
        """Return whether no incomplete frame is stored."""
        return not self._incomplete_bytes

    def feed(self, data: bytes) -> Iterator[FrameRun | bytes]:
        """Yield the runs and control lines that new bytes complete, in order; store the rest.

        Raises ProtocolError for data that is not the NATS protocol.
        """
        if self._incomplete_bytes:
            data = self._incomplete_bytes + data
            self._incomplete_bytes = b""
        position = 0
        while position < len(data):
            end = data.find(_CRLF, position)
            if end < 0:
                if len(data) - position > _MAX_LINE_BYTES:
                    raise ProtocolError("the server sent a control line without an end")
                break
            line = data[position:end]
            if line.startswith((b"MSG", b"HMSG")):
                layout = self._layouts.get(line) or self._cache_layout(line)
                run = self._next_run(data, position, layout)
                if run is None:
                    break
                position += len(run) * layout.frame_bytes
                yield run
            elif line.upper().startswith(_CONTROL_VERBS):
                position = end + 2
                yield line + _CRLF
            else:
                raise ProtocolError(f"the server sent an unknown control line: {line[:60]!r}")
        self._incomplete_bytes = data[position:]

    def reset(self) -> None:
        """Discard an incomplete frame, of a connection that was lost."""
        self._incomplete_bytes = b""

    def _next_run(self, data: bytes, position: int, layout: FrameLayout) -> FrameRun | None:
        """Return the run that starts at `position`; None without a complete frame.

        Raises ProtocolError for a frame that does not end with CR LF.
        """
        complete_count = (len(data) - position) // layout.frame_bytes
        if not complete_count:
            return None
        status = _read_status(data, position, layout)
        count = (
            1 if status is not None else _count_equal_heads(data, position, layout, complete_count)
        )
        frames_count = count or complete_count
        frame_bytes = np.frombuffer(data, np.uint8, frames_count * layout.frame_bytes, position)
        rows = frame_bytes.reshape(frames_count, layout.frame_bytes)
        if count is None:
            rows = rows[: _count_equal_rows(rows, layout)]
        if rows[:, -2:].tobytes() != _CRLF * len(rows):
            raise ProtocolError("the server sent a message that is longer than announced")
        return FrameRun(layout, rows, status)

    def _cache_layout(self, line: bytes) -> FrameLayout:
        """Return the layout of a control line; cache it if the line has no reply subject, since
        such lines repeat.
        """
        layout = _read_layout(line)
        if layout.reply is None:
            if len(self._layouts) >= _MAX_CACHED_LINES:
                self._layouts.clear()
            self._layouts[line] = layout
        return layout


def _read_layout(line: bytes) -> FrameLayout:
    match = _MSG_LINE_PATTERN.match(line)
    if match is None:
        raise ProtocolError(f"the server sent a malformed message line: {line[:60]!r}")
    sizes = match["sizes"].split()
    if len(sizes) != (2 if match["h"] else 1):
        raise ProtocolError(f"the server sent a malformed message line: {line[:60]!r}")
    return FrameLayout(
        sid=int(match["sid"]),
        subject=slice(*match.span("subject")),
        reply=None if match["reply"] is None else slice(*match.span("reply")),
        head_bytes=len(line) + 2,
        header_bytes=int(sizes[0]) if match["h"] else 0,
        size_bytes=int(sizes[-1]),
    )


def _read_status(data: bytes, position: int, layout: FrameLayout) -> int | None:
    """Return the status code in the first line of the headers; None without one."""
    if not layout.header_bytes:
        return None
    start = position + layout.head_bytes + _STATUS_OFFSET
    status_text = data[start + 1 : start + 4]
    return int(status_text) if data[start : start + 1] == b" " and status_text.isdigit() else None


def _fixed_bytes(layout: FrameLayout) -> int:
    """Return how many bytes at the start of a frame determine its layout."""
    fixed_bytes = layout.head_bytes + (_STATUS_OFFSET + 1 if layout.header_bytes else 0)
    return min(fixed_bytes, layout.frame_bytes)


def _count_equal_heads(
    data: bytes, position: int, layout: FrameLayout, complete_count: int
) -> int | None:
    """Return how many frames have the same first bytes; None if arrays must compare them.

    Frames are compared one by one up to a limit, because short runs are common where sizes change
    from message to message.
    """
    step, fixed_bytes = layout.frame_bytes, _fixed_bytes(layout)
    sizes_start = (layout.reply or layout.subject).stop
    first_head = data[position : position + fixed_bytes]
    for count in range(1, min(complete_count, _MAX_ROWS_COMPARED_SINGLY)):
        start = position + count * step
        if data[start : start + fixed_bytes] != first_head:
            # Other sizes are another layout; another subject or reply need not be.
            is_same_layout = (
                data[start + sizes_start : start + fixed_bytes] == first_head[sizes_start:]
            )
            return None if is_same_layout else count
    return complete_count if complete_count <= _MAX_ROWS_COMPARED_SINGLY else None


def _count_equal_rows(rows: Bytes2D, layout: FrameLayout) -> int:
    """Return how many rows from the first on have the same layout.

    Digits in subjects and reply subjects may differ. Eight bytes are compared at a time.
    """
    fixed_bytes = _fixed_bytes(layout)
    width = -(-fixed_bytes // _WORD_BYTES) * _WORD_BYTES
    padded = np.zeros((2, width), np.uint8)
    padded[0, :fixed_bytes], padded[1, :fixed_bytes] = (
        rows[0, :fixed_bytes],
        _comparison_mask(rows[0, :fixed_bytes], layout),
    )
    expected_bits, mask = padded.view(np.int64)
    count, compared_end_row = 1, 8
    while count < len(rows):
        part = rows[count : min(compared_end_row, len(rows)), :fixed_bytes]
        heads = np.zeros((len(part), width), np.uint8)
        heads[:, :fixed_bytes] = part
        differing_bits = heads.view(np.int64)
        differing_bits ^= expected_bits
        differing_bits &= mask
        if differing_bits.any():
            return count + int(np.argmax(differing_bits.any(axis=1)))
        count, compared_end_row = count + len(part), compared_end_row * 16
    return count


def _comparison_mask(first: Bytes2D, layout: FrameLayout) -> Bytes2D:
    """Return the mask of the bits that rows of one layout share: digits in subjects may differ."""
    mask = np.full(len(first), 0xFF, np.uint8)
    for part in (layout.subject, layout.reply):
        if part is not None:
            mask[part][are_digits(first[part])] = _DIGIT_MASK
    return mask
