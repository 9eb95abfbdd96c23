"""The differences between two configurations, and why the server would refuse some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from natstui.model.assets.consumer_fields import CONSUMER_FIELDS
from natstui.model.assets.defaults import FILTER_KEYS, normal_consumer, normal_stream
from natstui.model.assets.fields import (
    Config,
    Field,
    read,
    read_field,
    text_at,
    with_value_at,
)
from natstui.model.assets.stream_fields import STREAM_FIELDS
from natstui.model.assets.text import format_field

AssetKind = Literal["stream", "consumer"]

_FIELDS: dict[str, Sequence[Field]] = {"stream": STREAM_FIELDS, "consumer": CONSUMER_FIELDS}


@dataclass(frozen=True, slots=True)
class Difference:
    """A field that differs; its texts are as people would type them, empty when absent."""

    path: str
    label: str
    before: str
    after: str
    refused: str | None
    """Why the server refuses to change it; None if it accepts."""


def fields_of(kind: AssetKind) -> Sequence[Field]:
    """Return the field table of a kind of asset."""
    return _FIELDS[kind]


def normal(kind: AssetKind, config: Mapping[str, object]) -> Config:
    """Return the configuration as the server would store it."""
    return normal_stream(config) if kind == "stream" else normal_consumer(config)


def differences(
    kind: AssetKind, before: Mapping[str, object], after: Mapping[str, object]
) -> tuple[Difference, ...]:
    """Return the differences of both as the server would store them, unknown keys last."""
    before_config, after_config = normal(kind, before), normal(kind, after)
    changes = [
        Difference(
            field.path,
            field.label,
            format_field(field, read_field(before_config, field)),
            format_field(field, read_field(after_config, field)),
            _refusal(field, before_config, after_config),
        )
        for field in fields_of(kind)
        if read_field(before_config, field) != read_field(after_config, field)
    ]
    known_keys = {field.path.split(".")[0] for field in fields_of(kind)}
    for key in sorted(set(before_config) | set(after_config)):
        if key not in known_keys and before_config.get(key) != after_config.get(key):
            texts = [
                "" if side.get(key) is None else str(side[key])
                for side in (before_config, after_config)
            ]
            changes.append(Difference(key, key, texts[0], texts[1], None))
    return tuple(changes)


_LEFT_OPEN: tuple[object, ...] = (None, "", -1, [], (), {})
"""Values for which the server chooses."""

_NEVER_BACK = {
    "deny_delete": "deny delete cannot be switched off again",
    "deny_purge": "deny purge cannot be switched off again",
    "sealed": "a sealed stream cannot be unsealed",
    "allow_msg_ttl": "message TTL cannot be switched off again",
    "allow_msg_schedules": "schedules cannot be switched off again",
}


def _refusal(field: Field, before_config: Config, after_config: Config) -> str | None:
    if field.path == "retention" and "workqueue" in (
        before_config["retention"],
        after_config["retention"],
    ):
        return "retention cannot change to or from workqueue"
    if field.path == "mirror" and read(after_config, "mirror") is None:
        return None
    if field.path in _NEVER_BACK and read(before_config, field.path) is True:
        return _NEVER_BACK[field.path]
    if field.path == "deliver_subject" and not text_at(after_config, "deliver_subject"):
        return "a push consumer cannot become a pull consumer"
    if field.path == "deliver_subject" and not text_at(before_config, "deliver_subject"):
        return "a pull consumer cannot become a push consumer"
    return field.fixed


def with_field(config: Mapping[str, object], field: Field, value: object) -> Config:
    """Return a copy with one field set; a list of filters replaces a single one."""
    copy = with_value_at(config, field.path, value)
    if field.path == "filter_subjects":
        copy.pop("filter_subject", None)
    return copy


def merge_config(config: Mapping[str, object], over: Mapping[str, object]) -> Config:
    """Return a copy with the keys of `over`, whose filters replace all filters."""
    has_filters = not over.keys().isdisjoint(FILTER_KEYS)
    kept_config = {
        key: value for key, value in config.items() if not (has_filters and key in FILTER_KEYS)
    }
    return {**kept_config, **over}


def is_as_requested(
    kind: AssetKind, requested: Mapping[str, object], now: Mapping[str, object]
) -> bool:
    """Return whether a configuration is the requested one, but for what sealing ends by itself."""
    ended = _ENDED_BY_SEALING if requested.get("sealed") else set[str]()
    return all(difference.path in ended for difference in differences(kind, requested, now))


def not_taken(
    kind: AssetKind,
    requested: Mapping[str, object],
    after: Mapping[str, object],
    before: Mapping[str, object] | None = None,
) -> tuple[Difference, ...]:
    """Return the requested settings that differ on the server now.

    `before` of a result is the requested value. Settings left to the server are not included. The
    parameter `before` is the configuration before an edit: settings that the edit does not change
    may follow from others.
    """
    normal_after, normal_wanted = normal(kind, after), normal(kind, requested)
    single = text_at(requested, "filter_subject")
    if single and kind == "consumer":
        requested = {**requested, "filter_subjects": [single]}
    dependent = _INHERITED | (_ENDED_BY_SEALING if requested.get("sealed") else set())
    missed = []
    for field in fields_of(kind):
        wanted_value = read_field(requested, field)
        if wanted_value in _LEFT_OPEN or (wanted_value == 0 and wanted_value is not False):
            continue
        value_after = read_field(normal_after, field)
        accepted = [
            wanted_value,
            read_field(normal(kind, with_value_at({}, field.path, wanted_value)), field),
        ]
        is_kept = before is not None and read_field(before, field) == wanted_value
        if is_kept and field.path in dependent:
            continue
        if is_kept or field.path in _OVERRIDDEN:
            accepted.append(read_field(normal_wanted, field))
        if not any(_is_same(value, value_after) for value in accepted):
            texts = format_field(field, wanted_value), format_field(field, value_after)
            missed.append(Difference(field.path, field.label, *texts, None))
    return tuple(missed)


_INHERITED = {"mirror_direct"}
"""Options that the server copies from another stream with every change."""
_ENDED_BY_SEALING = {"max_age", "allow_rollup_hdrs"}
_OVERRIDDEN = {"ack_wait"}
"""Options that another one overrides, as their help says: the backoff."""


def not_taken_text(difference: Difference) -> str:
    """Return the text with the requested value and the one of now, whoever set it."""
    label, requested, have = difference.label, difference.before, difference.after
    return f"{label}: requested {requested}, but it is {have or 'nothing'} now"


def _is_same(first: object, second: object) -> bool:
    """Return whether two values are equal; times may have different formats."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(_is_same(first[k], second[k]) for k in first)
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(map(_is_same, first, second))
    if isinstance(first, str) and isinstance(second, str) and "T" in first and "T" in second:
        return first == second or _is_same_moment(first, second)
    return first == second


def _is_same_moment(one_text: str, other_text: str) -> bool:
    try:
        return datetime.fromisoformat(one_text) == datetime.fromisoformat(other_text)
    except (ValueError, TypeError):
        return False
