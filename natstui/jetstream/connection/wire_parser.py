"""A parser for nats-py that survives every published message.

nats-py 2.16 splits `MSG` at every white space of ASCII, a server only at space and tab: a subject
with a vertical tab or a form feed is "unknown protocol" to nats-py. It also decodes the text in
`-ERR` strictly. Each would end the connection whenever such a message arrives.
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
_MAX_LINE_BYTES = 1 << 20
"""Limit of a control line; the server's INFO of a large cluster is the longest."""
_MAX_MESSAGE_BYTES = 128 << 20
"""Limit of a message with its headers: twice what any server accepts."""


class ReceivedMessage(NamedTuple):
    """A message as its received bytes."""

    subject: bytes
    reply: bytes
    header: bytes
    """The header block; empty without headers."""
    data: bytes


_Subject = bytes
_Reply = bytes
_HeadersStart = int
_HeadersLength = int
_MessageLength = int
BlockMessage = tuple[_Subject, _Reply, _HeadersStart, _HeadersLength, _MessageLength]
"""A message in a block of bytes; `_MessageLength` is that of headers and payload together."""
OnBlock = Callable[[bytes, list[BlockMessage]], None]
"""Callback with a block and its complete messages, in order."""


class WireParser(Parser):  # type: ignore[misc]
    """Parses all that a server sends, with any subject, and calls the client's methods."""

    def __init__(self, nc: object) -> None:
        super().__init__(nc)
        self._sid_subject_and_reply = (0, b"", b"")
        """Subscription, subject and reply of the message whose payload is being received."""
        self.block_callbacks_by_sid: dict[bytes, OnBlock] = {}
        """Subscription id in bytes → callback for the messages of a block.

        nats-py would need 30 µs per message.
        """
        self._awaited_bytes = 0
        """Length of `buf` at which the next message for a callback is complete."""
        self.last_message_mono_us = steady_us()
        """When the last byte of a message arrived; INFO, PING, PONG and errors are no messages."""

    @property
    def arriving_subject(self) -> bytes | None:
        """Return the subject of a message that has begun to arrive; None without one."""
        return self._sid_subject_and_reply[1] if self.state == AWAITING_MSG_PAYLOAD else None

    async def parse(self, data: bytes = b"") -> None:
        """Parse all complete lines and messages, and pass each to the client or to a callback.

        Raises ProtocolError for invalid data.
        """
        self.buf.extend(data)
        if data and self.state == AWAITING_MSG_PAYLOAD:
            self.last_message_mono_us = steady_us()
        while self.buf:
            if self.state == AWAITING_MSG_PAYLOAD:
                if len(self.buf) < self.needed + CRLF_SIZE:
                    return
                await self._deliver_message()
                continue
            if self.block_callbacks_by_sid and self._deliver_blocks():
                return
            line_end = self.buf.find(b"\r\n")
            if line_end < 0:
                if len(self.buf) > _MAX_LINE_BYTES:
                    raise ProtocolError("nats: a line without end")
                return
            line = bytes(self.buf[:line_end])
            del self.buf[: line_end + CRLF_SIZE]
            if not self._begin_message(line):
                await self._execute(line)

    def set_block_callback(self, sid: int, on_block: OnBlock | None) -> None:
        """Set the callback for blocks of messages of a subscription; None removes it."""
        if on_block is None:
            self.block_callbacks_by_sid.pop(b"%d" % sid, None)
        else:
            self.block_callbacks_by_sid[b"%d" % sid] = on_block
        # The data waited for may be parsed in another way now.
        self._awaited_bytes = 0

    def reset(self) -> None:
        """Reset the parser for another connection."""
        super().reset()
        self._awaited_bytes = 0

    def _deliver_blocks(self) -> bool:
        """Pass the complete messages at the front of `buf` to their callbacks; return whether more
        bytes are needed.

        This is four times as fast as single messages. Other data is left in `buf`: of other
        subscriptions, other verbs, and invalid lines.
        """
        if len(self.buf) < self._awaited_bytes:
            self.last_message_mono_us = steady_us()
            return True
        block = bytes(self.buf)
        messages_by_callback, messages_end, awaited_bytes = self._split_messages(block)
        if messages_end or awaited_bytes:
            self.last_message_mono_us = steady_us()
        self._awaited_bytes = awaited_bytes
        del self.buf[:messages_end]
        for on_block, messages in messages_by_callback:
            on_block(block, messages)
        return awaited_bytes > 0

    def _split_messages(
        self, block: bytes
    ) -> tuple[list[tuple[OnBlock, list[BlockMessage]]], int, int]:
        """Return the complete messages at the front of a block, grouped by callback, the position
        after them, and the length of the incomplete message that follows.

        The length is 0 if it is unknown, or if other data follows.
        """
        groups, messages, sid, position = (
            list[tuple[OnBlock, list[BlockMessage]]](),
            list[BlockMessage](),
            b"",
            0,
        )
        while (line_end := block.find(b"\r\n", position)) >= 0:
            tokens = block[position:line_end].split(b" ")
            tokens_count, verb = len(tokens), tokens[0]
            if not (
                (verb == b"MSG" and 4 <= tokens_count <= 5)
                or (verb == b"HMSG" and 5 <= tokens_count <= 6)
            ):
                return groups, position, 0
            header_size, message_size = (tokens[-2] if verb == b"HMSG" else b"0"), tokens[-1]
            if tokens[2] not in self.block_callbacks_by_sid or not (
                header_size.isdigit() and message_size.isdigit()
            ):
                return groups, position, 0
            headers_start, size_bytes, header_bytes = (
                line_end + CRLF_SIZE,
                _size_bytes(message_size),
                int(header_size),
            )
            next_position = headers_start + size_bytes + CRLF_SIZE
            if next_position > len(block):
                return groups, position, next_position - position
            if tokens[2] != sid:
                sid, messages = tokens[2], []
                groups.append((self.block_callbacks_by_sid[sid], messages))
            has_reply = tokens_count == (5 if verb == b"MSG" else 6)
            messages.append(
                (
                    tokens[1],
                    tokens[3] if has_reply else b"",
                    headers_start,
                    header_bytes,
                    size_bytes,
                )
            )
            position = next_position
        return groups, position, 0

    def _begin_message(self, line: bytes) -> bool:
        """Store the sizes in the first line of a message; return False for another line."""
        head_match = _MSG.fullmatch(line) or _HMSG.fullmatch(line)
        if head_match is None:
            return False
        subject, sid, reply, header_size, message_size = head_match.groups()
        self._sid_subject_and_reply = (int(sid), subject, reply or b"")
        self.header_needed, self.needed = int(header_size or 0), _size_bytes(message_size)
        self.state = AWAITING_MSG_PAYLOAD
        self.last_message_mono_us = steady_us()
        return True

    async def _deliver_message(self) -> None:
        headers = bytes(self.buf[: self.header_needed])
        payload = bytes(self.buf[self.header_needed : self.needed])
        del self.buf[: self.needed + CRLF_SIZE]
        self.header_needed, self.state = 0, AWAITING_CONTROL_LINE
        sid, subject, reply = self._sid_subject_and_reply
        if (on_block := self.block_callbacks_by_sid.get(b"%d" % sid)) is not None:
            block = headers + payload
            on_block(block, [(subject, reply, 0, len(headers), len(block))])
            return
        await self.nc._process_msg(sid, subject, reply, payload, headers or None)

    async def _execute(self, line: bytes) -> None:
        """Pass a line that begins no message, such as INFO or PING, to the client's method for it.

        Raises ProtocolError for an unknown line or invalid INFO.
        """
        verb_text, _, arguments = line.partition(b" ")
        verb = verb_text.rstrip().upper()
        if verb == b"-ERR":
            await self.nc._process_err(arguments.strip().decode(errors="replace").lower())
        elif verb == b"INFO":
            try:
                check_info(arguments)
            except Error as error:
                raise ProtocolError from error
            await self.nc._process_info(json.loads(arguments))
        elif verb in _HANDLERS:
            await _HANDLERS[verb](self)
        elif verb != b"+OK":
            raise ProtocolError("nats: unknown protocol")


def _size_bytes(text: bytes) -> int:
    """Return the size in the first line of a message; raises ProtocolError if it is too large."""
    # Python refuses to convert thousands of digits.
    if len(text) > 9 or int(text) > _MAX_MESSAGE_BYTES:
        raise ProtocolError(f"nats: a message of {text[:20].decode()} bytes")
    return int(text)


_HANDLERS: dict[bytes, Callable[[WireParser], Awaitable[None]]] = {
    b"PING": lambda parser: parser.nc._process_ping(),
    b"PONG": lambda parser: parser.nc._process_pong(),
}
