"""The difference between two configurations, and why the server would refuse parts of it."""

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
    written,
)
from natstui.model.assets.stream_fields import STREAM_FIELDS
from natstui.model.assets.text import shown

AssetKind = Literal["stream", "consumer"]

_FIELDS: dict[str, Sequence[Field]] = {"stream": STREAM_FIELDS, "consumer": CONSUMER_FIELDS}


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that differs; texts are as people would type them, empty when absent."""

    path: str
    label: str
    before: str
    after: str
    refused: str | None
    """Why the server refuses to change it; None when it will."""


def fields_of(kind: AssetKind) -> Sequence[Field]:
    """Return the field table of a kind of asset."""
    return _FIELDS[kind]


def normal(kind: AssetKind, config: Mapping[str, object]) -> Config:
    """Return the configuration as the server would keep it."""
    return normal_stream(config) if kind == "stream" else normal_consumer(config)


def differences(
    kind: AssetKind, before: Mapping[str, object], after: Mapping[str, object]
) -> tuple[Difference, ...]:
    """Return what differs between both as the server would keep them, unknown keys last."""
    old, new = normal(kind, before), normal(kind, after)
    found = [
        Difference(
            field.path,
            field.label,
            shown(field, read_field(old, field)),
            shown(field, read_field(new, field)),
            _refusal(field, old, new),
        )
        for field in fields_of(kind)
        if read_field(old, field) != read_field(new, field)
    ]
    known = {field.path.split(".")[0] for field in fields_of(kind)}
    for key in sorted(set(old) | set(new)):
        if key not in known and old.get(key) != new.get(key):
            texts = ["" if side.get(key) is None else str(side[key]) for side in (old, new)]
            found.append(Difference(key, key, texts[0], texts[1], None))
    return tuple(found)


_LEFT_OPEN: tuple[object, ...] = (None, "", -1, [], (), {})
"""Values that leave the choice to the server."""

_NEVER_BACK = {
    "deny_delete": "deny delete cannot be switched off again",
    "deny_purge": "deny purge cannot be switched off again",
    "sealed": "a sealed stream cannot be unsealed",
    "allow_msg_ttl": "message TTL cannot be switched off again",
    "allow_msg_schedules": "schedules cannot be switched off again",
}


def _refusal(field: Field, old: Config, new: Config) -> str | None:
    if field.path == "retention" and "workqueue" in (old["retention"], new["retention"]):
        return "retention cannot change to or from workqueue"
    if field.path == "mirror" and read(new, "mirror") is None:
        return None
    if field.path in _NEVER_BACK and read(old, field.path) is True:
        return _NEVER_BACK[field.path]
    if field.path == "deliver_subject" and not text_at(new, "deliver_subject"):
        return "a push consumer cannot become a pull consumer"
    if field.path == "deliver_subject" and not text_at(old, "deliver_subject"):
        return "a pull consumer cannot become a push consumer"
    return field.fixed


def changed(config: Mapping[str, object], field: Field, value: object) -> Config:
    """Return the configuration with one field set; a list of filters replaces a single one."""
    copy = written(config, field.path, value)
    if field.path == "filter_subjects":
        copy.pop("filter_subject", None)
    return copy


def merged(config: Mapping[str, object], over: Mapping[str, object]) -> Config:
    """Return the configuration with another one's keys; filters of it replace all filters."""
    filtered = not over.keys().isdisjoint(FILTER_KEYS)
    kept = {k: v for k, v in config.items() if not (filtered and k in FILTER_KEYS)}
    return {**kept, **over}


def not_taken(
    kind: AssetKind,
    wanted: Mapping[str, object],
    after: Mapping[str, object],
    before: Mapping[str, object] | None = None,
) -> tuple[Difference, ...]:
    """Return the settings that were asked for and differ on the server now.

    `before` of a result is the configuration asked for. What was left to the server is not in it.
    `before` as a parameter is what an edit began with: what the edit leaves as it was may follow
    from the rest.
    """
    got, whole = normal(kind, after), normal(kind, wanted)
    single = text_at(wanted, "filter_subject")
    if single and kind == "consumer":
        wanted = {**wanted, "filter_subjects": [single]}
    dependent = _INHERITED | (_ENDED_BY_SEALING if wanted.get("sealed") else set())
    found = []
    for field in fields_of(kind):
        wanted_value = read_field(wanted, field)
        if wanted_value in _LEFT_OPEN or (wanted_value == 0 and wanted_value is not False):
            continue
        have = read_field(got, field)
        accepted = [
            wanted_value,
            read_field(normal(kind, written({}, field.path, wanted_value)), field),
        ]
        is_kept = before is not None and read_field(before, field) == wanted_value
        if is_kept and field.path in dependent:
            continue
        if is_kept or field.path in _OVERRIDDEN:
            accepted.append(read_field(whole, field))
        if not any(_is_same(value, have) for value in accepted):
            texts = shown(field, wanted_value), shown(field, have)
            found.append(Difference(field.path, field.label, *texts, None))
    return tuple(found)


_INHERITED = {"mirror_direct"}
"""Options that the server takes from another stream with every change of this one."""
_ENDED_BY_SEALING = {"max_age", "allow_rollup_hdrs"}
_OVERRIDDEN = {"ack_wait"}
"""Options that another one overrides, as their help says: the backoff."""


def not_taken_text(difference: Difference) -> str:
    """Return what was requested and what the server set instead."""
    label, requested, have = difference.label, difference.before, difference.after
    return f"{label}: requested {requested}, but the server set {have or 'nothing'}"


def _is_same(wanted: object, have: object) -> bool:
    """Return whether two values are equal; a moment may be written in two ways."""
    if isinstance(wanted, Mapping) and isinstance(have, Mapping):
        return wanted.keys() == have.keys() and all(_is_same(wanted[k], have[k]) for k in wanted)
    if isinstance(wanted, list | tuple) and isinstance(have, list | tuple):
        return len(wanted) == len(have) and all(map(_is_same, wanted, have))
    if isinstance(wanted, str) and isinstance(have, str) and "T" in wanted and "T" in have:
        return wanted == have or _is_same_moment(wanted, have)
    return wanted == have


def _is_same_moment(one_text: str, other_text: str) -> bool:
    try:
        return datetime.fromisoformat(one_text) == datetime.fromisoformat(other_text)
    except (ValueError, TypeError):
        return False
