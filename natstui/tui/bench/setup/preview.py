"""What a filled form will do: messages per second, bytes on disk, and the command that says it."""

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
"""The fields that a flag of `natstui bench SCENARIO` changes in the same way."""


def preview_lines(texts: Texts) -> list[str]:
    """Return what will go over the wire and onto the disk; the texts are right."""
    return [_traffic(texts), _disk(texts)]


_WHO = {
    "core": ("publisher", "subscriber"),
    "request": ("requester", "responder"),
    "stream": ("publisher", "consumer"),
    "respond": ("requester", "responder"),
    "read": ("", "reader"),
    "kv": ("client", ""),
}
"""Who sends and who receives in each kind of benchmark."""


def drawing_lines(texts: Texts, width: int) -> list[str]:
    """Return who sends, through what, to whom: in boxes where they fit, else in one line."""
    shape, (sending, receiving) = texts["shape"], _counts(texts)
    senders, receivers = _WHO[shape]
    if shape == "read":
        sending, receiving = 0, sending
    through = texts["subject"] if shape in ("core", "request") else texts["stream"]
    boxes = [
        counted(sending, senders) if senders and sending else "",
        clean_line(through),
        counted(receiving, receivers) if receivers and receiving else "",
    ]
    parts = [box for box in boxes if box]
    both = shape in ("request", "respond")
    per_s = _per_s(texts)
    rate = f" {rate_text(per_s)}/s " if per_s is not None and sending else "─"
    arrows = [f"──{rate}─▶", "────▶"][0 if boxes[0] else 1 :]
    if shape == "kv" and texts["keys"] == "get":
        arrows = [arrows[0].replace("▶", "─").replace("──", "◀─", 1)]
    arrows = [f"◀{arrow[1:]}" if both else arrow for arrow in arrows]
    middle = "".join(
        f"│ {box} │{f' {arrow} ' if arrow else ''}"
        for box, arrow in zip_longest(parts, arrows[: len(parts) - 1], fillvalue="")
    )
    if cell_len(middle) > width:
        return [(" ⇄ " if both else " → ").join(parts)]
    rows = [
        "".join(
            f"{left}{'─' * (cell_len(box) + 2)}{right}{' ' * (len(arrow) + 2) if arrow else ''}"
            for box, arrow in zip_longest(parts, arrows[: len(parts) - 1], fillvalue="")
        )
        for left, right in ("╭╮", "╰╯")
    ]
    return [rows[0], middle, rows[1]]


def _counts(texts: Texts) -> tuple[int, int]:
    return parse_count(texts["publishers"]), parse_count(texts["consumers"])


def _per_s(texts: Texts) -> float | None:
    """Return the mean rate of all senders; None where nothing but speed limits it."""
    if not is_shown("rate", texts["shape"]):
        return None
    rate = rate_value(texts["rate"])
    if not isinstance(rate, Mapping):
        return None if rate is None else float(rate)
    if "burst" in rate:
        return float(str(rate["burst"])) / (parse_duration_ns(str(rate["every"])) / 1e9)
    numbers: Any = rate.get("steps") or rate["ramp"]
    return float(max(numbers))


def _total(texts: Texts) -> float | None:
    """Return how many messages are sent in all; None when nobody can say."""
    if texts["msgs"].strip():
        return parse_count(texts["msgs"])
    per_s = _per_s(texts)
    if per_s is None or not texts["duration"].strip():
        return None
    return per_s * parse_duration_ns(texts["duration"]) / 1e9


def _traffic(texts: Texts) -> str:
    publishers, consumers = _counts(texts)
    shape, per_s = texts["shape"], _per_s(texts)
    copies = consumers if shape == "core" or texts["consume"] == "ordered" else min(consumers, 1)
    copies = copies if is_shown("consumers", shape) else 0
    if not publishers:
        return "receives every message as fast as possible"
    total = _total(texts)
    whole = "" if total is None else f", {count_text(total)} in all"
    if per_s is None:
        times = f", each received {copies}×" if copies > 1 else ""
        if copies == 1 and consumers > 1:
            times = f", shared by {consumers} consumers"
        return f"as fast as possible{times}{whole}"
    received = f", {rate_text(per_s * copies)}/s received" if copies else ""
    size = parse_bytes(texts["size"]) if is_shown("size", shape) else None
    flow = "" if size is None else f" ({bytes_text(per_s * (1 + copies) * size)}/s)"
    shaped = "up to " if isinstance(rate_value(texts["rate"]), Mapping) else ""
    return f"{shaped}{rate_text(per_s)}/s sent{received}{flow}{whole}"


