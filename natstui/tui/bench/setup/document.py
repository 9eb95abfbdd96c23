"""Conversion of a scenario document to the fields of the form, and back. Pure.

Parts without a field stay in the document unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from natstui.model.bench.patterns import Pattern, patterns_with
from natstui.parsing import parse_toml
from natstui.tui.bench.setup.fields import (
    RECEIVING,
    SENDING,
    SHAPES,
    WAYS,
    Texts,
    faults_value,
    is_shown,
    rate_field_text,
    rate_value,
)
from natstui.units import parse_count

Document = dict[str, Any]

_DEFAULT_STREAM = "NATSTUI_BENCH"
_ON_STREAMS = patterns_with(lambda row: row.needs_stream)
_SEND_PATTERN_BY_FIELDS = {kind_and_way: pattern for pattern, kind_and_way in SENDING.items()}
_RECEIVE_PATTERN_BY_FIELDS = {kind_and_way: pattern for pattern, kind_and_way in RECEIVING.items()}


def parse_document(text: str) -> Document:
    """Return the document of a TOML text; raises ValueError with the position of an error."""
    return parse_toml(text)


def _find_role(document: Document, table: Mapping[Pattern, object]) -> Document:
    roles = document.get("role", [])
    return next((role for role in roles if role.get("pattern") in table), {})


def texts_of(document: Document) -> dict[str, str]:
    """Return field path → text for a document."""
    sender, receiver = _find_role(document, SENDING), _find_role(document, RECEIVING)
    sender_fields = SENDING.get(sender.get("pattern", ""), ("", ""))
    receiver_fields = RECEIVING.get(receiver.get("pattern", ""), ("", ""))
    shape = sender_fields[0] or receiver_fields[0] or SHAPES[0]
    main = sender or receiver
    stream = document.get("stream", {})
    texts = {
        "shape": shape,
        "publish": sender_fields[1] if shape == "stream" and sender_fields[1] else "async",
        "consume": receiver_fields[1] or "consume",
        "read": sender_fields[1] if shape == "read" else "one",
        "keys": sender_fields[1] if shape == "kv" else "put",
        "publishers": str(sender.get("workers", 1)) if sender else "0",
        "consumers": str(receiver.get("workers", 1)) if receiver else "0",
        "size": str(main.get("payload", {}).get("size", 128)),
        "rate": rate_field_text(sender.get("rate")),
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
    """Return a copy of the document with the fields' texts; raises ValueError for a bad text."""
    updated = deepcopy(document)
    updated.setdefault("title", "From the form")
    _set(updated, "duration", texts["duration"].strip() or None)
    _set(updated, "assertions", _split_parts(texts["checks"]) or None)
    previous_texts = texts_of(document)
    if texts["faults"] != previous_texts["faults"]:
        _set(updated, "fault", faults_value(texts["faults"]) or None)
    _set_roles(updated, texts, previous_texts)
    _set_streams(updated, texts)
    return updated


def _split_parts(text: str) -> list[str]:
    return [part for part in map(str.strip, text.split(";")) if part]


def _set(table: Document, key: str, value: object) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def _set_roles(document: Document, texts: Texts, previous_texts: Texts) -> None:
    shape = texts["shape"]
    sender, receiver = _find_role(document, SENDING), _find_role(document, RECEIVING)
    send_way = texts[WAYS[shape]] if shape in WAYS else ""
    receive_way = texts["consume"] if shape == "stream" else ""
    send_pattern, receive_pattern = (
        _SEND_PATTERN_BY_FIELDS.get((shape, send_way)),
        _RECEIVE_PATTERN_BY_FIELDS.get((shape, receive_way)),
    )
    publishers = _parse_workers(texts["publishers"])
    consumers = _parse_workers(texts["consumers"]) if receive_pattern is not None else 0
    roles = [role for role in document.get("role", []) if role not in (sender, receiver)]
    form_roles = []
    if consumers and receive_pattern is not None:
        receiver = receiver or {"name": "consumers"}
        receiver["pattern"] = receive_pattern
        _set_count(receiver, "workers", consumers)
        _set(receiver, "acks", None if texts["acks"] == "explicit" else texts["acks"])
        if not is_shown("acks", shape):
            receiver.pop("acks", None)
        form_roles.append(receiver)
    if publishers and send_pattern is not None:
        sender = sender or {"name": "publishers"}
        sender["pattern"] = send_pattern
        _set_count(sender, "workers", publishers)
        _set(sender, "rate", rate_value(texts["rate"]) if is_shown("rate", shape) else None)
        form_roles.append(sender)
    for role in form_roles:
        _set(role, "subject", None if texts["subject"] == "bench" else texts["subject"])
        if texts["size"] != previous_texts["size"]:
            role["payload"] = {**role.get("payload", {}), "size": _parse_number(texts["size"])}
        _set(role, "msgs", None)
    if form_roles:
        _set(form_roles[-1], "msgs", _parse_number(texts["msgs"]))
    if shape == "kv":
        for role in form_roles:
            _set(role, "subject", f"$KV.{texts['stream']}.key")
            role.setdefault("subjects", 1000)
    document["role"] = [*form_roles, *roles]


def _set_count(role: Document, key: str, count: int) -> None:
    _set(role, key, None if count == 1 else count)


def _parse_workers(text: str) -> int:
    return parse_count(text)


def _parse_number(text: str) -> int | str | None:
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
        _set_count(stream, "replicas", _parse_workers(texts["replicas"]))
    _set(stream, "create", False if _only_reads_messages(texts) else None)
    _set(stream, "history", stream.get("history", 1) if shape == "kv" else None)
    if shape == "respond":
        stream.setdefault("retention", "workqueue")
        document.setdefault("responses", {"name": f"{texts['stream']}_RESPONSES"})
    else:
        document.pop("responses", None)


def _only_reads_messages(texts: Texts) -> bool:
    """Return whether the benchmark only reads messages that a stream already has."""
    has_no_publisher = not _parse_workers(texts["publishers"])
    only_gets = texts["shape"] == "read" or (texts["shape"] == "kv" and texts["keys"] == "get")
    return only_gets or (texts["shape"] == "stream" and has_no_publisher)


_TABLES = ("stream", "responses")
_ARRAYS = ("role", "fault")


def to_toml(document: Document) -> str:
    """Return a document as TOML."""
    lines = [
        _toml_line(key, value) for key, value in document.items() if key not in _TABLES + _ARRAYS
    ]
    for name in _TABLES:
        if name in document:
            lines += ["", f"[{name}]", *(_toml_line(k, v) for k, v in document[name].items())]
    for name in _ARRAYS:
        for table in document.get(name, []):
            lines += ["", f"[[{name}]]", *(_toml_line(k, v) for k, v in table.items())]
    return "\n".join(lines) + "\n"


def _toml_line(key: str, value: object) -> str:
    return f"{_toml_key(key)} = {_toml_value(value)}"


def _toml_key(key: str) -> str:
    plain_key = key.replace("-", "").replace("_", "")
    return key if plain_key.isascii() and plain_key.isalnum() else json.dumps(key)


def _toml_value(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(_toml_line(key, item) for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    if isinstance(value, str):
        # DEL is a letter of JSON and none of TOML.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)
