"""The fields of the form, and those that each kind of benchmark has. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from natstui.model.assets.fields import Field, FieldKind
from natstui.model.bench.patterns import Pattern
from natstui.units import parse_bytes, parse_count, parse_duration_ns

TextByFieldPath = Mapping[str, str]
"""Field path → text."""

SENDING_KIND_AND_METHOD: Mapping[Pattern, tuple[str, str]] = {
    "publish": ("core", ""),
    "request": ("request", ""),
    "js-publish-async": ("stream", "async"),
    "js-publish-sync": ("stream", "sync"),
    "js-publish-atomic": ("stream", "atomic"),
    "js-publish-fast": ("stream", "fast"),
    "js-request": ("respond", ""),
    "js-get": ("read", "one"),
    "js-get-batch": ("read", "batch"),
    "kv-put": ("kv", "put"),
    "kv-get": ("kv", "get"),
}
"""Pattern of the first sending or getting role → kind of benchmark, and method of sending."""
RECEIVING_KIND_AND_METHOD: Mapping[Pattern, tuple[str, str]] = {
    "subscribe": ("core", ""),
    "serve": ("request", ""),
    "js-consume": ("stream", "consume"),
    "js-fetch": ("stream", "fetch"),
    "js-push": ("stream", "push"),
    "js-ordered": ("stream", "ordered"),
    "js-respond": ("respond", ""),
}
"""Pattern of the first receiving role → kind of benchmark, and method of receiving."""
BENCHMARK_KINDS = ("core", "request", "stream", "respond", "read", "kv")
METHOD_FIELD_BY_KIND = {"stream": "publish", "read": "read", "kv": "keys"}
"""Kind of benchmark → the field with its method of sending."""


def _list_methods(
    kinds_and_methods: Mapping[Pattern, tuple[str, str]], benchmark_kind: str
) -> tuple[str, ...]:
    return tuple(method for kind, method in kinds_and_methods.values() if kind == benchmark_kind)


def _create_field(
    path: str,
    label: str,
    kind: FieldKind,
    help: str,
    absent_text: str = "",
    choices: tuple[str, ...] = (),
) -> Field:
    return Field(path, label, kind, "", help, absent_text=absent_text, choices=choices)


BENCHMARK_FIELDS = (
    _create_field("shape", "Pattern", "choice",
           "Core: plain publish. Request: request and reply. Stream: store, then consume. "
           "Respond: requests over streams. Read: gets of stored messages. Kv: keys.",
           choices=BENCHMARK_KINDS),
    _create_field("publish", "Publish", "choice", "How messages are published to the stream.",
           choices=_list_methods(SENDING_KIND_AND_METHOD, "stream")),
    _create_field("consume", "Consume", "choice",
           "How workers consume the stream; ordered: each worker receives all messages.",
           choices=_list_methods(RECEIVING_KIND_AND_METHOD, "stream")),
    _create_field("read", "Get", "choice", "Get stored messages one by one, or many per request.",
           choices=_list_methods(SENDING_KIND_AND_METHOD, "read")),
    _create_field("keys", "Do", "choice", "Put values into a bucket, or get them.",
           choices=_list_methods(SENDING_KIND_AND_METHOD, "kv")),
    _create_field("publishers", "Publishers", "count", "Worker processes that send; 0: none."),
    _create_field("consumers", "Consumers", "count",
           "Worker processes that receive; on a stream they share its messages. 0: none."),
    _create_field("size", "Size", "bytes", "Bytes of a payload, as 128 or 64KB."),
    _create_field("rate", "Rate", "text",
           "Messages per second (+ and - change it); or burst 150 every 80ms, ramp 0 5k over 30s.",
           absent_text="as fast as possible"),
    _create_field("msgs", "Messages", "count", "Total number of messages, as 1M.",
        absent_text="until the duration is over"),
    _create_field("duration", "Duration", "duration", "How long, as 10s.",
        absent_text="until all messages are sent"),
    _create_field("subject", "Subject", "subject", "Where messages go."),
    _create_field("stream", "Stream", "text",
        "Created for the run and deleted afterwards, unless it existed before."),
    _create_field("storage", "Storage", "choice", "For a stream that the run creates.",
           choices=("file", "memory")),
    _create_field("replicas", "Replicas", "count", "For a stream that the run creates."),
    _create_field("acks", "Acks", "choice", "How consumers acknowledge.",
           choices=("explicit", "all", "none", "double")),
    _create_field("faults", "Faults", "text",
           "Planned faults, as: kill consumers 4s; add consumers 6s.", absent_text="none"),
    _create_field("checks", "Assertions", "text", "As: lost == 0; e2e.p99 < 20ms.",
           absent_text="none"),
)  # fmt: skip

_STORAGE_FIELDS = frozenset({"stream", "storage", "replicas"})
_HIDDEN_FIELDS_BY_KIND: Mapping[str, frozenset[str]] = {
    "core": _STORAGE_FIELDS | {"publish", "consume", "read", "keys", "acks"},
    "request": _STORAGE_FIELDS | {"publish", "consume", "read", "keys", "acks"},
    "stream": frozenset({"read", "keys"}),
    "respond": frozenset({"publish", "consume", "read", "keys", "acks"}),
    "read": frozenset({"publish", "consume", "keys", "consumers", "subject", "size", "acks",
                       "storage", "replicas"}),
    "kv": frozenset({"publish", "consume", "read", "consumers", "subject", "acks"}),
}  # fmt: skip


def is_shown(path: str, benchmark_kind: str) -> bool:
    """Return whether a benchmark of this kind has the field with this path."""
    return path not in _HIDDEN_FIELDS_BY_KIND.get(benchmark_kind, frozenset())


_FAULT_PATTERN = re.compile(r"(kill|add|pause|resume)\s+([\w-]+)\s+(\S+)")
_VARYING_RATE_PATTERN = re.compile(
    r"burst\s+(?P<burst>\S+)\s+every\s+(?P<every>\S+)"
    r"|ramp\s+(?P<low>\S+)\s+(?P<high>\S+)\s+over\s+(?P<over>\S+)"
    r"|steps\s+(?P<steps>.+?)\s+every\s+(?P<each>\S+)"
)


def rate_value(text: str) -> float | int | dict[str, object] | None:
    """Return the `rate` setting of a scenario for a typed rate, None if empty; raises ValueError
    for a bad text.
    """
    if not text.strip():
        return None
    match = _VARYING_RATE_PATTERN.fullmatch(text.strip())
    if match is None:
        return parse_count(text) or None
    if match["burst"]:
        return {"burst": parse_count(match["burst"]), "every": _require_duration(match["every"])}
    if match["steps"]:
        steps = [parse_count(count_text) for count_text in match["steps"].split()]
        return {"steps": steps, "every": _require_duration(match["each"])}
    ramp = [parse_count(match["low"]), parse_count(match["high"])]
    return {"ramp": ramp, "over": _require_duration(match["over"])}


def rate_field_text(value: object) -> str:
    """Return the text to type for a scenario's rate; empty without a rate."""
    if not isinstance(value, Mapping):
        return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
    interval_text = value.get("every", "5s")
    if "burst" in value:
        return f"burst {value['burst']} every {interval_text}"
    if "steps" in value:
        return f"steps {' '.join(map(str, value['steps']))} every {interval_text}"
    start_rate, end_rate = value["ramp"]
    return f"ramp {start_rate} {end_rate} over {value.get('over', '10s')}"


