"""The payload of a benchmark as text, as typed by the user or for people."""

from __future__ import annotations

import re

from natstui.model.bench.plan import Payload
from natstui.units import bytes_text, parse_bytes
from natstui.values import replace

PAYLOAD_HELP = "a size, as 1KB; a range, as 16..4KB; json 512; or file PATH"
_SIZE_RANGE = re.compile(r"(\S+?)\s*\.\.\s*(\S+)")


def parse_payload(text: str, current_payload: Payload) -> Payload:
    """Return the payload of a typed text; headers and message ids are of `current_payload`.

    The size of a file is 0. Raises ValueError if the text is invalid.
    """
    keyword, _, argument = text.strip().partition(" ")
    if keyword == "file":
        if not argument.strip():
            raise ValueError("write `file PATH`")
        return replace(
            current_payload, kind="file", file=argument.strip(), size_bytes=0, size_max_bytes=None
        )
    payload_without_file = replace(current_payload, file=None, size_max_bytes=None)
    if keyword == "json":
        size_bytes = parse_bytes(argument) if argument.strip() else current_payload.size_bytes
        return replace(payload_without_file, kind="json", size_bytes=size_bytes)
    match = _SIZE_RANGE.fullmatch(text.strip())
    if match is None:
        # Only the size changes: JSON stays JSON.
        payload_without_file = (
            payload_without_file
            if current_payload.kind == "json"
            else replace(payload_without_file, kind="fixed")
        )
        return replace(payload_without_file, size_bytes=parse_bytes(text))
    min_bytes, max_bytes = parse_bytes(match[1]), parse_bytes(match[2])
    if max_bytes < min_bytes:
        raise ValueError(f"{text.strip()!r} has a maximum below its minimum")
    return replace(
        payload_without_file, kind="range", size_bytes=min_bytes, size_max_bytes=max_bytes
    )


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
    size_text = bytes_text(payload.size_bytes)
    match payload.kind:
        case "file":
            return f"the file {payload.file} ({size_text})"
        case "json":
            return f"{size_text} of JSON"
        case "range":
            return f"{size_text} to {bytes_text(payload.size_max_bytes)}"
        case _:
            return size_text
