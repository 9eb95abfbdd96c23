"""A consumer, or a change of one, as flags of `nats consumer add` and `nats consumer edit`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from natstui.model.assets.consumer_fields import CONSUMER_FIELDS
from natstui.model.assets.defaults import normal_consumer
from natstui.model.assets.fields import Config, Field, number_at, read, strings_at, text_at
from natstui.model.natscli.values import NotAsFlags, duration, moment, pairs

_GROUP_FLAG = {"pinned_client": "pinned-groups", "prioritized": "prioritized-groups"}
"""Overflow is not here: the NATS CLI forgets the names of its groups."""
_PIN_NS = 120_000_000_000
_BEGINNING = ("name", "durable_name", "ack_policy", "deliver_subject")
"""What decides other defaults; a new one is compared with one that has no more than these."""
_NAMES = ("name", "durable_name")
_START = {"all": "all", "new": "new", "last": "last", "last_per_subject": "subject"}
_FOR_PUSH = ("deliver_group", "flow_control", "idle_heartbeat", "rate_limit_bps")
_MORE_THAN_ZERO = (
    "max_batch", "max_expires", "max_bytes", "inactive_threshold", "num_replicas",
    "max_ack_pending", "max_waiting",
)  # fmt: skip
"""Counts of which the NATS CLI takes another one for not given."""


def consumer_add_flags(config: Mapping[str, object]) -> list[str]:
    """Return the flags that make a consumer; raises NotAsFlags."""
    after = normal_consumer(config)
    before = normal_consumer({key: config[key] for key in _BEGINNING if config.get(key)})
    push = bool(text_at(after, "deliver_subject"))
    for path in () if push else _FOR_PUSH:
        _refuse(read(before, path) != read(after, path))
    # With --defaults a push consumer replays at once, and one without acks delivers once.
    _refuse(push and text_at(after, "replay_policy") == "original")
    _refuse(after.get("ack_policy") == "none" and number_at(after, "max_deliver") > 0)
    flags = [flag for field in CONSUMER_FIELDS for flag in _added(field, before, after)]
    flags += [] if push else ["--pull"]
    return flags + ([] if text_at(after, "durable_name") else ["--ephemeral"])


def consumer_edit_flags(config: Mapping[str, object], base: Mapping[str, object]) -> list[str]:
    """Return the flags that change a consumer; raises NotAsFlags."""
    before, after = normal_consumer(base), normal_consumer(config)
    found = []
    for field in CONSUMER_FIELDS:
        differs = read(before, field.path) != read(after, field.path)
        if differs and field.path not in _NAMES and field.kind != "threshold":
            _refuse(field.flag_add_only or (field.flag is None and field.path != "backoff"))
            found += _flag(field, after)
    return found


def _added(field: Field, before: Config, after: Config) -> Iterator[str]:
    path, value = field.path, read(after, field.path)
    if path == "deliver_policy":
        yield f"--deliver={_start(after)}"
    elif path == "ack_policy":
        yield f"--ack={value}"
    elif path == "deliver_subject":
        yield from [f"--target={value}"] if value else []
    elif path == "priority_policy":
        yield from _groups(after)
    elif path in ("priority_groups", "opt_start_seq", "opt_start_time", *_NAMES):
        return
    elif path == "priority_timeout":
        pins = text_at(after, "priority_policy") == "pinned_client"
        default = _PIN_NS if pins else None
        _refuse(not pins and value is not None)
        yield from [] if value == default else _flag(field, after)
    elif field.kind != "threshold" and value != read(before, path):
        yield from _flag(field, after)


def _refuse(reason: object) -> None:
    if reason:
        raise NotAsFlags


def _start(after: Config) -> str:
    policy = text_at(after, "deliver_policy")
    if policy == "by_start_sequence":
        return str(number_at(after, "opt_start_seq"))
    unfiltered = not strings_at(after, "filter_subjects")
    _refuse(policy not in _START or (policy == "last_per_subject" and unfiltered))
    return _START[policy]


def _groups(after: Config) -> list[str]:
    policy, groups = text_at(after, "priority_policy"), strings_at(after, "priority_groups")
    if policy in ("", "none") and not groups:
        return []
    _refuse(policy not in _GROUP_FLAG or not groups)
    return [f"--{_GROUP_FLAG[policy]}={group}" for group in groups]


def _flag(field: Field, after: Config) -> list[str]:
    path, value = field.path, read(after, field.path)
    if path == "backoff":
        _refuse(value)
        return ["--backoff=none"]
    if field.kind == "switch":
        _refuse(value is not True and path != "headers_only")
        return [f"--{field.flag}" if value is True else f"--no-{field.flag}"]
    if field.kind == "metadata":
        found = value if isinstance(value, Mapping) else {}
        return [f"--{field.flag}={pair}" for pair in pairs(found)]
    if field.kind == "subjects":
        _refuse(not strings_at(after, path))
        return [f"--{field.flag}={one}" for one in strings_at(after, path)]
    return [f"--{field.flag}={_text(field, value)}"]


def _text(field: Field, value: object) -> str:
    if field.path == "sample_freq":
        percent = str(value or "0").removesuffix("%")
        _refuse(not percent.isdecimal() or int(percent) > 100)
        return percent
    if field.path == "pause_until":
        return moment(str(value))
    _refuse(value in (None, "") or (field.path in _MORE_THAN_ZERO and value in (0, -1)))
    if field.kind == "duration" and isinstance(value, int):
        return duration(value)
    return str(value)