def _disk(texts: Texts) -> str:
    shape = texts["shape"]
    writes = is_shown("storage", shape) and parse_count(texts["publishers"])
    if not writes or (shape == "kv" and texts["keys"] == "get"):
        return "nothing is stored"
    storage, total = texts["storage"], _total(texts)
    replicas = max(parse_count(texts["replicas"]), 1)
    size, subject = parse_bytes(texts["size"]), len(texts["subject"])
    where = "of memory" if storage == "memory" else "on disk"
    times = f", on {replicas} servers each" if replicas > 1 else ""
    if total is None:
        one = stored_bytes(1, size, subject, storage=storage)
        return f"{bytes_text(one)} {where} for each message{times}"
    return (
        f"{bytes_text(stored_bytes(round(total), size, subject, storage=storage))} {where}{times}"
    )


def command_text(document: Document, texts: Texts, base: tuple[str, Document] | None) -> str:
    """Return the command that does the same; `base` is the ready scenario it began with."""
    meant = with_texts(document, texts)
    words = _short(texts)
    if words and _same(with_texts({}, texts), meant):
        return _command([*words, *_common(texts)])
    if base is not None and (changes := _changes(base[1], texts)) is not None:
        return _command([base[0], *changes])
    return "natstui bench run FILE, with the text of this form as FILE"


def _command(words: list[str]) -> str:
    return f"natstui bench {shlex.join(words)}"


def _same(one: Document, other: Document) -> bool:
    return _plain(one) == _plain(other)


def _plain(document: Document) -> Document:
    """Return a document without what only people read, and without the names of its roles."""
    kept = {key: value for key, value in document.items() if key not in ("title", "description")}
    roles = [{k: v for k, v in role.items() if k != "name"} for role in kept.get("role", [])]
    return {**kept, "role": [_counted(role) for role in roles]}


def _counted(role: Document) -> Document:
    msgs = role.get("msgs")
    return role if msgs is None else {**role, "msgs": parse_count(str(msgs))}


def _changes(document: Document, texts: Texts) -> list[str] | None:
    """Return the flags that change a scenario into what the form says; None where none do."""
    before = texts_of(document)
    changed = [path for path in before if before[path] != texts[path]]
    if any(path not in _OVERRIDES for path in changed if path != "checks"):
        return None
    is_larger = bool(changed) and len(document.get("role", [])) > 2
    if is_larger or not all(_overridable(p, texts) for p in changed):
        return None
    flags = [w for path in changed if path != "checks" for w in _flag(path, texts)]
    return flags + (_checks(texts) if "checks" in changed else [])


def _overridable(path: str, texts: Texts) -> bool:
    """Tell whether a flag can say what a field says: none takes a thing away."""
    if path == "consumers" and texts["shape"] == "request":
        return False
    if path == "rate":
        return not isinstance(rate_value(texts["rate"]), Mapping)
    return texts[path].strip() not in ("", "0")


def _flag(path: str, texts: Texts) -> list[str]:
    value = texts[path].strip()
    return [f"--{_OVERRIDES[path]}", value or "0"]


def _checks(texts: Texts) -> list[str]:
    parts = filter(None, map(str.strip, texts["checks"].split(";")))
    return [word for part in parts for word in ("--assert", part)]


def _common(texts: Texts) -> list[str]:
    words = []
    for path in ("msgs", "duration", "rate", "size"):
        value = texts[path].strip()
        if value and is_shown(path, texts["shape"]) and (path, value) != ("size", "128"):
            words += [f"--{path}", value]
    return words + _checks(texts)


def _short(texts: Texts) -> list[str]:
    """Return the words of a short form; nothing where there is none."""
    if texts["faults"].strip() or parse_count(texts["replicas"]) != 1:
        return []
    if isinstance(rate_value(texts["rate"]), Mapping):
        return []
    if not texts["msgs"].strip() and not texts["duration"].strip():
        return []
    return list(_SHORT[texts["shape"]](texts)) if texts["shape"] in _SHORT else []


def _core(texts: Texts) -> Iterator[str]:
    publishers, consumers = _counts(texts)
    both = publishers and consumers
    yield "pubsub" if both else "pub" if publishers else "sub"
    yield texts["subject"]
    if both:
        yield from ("--pubs", str(publishers), "--subs", str(consumers))
    elif publishers + consumers != 1:
        yield from ("--workers", str(publishers or consumers))


def _request(texts: Texts) -> Iterator[str]:
    publishers, consumers = _counts(texts)
    yield from ("request" if publishers else "serve", texts["subject"])
    if publishers != 1:
        yield from ("--pubs", str(publishers))
    if consumers != 1:
        yield from ("--servers", str(consumers))


def _stream(texts: Texts) -> Iterator[str]:
    publishers, consumers = _counts(texts)
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


def _read(texts: Texts) -> Iterator[str]:
    yield from ("js", "get" if texts["read"] == "one" else "get-batch")
    yield from ("--stream", texts["stream"])
    if _counts(texts)[0] != 1:
        yield from ("--workers", texts["publishers"])


_SHORT = {"core": _core, "request": _request, "stream": _stream, "read": _read}
