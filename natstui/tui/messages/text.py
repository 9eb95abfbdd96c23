"""Stored messages as lines of a list and as a text; what a payload is and how it reads."""

from __future__ import annotations

import base64
import gzip
import importlib
import zlib
from dataclasses import dataclass
from typing import Literal

import msgspec
from textual.content import Content

from natstui.model.records.messages import BrowseMessages, MessagePage, StoredMessage
from natstui.tui.kit.text import safe
from natstui.units import bytes_text, local_text

Look = Literal["auto", "json", "text", "hex"]
LOOKS: tuple[Look, ...] = ("auto", "json", "text", "hex")

MOST_UNPACKED_BYTES = 16 * 1024 * 1024
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True, slots=True)
class Reading:
    """A payload as text, and what was done to get there."""

    text: str
    look: Look
    """What it is shown as; never `auto`."""
    packing: str | None
    """`gzip` or `zstd` when it was unpacked, or why it could not be."""


def reading(payload: bytes, look: Look = "auto") -> Reading:
    """Return a payload as text; bytes that are no text become a hex dump."""
    unpacked, packing = unpack(payload)
    if look == "hex":
        return Reading(hex_dump(payload), "hex", None)
    if look in ("auto", "json"):
        pretty = _json_text(unpacked)
        if pretty is not None:
            return Reading(pretty, "json", packing)
    text = _plain_text(unpacked)
    if look == "text":
        shown = unpacked.decode("utf-8", errors="replace") if text is None else text
        return Reading(shown, "text", packing)
    if text is not None:
        return Reading(text, "text", packing)
    return Reading(hex_dump(unpacked), "hex", packing)


def unpack(payload: bytes) -> tuple[bytes, str | None]:
    """Return the payload unpacked, at most 16 MiB of it, and how it was packed."""
    if payload.startswith(_GZIP):
        try:
            unpacked = zlib.decompressobj(wbits=31).decompress(payload, MOST_UNPACKED_BYTES)
        except (zlib.error, gzip.BadGzipFile):
            return payload, None
        return unpacked, "gzip"
    if payload.startswith(_ZSTD):
        return _unpack_zstd(payload)
    return payload, None


def _unpack_zstd(payload: bytes) -> tuple[bytes, str | None]:
    """Unpack with the standard library, which has zstd since Python 3.14."""
    try:
        zstd = importlib.import_module("compression.zstd")
    except ModuleNotFoundError:
        return payload, "nothing: Python reads zstd since 3.14"
    try:
        unpacked: bytes = zstd.ZstdDecompressor().decompress(payload, MOST_UNPACKED_BYTES)
    except zstd.ZstdError:
        return payload, None
    return unpacked, "zstd"


def _json_text(payload: bytes) -> str | None:
    """Return JSON on lines of its own, every number and key as it was written; else None."""
    if payload.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        return msgspec.json.format(payload, indent=2).decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _plain_text(payload: bytes) -> str | None:
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return None
    return None if any(ord(c) < 32 and c not in "\t\r\n" for c in text[:4096]) else text


def hex_dump(payload: bytes) -> str:
    """Return offset, sixteen bytes and their letters, line by line."""
    lines = []
    for start in range(0, len(payload), 16):
        part = payload[start : start + 16]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:08x}  {part[:8].hex(' '):<23}  {part[8:].hex(' '):<23}  {letters}")
    return "\n".join(lines)


def one_line(payload: bytes) -> str:
    """Return the beginning of a payload on one line, for a list."""
    text = _plain_text(payload)
    if text is None:
        text = payload.decode("utf-8", errors="ignore")
        if len(text) * 4 < len(payload) * 3 or "\0" in text:
            return payload[:48].hex(" ")
    return " ".join(text.split())


def payload_of(message: StoredMessage) -> bytes:
    """Return the payload, or its beginning."""
    return base64.b64decode(message.payload_base64)


def time_text(at_us: int, *, with_date: bool = False) -> str:
    """Return the local time with milliseconds."""
    return local_text(at_us, "%Y-%m-%d %H:%M:%S" if with_date else "%H:%M:%S", 3)


def message_line(message: StoredMessage) -> Content:
    """Return one line of the list."""
    return Content("  ").join(
        [
            safe("" if message.stream_seq is None else f"{message.stream_seq:>9}", "accent"),
            safe(time_text(message.stored_at_us), "dim"),
            safe(message.subject.ljust(24)),
            safe(bytes_text(message.payload_bytes).rjust(8), "dim"),
            safe("▪" if message.headers else " ", "warn"),
            safe(one_line(payload_of(message))),
        ]
    )


def page_text(page: MessagePage, what: str) -> str:
    """Return the caption above a page."""
    sequences = [message.stream_seq for message in page.messages if message.stream_seq]
    span = f"{sequences[0]}…{sequences[-1]}" if sequences else "no messages here"
    return f"{page.stream}  ·  {what}  ·  {span} of {page.first_seq}…{page.last_seq}"


def message_text(message: StoredMessage, look: Look) -> tuple[str, Look, str]:
    """Return a whole message to read: its text, what the payload is shown as, and a caption."""
    read = reading(payload_of(message), look)
    heads = [f"{name}: {text}" for name, text in message.headers]
    parts = [
        f"Subject: {message.subject}",
        f"Stored:  {time_text(message.stored_at_us, with_date=True)}",
        f"Size:    {message.payload_bytes:,} bytes",
        *(["", *heads] if heads else []),
        "",
        read.text,
    ]
    packing = f", unpacked from {read.packing}" if read.packing else ""
    where = f"message {message.stream_seq}" if message.stream_seq else "message"
    return "\n".join(parts), read.look, f"{where}  ·  as {read.look}{packing}"


def browse_text(asked: BrowseMessages) -> str:
    """Return which messages are asked for, in a few words."""
    parts = ["last of each subject"] if asked.last_per_subject else ["newest first"]
    parts += [f"/{asked.filter_subject}"] if asked.filter_subject else []
    parts += [f"{asked.jump} of {asked.consumer}".replace("_", " ")] if asked.jump else []
    parts += [f"since {asked.from_time}"] if asked.from_time else []
    return "  ·  ".join(parts)
