"""A configuration as the `nats` command that creates it, ready to paste into a shell.

The command has flags if they can express everything, else `--config`. A change that the NATS CLI
cannot do becomes a comment with the reason.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping

from natstui.model.assets.consumer_fields import CONSUMER_FIELDS
from natstui.model.assets.defaults import normalize_consumer, normalize_stream
from natstui.model.assets.differences import AssetKind, fields_of, normalize_config
from natstui.model.assets.fields import (
    Config,
    Field,
    is_on,
    number_at,
    objects_at,
    read,
    strings_at,
    text_at,
    with_value_at,
    without_server_metadata,
)
from natstui.model.assets.stream_fields import STREAM_FIELDS
from natstui.model.natscli.values import (
    FlagsInsufficientError,
    format_duration,
    format_pairs,
    format_size,
    format_time,
)

_SWITCHES_WITHOUT_NO_FORM = {"allow_msg_ttl", "allow_msg_counter"}
"""Switches without a `--no-` form."""
_FLAG_PREFIX_BY_OBJECT = {"republish": "republish", "subject_transform": "transform"}
"""Objects whose source and destination are set together → the prefix of their flags."""
_DEFAULT_DUPLICATE_WINDOW_NS = 120_000_000_000


def stream_add_flags(config: Mapping[str, object]) -> list[str]:
    """Return the flags that create a stream; raises FlagsInsufficientError."""
    after = normalize_stream(config)
    before = normalize_stream({"name": text_at(config, "name")})
    return [flag for _, flag in _changed_flags(before, after, is_new=True)]


def stream_edit_flags(config: Mapping[str, object], base: Mapping[str, object]) -> list[str]:
    """Return the flags that change a stream from `base`; raises FlagsInsufficientError.

    An edit without `--no-ack` switches publish acks on.
    """
    before, after = normalize_stream(base), normalize_stream(config)
    flags = [
        flag for path, flag in _changed_flags(before, after, is_new=False) if path != "no_ack"
    ]
    is_no_ack, was_no_ack = is_on(after, "no_ack"), is_on(before, "no_ack")
    return [*flags, *(["--no-ack"] if is_no_ack else ["--ack"] if was_no_ack else [])]


def _duplicate_window_flags(after: Config) -> list[str]:
    """Return the flag of the duplicate window, if the default of the NATS CLI is another one."""
    window_ns, age_ns = number_at(after, "duplicate_window"), number_at(after, "max_age")
    default_ns = (
        min(age_ns, _DEFAULT_DUPLICATE_WINDOW_NS) if age_ns > 0 else _DEFAULT_DUPLICATE_WINDOW_NS
    )
    default_ns = default_ns if read(after, "mirror") is None else 0
    is_default = window_ns == default_ns and default_ns in (0, _DEFAULT_DUPLICATE_WINDOW_NS)
    return [] if is_default else [f"--dupe-window={format_duration(window_ns)}"]


def _changed_flags(before: Config, after: Config, *, is_new: bool) -> Iterator[tuple[str, str]]:
    """Yield field path and flag of each changed value, and of those the NATS CLI prompts for."""
    for field in STREAM_FIELDS:
        path, object_key = field.path, field.path.partition(".")[0]
        is_different = read(before, path) != read(after, path)
        flags: list[str] = []
        if object_key in _FLAG_PREFIX_BY_OBJECT:
            is_changed_pair = path == f"{object_key}.src" and read(before, object_key) != read(
                after, object_key
            )
            flags = _source_destination_flags(object_key, after, is_new) if is_changed_pair else []
        elif is_new and path == "subjects":
            is_mirror_or_sourced = read(after, "mirror") is not None or bool(
                objects_at(after, "sources")
            )
            flags = (
                []
                if is_mirror_or_sourced and not strings_at(after, path)
                else _list_flags(field, after)
            )
        elif is_new and path == "duplicate_window":
            flags = _duplicate_window_flags(after)
        elif path != "name" and field.kind != "threshold":
            is_required = is_new and path == "allow_direct"
            flags = _stream_flag(field, after, is_new) if is_different or is_required else []
        yield from ((path, flag) for flag in flags)


def _source_destination_flags(object_key: str, after: Config, is_new: bool) -> list[str]:
    flag = _FLAG_PREFIX_BY_OBJECT[object_key]
    source, destination = (text_at(after, f"{object_key}.{end}") for end in ("src", "dest"))
    # --no-republish of the NATS CLI does nothing.
    if not source and not destination and not is_new and object_key != "republish":
        return [f"--no-{flag}"]
    if not source or not destination:
        raise FlagsInsufficientError
    flags = [f"--{flag}-source={source}", f"--{flag}-destination={destination}"]
    return flags + ["--republish-headers"] * is_on(after, f"{object_key}.headers_only")


def _stream_flag(field: Field, after: Config, is_new: bool) -> list[str]:
    value = read(after, field.path)
    if field.flag is None or (field.flag_add_only and not is_new):
        raise FlagsInsufficientError
    if field.kind in ("source", "sources"):
        return _upstream_flags(field, after, is_new)
    if field.kind in ("subjects", "words"):
        return _list_flags(field, after)
    if isinstance(value, Mapping) or field.kind == "metadata":
        metadata = value if isinstance(value, Mapping) else {}
        return [f"--{field.flag}={pair}" for pair in format_pairs(metadata)]
    if field.kind == "switch":
        return [_switch_flag(field, value is True)]
    return [f"--{field.flag}={_stream_flag_value(field, value, is_new)}"]


def _upstream_flags(field: Field, after: Config, is_new: bool) -> list[str]:
    """Return the flags of a mirror or sources in JSON: the NATS CLI prompts after a mere name."""
    if not is_new and (field.path != "mirror" or read(after, "mirror") is not None):
        raise FlagsInsufficientError
    if not is_new:
        return ["--no-mirror"]
    origins = objects_at({"all": [read(after, "mirror")]}, "all")
    origins = origins if field.path == "mirror" else objects_at(after, "sources")
    return [f"--{field.flag}={json.dumps(value, ensure_ascii=False)}" for value in origins]


def _list_flags(field: Field, after: Config) -> list[str]:
    texts = strings_at(after, field.path)
    if field.path == "subjects" and (
        not texts or any(re.search(r"[,\s]", text) for text in texts)
    ):
        raise FlagsInsufficientError
    return [f"--{field.flag}={text}" for text in texts or ("",)]


def _switch_flag(field: Field, is_set: bool) -> str:
    if field.path == "no_ack":
        return "--no-ack" if is_set else "--ack"
    if not is_set and field.path in _SWITCHES_WITHOUT_NO_FORM:
        raise FlagsInsufficientError
    return f"--{field.flag}" if is_set else f"--no-{field.flag}"


def _stream_flag_value(field: Field, value: object, is_new: bool) -> str:
    if field.path == "retention":
        return "work" if value == "workqueue" else str(value)
    if field.kind == "duration":
        return format_duration(value if isinstance(value, int) else 0)
    if field.kind == "bytes" and isinstance(value, int):
        return format_size(value)
    if field.path == "placement.cluster":
        return str(value or "")
    # An empty text and a limit of -1 consumers are for an edit as if they were not given.
    if value in (None, "") or (field.path == "max_consumers" and value == -1 and not is_new):
        raise FlagsInsufficientError
    return str(value)


_GROUP_FLAG_BY_POLICY = {"pinned_client": "pinned-groups", "prioritized": "prioritized-groups"}
"""Priority policy → flag of its groups; without overflow, whose groups the NATS CLI drops."""
_DEFAULT_PINNED_TTL_NS = 120_000_000_000
_KEYS_DECIDING_DEFAULTS = ("name", "durable_name", "ack_policy", "deliver_subject")
"""Fields on which defaults depend; a new consumer is compared with these fields only."""
_NAME_FIELDS = ("name", "durable_name")
_DELIVER_VALUE_BY_POLICY = {
    "all": "all",
    "new": "new",
    "last": "last",
    "last_per_subject": "subject",
}
_PUSH_ONLY_FIELDS = ("deliver_group", "flow_control", "idle_heartbeat", "rate_limit_bps")
_FIELDS_IGNORED_UNLESS_POSITIVE = (
    "max_batch", "max_expires", "max_bytes", "inactive_threshold", "num_replicas",
    "max_ack_pending", "max_waiting",
)  # fmt: skip
"""Numbers that the NATS CLI ignores unless they are above zero."""


def consumer_add_flags(config: Mapping[str, object]) -> list[str]:
    """Return the flags that create a consumer; raises FlagsInsufficientError."""
    after = normalize_consumer(config)
    before = normalize_consumer(
        {key: config[key] for key in _KEYS_DECIDING_DEFAULTS if config.get(key)}
    )
    is_push = bool(text_at(after, "deliver_subject"))
    for path in () if is_push else _PUSH_ONLY_FIELDS:
        _raise_insufficient_if(read(before, path) != read(after, path))
    # With --defaults a push consumer replays at once, and one without acks delivers once.
    _raise_insufficient_if(is_push and text_at(after, "replay_policy") == "original")
    _raise_insufficient_if(
        after.get("ack_policy") == "none" and number_at(after, "max_deliver") > 0
    )
    flags = [
        flag for field in CONSUMER_FIELDS for flag in _consumer_add_flag(field, before, after)
    ]
    flags += [] if is_push else ["--pull"]
    return flags + ([] if text_at(after, "durable_name") else ["--ephemeral"])


def consumer_edit_flags(config: Mapping[str, object], base: Mapping[str, object]) -> list[str]:
    """Return the flags that change a consumer from `base`; raises FlagsInsufficientError."""
    before, after = normalize_consumer(base), normalize_consumer(config)
    flags = []
    for field in CONSUMER_FIELDS:
        is_different = read(before, field.path) != read(after, field.path)
        if is_different and field.path not in _NAME_FIELDS and field.kind != "threshold":
            _raise_insufficient_if(
                field.flag_add_only or (field.flag is None and field.path != "backoff")
            )
            flags += _consumer_flag(field, after)
    return flags


def _consumer_add_flag(field: Field, before: Config, after: Config) -> Iterator[str]:
    path, value = field.path, read(after, field.path)
    if path == "deliver_policy":
        yield f"--deliver={_deliver_flag_value(after)}"
    elif path == "ack_policy":
        yield f"--ack={value}"
    elif path == "deliver_subject":
        yield from [f"--target={value}"] if value else []
    elif path == "priority_policy":
        yield from _priority_group_flags(after)
    elif path in ("priority_groups", "opt_start_seq", "opt_start_time", *_NAME_FIELDS):
        return
    elif path == "priority_timeout":
        is_pinned = text_at(after, "priority_policy") == "pinned_client"
        default = _DEFAULT_PINNED_TTL_NS if is_pinned else None
        _raise_insufficient_if(not is_pinned and value is not None)
        yield from [] if value == default else _consumer_flag(field, after)
    elif field.kind != "threshold" and value != read(before, path):
        yield from _consumer_flag(field, after)


def _raise_insufficient_if(condition: object) -> None:
    if condition:
        raise FlagsInsufficientError


def _deliver_flag_value(after: Config) -> str:
    policy = text_at(after, "deliver_policy")
    if policy == "by_start_sequence":
        return str(number_at(after, "opt_start_seq"))
    is_unfiltered = not strings_at(after, "filter_subjects")
    _raise_insufficient_if(
        policy not in _DELIVER_VALUE_BY_POLICY or (policy == "last_per_subject" and is_unfiltered)
    )
    return _DELIVER_VALUE_BY_POLICY[policy]


def _priority_group_flags(after: Config) -> list[str]:
    policy, groups = text_at(after, "priority_policy"), strings_at(after, "priority_groups")
    if policy in ("", "none") and not groups:
        return []
    _raise_insufficient_if(policy not in _GROUP_FLAG_BY_POLICY or not groups)
    return [f"--{_GROUP_FLAG_BY_POLICY[policy]}={group}" for group in groups]


def _consumer_flag(field: Field, after: Config) -> list[str]:
    path, value = field.path, read(after, field.path)
    if path == "backoff":
        _raise_insufficient_if(value)
        return ["--backoff=none"]
    if field.kind == "switch":
        _raise_insufficient_if(value is not True and path != "headers_only")
        return [f"--{field.flag}" if value is True else f"--no-{field.flag}"]
    if field.kind == "metadata":
        metadata = value if isinstance(value, Mapping) else {}
        return [f"--{field.flag}={pair}" for pair in format_pairs(metadata)]
    if field.kind == "subjects":
        _raise_insufficient_if(not strings_at(after, path))
        return [f"--{field.flag}={text}" for text in strings_at(after, path)]
    return [f"--{field.flag}={_consumer_flag_value(field, value)}"]


def _consumer_flag_value(field: Field, value: object) -> str:
    if field.path == "sample_freq":
        percent = str(value or "0").removesuffix("%")
        _raise_insufficient_if(not percent.isdecimal() or int(percent) > 100)
        return percent
    if field.path == "pause_until":
        return format_time(str(value))
    _raise_insufficient_if(
        value in (None, "") or (field.path in _FIELDS_IGNORED_UNLESS_POSITIVE and value in (0, -1))
    )
    if field.kind == "duration" and isinstance(value, int):
        return format_duration(value)
    return str(value)


_KNOWN_KEYS_WITHOUT_FIELD = {"filter_subject", "direct", "sourcing"}
"""Keys of configurations that the NATS CLI knows, and that are no fields of a form."""
_KNOWN_SOURCE_KEYS = {
    "name", "opt_start_seq", "opt_start_time", "filter_subject", "external",
    "subject_transforms", "consumer",
}  # fmt: skip
_REQUIRED_VALUES_BY_KIND: dict[str, Config] = {
    "stream": {
        "retention": "limits", "storage": "file", "discard": "old", "num_replicas": 1,
        "max_consumers": -1, "max_msgs": -1, "max_bytes": -1, "max_msgs_per_subject": -1,
        "max_msg_size": -1,
    },
    "consumer": {"ack_policy": "none", "deliver_policy": "all", "replay_policy": "instant"},
}  # fmt: skip
"""Keys that are always in a file for the NATS CLI, which reads missing ones as 0."""


def stream_command(config: Mapping[str, object], base: Mapping[str, object] | None = None) -> str:
    """Return the command that creates a stream, or edits it from its configuration `base`."""
    if reason := _unknown_keys_text("stream", config, base):
        return comment_for(reason)
    make_flags = (
        (lambda: stream_edit_flags(config, base)) if base else lambda: stream_add_flags(config)
    )
    return _join_command("stream", [text_at(config, "name")], config, base, make_flags)


def consumer_command(
    stream: str, config: Mapping[str, object], base: Mapping[str, object] | None = None
) -> str:
    """Return the command that creates a consumer, or edits it from its configuration `base`."""
    if base and not text_at(base, "durable_name"):
        return comment_for("it can edit only durable consumers")
    if reason := _unknown_keys_text("consumer", config, base):
        return comment_for(reason)
    if base and text_at(config, "durable_name") != text_at(base, "durable_name"):
        return comment_for("the name and durability of a consumer cannot change")
    name = text_at(config, "durable_name") or text_at(config, "name")
    make_flags = (
        (lambda: consumer_edit_flags(config, base)) if base else lambda: consumer_add_flags(config)
    )
    return _join_command("consumer", [stream, *([name] if name else [])], config, base, make_flags)


def comment_for(reason: str) -> str:
    """Return a shell comment with the reason why there is no command."""
    return f"# the NATS CLI cannot do this: {reason}"


def _unknown_keys_text(
    kind: AssetKind, config: Mapping[str, object], base: Mapping[str, object] | None
) -> str:
    """Return why the NATS CLI cannot write a configuration: unknown keys; empty if it can."""
    known_keys = {
        field.path.partition(".")[0] for field in fields_of(kind)
    } | _KNOWN_KEYS_WITHOUT_FIELD
    for configuration in (config, base or {}):
        values = normalize_config(kind, configuration)
        keys = {key for key, value in values.items() if value and key not in known_keys}
        for source in objects_at({"all": [read(configuration, "mirror")]}, "all") + objects_at(
            configuration, "sources"
        ):
            keys |= {
                key for key, value in source.items() if value and key not in _KNOWN_SOURCE_KEYS
            }
        if keys:
            loss_text = ", and would remove it" if base else ""
            return f"it does not know {', '.join(sorted(keys))}{loss_text}"
    return ""


def _join_command(
    kind: AssetKind,
    names: list[str],
    config: Mapping[str, object],
    base: Mapping[str, object] | None,
    make_flags: Callable[[], list[str]],
) -> str:
    verb, last = (
        (["nats", kind, "edit"], "--force") if base else (["nats", kind, "add"], "--defaults")
    )
    try:
        return shlex.join(_order_arguments(verb, names, [*make_flags(), last]))
    except FlagsInsufficientError:
        body, force_flags = _file_config(kind, config, base), ["--force"] if base else []
    text = shlex.quote(json.dumps(body, ensure_ascii=False))
    if base and kind == "stream" and names[0].startswith("KV_"):
        # The NATS CLI always prompts before it edits such a stream: stdin must not be the file.
        file = f"{names[0]}.json"
        command = shlex.join(_order_arguments(verb, names, ["--config", file, *force_flags]))
        return f"printf %s {text} > {shlex.quote(file)} && {command}"
    command = shlex.join(_order_arguments(verb, names, ["--config", "/dev/stdin", *force_flags]))
    return f"printf %s {text} | {command}"


def _order_arguments(verb: list[str], names: list[str], flags: list[str]) -> list[str]:
    """Return verb, names and flags in order; names that begin like a flag come last."""
    if any(name[:1] in ("-", "@") for name in names):
        return [*verb, *flags, "--", *names]
    return [*verb, *names, *flags]


def _file_config(
    kind: AssetKind, config: Mapping[str, object], base: Mapping[str, object] | None
) -> Config:
    body = {**_REQUIRED_VALUES_BY_KIND[kind], **without_server_metadata(config)}
    if base and kind == "consumer" and read(config, "backoff"):
        # The first pause takes its place, and the NATS CLI refuses any other one.
        body = with_value_at(body, "ack_wait", read(base, "ack_wait"))
    return body
