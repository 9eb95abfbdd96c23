"""Converts payloads to readable text: JSON, text or bytes, after decompression."""

from __future__ import annotations

import gzip
import importlib
import zlib
from dataclasses import dataclass
from typing import Literal

import msgspec

Look = Literal["auto", "json", "text", "hex"]
LOOKS: tuple[Look, ...] = ("auto", "json", "text", "hex")

MOST_UNPACKED_BYTES = 16 * 1024 * 1024
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True, slots=True)
class Reading:
    """A payload as text, with its format and compression."""

    text: str
    look: Look
    """The format that is shown; never `auto`."""
    packing: str | None
    """`gzip` or `zstd` after decompression, or why that failed."""


def reading(payload: bytes, look: Look = "auto") -> Reading:
    """Return a payload as text; bytes that are no text become a hex dump."""
    decompressed, packing = unpack(payload)
    if look == "hex":
        return Reading(hex_dump(payload), "hex", None)
    if look in ("auto", "json"):
        pretty = _json_text(decompressed)
        if pretty is not None:
            return Reading(pretty, "json", packing)
    text = _plain_text(decompressed)
    if look == "text":
        text_or_dump = decompressed.decode("utf-8", errors="replace") if text is None else text
        return Reading(text_or_dump, "text", packing)
    if text is not None:
        return Reading(text, "text", packing)
    return Reading(hex_dump(decompressed), "hex", packing)


def unpack(payload: bytes) -> tuple[bytes, str | None]:
    """Return the decompressed payload, at most 16 MiB of it, and its compression."""
    if payload.startswith(_GZIP):
        try:
            decompressed = zlib.decompressobj(wbits=31).decompress(payload, MOST_UNPACKED_BYTES)
        except (zlib.error, gzip.BadGzipFile):
            return payload, None
        return decompressed, "gzip"
    if payload.startswith(_ZSTD):
        return _unpack_zstd(payload)
    return payload, None


def _unpack_zstd(payload: bytes) -> tuple[bytes, str | None]:
    """Decompress with the standard library, which has zstd since Python 3.14."""
    try:
        zstd = importlib.import_module("compression.zstd")
    except ModuleNotFoundError:
        return payload, "nothing: zstd needs Python 3.14 or newer"
    try:
        decompressed: bytes = zstd.ZstdDecompressor().decompress(payload, MOST_UNPACKED_BYTES)
    except zstd.ZstdError:
        return payload, None
    return decompressed, "zstd"


def _json_text(payload: bytes) -> str | None:
    """Return JSON in separate lines, every number and key unchanged; None for other payloads."""
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
