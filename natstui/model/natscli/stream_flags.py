"""A stream, or a change of one, as flags of `nats stream add` and `nats stream edit`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from natstui.model.assets.defaults import normal_stream
from natstui.model.assets.fields import (
    Config,
    Field,
    is_on,
    number_at,
    objects_at,
    read,
    strings_at,
    text_at,
)
from natstui.model.assets.stream_fields import STREAM_FIELDS
from natstui.model.natscli.values import NotAsFlags, duration, pairs, size

_ONLY_ON = {"allow_msg_ttl", "allow_msg_counter"}
"""Switches without a `--no-` form."""
_PAIRS = {"republish": "republish", "subject_transform": "transform"}
"""Objects whose two ends are always said together, and how their flags begin."""
_WINDOW_NS = 120_000_000_000


def stream_add_flags(config: Mapping[str, object]) -> list[str]:
    """Return the flags that make a stream; raises NotAsFlags."""
    after = normal_stream(config)
    before = normal_stream({"name": text_at(config, "name")})
    return [flag for _, flag in _changes(before, after, adding=True)]


def stream_edit_flags(config: Mapping[str, object], base: Mapping[str, object]) -> list[str]:
    """Return the flags that change a stream; raises NotAsFlags.

    An edit without `--no-ack` switches the acknowledgements of a stream on.
    """
    before, after = normal_stream(base), normal_stream(config)
    said = [flag for path, flag in _changes(before, after, adding=False) if path != "no_ack"]
    quiet, was_quiet = is_on(after, "no_ack"), is_on(before, "no_ack")
    return [*said, *(["--no-ack"] if quiet else ["--ack"] if was_quiet else [])]


def _window(after: Config) -> list[str]:
    """Return the dedup window where the NATS CLI would take another one."""
    asked_ns, age_ns = number_at(after, "duplicate_window"), number_at(after, "max_age")
    theirs_ns = min(age_ns, _WINDOW_NS) if age_ns > 0 else _WINDOW_NS
    theirs_ns = theirs_ns if read(after, "mirror") is None else 0
    plain = asked_ns == theirs_ns and theirs_ns in (0, _WINDOW_NS)
    return [] if plain else [f"--dupe-window={duration(asked_ns)}"]


def _changes(before: Config, after: Config, *, adding: bool) -> Iterator[tuple[str, str]]:
    """Return path and flag of all that differs, and of what the NATS CLI would ask for."""
    for field in STREAM_FIELDS:
        path, head = field.path, field.path.partition(".")[0]
        differs = read(before, path) != read(after, path)
        flags: list[str] = []
        if head in _PAIRS:
            ends = path == f"{head}.src" and read(before, head) != read(after, head)
            flags = _ends(head, after, adding) if ends else []
        elif adding and path == "subjects":
            copies = read(after, "mirror") is not None or bool(objects_at(after, "sources"))
            flags = [] if copies and not strings_at(after, path) else _list(field, after)
        elif adding and path == "duplicate_window":
            flags = _window(after)
        elif path != "name" and field.kind != "threshold":
            always = adding and path == "allow_direct"
            flags = _flag(field, after, adding) if differs or always else []
        yield from ((path, flag) for flag in flags)


def _ends(head: str, after: Config, adding: bool) -> list[str]:
    flag = _PAIRS[head]
    source, destination = (text_at(after, f"{head}.{end}") for end in ("src", "dest"))
    # Its --no-republish does nothing.
    if not source and not destination and not adding and head != "republish":
        return [f"--no-{flag}"]
    if not source or not destination:
        raise NotAsFlags
    said = [f"--{flag}-source={source}", f"--{flag}-destination={destination}"]
    return said + ["--republish-headers"] * is_on(after, f"{head}.headers_only")


def _flag(field: Field, after: Config, adding: bool) -> list[str]:
    value = read(after, field.path)
    if field.flag is None or (field.flag_add_only and not adding):
        raise NotAsFlags
    if field.kind in ("source", "sources"):
        return _upstreams(field, after, adding)
    if field.kind in ("subjects", "words"):
        return _list(field, after)
    if isinstance(value, Mapping) or field.kind == "metadata":
        found = value if isinstance(value, Mapping) else {}
        return [f"--{field.flag}={pair}" for pair in pairs(found)]
    if field.kind == "switch":
        return [_switch(field, value is True)]
    return [f"--{field.flag}={_text(field, value, adding)}"]


def _upstreams(field: Field, after: Config, adding: bool) -> list[str]:
    """Return origins in JSON, because the NATS CLI asks questions about a mere name."""
    if not adding and (field.path != "mirror" or read(after, "mirror") is not None):
        raise NotAsFlags
    if not adding:
        return ["--no-mirror"]
    found = objects_at({"all": [read(after, "mirror")]}, "all")
    found = found if field.path == "mirror" else objects_at(after, "sources")
    return [f"--{field.flag}={json.dumps(one, ensure_ascii=False)}" for one in found]


def _list(field: Field, after: Config) -> list[str]:
    words = strings_at(after, field.path)
    if field.path == "subjects" and (not words or any(re.search(r"[,\s]", one) for one in words)):
        raise NotAsFlags
    return [f"--{field.flag}={word}" for word in words or ("",)]


def _switch(field: Field, on: bool) -> str:
    if field.path == "no_ack":
        return "--no-ack" if on else "--ack"
    if not on and field.path in _ONLY_ON:
        raise NotAsFlags
    return f"--{field.flag}" if on else f"--no-{field.flag}"


def _text(field: Field, value: object, adding: bool) -> str:
    if field.path == "retention":
        return "work" if value == "workqueue" else str(value)
    if field.kind == "duration":
        return duration(value if isinstance(value, int) else 0)
    if field.kind == "bytes" and isinstance(value, int):
        return size(value)
    if field.path == "placement.cluster":
        return str(value or "")
    # An empty text and a limit of -1 consumers are for an edit as if they were not given.
    if value in (None, "") or (field.path == "max_consumers" and value == -1 and not adding):
        raise NotAsFlags
    return str(value)
