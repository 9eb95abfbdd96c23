"""Stored messages as list lines and as text."""

from __future__ import annotations

import base64

from textual.content import Content

from natstui.model.records.messages import BrowseMessages, MessagePage, StoredMessage
from natstui.tui.kit.raw.lines import find_spans
from natstui.tui.kit.raw.payload import PayloadFormat, compact_payload, format_payload
from natstui.tui.kit.styles import style_of
from natstui.tui.kit.text import safe
from natstui.units import bytes_text, counted, local_text


def payload_of(message: StoredMessage) -> bytes:
    """Return the payload of a message, or the beginning that was read."""
    return base64.b64decode(message.payload_base64)


def time_text(at_us: int, *, with_date: bool = False) -> str:
    """Return a Unix time in µs as local time with milliseconds."""
    return local_text(at_us, "%Y-%m-%d %H:%M:%S" if with_date else "%H:%M:%S", 3)


def message_line(message: StoredMessage) -> Content:
    """Return a message as a line of a list."""
    return Content("  ").join(
        [
            safe("" if message.stream_seq is None else f"{message.stream_seq:>9}", "accent"),
            safe(time_text(message.stored_at_us), "dim"),
            safe(message.subject.ljust(24)),
            safe(bytes_text(message.payload_bytes).rjust(8), "dim"),
            safe("▪" if message.headers else " ", "warn"),
            payload_line(payload_of(message)),
        ]
    )


MESSAGE_LIST_HEAD = (
    f"{'SEQ':>9}  {'TIME'.ljust(12)}  {'SUBJECT'.ljust(24)}  {'SIZE':>8}  ▪  PAYLOAD"
)
"""Title line of a list of messages; ▪ marks messages with headers."""
_STYLE_BY_SPAN_KIND = {
    "key": "primary",
    "string": "ok",
    "number": "warn",
    "word": "accent",
    "mark": "dim",
}


def payload_line(payload: bytes) -> Content:
    """Return a payload on one line; JSON is coloured."""
    text = safe(compact_payload(payload))
    if not text.plain.startswith(("{", "[")):
        return text
    for start, end, kind in find_spans(text.plain, "json"):
        text = text.stylize(style_of(_STYLE_BY_SPAN_KIND[kind]), start, end)
    return text


def has_messages(page: MessagePage) -> bool:
    """Return whether the stream of a page has any message."""
    return 0 < page.first_seq <= page.last_seq


def page_caption(page: MessagePage, page_name: str, publish_key: str = "") -> str:
    """Return the caption of a page: stream, name and sequences; `publish_key` is the key that
    publishes a message.
    """
    sequences = [message.stream_seq for message in page.messages if message.stream_seq]
    if sequences:
        span = f"{sequences[0]}…{sequences[-1]} of {page.first_seq}…{page.last_seq}"
    elif has_messages(page):
        span = f"no messages here; the stream has {page.first_seq}…{page.last_seq}"
    else:
        span = f"no messages: {publish_key} publishes one" if publish_key else "no messages"
    return f"{page.stream}  ·  {page_name}  ·  {span}"


def message_text(
    message: StoredMessage, payload_format: PayloadFormat, reply: str = ""
) -> tuple[str, PayloadFormat, str]:
    """Return a message as text, the format of its payload, and a caption.

    `reply` is the reply subject of the message.
    """
    payload_text = format_payload(payload_of(message), payload_format)
    header_lines = [f"{name}: {text}" for name, text in message.headers]
    time_label = "Came:   " if message.stream_seq is None else "Stored: "
    parts = [
        f"Subject: {message.subject}",
        *([f"Reply:   {reply}"] if reply else []),
        f"{time_label} {time_text(message.stored_at_us, with_date=True)}",
        f"Size:    {counted(f'{message.payload_bytes:,}', 'byte')}",
        *(["", *header_lines] if header_lines else []),
        "",
        payload_text.text,
    ]
    caption_start = f"message {message.stream_seq}" if message.stream_seq else "message"
    return (
        "\n".join(parts),
        payload_text.format,
        f"{caption_start}  ·  {payload_text.format_text}",
    )


def requested_page_text(command: BrowseMessages) -> str:
    """Return a short text about the order and filters of the requested messages."""
    parts = ["last of each subject"] if command.last_per_subject else ["newest first"]
    parts += [f"/{command.filter_subject}"] if command.filter_subject else []
    parts += [f"{command.jump} of {command.consumer}".replace("_", " ")] if command.jump else []
    parts += [f"since {command.from_time}"] if command.from_time else []
    return "  ·  ".join(parts)
