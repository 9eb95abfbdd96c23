"""The preview of a filled form: traffic, storage, a drawing, and the equivalent command. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from rich.cells import cell_len

from natstui.clean import clean_line
from natstui.model.assets.meaning import stored_bytes
from natstui.tui.bench.setup.document import ScenarioDocument, texts_of, with_texts
from natstui.tui.bench.setup.fields import TextByFieldPath, is_shown, rate_value
from natstui.units import (
    bytes_text,
    count_text,
    counted,
    parse_bytes,
    parse_count,
    parse_duration_ns,
    rate_text,
)

_FLAG_BY_FIELD = {
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


def preview_lines(texts: TextByFieldPath) -> list[str]:
    """Return two lines, the expected traffic and storage; the texts must be valid."""
    return [_traffic_text(texts), _storage_text(texts)]


_ROLE_LABELS_BY_KIND = {
    "core": ("publisher", "subscriber"),
    "request": ("requester", "responder"),
    "stream": ("publisher", "consumer"),
    "respond": ("requester", "responder"),
    "read": ("", "reader"),
    "kv": ("client", ""),
}
"""Kind of benchmark → names of its senders and receivers."""


def drawing_lines(texts: TextByFieldPath, width: int) -> list[str]:
    """Return a drawing of senders, subject or stream, and receivers: boxes, or one line if those
    are wider than `width` cells.
    """
    benchmark_kind, (senders_count, receivers_count) = texts["shape"], _worker_counts(texts)
    sender_label, receiver_label = _ROLE_LABELS_BY_KIND[benchmark_kind]
    if benchmark_kind == "read":
        senders_count, receivers_count = 0, senders_count
    subject_or_stream = (
        texts["subject"] if benchmark_kind in ("core", "request") else texts["stream"]
    )
    boxes = [
        counted(senders_count, sender_label) if sender_label and senders_count else "",
        clean_line(subject_or_stream),
        counted(receivers_count, receiver_label) if receiver_label and receivers_count else "",
    ]
    shown_boxes = [box for box in boxes if box]
    has_replies = benchmark_kind in ("request", "respond")
    messages_per_s = _parse_messages_per_s(texts)
    rate = (
        f" {rate_text(messages_per_s)}/s " if messages_per_s is not None and senders_count else "─"
    )
    arrows = [f"──{rate}─▶", "────▶"][0 if boxes[0] else 1 :]
    if benchmark_kind == "kv" and texts["keys"] == "get":
        arrows = [arrows[0].replace("▶", "─").replace("──", "◀─", 1)]
    arrows = [f"◀{arrow[1:]}" if has_replies else arrow for arrow in arrows]
    middle_line = "".join(
        f"│ {box} │{f' {arrow} ' if arrow else ''}"
        for box, arrow in zip_longest(shown_boxes, arrows[: len(shown_boxes) - 1], fillvalue="")
    )
    if cell_len(middle_line) > width:
        return [(" ⇄ " if has_replies else " → ").join(shown_boxes)]
    rows = [
        "".join(
            f"{left_corner}{'─' * (cell_len(box) + 2)}{right_corner}"
            f"{' ' * (len(arrow) + 2) if arrow else ''}"
            for box, arrow in zip_longest(
                shown_boxes, arrows[: len(shown_boxes) - 1], fillvalue=""
            )
        )
        for left_corner, right_corner in ("╭╮", "╰╯")
    ]
    return [rows[0], middle_line, rows[1]]


def _worker_counts(texts: TextByFieldPath) -> tuple[int, int]:
    return parse_count(texts["publishers"]), parse_count(texts["consumers"])


def _parse_messages_per_s(texts: TextByFieldPath) -> float | None:
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
    rates: Any = rate.get("steps") or rate["ramp"]
    return float(max(rates))


def _total_msgs(texts: TextByFieldPath) -> float | None:
    """Return the expected total number of messages; None if unknown."""
    if texts["msgs"].strip():
        return parse_count(texts["msgs"])
    messages_per_s = _parse_messages_per_s(texts)
    if messages_per_s is None or not texts["duration"].strip():
        return None
    return messages_per_s * parse_duration_ns(texts["duration"]) / 1e9


def _traffic_text(texts: TextByFieldPath) -> str:
    publishers, consumers = _worker_counts(texts)
    benchmark_kind, messages_per_s = texts["shape"], _parse_messages_per_s(texts)
    receivers_per_message = (
        consumers
        if benchmark_kind == "core" or texts["consume"] == "ordered"
        else min(consumers, 1)
    )
    receivers_per_message = receivers_per_message if is_shown("consumers", benchmark_kind) else 0
    if not publishers:
        return "receives every message as fast as possible"
    total_msgs = _total_msgs(texts)
    total_note = "" if total_msgs is None else f", {count_text(total_msgs)} in all"
    if messages_per_s is None:
        consumers_note = (
            f", each received {receivers_per_message}×" if receivers_per_message > 1 else ""
        )
        if receivers_per_message == 1 and consumers > 1:
            consumers_note = f", shared by {consumers} consumers"
        return f"as fast as possible{consumers_note}{total_note}"
    received_text = (
        f", {rate_text(messages_per_s * receivers_per_message)}/s received"
        if receivers_per_message
        else ""
    )
    payload_bytes = parse_bytes(texts["size"]) if is_shown("size", benchmark_kind) else None
    bytes_note = (
        ""
        if payload_bytes is None
        else f" ({bytes_text(messages_per_s * (1 + receivers_per_message) * payload_bytes)}/s)"
    )
    rate_prefix = "up to " if isinstance(rate_value(texts["rate"]), Mapping) else ""
    has_only_gets = benchmark_kind == "read" or (benchmark_kind == "kv" and texts["keys"] == "get")
    sent_text = f"{rate_text(messages_per_s)}/s {'read' if has_only_gets else 'sent'}"
    return f"{rate_prefix}{sent_text}{received_text}{bytes_note}{total_note}"


def _storage_text(texts: TextByFieldPath) -> str:
    benchmark_kind = texts["shape"]
    writers_count = is_shown("storage", benchmark_kind) and parse_count(texts["publishers"])
    if not writers_count or (benchmark_kind == "kv" and texts["keys"] == "get"):
        return "nothing is stored"
    storage, total_msgs = texts["storage"], _total_msgs(texts)
    replicas = max(parse_count(texts["replicas"]), 1)
    payload_bytes, subject_chars = parse_bytes(texts["size"]), len(texts["subject"])
    storage_text = "of memory" if storage == "memory" else "on disk"
    replicas_note = f", on {replicas} servers each" if replicas > 1 else ""
    if total_msgs is None:
        message_bytes = stored_bytes(1, payload_bytes, subject_chars, storage=storage)
        return f"{bytes_text(message_bytes)} {storage_text} for each message{replicas_note}"
    size_text = bytes_text(
        stored_bytes(round(total_msgs), payload_bytes, subject_chars, storage=storage)
    )
    return f"{size_text} {storage_text}{replicas_note}"


def command_text(
    document: ScenarioDocument,
    texts: TextByFieldPath,
    ready_scenario: tuple[str, ScenarioDocument] | None,
) -> str:
    """Return the equivalent command; `ready_scenario` is the name and document of the scenario
    that filled the form.
    """
    arguments = _short_form_arguments(texts)
    if arguments and _is_same_benchmark(with_texts({}, texts), with_texts(document, texts)):
        return _bench_command([*arguments, *_common_arguments(texts)])
    if (
        ready_scenario is not None
        and (override_flags := _override_flags(ready_scenario[1], texts)) is not None
    ):
        return _bench_command([ready_scenario[0], *override_flags])
    return "natstui bench run FILE, with the text of this form as FILE"


def _bench_command(arguments: list[str]) -> str:
    return f"natstui bench {shlex.join(arguments)}"


def _is_same_benchmark(document: ScenarioDocument, other_document: ScenarioDocument) -> bool:
    return _comparable_document(document) == _comparable_document(other_document)


def _comparable_document(document: ScenarioDocument) -> ScenarioDocument:
    """Return a document without title, description and names of roles, for a comparison."""
    compared_parts = {
        key: value for key, value in document.items() if key not in ("title", "description")
    }
    roles = [
        {key: value for key, value in role.items() if key != "name"}
        for role in compared_parts.get("role", [])
    ]
    return {**compared_parts, "role": [_with_parsed_msgs(role) for role in roles]}


def _with_parsed_msgs(role: ScenarioDocument) -> ScenarioDocument:
    msgs = role.get("msgs")
    return role if msgs is None else {**role, "msgs": parse_count(str(msgs))}


def _override_flags(document: ScenarioDocument, texts: TextByFieldPath) -> list[str] | None:
    """Return the flags that change a ready scenario into that of the form; None if no flags
    can.
    """
    scenario_texts = texts_of(document)
    changed_paths = [path for path in scenario_texts if scenario_texts[path] != texts[path]]
    if any(path not in _FLAG_BY_FIELD for path in changed_paths if path != "checks"):
        return None
    changes_larger_scenario = bool(changed_paths) and len(document.get("role", [])) > 2
    if changes_larger_scenario or not all(
        _can_override(changed_path, texts) for changed_path in changed_paths
    ):
        return None
    flags = [
        flag for path in changed_paths if path != "checks" for flag in _flag_arguments(path, texts)
    ]
    return flags + (_assertion_arguments(texts) if "checks" in changed_paths else [])


def _can_override(path: str, texts: TextByFieldPath) -> bool:
    """Return whether a flag can set the field to its text; no flag removes a setting."""
    if path == "consumers" and texts["shape"] == "request":
        return False
    if path == "rate":
        return not isinstance(rate_value(texts["rate"]), Mapping)
    return texts[path].strip() not in ("", "0")


def _flag_arguments(path: str, texts: TextByFieldPath) -> list[str]:
    value = texts[path].strip()
    return [f"--{_FLAG_BY_FIELD[path]}", value or "0"]


def _assertion_arguments(texts: TextByFieldPath) -> list[str]:
    parts = filter(None, map(str.strip, texts["checks"].split(";")))
    return [argument for part in parts for argument in ("--assert", part)]


def _common_arguments(texts: TextByFieldPath) -> list[str]:
    arguments = []
    for path in ("msgs", "duration", "rate", "size"):
        value = texts[path].strip()
        if value and is_shown(path, texts["shape"]) and (path, value) != ("size", "128"):
            arguments += [f"--{path}", value]
    return arguments + _assertion_arguments(texts)


def _short_form_arguments(texts: TextByFieldPath) -> list[str]:
    """Return the arguments of an equivalent command without a scenario; empty if there is none."""
    if texts["faults"].strip() or parse_count(texts["replicas"]) != 1:
        return []
    if isinstance(rate_value(texts["rate"]), Mapping):
        return []
    if not texts["msgs"].strip() and not texts["duration"].strip():
        return []
    return (
        list(_SHORT_FORM_FUNCTION_BY_KIND[texts["shape"]](texts))
        if texts["shape"] in _SHORT_FORM_FUNCTION_BY_KIND
        else []
    )


def _core_arguments(texts: TextByFieldPath) -> Iterator[str]:
    publishers, consumers = _worker_counts(texts)
    has_both_roles = publishers and consumers
    yield "pubsub" if has_both_roles else "pub" if publishers else "sub"
    yield texts["subject"]
    if has_both_roles:
        yield from ("--pubs", str(publishers), "--subs", str(consumers))
    elif publishers + consumers != 1:
        yield from ("--workers", str(publishers or consumers))


def _request_arguments(texts: TextByFieldPath) -> Iterator[str]:
    publishers, consumers = _worker_counts(texts)
    yield from ("request" if publishers else "serve", texts["subject"])
    if publishers != 1:
        yield from ("--pubs", str(publishers))
    if consumers != 1:
        yield from ("--servers", str(consumers))


def _stream_arguments(texts: TextByFieldPath) -> Iterator[str]:
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


def _read_arguments(texts: TextByFieldPath) -> Iterator[str]:
    yield from ("js", "get" if texts["read"] == "one" else "get-batch")
    yield from ("--stream", texts["stream"])
    if _worker_counts(texts)[0] != 1:
        yield from ("--workers", texts["publishers"])


_SHORT_FORM_FUNCTION_BY_KIND = {
    "core": _core_arguments,
    "request": _request_arguments,
    "stream": _stream_arguments,
    "read": _read_arguments,
}
