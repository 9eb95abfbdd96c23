"""Converts stored messages of the API or of a direct get to `StoredMessage`."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec
from nats.aio.msg import Msg

from natstui.decoding import decoder_of
from natstui.jetstream.connection.nats_client import STATUS_LINE, Headers
from natstui.jetstream.connection.replies import reading
from natstui.model.records.messages import StoredMessage

_OWN_BEGIN = "Nats-Stream"
"""The first of the headers that a direct get adds after those of the publisher."""


class _Message(msgspec.Struct):
    subject: str
    seq: int
    time: str
    hdrs: str = ""
    data: str | None = None


class _Reply(msgspec.Struct):
    message: _Message


def microseconds(text: str) -> int:
    """Return the UTC microseconds of a time as the server writes it; raises ValueError."""
    moment = datetime.fromisoformat(text)
    try:
        return round(moment.astimezone(UTC).timestamp() * 1_000_000)
    except OverflowError as error:
        raise ValueError(f"{text!r} is not a possible date") from error


def from_api(
    data: bytes, preview_bytes: int | None, *, exact_headers: bool = False
) -> StoredMessage:
    """Read a reply of STREAM.MSG.GET; raises RequestFailed when it cannot be read."""
    with reading("STREAM.MSG.GET"):
        message = decoder_of(_Reply).decode(data).message
        payload = base64.b64decode(message.data or "")
        return StoredMessage(
            message.seq,
            message.subject,
            microseconds(message.time),
            headers_of(base64.b64decode(message.hdrs), exact=exact_headers),
            _encoded(payload, preview_bytes),
            len(payload),
        )


def from_direct(msg: Msg, preview_bytes: int | None) -> tuple[str, StoredMessage]:
    """Read one message of DIRECT.GET, and the stream that replied.

    The server adds its own headers behind the publisher's. Raises RequestFailed when these are
    not as documented.
    """
    pairs = pairs_of(msg.headers)
    with reading("DIRECT.GET"):
        # Publishers may use the same names: only what is behind them is the server's.
        names = [name for name, _ in pairs]
        publishers_count = len(names) - 1 - names[::-1].index(_OWN_BEGIN)
        get_headers = dict(pairs[publishers_count:])
        message = StoredMessage(
            int(get_headers["Nats-Sequence"]),
            get_headers["Nats-Subject"],
            microseconds(get_headers["Nats-Time-Stamp"]),
            pairs[:publishers_count],
            _encoded(msg.data, preview_bytes),
            len(msg.data),
        )
        return get_headers[_OWN_BEGIN], message


def headers_of(block: bytes, *, exact: bool = False) -> tuple[tuple[str, str], ...]:
    """Return the headers of a raw block, with repeated names.

    With `exact`, to be sent again: blanks stay, and bytes that are no UTF-8 become surrogates.
    """
    lines = block.decode("utf-8", "surrogateescape" if exact else "replace").split("\r\n")[1:]
    pairs = (line.partition(":") for line in lines if line)
    if exact:
        return tuple((name, text.removeprefix(" ")) for name, _, text in pairs)
    return tuple((name, text.strip()) for name, _, text in pairs)


def pairs_of(headers: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """Return the headers of a received message, with repeated names."""
    if isinstance(headers, Headers) and not headers.block.startswith(STATUS_LINE):
        return headers_of(headers.block)
    return tuple((str(name), str(text)) for name, text in (headers or {}).items())


def _encoded(payload: bytes, preview_bytes: int | None) -> str:
    cut = payload if preview_bytes is None else payload[:preview_bytes]
    return base64.b64encode(cut).decode()
