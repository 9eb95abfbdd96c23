"""Formats payloads as readable text: JSON, plain text or a hex dump, after decompression."""

from __future__ import annotations

import gzip
import importlib
import zlib
from typing import Literal

import msgspec
from msgspec import Struct

PayloadFormat = Literal["auto", "json", "text", "hex"]
PAYLOAD_FORMATS: tuple[PayloadFormat, ...] = ("auto", "json", "text", "hex")

MAX_DECOMPRESSED_BYTES = 16 * 1024 * 1024
_GZIP_MAGIC, _ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class PayloadText(Struct, frozen=True):
    """A payload as text, with its format."""

    text: str
    format: PayloadFormat
    """The format of the text; never `auto`."""
    decompression_text: str = ""
    """`unpacked from gzip` if the payload was decompressed, or why it could not be; else ""."""

    @property
    def format_text(self) -> str:
        """Return the format and the decompression for a caption, as `as json`."""
        return ", ".join(filter(None, (f"as {self.format}", self.decompression_text)))


def format_payload(payload: bytes, payload_format: PayloadFormat = "auto") -> PayloadText:
    """Return a payload as text in a format; by default JSON, else plain text, else a hex dump."""
    decompressed, decompression_text = decompress_payload(payload)
    if payload_format == "hex":
        return PayloadText(hex_dump(payload), "hex")
    if payload_format in ("auto", "json"):
        json_text = _json_text(decompressed)
        if json_text is not None:
            return PayloadText(json_text, "json", decompression_text)
    text = _plain_text(decompressed)
    if payload_format == "text":
        text_or_dump = decompressed.decode("utf-8", errors="replace") if text is None else text
        return PayloadText(text_or_dump, "text", decompression_text)
    if text is not None:
        return PayloadText(text, "text", decompression_text)
    return PayloadText(hex_dump(decompressed), "hex", decompression_text)


def decompress_payload(payload: bytes) -> tuple[bytes, str]:
    """Return the decompressed payload, cut at 16 MiB, and a clause about its compression.

    The clause is "" for an uncompressed or damaged payload. If this Python cannot decompress zstd,
    the payload is returned as it is, and the clause says so.
    """
    if payload.startswith(_GZIP_MAGIC):
        try:
            decompressed = zlib.decompressobj(wbits=31).decompress(payload, MAX_DECOMPRESSED_BYTES)
        except (zlib.error, gzip.BadGzipFile):
            return payload, ""
        return decompressed, "unpacked from gzip"
    if payload.startswith(_ZSTD_MAGIC):
        return _decompress_zstd(payload)
    return payload, ""


def _decompress_zstd(payload: bytes) -> tuple[bytes, str]:
    """Return the payload decompressed by the standard library, which has zstd since Python 3.14,
    and a clause that says so; else the payload as it is, and the reason or "".
    """
    try:
        zstd = importlib.import_module("compression.zstd")
    except ModuleNotFoundError:
        return payload, "still compressed: zstd needs Python 3.14 or newer"
    try:
        decompressed: bytes = zstd.ZstdDecompressor().decompress(payload, MAX_DECOMPRESSED_BYTES)
    except zstd.ZstdError:
        return payload, ""
    return decompressed, "unpacked from zstd"


def _json_text(payload: bytes) -> str | None:
    """Return indented JSON with all numbers and keys unchanged; None if the payload is no JSON."""
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
    return (
        None
        if any(ord(character) < 32 and character not in "\t\r\n" for character in text[:4096])
        else text
    )


def hex_dump(payload: bytes) -> str:
    """Return lines with an offset, sixteen bytes in hex, and their ASCII characters."""
    lines = []
    for start in range(0, len(payload), 16):
        part = payload[start : start + 16]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:08x}  {part[:8].hex(' '):<23}  {part[8:].hex(' '):<23}  {letters}")
    return "\n".join(lines)


def compact_payload(payload: bytes) -> str:
    """Return a payload on one line, for a list; of a binary payload the first bytes in hex."""
    text = _plain_text(payload)
    if text is None:
        text = payload.decode("utf-8", errors="ignore")
        if len(text) * 4 < len(payload) * 3 or "\0" in text:
            return payload[:48].hex(" ")
    return " ".join(text.split())
