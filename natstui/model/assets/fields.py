"""The type of a configurable option of a stream or consumer: key, texts and kind of value.

A configuration is the server's own JSON object with unknown keys, so that nothing is lost. Each
option is a `Field` in a table, which is used by forms, checks, previews and commands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from natstui.model.assets.monitor_keys import MonitorKey, thresholds_of, without_thresholds

Config = dict[str, object]
"""A configuration as the server sends it."""

FieldKind = Literal[
    "text", "subject", "subjects", "words", "choice", "switch", "count", "bytes", "duration",
    "durations", "time", "metadata", "threshold", "source", "sources",
]  # fmt: skip


_METADATA_KEY = "metadata"


class Field(Struct, frozen=True):
    """An option: its path in the configuration and its texts for people."""

    path: str
    """The server's key; a dot enters an object, as in `placement.cluster`. Keys of metadata have
    dots themselves, so that only the first one counts there.
    """
    label: str
    kind: FieldKind
    section: str
    help: str
    """The meaning of the option, in one line."""
    default: object = None
    """The server's default for an absent key; None if it stays absent."""
    absent_text: str = ""
    """The meaning of an absent value, if the default does not say it."""
    choices: tuple[str, ...] = ()
    spellings: tuple[tuple[str, str], ...] = ()
    """Other names of choices, as in the NATS CLI, each with its choice."""
    needed_api_level: int = 0
    """The first JetStream API level with the option; 0 is server 2.10."""
    choices_min_api_level: tuple[tuple[str, int], ...] = ()
    """Choices that are newer than the option itself, each with its first API level."""
    fixed_reason: str | None = None
    """Reason why the option cannot change after creation; None if it can."""
    flag: str | None = None
    """The flag of `nats stream add` or `nats consumer add`, without dashes."""
    flag_add_only: bool = False
    """Whether the flag exists for `add`, but not for `edit`."""


def monitoring_fields(keys: Sequence[MonitorKey]) -> tuple[Field, ...]:
    """Return the form field of each threshold in `keys`."""
    return tuple(
        Field(
            f"{_METADATA_KEY}.{key.key}",
            key.label,
            "threshold",
            "Monitoring",
            key.help,
            absent_text="not watched",
        )
        for key in keys
    )


SERVER_VERSION_BY_API_LEVEL = {0: "2.10", 1: "2.11", 2: "2.12", 3: "2.12", 4: "2.14", 5: "2.15"}
"""API level → the first server version with it."""

READ_ONLY_METADATA_PREFIX = "_nats."
"""Prefix of metadata that the server writes about itself, and ignores in requests."""


def _split_path(path: str) -> list[str]:
    return path.split(".", 1 if path.startswith(f"{_METADATA_KEY}.") else -1)


def read(config: Mapping[str, object], path: str) -> object:
    """Return the value at a dotted path such as `placement.cluster`; None if it is absent."""
    value: object = config
    for key in _split_path(path):
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def with_value_at(config: Mapping[str, object], path: str, value: object) -> Config:
    """Return a copy of `config` with `value` at a path; None removes the key.

    An object that becomes empty is removed, too.
    """
    return _set_value(config, _split_path(path), value)


def _set_value(config: Mapping[str, object], keys: Sequence[str], value: object) -> Config:
    first_key, *further_keys = keys
    changed_config = dict(config)
    if further_keys:
        nested_config = changed_config.get(first_key)
        value = (
            _set_value(
                nested_config if isinstance(nested_config, Mapping) else {}, further_keys, value
            )
            or None
        )
    if value is None:
        changed_config.pop(first_key, None)
    else:
        changed_config[first_key] = value
    return changed_config


def read_field(config: Mapping[str, object], field: Field) -> object:
    """Return the value of a field; None if absent. For metadata, thresholds are left out."""
    value = read(config, field.path)
    if field.path == _METADATA_KEY and isinstance(value, Mapping):
        return without_thresholds(value) or None
    return value


def with_thresholds_of(config: Mapping[str, object], metadata: object) -> Config | None:
    """Return the typed `metadata` together with the thresholds of `config`; None if empty."""
    typed_metadata = metadata if isinstance(metadata, Mapping) else {}
    old_metadata = read(config, _METADATA_KEY)
    thresholds = thresholds_of(old_metadata) if isinstance(old_metadata, Mapping) else {}
    return {**thresholds, **typed_metadata} or None


def text_at(config: Mapping[str, object], path: str) -> str:
    """Return the string at a path; empty if it is absent."""
    value = read(config, path)
    return value if isinstance(value, str) else ""


def number_at(config: Mapping[str, object], path: str) -> int:
    """Return the integer at a path; 0 if it is absent."""
    value = read(config, path)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def is_on(config: Mapping[str, object], path: str) -> bool:
    """Return whether the switch at a path is on; False if it is absent."""
    return read(config, path) is True


def strings_at(config: Mapping[str, object], path: str) -> tuple[str, ...]:
    """Return the list of strings at a path; empty if it is absent."""
    value = read(config, path)
    return tuple(map(str, value)) if isinstance(value, (list, tuple)) else ()


def objects_at(config: Mapping[str, object], path: str) -> tuple[Config, ...]:
    """Return the list of objects at a path; empty if it is absent."""
    value = read(config, path)
    elements = value if isinstance(value, (list, tuple)) else ()
    return tuple(dict(element) for element in elements if isinstance(element, Mapping))


def without_server_metadata(config: Mapping[str, object]) -> Config:
    """Return a copy of `config` without the metadata that the server writes about itself."""
    metadata = config.get("metadata")
    if not isinstance(metadata, Mapping):
        return dict(config)
    metadata_of_users = {
        key: value
        for key, value in metadata.items()
        if not str(key).startswith(READ_ONLY_METADATA_PREFIX)
    }
    return with_value_at(config, "metadata", metadata_of_users or None)
