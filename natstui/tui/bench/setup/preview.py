"""The preview of a filled form: traffic, storage, a drawing, and the equivalent command. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from rich.cells import cell_len

from natstui.clean import clean_line
from natstui.model.assets.meaning import stored_bytes
from natstui.tui.bench.setup.document import Document, texts_of, with_texts
from natstui.tui.bench.setup.fields import Texts, is_shown, rate_value
from natstui.units import (
    bytes_text,
    count_text,
    counted,
    parse_bytes,
    parse_count,
    parse_duration_ns,
    rate_text,
)

_OVERRIDES = {
    "msgs": "msgs",
    "duration": "duration",
    "rate": "rate",
    "size": "size",
    "publishers": "pubs",
    "consumers": "subs",
    "stream": "stream",
    "storage": "storage",
}
"""Field path → flag of `natstui bench SCENARIO` with the same effect."""


def preview_lines(texts: Texts) -> list[str]:
    """Return two lines, the expected traffic and storage; the texts must be valid."""
    return [_traffic_text(texts), _storage_text(texts)]


_ROLE_LABELS = {
    "core": ("publisher", "subscriber"),
    "request": ("requester", "responder"),
    "stream": ("publisher", "consumer"),
    "respond": ("requester", "responder"),
    "read": ("", "reader"),
    "kv": ("client", ""),
}
"""Kind of benchmark → names of its senders and receivers."""


def drawing_lines(texts: Texts, width: int) -> list[str]:
    """Return a drawing of senders, subject or stream, and receivers: boxes, or one line if those
    are wider than `width` cells.
    """
    shape, (sending, receiving) = texts["shape"], _worker_counts(texts)
    senders, receivers = _ROLE_LABELS[shape]
    if shape == "read":
        sending, receiving = 0, sending
    subject_or_stream = texts["subject"] if shape in ("core", "request") else texts["stream"]
    boxes = [
        counted(sending, senders) if senders and sending else "",
        clean_line(subject_or_stream),
        counted(receiving, receivers) if receivers and receiving else "",
    ]
    parts = [box for box in boxes if box]
    has_replies = shape in ("request", "respond")
    messages_per_s = _parse_messages_per_s(texts)
    rate = f" {rate_text(messages_per_s)}/s " if messages_per_s is not None and sending else "─"
    arrows = [f"──{rate}─▶", "────▶"][0 if boxes[0] else 1 :]
    if shape == "kv" and texts["keys"] == "get":
        arrows = [arrows[0].replace("▶", "─").replace("──", "◀─", 1)]
    arrows = [f"◀{arrow[1:]}" if has_replies else arrow for arrow in arrows]
    middle = "".join(
        f"│ {box} │{f' {arrow} ' if arrow else ''}"
        for box, arrow in zip_longest(parts, arrows[: len(parts) - 1], fillvalue="")
    )
    if cell_len(middle) > width:
        return [(" ⇄ " if has_replies else " → ").join(parts)]
    rows = [
        "".join(
            f"{left_corner}{'─' * (cell_len(box) + 2)}{right_corner}"
            f"{' ' * (len(arrow) + 2) if arrow else ''}"
            for box, arrow in zip_longest(parts, arrows[: len(parts) - 1], fillvalue="")
        )
        for left_corner, right_corner in ("╭╮", "╰╯")
    ]
    return [rows[0], middle, rows[1]]


def _worker_counts(texts: Texts) -> tuple[int, int]:
    return parse_count(texts["publishers"]), parse_count(texts["consumers"])


def _parse_messages_per_s(texts: Texts) -> float | None:
    """Return the messages per second of all senders, of steps and ramps the maximum.

    None without a limit.
    """
    if not is_shown("rate", texts["shape"]):
        return None
    rate = rate_value(texts["rate"])
    if not isinstance(rate, Mapping):
        return None if rate is None else float(rate)
    if "burst" in rate:
        return float(str(rate["burst"])) / (parse_duration_ns(str(rate["every"])) / 1e9)
    numbers: Any = rate.get("steps") or rate["ramp"]
    return float(max(numbers))


def _total_msgs(texts: Texts) -> float | None:
    """Return the expected total number of messages; None if unknown."""
    if texts["msgs"].strip():
        return parse_count(texts["msgs"])
    messages_per_s = _parse_messages_per_s(texts)
    if messages_per_s is None or not texts["duration"].strip():
        return None
    return messages_per_s * parse_duration_ns(texts["duration"]) / 1e9


def _traffic_text(texts: Texts) -> str:
    publishers, consumers = _worker_counts(texts)
    shape, messages_per_s = texts["shape"], _parse_messages_per_s(texts)
    copies = consumers if shape == "core" or texts["consume"] == "ordered" else min(consumers, 1)
    copies = copies if is_shown("consumers", shape) else 0
    if not publishers:
        return "receives every message as fast as possible"
    total = _total_msgs(texts)
    total_note = "" if total is None else f", {count_text(total)} in all"
    if messages_per_s is None:
        times = f", each received {copies}×" if copies > 1 else ""
        if copies == 1 and consumers > 1:
            times = f", shared by {consumers} consumers"
        return f"as fast as possible{times}{total_note}"
    received_text = f", {rate_text(messages_per_s * copies)}/s received" if copies else ""
    size = parse_bytes(texts["size"]) if is_shown("size", shape) else None
    flow = "" if size is None else f" ({bytes_text(messages_per_s * (1 + copies) * size)}/s)"
    rate_prefix = "up to " if isinstance(rate_value(texts["rate"]), Mapping) else ""
    gets = shape == "read" or (shape == "kv" and texts["keys"] == "get")
    sent_text = f"{rate_text(messages_per_s)}/s {'read' if gets else 'sent'}"
    return f"{rate_prefix}{sent_text}{received_text}{flow}{total_note}"


def _storage_text(texts: Texts) -> str:
    shape = texts["shape"]
    writes = is_shown("storage", shape) and parse_count(texts["publishers"])
    if not writes or (shape == "kv" and texts["keys"] == "get"):
        return "nothing is stored"
    storage, total = texts["storage"], _total_msgs(texts)
    replicas = max(parse_count(texts["replicas"]), 1)
    size, subject = parse_bytes(texts["size"]), len(texts["subject"])
    storage_text = "of memory" if storage == "memory" else "on disk"
    times = f", on {replicas} servers each" if replicas > 1 else ""
    if total is None:
        message_bytes = stored_bytes(1, size, subject, storage=storage)
        return f"{bytes_text(message_bytes)} {storage_text} for each message{times}"
    size_text = bytes_text(stored_bytes(round(total), size, subject, storage=storage))
    return f"{size_text} {storage_text}{times}"


def command_text(document: Document, texts: Texts, base: tuple[str, Document] | None) -> str:
    """Return the equivalent command; `base` is the ready scenario that filled the form."""
    arguments = _short_form_arguments(texts)
    if arguments and _is_same(with_texts({}, texts), with_texts(document, texts)):
        return _command([*arguments, *_common_arguments(texts)])
    if base is not None and (changes := _changes(base[1], texts)) is not None:
        return _command([base[0], *changes])
    return "natstui bench run FILE, with the text of this form as FILE"


def _command(arguments: list[str]) -> str:
    return f"natstui bench {shlex.join(arguments)}"


def _is_same(first: Document, second: Document) -> bool:
    return _comparable(first) == _comparable(second)


def _comparable(document: Document) -> Document:
    """Return a document without title, description and names of roles, for a comparison."""
    remaining = {
        key: value for key, value in document.items() if key not in ("title", "description")
    }
    roles = [{k: v for k, v in role.items() if k != "name"} for role in remaining.get("role", [])]
    return {**remaining, "role": [_with_parsed_msgs(role) for role in roles]}


def _with_parsed_msgs(role: Document) -> Document:
    msgs = role.get("msgs")
    return role if msgs is None else {**role, "msgs": parse_count(str(msgs))}


def _changes(document: Document, texts: Texts) -> list[str] | None:
    """Return the flags that change a ready scenario into that of the form; None without such."""
    before = texts_of(document)
    changed_paths = [path for path in before if before[path] != texts[path]]
    if any(path not in _OVERRIDES for path in changed_paths if path != "checks"):
        return None
    is_larger = bool(changed_paths) and len(document.get("role", [])) > 2
    if is_larger or not all(_can_override(p, texts) for p in changed_paths):
        return None
    flags = [w for path in changed_paths if path != "checks" for w in _flag_arguments(path, texts)]
    return flags + (_check_arguments(texts) if "checks" in changed_paths else [])


def _can_override(path: str, texts: Texts) -> bool:
    """Return whether a flag can set the field to its text; no flag removes a setting."""
    if path == "consumers" and texts["shape"] == "request":
        return False
    if path == "rate":
        return not isinstance(rate_value(texts["rate"]), Mapping)
    return texts[path].strip() not in ("", "0")


def _flag_arguments(path: str, texts: Texts) -> list[str]:
    value = texts[path].strip()
    return [f"--{_OVERRIDES[path]}", value or "0"]


def _check_arguments(texts: Texts) -> list[str]:
    parts = filter(None, map(str.strip, texts["checks"].split(";")))
    return [argument for part in parts for argument in ("--assert", part)]


def _common_arguments(texts: Texts) -> list[str]:
    arguments = []
    for path in ("msgs", "duration", "rate", "size"):
        value = texts[path].strip()
        if value and is_shown(path, texts["shape"]) and (path, value) != ("size", "128"):
            arguments += [f"--{path}", value]
    return arguments + _check_arguments(texts)


def _short_form_arguments(texts: Texts) -> list[str]:
    """Return the arguments of a command without a scenario; empty if none is equivalent."""
    if texts["faults"].strip() or parse_count(texts["replicas"]) != 1:
        return []
    if isinstance(rate_value(texts["rate"]), Mapping):
        return []
    if not texts["msgs"].strip() and not texts["duration"].strip():
        return []
    return list(_SHORT_FORMS[texts["shape"]](texts)) if texts["shape"] in _SHORT_FORMS else []


def _core_arguments(texts: Texts) -> Iterator[str]:
    publishers, consumers = _worker_counts(texts)
    has_both = publishers and consumers
    yield "pubsub" if has_both else "pub" if publishers else "sub"
    yield texts["subject"]
    if has_both:
        yield from ("--pubs", str(publishers), "--subs", str(consumers))
    elif publishers + consumers != 1:
        yield from ("--workers", str(publishers or consumers))


def _request_arguments(texts: Texts) -> Iterator[str]:
    publishers, consumers = _worker_counts(texts)
    yield from ("request" if publishers else "serve", texts["subject"])
    if publishers != 1:
        yield from ("--pubs", str(publishers))
    if consumers != 1:
        yield from ("--servers", str(consumers))


def _stream_arguments(texts: Texts) -> Iterator[str]:
    publishers, consumers = _worker_counts(texts)
    if publishers and consumers:
        if (texts["publish"], texts["consume"]) != ("async", "consume"):
            return
        yield from ("js", "pubsub", texts["subject"])
        yield from ("--pubs", str(publishers), "--subs", str(consumers))
    elif publishers:
        yield from ("js", "pub", texts["publish"], texts["subject"])
        if publishers != 1:
            yield from ("--workers", str(publishers))
    else:
        return
    yield from ("--stream", texts["stream"], "--create")
    if texts["storage"] != "memory":
        yield from ("--storage", texts["storage"])
    if texts["acks"] != "explicit" and consumers:
        yield from ("--acks", texts["acks"])


def _read_arguments(texts: Texts) -> Iterator[str]:
    yield from ("js", "get" if texts["read"] == "one" else "get-batch")
    yield from ("--stream", texts["stream"])
    if _worker_counts(texts)[0] != 1:
        yield from ("--workers", texts["publishers"])


_SHORT_FORMS = {
    "core": _core_arguments,
    "request": _request_arguments,
    "stream": _stream_arguments,
    "read": _read_arguments,
}