def faults_value(text: str) -> list[dict[str, object]]:
    """Return the faults of a scenario for a typed text; raises ValueError for a bad text."""
    faults: list[dict[str, object]] = []
    for part in filter(None, map(str.strip, text.split(";"))):
        match = _FAULT_PATTERN.fullmatch(part)
        if match is None:
            raise ValueError(f"write {part!r} like this: kill consumers 4s")
        kind, role, time_text = match.groups()
        faults.append({"at": _require_duration(time_text), "kind": kind, "role": role})
    return faults


def _require_duration(text: str) -> str:
    parse_duration_ns(text)
    return text


def _parse_nonnegative_count(text: str) -> object:
    count = parse_count(text)
    if count < 0:
        raise ValueError(f"{text} is negative")
    return count


_PARSER_BY_FIELD: Mapping[str, Callable[[str], object]] = {
    "publishers": _parse_nonnegative_count,
    "consumers": _parse_nonnegative_count,
    "replicas": _parse_nonnegative_count,
    "size": parse_bytes,
    "rate": rate_value,
    "msgs": lambda text: parse_count(text) if text else None,
    "duration": lambda text: parse_duration_ns(text) if text else None,
    "faults": faults_value,
}


def find_errors(texts: TextByFieldPath) -> dict[str, str]:
    """Return field path → error of every shown field with a bad text."""
    error_by_path: dict[str, str] = {}
    for field in BENCHMARK_FIELDS:
        parse = _PARSER_BY_FIELD.get(field.path)
        if parse is None or not is_shown(field.path, texts["shape"]):
            continue
        try:
            parse(texts[field.path])
        except ValueError as error:
            error_by_path[field.path] = f"{field.label}: {error}"
    return error_by_path


_ROUND_RATE_FACTORS = (1, 2, 5)


def next_round_rate(text: str, direction: int) -> str:
    """Return the text of the next round rate above (1) or below (-1) a typed rate.

    Round rates are 1, 2, 5, 10, 20 …; below 1 comes the empty text, which means no limit. A bad
    text is returned unchanged.
    """
    try:
        current_rate = parse_count(text) if text.strip() else 0
    except ValueError:
        return text
    round_rates = [step * 10**power for power in range(8) for step in _ROUND_RATE_FACTORS]
    if direction > 0:
        return str(next((rate for rate in round_rates if rate > current_rate), current_rate))
    if not current_rate:
        return str(round_rates[-1])
    return str(next((rate for rate in reversed(round_rates) if rate < current_rate), "")) or ""
