"""A parser for nats-py that survives every published message.

nats-py 2.16 splits `MSG` at every white space of ASCII, a server only at space and tab: a subject
with a vertical tab or a form feed is "unknown protocol" there. It also decodes the text in `-ERR`
strictly. Either ends the connection, as long as such messages are published.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from nats.errors import Error, ProtocolError
from nats.protocol.parser import AWAITING_CONTROL_LINE, AWAITING_MSG_PAYLOAD, CRLF_SIZE, Parser

from natstui.clock import steady_us
from natstui.jetstream.connection.transport import check_info

_MSG = re.compile(rb"MSG[ \t]+([^ \t]+)[ \t]+(\d+)[ \t]+(?:([^ \t]+)[ \t]+)?()(\d+)")
_HMSG = re.compile(rb"HMSG[ \t]+([^ \t]+)[ \t]+(\d+)[ \t]+(?:([^ \t]+)[ \t]+)?(\d+)[ \t]+(\d+)")
_LONGEST_LINE_BYTES = 1 << 20
"""Limit of a control line; the server's INFO of a large cluster is the longest."""
_LARGEST_MESSAGE_BYTES = 128 << 20
"""Limit of a message with its headers: twice what any server accepts."""


class ReceivedMessage(NamedTuple):
    """A message as received bytes."""

    subject: bytes
    reply: bytes
    header: bytes
    """The header block; empty without headers."""
    data: bytes


Piece = tuple[bytes, bytes, int, int, int]
"""A message in a block of bytes: subject, reply, start of its headers, length of these, and length
of headers and payload together.
"""
OnRun = Callable[[bytes, list[Piece]], None]
"""Receives a block and its complete messages, in order."""


