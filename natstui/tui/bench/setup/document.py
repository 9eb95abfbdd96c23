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
    BENCHMARK_KINDS,
    METHOD_FIELD_BY_KIND,
    RECEIVING_KIND_AND_METHOD,
    SENDING_KIND_AND_METHOD,
    TextByFieldPath,
    faults_value,
    is_shown,
    rate_field_text,
    rate_value,
)
from natstui.units import parse_count

ScenarioDocument = dict[str, Any]

_DEFAULT_STREAM = "NATSTUI_BENCH"
_STREAM_PATTERNS = patterns_with(lambda row: row.needs_stream)
_SEND_PATTERN_BY_KIND_AND_METHOD = {
    kind_and_method: pattern for pattern, kind_and_method in SENDING_KIND_AND_METHOD.items()
}
_RECEIVE_PATTERN_BY_KIND_AND_METHOD = {
    kind_and_method: pattern for pattern, kind_and_method in RECEIVING_KIND_AND_METHOD.items()
}


def parse_document(text: str) -> ScenarioDocument:
    """Return the document of a TOML text; raises ValueError with the position of an error."""
    return parse_toml(text)


def _find_role_with_pattern(
    document: ScenarioDocument, patterns: Mapping[Pattern, object]
) -> ScenarioDocument:
    roles = document.get("role", [])
    return next((role for role in roles if role.get("pattern") in patterns), {})


def texts_of(document: ScenarioDocument) -> dict[str, str]:
    """Return the texts of the form's fields for a document, by field path."""
    sender, receiver = (
        _find_role_with_pattern(document, SENDING_KIND_AND_METHOD),
        _find_role_with_pattern(document, RECEIVING_KIND_AND_METHOD),
    )
    sender_kind_and_method = SENDING_KIND_AND_METHOD.get(sender.get("pattern", ""), ("", ""))
    receiver_kind_and_method = RECEIVING_KIND_AND_METHOD.get(receiver.get("pattern", ""), ("", ""))
    benchmark_kind = sender_kind_and_method[0] or receiver_kind_and_method[0] or BENCHMARK_KINDS[0]
    main_role = sender or receiver
    stream = document.get("stream", {})
    texts = {
        "shape": benchmark_kind,
        "publish": sender_kind_and_method[1]
        if benchmark_kind == "stream" and sender_kind_and_method[1]
        else "async",
        "consume": receiver_kind_and_method[1] or "consume",
        "read": sender_kind_and_method[1] if benchmark_kind == "read" else "one",
        "keys": sender_kind_and_method[1] if benchmark_kind == "kv" else "put",
        "publishers": str(sender.get("workers", 1)) if sender else "0",
        "consumers": str(receiver.get("workers", 1)) if receiver else "0",
        "size": str(main_role.get("payload", {}).get("size", 128)),
        "rate": rate_field_text(sender.get("rate")),
        "msgs": str(main_role.get("msgs", "")),
        "duration": str(document.get("duration", "")),
        "subject": str(main_role.get("subject", "bench")),
        "stream": str(stream.get("name", _DEFAULT_STREAM)),
        "storage": str(stream.get("storage", "memory")),
        "replicas": str(stream.get("replicas", 1)),
        "acks": str(receiver.get("acks", "explicit")),
    }
    texts["faults"] = "; ".join(
        f"{fault['kind']} {fault['role']} {fault['at']}" for fault in document.get("fault", [])
    )
    return texts | {"checks": "; ".join(document.get("assertions", []))}


def with_texts(document: ScenarioDocument, texts: TextByFieldPath) -> ScenarioDocument:
    """Return a copy of the document with the fields' texts; raises ValueError for a bad text."""
    updated_document = deepcopy(document)
    updated_document.setdefault("title", "From the form")
    _set_or_remove(updated_document, "duration", texts["duration"].strip() or None)
    _set_or_remove(updated_document, "assertions", _split_at_semicolons(texts["checks"]) or None)
    previous_texts = texts_of(document)
    if texts["faults"] != previous_texts["faults"]:
        _set_or_remove(updated_document, "fault", faults_value(texts["faults"]) or None)
    _set_roles(updated_document, texts, previous_texts)
    _set_streams(updated_document, texts)
    return updated_document


def _split_at_semicolons(text: str) -> list[str]:
    return [part for part in map(str.strip, text.split(";")) if part]


