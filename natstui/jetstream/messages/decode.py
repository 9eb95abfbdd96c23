"""Decodes stored messages, as the API or a direct get returns them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec
from nats.aio.msg import Msg

from natstui.decoding import decoder_of
from natstui.jetstream.connection.nats_client import STATUS_LINE_START, Headers
from natstui.jetstream.connection.replies import raise_unreadable
from natstui.model.records.messages import StoredMessage

_FIRST_SERVER_HEADER = "Nats-Stream"
"""The first header of those that a direct get adds after the publisher's."""


class _StoredMessage(msgspec.Struct):
    subject: str
    seq: int
    time: str
    hdrs: str = ""
    data: str | None = None


class _Reply(msgspec.Struct):
    message: _StoredMessage


def parse_utc_us(text: str) -> int:
    """Return the UTC microseconds of a time in ISO 8601; raises ValueError for another text."""
    time = datetime.fromisoformat(text)
    try:
        return round(time.astimezone(UTC).timestamp() * 1_000_000)
    except OverflowError as error:
        raise ValueError(f"{text!r} is not a possible date") from error


def decode_api_reply(
    data: bytes, preview_bytes: int | None, *, exact_headers: bool = False
) -> StoredMessage:
    """Return the message of a STREAM.MSG.GET reply; raises RequestFailed if it is unreadable.

    At most `preview_bytes` of the payload are kept. `exact_headers`: see `parse_headers`.
    """
    with raise_unreadable("STREAM.MSG.GET"):
        message = decoder_of(_Reply).decode(data).message
        payload = base64.b64decode(message.data or "")
        return StoredMessage(
            message.seq,
            message.subject,
            parse_utc_us(message.time),
            parse_headers(base64.b64decode(message.hdrs), exact_headers=exact_headers),
            _encode_preview(payload, preview_bytes),
            len(payload),
        )


def decode_direct_reply(msg: Msg, preview_bytes: int | None) -> tuple[str, StoredMessage]:
    """Return the stream that replied, and the message of a DIRECT.GET reply.

    At most `preview_bytes` of the payload are kept. Raises RequestFailed if the headers that the
    server adds are not as documented.
    """
    header_pairs = read_headers(msg.headers)
    with raise_unreadable("DIRECT.GET"):
        # A publisher may use the same names: only the last of these headers are the server's.
        names = [name for name, _ in header_pairs]
        publisher_headers_count = len(names) - 1 - names[::-1].index(_FIRST_SERVER_HEADER)
        server_headers = dict(header_pairs[publisher_headers_count:])
        message = StoredMessage(
            int(server_headers["Nats-Sequence"]),
            server_headers["Nats-Subject"],
            parse_utc_us(server_headers["Nats-Time-Stamp"]),
            header_pairs[:publisher_headers_count],
            _encode_preview(msg.data, preview_bytes),
            len(msg.data),
        )
        return server_headers[_FIRST_SERVER_HEADER], message


def parse_headers(block: bytes, *, exact_headers: bool = False) -> tuple[tuple[str, str], ...]:
    """Return the headers of an undecoded header block; a name may occur more than once.

    With `exact_headers`, they can be sent again unchanged: blanks stay, and bytes that are not
    UTF-8 become surrogates.
    """
    lines = block.decode("utf-8", "surrogateescape" if exact_headers else "replace").split("\r\n")[
        1:
    ]
    pairs = (line.partition(":") for line in lines if line)
    if exact_headers:
        return tuple((name, text.removeprefix(" ")) for name, _, text in pairs)
    return tuple((name, text.strip()) for name, _, text in pairs)


def read_headers(headers: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """Return the headers of a received message; a name may occur more than once."""
    if isinstance(headers, Headers) and not headers.block.startswith(STATUS_LINE_START):
        return parse_headers(headers.block)
    return tuple((str(name), str(text)) for name, text in (headers or {}).items())


def _encode_preview(payload: bytes, preview_bytes: int | None) -> str:
    kept_payload = payload if preview_bytes is None else payload[:preview_bytes]
    return base64.b64encode(kept_payload).decode()
