"""A payload as one line of text: typed during a run, and printed in its result. Pure."""

from __future__ import annotations

import re
from dataclasses import replace

from natstui.model.bench.plan import Payload
from natstui.units import bytes_text, parse_bytes

HOW = "a size, as 1KB; a range, as 16..4KB; json 512; or file PATH"
_RANGE = re.compile(r"(\S+?)\s*\.\.\s*(\S+)")


def payload_of(text: str, now: Payload) -> Payload:
    """Return the payload of `text`, with the headers and ids of `now`; raises ValueError.

    The size of a file is filled in by a caller that can read it.
    """
    first, _, rest = text.strip().partition(" ")
    if first == "file":
        if not rest.strip():
            raise ValueError("write `file PATH`")
        return replace(now, kind="file", file=rest.strip(), size_bytes=0, size_max_bytes=None)
    plain = replace(now, file=None, size_max_bytes=None)
    if first == "json":
        size_bytes = parse_bytes(rest) if rest.strip() else now.size_bytes
        return replace(plain, kind="json", size_bytes=size_bytes)
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        # Another size of the same: JSON stays JSON.
        plain = plain if now.kind == "json" else replace(plain, kind="fixed")
        return replace(plain, size_bytes=parse_bytes(text))
    low_bytes, high_bytes = parse_bytes(found[1]), parse_bytes(found[2])
    if high_bytes < low_bytes:
        raise ValueError(f"{text.strip()!r} has a maximum below its minimum")
    return replace(plain, kind="range", size_bytes=low_bytes, size_max_bytes=high_bytes)


def payload_text(payload: Payload) -> str:
    """Return a payload as text in the format of `payload_of`."""
    match payload.kind:
        case "file":
            return f"file {payload.file}"
        case "json":
            return f"json {payload.size_bytes}"
        case "range":
            return f"{payload.size_bytes}..{payload.size_max_bytes}"
        case _:
            return str(payload.size_bytes)


def payload_words(payload: Payload) -> str:
    """Return a payload as text for people."""
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
