"""A configuration as the `nats` command that makes it, ready to paste into a shell.

It uses flags of natscli where they can express everything, and its `--config` where they cannot.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping

from natstui.model.assets.differences import AssetKind, fields_of, normal
from natstui.model.assets.fields import (
    Config,
    Field,
    number_at,
    objects_at,
    read,
    strings_at,
    text_at,
    without_server_metadata,
)
from natstui.model.assets.text import exact_bytes, exact_duration

_ONLY_ON = {
    "allow_msg_ttl", "allow_msg_counter", "republish.headers_only", "flow_control", "mem_storage",
}  # fmt: skip
"""Switches of natscli without a `--no-` form."""
_GROUP_FLAG = {
    "pinned_client": "pinned-groups",
    "overflow": "overflow-groups",
    "prioritized": "prioritized-groups",
}


_REMOVED_BY = {
    "mirror": "--no-mirror",
    "subject_transform.src": "--no-transform",
    "republish.src": "--no-republish",
}
_BEGINNING = ("name", "durable_name", "ack_policy")
"""What decides other defaults; a new one is compared with one that has no more than these."""
_NATSCLI_DEFAULTS = ("allow_direct", "ack_policy", "deliver_policy")
"""Always given on `add`: natscli has other defaults for them than the server."""


def stream_command(config: Mapping[str, object], base: Mapping[str, object] | None = None) -> str:
    """Return `nats stream add …`, or with the stream as it is (`base`) `nats stream edit …`."""
    verb = ["nats", "stream", "edit" if base else "add", text_at(config, "name")]
    return _command("stream", verb, config, base)


def consumer_command(
    stream: str, config: Mapping[str, object], base: Mapping[str, object] | None = None
) -> str:
    """Return `nats consumer add …`, or with the consumer as it is `nats consumer edit …`."""
    name = text_at(config, "durable_name") or text_at(config, "name")
    verb = ["nats", "consumer", "edit" if base else "add", stream, *([name] if name else [])]
    return _command("consumer", verb, config, base)


def _command(
    kind: AssetKind,
    verb: list[str],
    config: Mapping[str, object],
    base: Mapping[str, object] | None,
) -> str:
    last = ["--force"] if base else ["--defaults"]
    if not (_stream_fits if kind == "stream" else _consumer_fits)(config, base is None):
        body = json.dumps(without_server_metadata(config), ensure_ascii=False)
        command = shlex.join([*verb, "--config", "/dev/stdin", *(last if base else [])])
        return f"printf %s {shlex.quote(body)} | {command}"
    flags = list(_flags(kind, config, base))
    if kind == "consumer" and base is None:
        flags += _consumer_mode(config)
    return shlex.join([*verb, *flags, *last])


def _flags(
    kind: AssetKind, config: Mapping[str, object], base: Mapping[str, object] | None
) -> Iterator[str]:
    before = normal(kind, base or {key: config[key] for key in _BEGINNING if key in config})
    after = normal(kind, config)
    for field in fields_of(kind):
        value = read(after, field.path)
        if not field.flag or (field.flag_add_only and base):
            continue
        if base is None and field.path in _NATSCLI_DEFAULTS:
            yield from _flag(kind, field, value, after)
        elif value is None and base and read(before, field.path) and field.path in _REMOVED_BY:
            yield _REMOVED_BY[field.path]
        elif value is not None and value != read(before, field.path):
            yield from _flag(kind, field, value, after)


def _flag(kind: AssetKind, field: Field, value: object, asked: Config) -> Iterator[str]:
    flag = f"--{field.flag}"
    if field.kind == "switch":
        yield from _switch(field, value is True)
    elif field.path == "deliver_policy":
        yield f"{flag}={_start(asked)}"
    elif field.path == "retention":
        yield f"{flag}={'work' if value == 'workqueue' else value}"
    elif field.path == "sample_freq":
        yield f"{flag}={str(value).removesuffix('%')}"
    elif isinstance(value, Mapping) and field.kind == "metadata":
        yield from (f"{flag}={key}={item}" for key, item in value.items())
    elif isinstance(value, Mapping):
        yield f"{flag}={text_at(value, 'name')}"
    elif isinstance(value, (list, tuple)):
        yield from (f"{flag}={_name(item)}" for item in value)
    else:
        yield f"{flag}={_number(kind, field, value)}"


def _name(item: object) -> object:
    return item.get("name") if isinstance(item, Mapping) else item


def _switch(field: Field, on: bool) -> Iterator[str]:
    if field.path == "no_ack":
        yield "--no-ack" if on else "--ack"
    elif on:
        yield f"--{field.flag}"
    elif field.path not in _ONLY_ON:
        yield f"--no-{field.flag}"


def _number(kind: AssetKind, field: Field, value: object) -> str:
    if not isinstance(value, int):
        return str(value)
    if field.kind == "duration":
        return exact_duration(value) if value > 0 else "-1"
    if field.kind == "bytes" and kind == "stream" and value >= 0:
        return exact_bytes(value)
    return str(value)


def _start(config: Config) -> str:
    policy = text_at(config, "deliver_policy")
    if policy == "by_start_sequence":
        return str(number_at(config, "opt_start_seq"))
    return "subject" if policy == "last_per_subject" else policy


def _consumer_mode(config: Mapping[str, object]) -> list[str]:
    flags = [] if text_at(config, "deliver_subject") else ["--pull"]
    flags += [] if text_at(config, "durable_name") else ["--ephemeral"]
    flag = _GROUP_FLAG.get(text_at(config, "priority_policy"))
    groups = strings_at(config, "priority_groups") if flag else ()
    return flags + [f"--{flag}={group}" for group in groups]


def _stream_fits(config: Mapping[str, object], _adding: bool) -> bool:
    """Return whether flags can express every setting of a stream."""
    upstreams = [read(config, "mirror"), *objects_at(config, "sources")]
    plain = all(item is None or item == {"name": _name(item)} for item in upstreams)
    return plain and read(config, "sealed") is not True


def _consumer_fits(config: Mapping[str, object], adding: bool) -> bool:
    by_time = text_at(config, "deliver_policy") == "by_start_time"
    grouped = bool(strings_at(config, "priority_groups"))
    return not read(config, "backoff") and not (adding and by_time) and (adding or not grouped)
