"""A configuration as the `nats` command that makes it, ready to paste into a shell.

It uses flags of the NATS CLI where they say everything, and its `--config` where they do not. What
it cannot do at all becomes a comment that says so.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping

from natstui.model.assets.differences import AssetKind, fields_of, normal
from natstui.model.assets.fields import (
    Config,
    objects_at,
    read,
    text_at,
    without_server_metadata,
    written,
)
from natstui.model.natscli.consumer_flags import consumer_add_flags, consumer_edit_flags
from natstui.model.natscli.stream_flags import stream_add_flags, stream_edit_flags
from natstui.model.natscli.values import NotAsFlags

_OTHER_KEYS = {"filter_subject", "direct", "sourcing"}
"""Keys that the NATS CLI knows and that are no fields."""
_SOURCE_KEYS = {
    "name", "opt_start_seq", "opt_start_time", "filter_subject", "external",
    "subject_transforms", "consumer",
}  # fmt: skip
_ALWAYS: dict[str, Config] = {
    "stream": {
        "retention": "limits", "storage": "file", "discard": "old", "num_replicas": 1,
        "max_consumers": -1, "max_msgs": -1, "max_bytes": -1, "max_msgs_per_subject": -1,
        "max_msg_size": -1,
    },
    "consumer": {"ack_policy": "none", "deliver_policy": "all", "replay_policy": "instant"},
}  # fmt: skip
"""What a file for the NATS CLI says, because it takes 0 for what is absent."""


def stream_command(config: Mapping[str, object], base: Mapping[str, object] | None = None) -> str:
    """Return `nats stream add …`, or with the stream as it is (`base`) `nats stream edit …`."""
    if why := _beyond("stream", config, base):
        return cannot(why)
    make = (lambda: stream_edit_flags(config, base)) if base else lambda: stream_add_flags(config)
    return _command("stream", [text_at(config, "name")], config, base, make)


def consumer_command(
    stream: str, config: Mapping[str, object], base: Mapping[str, object] | None = None
) -> str:
    """Return `nats consumer add …`, or with the consumer as it is `nats consumer edit …`."""
    if base and not text_at(base, "durable_name"):
        return cannot("it can edit only durable consumers")
    if why := _beyond("consumer", config, base):
        return cannot(why)
    if base and text_at(config, "durable_name") != text_at(base, "durable_name"):
        return cannot("the name and durability of a consumer cannot change")
    name = text_at(config, "durable_name") or text_at(config, "name")
    make = (
        (lambda: consumer_edit_flags(config, base)) if base else lambda: consumer_add_flags(config)
    )
    return _command("consumer", [stream, *([name] if name else [])], config, base, make)


def cannot(why: str) -> str:
    """Return a comment that says why there is no command."""
    return f"# the NATS CLI cannot do this: {why}"


def _beyond(
    kind: AssetKind, config: Mapping[str, object], base: Mapping[str, object] | None
) -> str:
    """Return why the NATS CLI cannot: it leaves out every key that it does not know."""
    known = {field.path.partition(".")[0] for field in fields_of(kind)} | _OTHER_KEYS
    for one in (config, base or {}):
        keys = {key for key, value in normal(kind, one).items() if value and key not in known}
        for source in objects_at({"all": [read(one, "mirror")]}, "all") + objects_at(
            one, "sources"
        ):
            keys |= {key for key, value in source.items() if value and key not in _SOURCE_KEYS}
        if keys:
            lost = ", and would remove it" if base else ""
            return f"it does not know {', '.join(sorted(keys))}{lost}"
    return ""


def _command(
    kind: AssetKind,
    names: list[str],
    config: Mapping[str, object],
    base: Mapping[str, object] | None,
    make: Callable[[], list[str]],
) -> str:
    verb, last = (
        (["nats", kind, "edit"], "--force") if base else (["nats", kind, "add"], "--defaults")
    )
    try:
        return shlex.join(_placed(verb, names, [*make(), last]))
    except NotAsFlags:
        body, force = _body(kind, config, base), ["--force"] if base else []
    text = shlex.quote(json.dumps(body, ensure_ascii=False))
    if base and kind == "stream" and names[0].startswith("KV_"):
        # It asks about such a stream in any case, and could not with the file on its stdin.
        file = f"{names[0]}.json"
        command = shlex.join(_placed(verb, names, ["--config", file, *force]))
        return f"printf %s {text} > {shlex.quote(file)} && {command}"
    command = shlex.join(_placed(verb, names, ["--config", "/dev/stdin", *force]))
    return f"printf %s {text} | {command}"


def _placed(verb: list[str], names: list[str], flags: list[str]) -> list[str]:
    """Return all words; a name that begins like a flag stands behind every flag."""
    if any(name[:1] in ("-", "@") for name in names):
        return [*verb, *flags, "--", *names]
    return [*verb, *names, *flags]


def _body(
    kind: AssetKind, config: Mapping[str, object], base: Mapping[str, object] | None
) -> Config:
    body = {**_ALWAYS[kind], **without_server_metadata(config)}
    if base and kind == "consumer" and read(config, "backoff"):
        # The first pause takes its place, and the NATS CLI refuses any other one.
        body = written(body, "ack_wait", read(base, "ack_wait"))
    return body