class WireParser(Parser):  # type: ignore[misc]
    """Accepts every subject that a server lets through; calls the client's methods."""

    def __init__(self, nc: object) -> None:
        super().__init__(nc)
        self._about = (0, b"", b"")
        """Subscription, subject and reply of the message whose payload comes."""
        self.runs: dict[bytes, OnRun] = {}
        """Subscription, as it is written → what gets its messages by the block, at once.

        nats-py takes 30 µs for each.
        """
        self._awaited_bytes = 0
        """How long `buf` has to be before there is another whole message of these."""
        self.message_mono_us = steady_us()
        """When the last byte of a message came; INFO, PING, PONG and errors are no messages."""

    @property
    def arriving_subject(self) -> bytes | None:
        """Return the subject of a message that has begun to arrive; None without one."""
        return self._about[1] if self.state == AWAITING_MSG_PAYLOAD else None

    async def parse(self, data: bytes = b"") -> None:
        """Process everything that is complete; raise ProtocolError for what is not NATS."""
        self.buf.extend(data)
        if data and self.state == AWAITING_MSG_PAYLOAD:
            self.message_mono_us = steady_us()
        while self.buf:
            if self.state == AWAITING_MSG_PAYLOAD:
                if len(self.buf) < self.needed + CRLF_SIZE:
                    return
                await self._deliver()
                continue
            if self.runs and self._take_run():
                return
            end = self.buf.find(b"\r\n")
            if end < 0:
                if len(self.buf) > _LONGEST_LINE_BYTES:
                    raise ProtocolError("nats: a line without end")
                return
            line = bytes(self.buf[:end])
            del self.buf[: end + CRLF_SIZE]
            if not self._begin_message(line):
                await self._execute(line)

    def hand_over(self, sid: int, take: OnRun | None) -> None:
        """Hand over the messages of a subscription by the block, None: no longer."""
        if take is None:
            self.runs.pop(b"%d" % sid, None)
        else:
            self.runs[b"%d" % sid] = take
        # What was waited for may be read in another way now.
        self._awaited_bytes = 0

    def reset(self) -> None:
        """Begin again for another connection."""
        super().reset()
        self._awaited_bytes = 0

    def _take_run(self) -> bool:
        """Hand over the messages at the front; return whether the rest is to be waited for.

        It is four times as fast as one message after the other. What does not fit is left as it
        is: another subscription's, another verb, a line that no server writes.
        """
        if len(self.buf) < self._awaited_bytes:
            self.message_mono_us = steady_us()
            return True
        block = bytes(self.buf)
        found, at, awaited_bytes = self._pieces(block)
        if at or awaited_bytes:
            self.message_mono_us = steady_us()
        self._awaited_bytes = awaited_bytes
        del self.buf[:at]
        for take, run in found:
            take(block, run)
        return awaited_bytes > 0

    def _pieces(self, block: bytes) -> tuple[list[tuple[OnRun, list[Piece]]], int, int]:
        """Return the whole messages at the front, where they end, and how long it has to become.

        The length is 0 when what comes then is no message of a run.
        """
        found, run, sid, at = list[tuple[OnRun, list[Piece]]](), list[Piece](), b"", 0
        while (end := block.find(b"\r\n", at)) >= 0:
            words = block[at:end].split(b" ")
            count, verb = len(words), words[0]
            if not ((verb == b"MSG" and 4 <= count <= 5) or (verb == b"HMSG" and 5 <= count <= 6)):
                return found, at, 0
            header, size = (words[-2] if verb == b"HMSG" else b"0"), words[-1]
            if words[2] not in self.runs or not (header.isdigit() and size.isdigit()):
                return found, at, 0
            start, size_bytes, header_bytes = end + CRLF_SIZE, _size_bytes(size), int(header)
            after = start + size_bytes + CRLF_SIZE
            if after > len(block):
                return found, at, after - at
            if words[2] != sid:
                sid, run = words[2], []
                found.append((self.runs[sid], run))
            has_reply = count == (5 if verb == b"MSG" else 6)
            run.append((words[1], words[3] if has_reply else b"", start, header_bytes, size_bytes))
            at = after
        return found, at, 0

    def _begin_message(self, line: bytes) -> bool:
        """Handle the first line of a message; return whether it was one."""
        head = _MSG.fullmatch(line) or _HMSG.fullmatch(line)
        if head is None:
            return False
        subject, sid, reply, header_bytes, needed_bytes = head.groups()
        self._about = (int(sid), subject, reply or b"")
        self.header_needed, self.needed = int(header_bytes or 0), _size_bytes(needed_bytes)
        self.state = AWAITING_MSG_PAYLOAD
        self.message_mono_us = steady_us()
        return True

    async def _deliver(self) -> None:
        headers = bytes(self.buf[: self.header_needed])
        payload = bytes(self.buf[self.header_needed : self.needed])
        del self.buf[: self.needed + CRLF_SIZE]
        self.header_needed, self.state = 0, AWAITING_CONTROL_LINE
        sid, subject, reply = self._about
        if (take_run := self.runs.get(b"%d" % sid)) is not None:
            whole = headers + payload
            take_run(whole, [(subject, reply, 0, len(headers), len(whole))])
            return
        await self.nc._process_msg(sid, subject, reply, payload, headers or None)

    async def _execute(self, line: bytes) -> None:
        """Process a line that is not a message."""
        word, _, rest = line.partition(b" ")
        verb = word.rstrip().upper()
        if verb == b"-ERR":
            await self.nc._process_err(rest.strip().decode(errors="replace").lower())
        elif verb == b"INFO":
            try:
                check_info(rest)
            except Error as error:
                raise ProtocolError from error
            await self.nc._process_info(json.loads(rest))
        elif verb in _ANSWERS:
            await _ANSWERS[verb](self)
        elif verb != b"+OK":
            raise ProtocolError("nats: unknown protocol")


def _size_bytes(text: bytes) -> int:
    """Return the size in the first line of a message; raise ProtocolError for what none has."""
    # Python refuses to convert thousands of digits.
    if len(text) > 9 or int(text) > _LARGEST_MESSAGE_BYTES:
        raise ProtocolError(f"nats: a message of {text[:20].decode()} bytes")
    return int(text)


_ANSWERS: dict[bytes, Callable[[WireParser], Awaitable[None]]] = {
    b"PING": lambda parser: parser.nc._process_ping(),
    b"PONG": lambda parser: parser.nc._process_pong(),
}
