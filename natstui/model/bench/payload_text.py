"""The payload of a benchmark as text, as typed by the user or for people."""

from __future__ import annotations

import re
from dataclasses import replace

from natstui.model.bench.plan import Payload
from natstui.units import bytes_text, parse_bytes

PAYLOAD_HELP = "a size, as 1KB; a range, as 16..4KB; json 512; or file PATH"
_RANGE = re.compile(r"(\S+?)\s*\.\.\s*(\S+)")


def parse_payload(text: str, current: Payload) -> Payload:
    """Return the payload in `text`, with the headers and ids of `now`.

    The size of a file is 0. Raises ValueError for an invalid text.
    """
    keyword, _, argument = text.strip().partition(" ")
    if keyword == "file":
        if not argument.strip():
            raise ValueError("write `file PATH`")
        return replace(
            current, kind="file", file=argument.strip(), size_bytes=0, size_max_bytes=None
        )
    plain = replace(current, file=None, size_max_bytes=None)
    if keyword == "json":
        size_bytes = parse_bytes(argument) if argument.strip() else current.size_bytes
        return replace(plain, kind="json", size_bytes=size_bytes)
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        # Only the size changes: JSON stays JSON.
        plain = plain if current.kind == "json" else replace(plain, kind="fixed")
        return replace(plain, size_bytes=parse_bytes(text))
    low_bytes, high_bytes = parse_bytes(match[1]), parse_bytes(match[2])
    if high_bytes < low_bytes:
        raise ValueError(f"{text.strip()!r} has a maximum below its minimum")
    return replace(plain, kind="range", size_bytes=low_bytes, size_max_bytes=high_bytes)


def format_payload(payload: Payload) -> str:
    """Return the text from which `parse_payload` returns a payload."""
    match payload.kind:
        case "file":
            return f"file {payload.file}"
        case "json":
            return f"json {payload.size_bytes}"
        case "range":
            return f"{payload.size_bytes}..{payload.size_max_bytes}"
        case _:
            return str(payload.size_bytes)


def describe_payload(payload: Payload) -> str:
    """Return the kind and size of a payload as text for people."""
    size = bytes_text(payload.size_bytes)
    match payload.kind:
        case "file":
            return f"the file {payload.file} ({size})"
        case "json":
            return f"{size} of JSON"
        case "range":
            return f"{size} to {bytes_text(payload.size_max_bytes)}"
        case _:
            return size
