"""The differences between two configurations, and the changes that the server refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from natstui.model.assets.consumer_fields import CONSUMER_FIELDS
from natstui.model.assets.defaults import FILTER_KEYS, normalize_consumer, normalize_stream
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
    """A field that differs, with both values as typed texts; empty for an absent value."""

    path: str
    label: str
    before: str
    after: str
    refused: str | None
    """Reason why the server refuses the change; None if it accepts."""


def fields_of(kind: AssetKind) -> Sequence[Field]:
    """Return the field table of a kind of asset."""
    return _FIELDS[kind]


def normalize(kind: AssetKind, config: Mapping[str, object]) -> Config:
    """Return a configuration as the server would store it."""
    return normalize_stream(config) if kind == "stream" else normalize_consumer(config)


def differences(
    kind: AssetKind, before: Mapping[str, object], after: Mapping[str, object]
) -> tuple[Difference, ...]:
    """Return the differences of two configurations as the server would store them.

    Differences of keys that are not in `fields_of(kind)` are last.
    """
    before_config, after_config = normalize(kind, before), normalize(kind, after)
    changes = [
        Difference(
            field.path,
            field.label,
            format_field(field, read_field(before_config, field)),
            format_field(field, read_field(after_config, field)),
            _find_refusal(field, before_config, after_config),
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


_UNSET_VALUES: tuple[object, ...] = (None, "", -1, [], (), {})
"""Values of an unset field, for which the server chooses."""

_IRREVERSIBLE = {
    "deny_delete": "deny delete cannot be switched off again",
    "deny_purge": "deny purge cannot be switched off again",
    "sealed": "a sealed stream cannot be unsealed",
    "allow_msg_ttl": "message TTL cannot be switched off again",
    "allow_msg_schedules": "schedules cannot be switched off again",
}


def _find_refusal(field: Field, before_config: Config, after_config: Config) -> str | None:
    if field.path == "retention" and "workqueue" in (
        before_config["retention"],
        after_config["retention"],
    ):
        return "retention cannot change to or from workqueue"
    if field.path == "mirror" and read(after_config, "mirror") is None:
        return None
    if field.path in _IRREVERSIBLE and read(before_config, field.path) is True:
        return _IRREVERSIBLE[field.path]
    if field.path == "deliver_subject" and not text_at(after_config, "deliver_subject"):
        return "a push consumer cannot become a pull consumer"
    if field.path == "deliver_subject" and not text_at(before_config, "deliver_subject"):
        return "a pull consumer cannot become a push consumer"
    return field.fixed


def with_field(config: Mapping[str, object], field: Field, value: object) -> Config:
    """Return a copy with one field set; a list of filters replaces a single filter."""
    copy = with_value_at(config, field.path, value)
    if field.path == "filter_subjects":
        copy.pop("filter_subject", None)
    return copy


def merge_config(config: Mapping[str, object], over: Mapping[str, object]) -> Config:
    """Return a copy with the keys of `over`; filters in `over` replace all filters."""
    has_filters = not over.keys().isdisjoint(FILTER_KEYS)
    kept_config = {
        key: value for key, value in config.items() if not (has_filters and key in FILTER_KEYS)
    }
    return {**kept_config, **over}


def is_as_requested(
    kind: AssetKind, requested: Mapping[str, object], current: Mapping[str, object]
) -> bool:
    """Return whether `current` is as requested; fields that sealing clears are ignored."""
    cleared_fields = _CLEARED_BY_SEALING if requested.get("sealed") else set[str]()
    return all(
        difference.path in cleared_fields for difference in differences(kind, requested, current)
    )


def find_unapplied_settings(
    kind: AssetKind,
    requested: Mapping[str, object],
    after: Mapping[str, object],
    before: Mapping[str, object] | None = None,
) -> tuple[Difference, ...]:
    """Return the requested settings that differ on the server now.

    In a result, `before` is the requested value. Unset fields are not included. The parameter
    `before` is the configuration before an edit: settings that the edit does not change may be
    implied by others.
    """
    normal_after, normal_requested = normalize(kind, after), normalize(kind, requested)
    single = text_at(requested, "filter_subject")
    if single and kind == "consumer":
        requested = {**requested, "filter_subjects": [single]}
    dependent = _INHERITED | (_CLEARED_BY_SEALING if requested.get("sealed") else set())
    unapplied = []
    for field in fields_of(kind):
        requested_value = read_field(requested, field)
        if requested_value in _UNSET_VALUES or (
            requested_value == 0 and requested_value is not False
        ):
            continue
        value_after = read_field(normal_after, field)
        accepted = [
            requested_value,
            read_field(normalize(kind, with_value_at({}, field.path, requested_value)), field),
        ]
        is_kept = before is not None and read_field(before, field) == requested_value
        if is_kept and field.path in dependent:
            continue
        if is_kept or field.path in _OVERRIDDEN:
            accepted.append(read_field(normal_requested, field))
        if not any(_is_same(value, value_after) for value in accepted):
            texts = format_field(field, requested_value), format_field(field, value_after)
            unapplied.append(Difference(field.path, field.label, *texts, None))
    return tuple(unapplied)


_INHERITED = {"mirror_direct"}
"""Options that the server copies from another stream with every change."""
_CLEARED_BY_SEALING = {"max_age", "allow_rollup_hdrs"}
_OVERRIDDEN = {"ack_wait"}
"""Options that another option overrides: the backoff overrides ack wait."""


def unapplied_text(difference: Difference) -> str:
    """Return a text with the requested and the current value of a setting."""
    label, requested, current_text = difference.label, difference.before, difference.after
    return f"{label}: requested {requested}, but it is {current_text or 'nothing'} now"


def _is_same(first: object, second: object) -> bool:
    """Return whether two values are equal; times may have different formats."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(_is_same(first[k], second[k]) for k in first)
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(map(_is_same, first, second))
    if isinstance(first, str) and isinstance(second, str) and "T" in first and "T" in second:
        return first == second or _is_same_moment(first, second)
    return first == second


def _is_same_moment(first_text: str, second_text: str) -> bool:
    try:
        return datetime.fromisoformat(first_text) == datetime.fromisoformat(second_text)
    except (ValueError, TypeError):
        return False
