"""The differences between two configurations, and the changes that the server refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

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

_FIELDS_BY_ASSET_KIND: dict[str, Sequence[Field]] = {
    "stream": STREAM_FIELDS,
    "consumer": CONSUMER_FIELDS,
}


class Difference(Struct, frozen=True):
    """A field that differs, with both values as a user types them; empty for an absent value."""

    path: str
    label: str
    before: str
    after: str
    refused: str | None
    """Reason why the server refuses the change; None if it accepts."""


def fields_of(kind: AssetKind) -> Sequence[Field]:
    """Return the field table of a kind of asset."""
    return _FIELDS_BY_ASSET_KIND[kind]


def normalize_config(kind: AssetKind, config: Mapping[str, object]) -> Config:
    """Return a configuration as the server would store it."""
    return normalize_stream(config) if kind == "stream" else normalize_consumer(config)


def differences(
    kind: AssetKind, before: Mapping[str, object], after: Mapping[str, object]
) -> tuple[Difference, ...]:
    """Return the differences of two configurations as the server would store them.

    Differences of keys that are not in `fields_of(kind)` are last.
    """
    before_config, after_config = normalize_config(kind, before), normalize_config(kind, after)
    found_differences = [
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
            before_and_after_texts = [
                "" if config.get(key) is None else str(config[key])
                for config in (before_config, after_config)
            ]
            found_differences.append(
                Difference(key, key, before_and_after_texts[0], before_and_after_texts[1], None)
            )
    return tuple(found_differences)


_UNSET_VALUES: tuple[object, ...] = (None, "", -1, [], (), {})
"""Values of an unset field, for which the server chooses."""

_REFUSAL_BY_IRREVERSIBLE_OPTION = {
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
    if field.path in _REFUSAL_BY_IRREVERSIBLE_OPTION and read(before_config, field.path) is True:
        return _REFUSAL_BY_IRREVERSIBLE_OPTION[field.path]
    if field.path == "deliver_subject" and not text_at(after_config, "deliver_subject"):
        return "a push consumer cannot become a pull consumer"
    if field.path == "deliver_subject" and not text_at(before_config, "deliver_subject"):
        return "a pull consumer cannot become a push consumer"
    return field.fixed_reason


def with_field(config: Mapping[str, object], field: Field, value: object) -> Config:
    """Return a copy of `config` with one field set; a list of filters replaces a single filter."""
    changed_config = with_value_at(config, field.path, value)
    if field.path == "filter_subjects":
        changed_config.pop("filter_subject", None)
    return changed_config


def merge_config(config: Mapping[str, object], overrides: Mapping[str, object]) -> Config:
    """Return `config` with the keys of `overrides`; filters in `overrides` replace all filters."""
    has_filters = not overrides.keys().isdisjoint(FILTER_KEYS)
    kept_config = {
        key: value for key, value in config.items() if not (has_filters and key in FILTER_KEYS)
    }
    return {**kept_config, **overrides}


def has_requested_values(
    kind: AssetKind, requested_config: Mapping[str, object], current_config: Mapping[str, object]
) -> bool:
    """Return whether the current configuration has all requested values.

    If the request seals the stream, fields that sealing clears are ignored.
    """
    cleared_options = _OPTIONS_CLEARED_BY_SEALING if requested_config.get("sealed") else set[str]()
    return all(
        difference.path in cleared_options
        for difference in differences(kind, requested_config, current_config)
    )


def find_unapplied_settings(
    kind: AssetKind,
    requested_config: Mapping[str, object],
    config_after: Mapping[str, object],
    config_before: Mapping[str, object] | None = None,
) -> tuple[Difference, ...]:
    """Return a difference for each requested setting that has another value on the server now.

    Settings that the request leaves unset are not compared. `config_after` is the server's
    configuration now, `config_before` that before an edit. A setting that the edit keeps may have
    the value that other requested settings imply.
    """
    normal_config_after, normal_requested_config = (
        normalize_config(kind, config_after),
        normalize_config(kind, requested_config),
    )
    single_filter = text_at(requested_config, "filter_subject")
    if single_filter and kind == "consumer":
        requested_config = {**requested_config, "filter_subjects": [single_filter]}
    options_set_by_server = _OPTIONS_INHERITED_FROM_ORIGIN | (
        _OPTIONS_CLEARED_BY_SEALING if requested_config.get("sealed") else set()
    )
    unapplied_settings = []
    for field in fields_of(kind):
        requested_value = read_field(requested_config, field)
        if requested_value in _UNSET_VALUES or (
            requested_value == 0 and requested_value is not False
        ):
            continue
        value_after = read_field(normal_config_after, field)
        accepted_values = [
            requested_value,
            read_field(
                normalize_config(kind, with_value_at({}, field.path, requested_value)), field
            ),
        ]
        is_unchanged_by_edit = (
            config_before is not None and read_field(config_before, field) == requested_value
        )
        if is_unchanged_by_edit and field.path in options_set_by_server:
            continue
        if is_unchanged_by_edit or field.path in _OPTIONS_OVERRIDDEN_BY_OTHERS:
            accepted_values.append(read_field(normal_requested_config, field))
        if not any(_are_equal_values(value, value_after) for value in accepted_values):
            requested_and_current_texts = (
                format_field(field, requested_value),
                format_field(field, value_after),
            )
            unapplied_settings.append(
                Difference(field.path, field.label, *requested_and_current_texts, None)
            )
    return tuple(unapplied_settings)


_OPTIONS_INHERITED_FROM_ORIGIN = {"mirror_direct"}
"""Options that the server copies from another stream with every change."""
_OPTIONS_CLEARED_BY_SEALING = {"max_age", "allow_rollup_hdrs"}
_OPTIONS_OVERRIDDEN_BY_OTHERS = {"ack_wait"}
"""Options that another option overrides: the backoff overrides ack wait."""


def unapplied_text(difference: Difference) -> str:
    """Return a text with the requested and the current value of an unapplied setting."""
    label, requested_text, current_text = difference.label, difference.before, difference.after
    return f"{label}: requested {requested_text}, but it is {current_text or 'nothing'} now"


def _are_equal_values(first_value: object, second_value: object) -> bool:
    """Return whether two values are equal; times may have different formats."""
    if isinstance(first_value, Mapping) and isinstance(second_value, Mapping):
        return first_value.keys() == second_value.keys() and all(
            _are_equal_values(first_value[key], second_value[key]) for key in first_value
        )
    if isinstance(first_value, list | tuple) and isinstance(second_value, list | tuple):
        return len(first_value) == len(second_value) and all(
            map(_are_equal_values, first_value, second_value)
        )
    if (
        isinstance(first_value, str)
        and isinstance(second_value, str)
        and "T" in first_value
        and "T" in second_value
    ):
        return first_value == second_value or _are_equal_times(first_value, second_value)
    return first_value == second_value


def _are_equal_times(first_text: str, second_text: str) -> bool:
    try:
        return datetime.fromisoformat(first_text) == datetime.fromisoformat(second_text)
    except (ValueError, TypeError):
        return False