def _set_or_remove(table: ScenarioDocument, key: str, value: object) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def _set_roles(
    document: ScenarioDocument, texts: TextByFieldPath, previous_texts: TextByFieldPath
) -> None:
    benchmark_kind = texts["shape"]
    sender, receiver = (
        _find_role_with_pattern(document, SENDING_KIND_AND_METHOD),
        _find_role_with_pattern(document, RECEIVING_KIND_AND_METHOD),
    )
    send_method = (
        texts[METHOD_FIELD_BY_KIND[benchmark_kind]]
        if benchmark_kind in METHOD_FIELD_BY_KIND
        else ""
    )
    receive_method = texts["consume"] if benchmark_kind == "stream" else ""
    send_pattern, receive_pattern = (
        _SEND_PATTERN_BY_KIND_AND_METHOD.get((benchmark_kind, send_method)),
        _RECEIVE_PATTERN_BY_KIND_AND_METHOD.get((benchmark_kind, receive_method)),
    )
    publishers = _parse_workers(texts["publishers"])
    consumers = _parse_workers(texts["consumers"]) if receive_pattern is not None else 0
    roles = [role for role in document.get("role", []) if role not in (sender, receiver)]
    form_roles = []
    if consumers and receive_pattern is not None:
        receiver = receiver or {"name": "consumers"}
        receiver["pattern"] = receive_pattern
        _set_count(receiver, "workers", consumers)
        _set_or_remove(receiver, "acks", None if texts["acks"] == "explicit" else texts["acks"])
        if not is_shown("acks", benchmark_kind):
            receiver.pop("acks", None)
        form_roles.append(receiver)
    if publishers and send_pattern is not None:
        sender = sender or {"name": "publishers"}
        sender["pattern"] = send_pattern
        _set_count(sender, "workers", publishers)
        _set_or_remove(
            sender, "rate", rate_value(texts["rate"]) if is_shown("rate", benchmark_kind) else None
        )
        form_roles.append(sender)
    for role in form_roles:
        _set_or_remove(role, "subject", None if texts["subject"] == "bench" else texts["subject"])
        if texts["size"] != previous_texts["size"]:
            role["payload"] = {**role.get("payload", {}), "size": _parse_number(texts["size"])}
        _set_or_remove(role, "msgs", None)
    if form_roles:
        _set_or_remove(form_roles[-1], "msgs", _parse_number(texts["msgs"]))
    if benchmark_kind == "kv":
        for role in form_roles:
            _set_or_remove(role, "subject", f"$KV.{texts['stream']}.key")
            role.setdefault("subjects", 1000)
    document["role"] = [*form_roles, *roles]


def _set_count(role: ScenarioDocument, key: str, count: int) -> None:
    _set_or_remove(role, key, None if count == 1 else count)


def _parse_workers(text: str) -> int:
    return parse_count(text)


def _parse_number(text: str) -> int | str | None:
    text = text.strip()
    return int(text) if text.isdigit() else text or None


def _set_streams(document: ScenarioDocument, texts: TextByFieldPath) -> None:
    benchmark_kind = texts["shape"]
    if not is_shown("stream", benchmark_kind):
        if not any(role.get("pattern") in _STREAM_PATTERNS for role in document["role"]):
            document.pop("stream", None)
        document.pop("responses", None)
        return
    stream = document.setdefault("stream", {})
    stream["name"] = texts["stream"]
    if is_shown("storage", benchmark_kind):
        _set_or_remove(
            stream, "storage", None if texts["storage"] == "memory" else texts["storage"]
        )
        _set_count(stream, "replicas", _parse_workers(texts["replicas"]))
    _set_or_remove(stream, "create", False if _only_reads_messages(texts) else None)
    _set_or_remove(stream, "history", stream.get("history", 1) if benchmark_kind == "kv" else None)
    if benchmark_kind == "respond":
        stream.setdefault("retention", "workqueue")
        document.setdefault("responses", {"name": f"{texts['stream']}_RESPONSES"})
    else:
        document.pop("responses", None)


def _only_reads_messages(texts: TextByFieldPath) -> bool:
    """Return whether the benchmark only reads messages that a stream already has."""
    has_no_publisher = not _parse_workers(texts["publishers"])
    has_only_gets = texts["shape"] == "read" or (texts["shape"] == "kv" and texts["keys"] == "get")
    return has_only_gets or (texts["shape"] == "stream" and has_no_publisher)


_TOML_TABLE_NAMES = ("stream", "responses")
_TOML_ARRAY_OF_TABLES_NAMES = ("role", "fault")


def to_toml(document: ScenarioDocument) -> str:
    """Return a document as TOML."""
    lines = [
        _toml_line(key, value)
        for key, value in document.items()
        if key not in _TOML_TABLE_NAMES + _TOML_ARRAY_OF_TABLES_NAMES
    ]
    for name in _TOML_TABLE_NAMES:
        if name in document:
            lines += [
                "",
                f"[{name}]",
                *(_toml_line(key, value) for key, value in document[name].items()),
            ]
    for name in _TOML_ARRAY_OF_TABLES_NAMES:
        for table in document.get(name, []):
            lines += ["", f"[[{name}]]", *(_toml_line(key, value) for key, value in table.items())]
    return "\n".join(lines) + "\n"


def _toml_line(key: str, value: object) -> str:
    return f"{_toml_key(key)} = {_toml_value(value)}"


def _toml_key(key: str) -> str:
    plain_key = key.replace("-", "").replace("_", "")
    return key if plain_key.isascii() and plain_key.isalnum() else json.dumps(key)


def _toml_value(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(_toml_line(key, entry) for key, entry in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    if isinstance(value, str):
        # DEL is a letter of JSON and none of TOML.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)
