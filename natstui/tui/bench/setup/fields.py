"""The fields of the form, and those that each kind of benchmark has. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from natstui.model.assets.fields import Field, Kind
from natstui.model.bench.patterns import Pattern
from natstui.units import parse_bytes, parse_count, parse_duration_ns

Texts = Mapping[str, str]
"""Field path → text."""

SENDING: Mapping[Pattern, tuple[str, str]] = {
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
"""Pattern of the first sending or getting role → kind of benchmark, and way of sending."""
RECEIVING: Mapping[Pattern, tuple[str, str]] = {
    "subscribe": ("core", ""),
    "serve": ("request", ""),
    "js-consume": ("stream", "consume"),
    "js-fetch": ("stream", "fetch"),
    "js-push": ("stream", "push"),
    "js-ordered": ("stream", "ordered"),
    "js-respond": ("respond", ""),
}
"""Pattern of the first receiving role → kind of benchmark, and way of receiving."""
SHAPES = ("core", "request", "stream", "respond", "read", "kv")
WAYS = {"stream": "publish", "read": "read", "kv": "keys"}
"""Kind of benchmark → the field with its way of sending."""


def _list_ways(table: Mapping[Pattern, tuple[str, str]], shape: str) -> tuple[str, ...]:
    return tuple(way for kind, way in table.values() if kind == shape)


def _field(
    path: str, label: str, kind: Kind, help: str, absent: str = "", choices: tuple[str, ...] = ()
) -> Field:
    return Field(path, label, kind, "", help, absent=absent, choices=choices)


FIELDS = (
    _field("shape", "Pattern", "choice",
           "Core: plain publish. Request: request and reply. Stream: store, then consume. "
           "Respond: requests over streams. Read: gets of stored messages. Kv: keys.",
           choices=SHAPES),
    _field("publish", "Publish", "choice", "How messages are published to the stream.",
           choices=_list_ways(SENDING, "stream")),
    _field("consume", "Consume", "choice",
           "How workers consume the stream; ordered: each worker receives all messages.",
           choices=_list_ways(RECEIVING, "stream")),
    _field("read", "Get", "choice", "Get stored messages one by one, or many per request.",
           choices=_list_ways(SENDING, "read")),
    _field("keys", "Do", "choice", "Put values into a bucket, or get them.",
           choices=_list_ways(SENDING, "kv")),
    _field("publishers", "Publishers", "count", "Worker processes that send; 0: none."),
    _field("consumers", "Consumers", "count",
           "Worker processes that receive; on a stream they share its messages. 0: none."),
    _field("size", "Size", "bytes", "Bytes of a payload, as 128 or 64KB."),
    _field("rate", "Rate", "text",
           "Messages per second (+ and - change it); or burst 150 every 80ms, ramp 0 5k over 30s.",
           absent="as fast as possible"),
    _field("msgs", "Messages", "count", "Total number of messages, as 1M.",
        absent="until the duration is over"),
    _field("duration", "Duration", "duration", "How long, as 10s.",
        absent="until all messages are sent"),
    _field("subject", "Subject", "subject", "Where messages go."),
    _field("stream", "Stream", "text",
        "Created for the run and deleted afterwards, unless it existed before."),
    _field("storage", "Storage", "choice", "For a stream that the run creates.",
           choices=("file", "memory")),
    _field("replicas", "Replicas", "count", "For a stream that the run creates."),
    _field("acks", "Acks", "choice", "How consumers acknowledge.",
           choices=("explicit", "all", "none", "double")),
    _field("faults", "Faults", "text",
           "Planned faults, as: kill consumers 4s; add consumers 6s.", absent="none"),
    _field("checks", "Assertions", "text", "As: lost == 0; e2e.p99 < 20ms.", absent="none"),
)  # fmt: skip

_STORED = frozenset({"stream", "storage", "replicas"})
_ABSENT: Mapping[str, frozenset[str]] = {
    "core": _STORED | {"publish", "consume", "read", "keys", "acks"},
    "request": _STORED | {"publish", "consume", "read", "keys", "acks"},
    "stream": frozenset({"read", "keys"}),
    "respond": frozenset({"publish", "consume", "read", "keys", "acks"}),
    "read": frozenset({"publish", "consume", "keys", "consumers", "subject", "size", "acks",
                       "storage", "replicas"}),
    "kv": frozenset({"publish", "consume", "read", "consumers", "subject", "acks"}),
}  # fmt: skip


def is_shown(path: str, shape: str) -> bool:
    """Return whether a kind of benchmark has the field with this path."""
    return path not in _ABSENT.get(shape, frozenset())


_FAULT = re.compile(r"(kill|add|pause|resume)\s+([\w-]+)\s+(\S+)")
_VARYING_RATE = re.compile(
    r"burst\s+(?P<burst>\S+)\s+every\s+(?P<every>\S+)"
    r"|ramp\s+(?P<low>\S+)\s+(?P<high>\S+)\s+over\s+(?P<over>\S+)"
    r"|steps\s+(?P<steps>.+?)\s+every\s+(?P<each>\S+)"
)


def rate_value(text: str) -> float | int | dict[str, object] | None:
    """Return a typed rate as in a scenario, None if empty; raises ValueError for a bad text."""
    if not text.strip():
        return None
    match = _VARYING_RATE.fullmatch(text.strip())
    if match is None:
        return parse_count(text) or None
    if match["burst"]:
        return {"burst": parse_count(match["burst"]), "every": _check_duration(match["every"])}
    if match["steps"]:
        steps = [parse_count(count_text) for count_text in match["steps"].split()]
        return {"steps": steps, "every": _check_duration(match["each"])}
    ramp = [parse_count(match["low"]), parse_count(match["high"])]
    return {"ramp": ramp, "over": _check_duration(match["over"])}


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
    """Return typed faults as a scenario has them; raises ValueError for a bad text."""
    faults: list[dict[str, object]] = []
    for part in filter(None, map(str.strip, text.split(";"))):
        match = _FAULT.fullmatch(part)
        if match is None:
            raise ValueError(f"write {part!r} like this: kill consumers 4s")
        kind, role, time_text = match.groups()
        faults.append({"at": _check_duration(time_text), "kind": kind, "role": role})
    return faults


def _check_duration(text: str) -> str:
    parse_duration_ns(text)
    return text


def _parse_nonnegative(text: str) -> object:
    count = parse_count(text)
    if count < 0:
        raise ValueError(f"{text} is negative")
    return count


_PARSERS: Mapping[str, Callable[[str], object]] = {
    "publishers": _parse_nonnegative,
    "consumers": _parse_nonnegative,
    "replicas": _parse_nonnegative,
    "size": parse_bytes,
    "rate": rate_value,
    "msgs": lambda text: parse_count(text) if text else None,
    "duration": lambda text: parse_duration_ns(text) if text else None,
    "faults": faults_value,
}


def find_errors(texts: Texts) -> dict[str, str]:
    """Return field path → error of every shown field with a bad text."""
    errors: dict[str, str] = {}
    for field in FIELDS:
        parse = _PARSERS.get(field.path)
        if parse is None or not is_shown(field.path, texts["shape"]):
            continue
        try:
            parse(texts[field.path])
        except ValueError as error:
            errors[field.path] = f"{field.label}: {error}"
    return errors


_STEPS = (1, 2, 5)


def next_round_rate(text: str, direction: int) -> str:
    """Return the next higher or lower round rate: 1, 2, 5, 10, 20 …; below 1 follows "", no limit.

    A bad text is returned unchanged.
    """
    try:
        now = parse_count(text) if text.strip() else 0
    except ValueError:
        return text
    scale = [step * 10**power for power in range(8) for step in _STEPS]
    if direction > 0:
        return str(next((rate for rate in scale if rate > now), now))
    if not now:
        return str(scale[-1])
    return str(next((rate for rate in reversed(scale) if rate < now), "")) or ""
