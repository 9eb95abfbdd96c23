"""A scenario file as a document: read into the fields of the form, and written from them. Pure.

Parts that the form has no field for stay in the document unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from natstui.model.bench.patterns import Pattern, patterns_that
from natstui.parsing import parse_toml
from natstui.tui.bench.setup.fields import (
    RECEIVING,
    SENDING,
    SHAPES,
    WAYS,
    Texts,
    faults_value,
    is_shown,
    rate_value,
    rate_words,
)
from natstui.units import parse_count

Document = dict[str, Any]

_DEFAULT_STREAM = "NATSTUI_BENCH"
_ON_STREAMS = patterns_that(lambda row: row.needs_stream)
_PUT = {kind_and_way: pattern for pattern, kind_and_way in SENDING.items()}
_TAKE = {kind_and_way: pattern for pattern, kind_and_way in RECEIVING.items()}


def parsed(text: str) -> Document:
    """Return the document of a file; raises ValueError with the position of a TOML error."""
    return parse_toml(text)


def _first(document: Document, table: Mapping[Pattern, object]) -> Document:
    roles = document.get("role", [])
    return next((role for role in roles if role.get("pattern") in table), {})


def texts_of(document: Document) -> dict[str, str]:
    """Return the texts of the fields for a document."""
    sender, receiver = _first(document, SENDING), _first(document, RECEIVING)
    sends = SENDING.get(sender.get("pattern", ""), ("", ""))
    takes = RECEIVING.get(receiver.get("pattern", ""), ("", ""))
    shape = sends[0] or takes[0] or SHAPES[0]
    main = sender or receiver
    stream = document.get("stream", {})
    texts = {
        "shape": shape,
        "publish": sends[1] if shape == "stream" and sends[1] else "async",
        "consume": takes[1] or "consume",
        "read": sends[1] if shape == "read" else "one",
        "keys": sends[1] if shape == "kv" else "put",
        "publishers": str(sender.get("workers", 1)) if sender else "0",
        "consumers": str(receiver.get("workers", 1)) if receiver else "0",
        "size": str(main.get("payload", {}).get("size", 128)),
        "rate": rate_words(sender.get("rate")),
        "msgs": str(main.get("msgs", "")),
        "duration": str(document.get("duration", "")),
        "subject": str(main.get("subject", "bench")),
        "stream": str(stream.get("name", _DEFAULT_STREAM)),
        "storage": str(stream.get("storage", "memory")),
        "replicas": str(stream.get("replicas", 1)),
        "acks": str(receiver.get("acks", "explicit")),
    }
    texts["faults"] = "; ".join(
        f"{fault['kind']} {fault['role']} {fault['at']}" for fault in document.get("fault", [])
    )
    return texts | {"checks": "; ".join(document.get("assertions", []))}


def with_texts(document: Document, texts: Texts) -> Document:
    """Return the document updated by the texts; raises ValueError for an invalid text."""
    updated = deepcopy(document)
    updated.setdefault("title", "From the form")
    _set(updated, "duration", texts["duration"].strip() or None)
    _set(updated, "assertions", _parts(texts["checks"]) or None)
    before = texts_of(document)
    if texts["faults"] != before["faults"]:
        _set(updated, "fault", faults_value(texts["faults"]) or None)
    _set_roles(updated, texts, before)
    _set_streams(updated, texts)
    return updated


def _parts(text: str) -> list[str]:
    return [part for part in map(str.strip, text.split(";")) if part]


def _set(table: Document, key: str, value: object) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def _set_roles(document: Document, texts: Texts, before: Texts) -> None:
    shape = texts["shape"]
    sender, receiver = _first(document, SENDING), _first(document, RECEIVING)
    direction = texts[WAYS[shape]] if shape in WAYS else ""
    takes = texts["consume"] if shape == "stream" else ""
    publish_pattern, take = _PUT.get((shape, direction)), _TAKE.get((shape, takes))
    publishers = _workers(texts["publishers"])
    consumers = _workers(texts["consumers"]) if take is not None else 0
    roles = [role for role in document.get("role", []) if role not in (sender, receiver)]
    made = []
    if consumers and take is not None:
        receiver = receiver or {"name": "consumers"}
        receiver["pattern"] = take
        _count(receiver, "workers", consumers)
        _set(receiver, "acks", None if texts["acks"] == "explicit" else texts["acks"])
        if not is_shown("acks", shape):
            receiver.pop("acks", None)
        made.append(receiver)
    if publishers and publish_pattern is not None:
        sender = sender or {"name": "publishers"}
        sender["pattern"] = publish_pattern
        _count(sender, "workers", publishers)
        _set(sender, "rate", rate_value(texts["rate"]) if is_shown("rate", shape) else None)
        made.append(sender)
    for role in made:
        _set(role, "subject", None if texts["subject"] == "bench" else texts["subject"])
        if texts["size"] != before["size"]:
            role["payload"] = {**role.get("payload", {}), "size": _number(texts["size"])}
        _set(role, "msgs", None)
    if made:
        _set(made[-1], "msgs", _number(texts["msgs"]))
    if shape == "kv":
        for role in made:
            _set(role, "subject", f"$KV.{texts['stream']}.key")
            role.setdefault("subjects", 1000)
    document["role"] = [*made, *roles]


def _count(role: Document, key: str, count: int) -> None:
    _set(role, key, None if count == 1 else count)


def _workers(text: str) -> int:
    return parse_count(text)


def _number(text: str) -> int | str | None:
    text = text.strip()
    return int(text) if text.isdigit() else text or None


def _set_streams(document: Document, texts: Texts) -> None:
    shape = texts["shape"]
    if not is_shown("stream", shape):
        if not any(role.get("pattern") in _ON_STREAMS for role in document["role"]):
            document.pop("stream", None)
        document.pop("responses", None)
        return
    stream = document.setdefault("stream", {})
    stream["name"] = texts["stream"]
    if is_shown("storage", shape):
        _set(stream, "storage", None if texts["storage"] == "memory" else texts["storage"])
        _count(stream, "replicas", _workers(texts["replicas"]))
    _set(stream, "create", False if _reads_only(texts) else None)
    _set(stream, "history", stream.get("history", 1) if shape == "kv" else None)
    if shape == "respond":
        stream.setdefault("retention", "workqueue")
        document.setdefault("responses", {"name": f"{texts['stream']}_RESPONSES"})
    else:
        document.pop("responses", None)


def _reads_only(texts: Texts) -> bool:
    """Return whether the benchmark only reads messages that a stream already has."""
    has_no_publisher = not _workers(texts["publishers"])
    gets = texts["shape"] == "read" or (texts["shape"] == "kv" and texts["keys"] == "get")
    return gets or (texts["shape"] == "stream" and has_no_publisher)


_TABLES = ("stream", "responses")
_ARRAYS = ("role", "fault")


def written(document: Document) -> str:
    """Return a document as TOML."""
    lines = [_line(key, value) for key, value in document.items() if key not in _TABLES + _ARRAYS]
    for name in _TABLES:
        if name in document:
            lines += ["", f"[{name}]", *(_line(k, v) for k, v in document[name].items())]
    for name in _ARRAYS:
        for table in document.get(name, []):
            lines += ["", f"[[{name}]]", *(_line(k, v) for k, v in table.items())]
    return "\n".join(lines) + "\n"


def _line(key: str, value: object) -> str:
    return f"{_key(key)} = {_value(value)}"


def _key(key: str) -> str:
    plain_key = key.replace("-", "").replace("_", "")
    return key if plain_key.isascii() and plain_key.isalnum() else json.dumps(key)


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(_line(key, item) for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, str):
        # DEL is a letter of JSON and none of TOML.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)
