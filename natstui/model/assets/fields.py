"""One configurable option of a stream or consumer: its server name, its words, its kind of text.

A configuration is the server's own JSON object, unknown keys included, so nothing is ever lost.
Each option is one `Field` in one table; forms, checks, previews and commands all read that table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from natstui.model.assets.monitor_keys import MonitorKey, thresholds_of, without_thresholds

Config = dict[str, object]
"""A configuration as the server writes it."""

Kind = Literal[
    "text", "subject", "subjects", "words", "choice", "switch", "count", "bytes", "duration",
    "durations", "time", "metadata", "threshold", "source", "sources",
]  # fmt: skip


_METADATA = "metadata"


@dataclass(frozen=True, slots=True)
class Field:
    """One option: where it is in the configuration and what people need to know of it."""

    path: str
    """The server's key; a dot enters an object, as in `placement.cluster`. Keys of metadata hold
    dots themselves: only the first one counts there."""
    label: str
    kind: Kind
    section: str
    help: str
    """One line: what choosing it means."""
    default: object = None
    """What the server takes when the key is absent; None when it stays absent."""
    absent: str = ""
    """What leaving it open means, where the value itself would not say it."""
    choices: tuple[str, ...] = ()
    spellings: tuple[tuple[str, str], ...] = ()
    """Other words for a choice, those of the NATS CLI, and the choice they mean."""
    api_level_count: int = 0
    """The JetStream API level that brought it; 0 is server 2.10."""
    choice_levels_count: tuple[tuple[str, int], ...] = ()
    """Choices that came later than the option itself, and the API level that brought them."""
    fixed: str | None = None
    """Why it cannot change after creation."""
    flag: str | None = None
    """The option of `nats stream add` or `nats consumer add`, without its dashes."""
    flag_add_only: bool = False
    """The flag exists on `add` but not on `edit`."""


def monitoring_fields(keys: Sequence[MonitorKey]) -> tuple[Field, ...]:
    """Return thresholds in the metadata as fields of a form."""
    return tuple(
        Field(
            f"{_METADATA}.{key.key}",
            key.label,
            "threshold",
            "Monitoring",
            key.help,
            absent="not watched",
        )
        for key in keys
    )


SERVER_OF_LEVEL = {0: "2.10", 1: "2.11", 2: "2.12", 3: "2.12", 4: "2.14", 5: "2.15"}
"""The server version that brought an API level."""

READ_ONLY_METADATA = "_nats."
"""Metadata the server writes about itself; it takes it back and ignores it."""


def _keys(path: str) -> list[str]:
    return path.split(".", 1 if path.startswith(f"{_METADATA}.") else -1)


def read(config: Mapping[str, object], path: str) -> object:
    """Return the value at a path, None when it is absent."""
    value: object = config
    for key in _keys(path):
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def written(config: Mapping[str, object], path: str, value: object) -> Config:
    """Return a copy with the value at a path; None takes the key, and objects left empty, away."""
    return _written(config, _keys(path), value)


def _written(config: Mapping[str, object], keys: Sequence[str], value: object) -> Config:
    head, *rest = keys
    copy = dict(config)
    if rest:
        inner = copy.get(head)
        value = _written(inner if isinstance(inner, Mapping) else {}, rest, value) or None
    if value is None:
        copy.pop(head, None)
    else:
        copy[head] = value
    return copy


def read_field(config: Mapping[str, object], field: Field) -> object:
    """Return the value of a field; thresholds in the metadata are fields of their own."""
    value = read(config, field.path)
    if field.path == _METADATA and isinstance(value, Mapping):
        return without_thresholds(value) or None
    return value


def with_thresholds_of(config: Mapping[str, object], metadata: object) -> Config | None:
    """Return metadata that was typed, with the thresholds that have fields of their own."""
    own = metadata if isinstance(metadata, Mapping) else {}
    before = read(config, _METADATA)
    kept = thresholds_of(before) if isinstance(before, Mapping) else {}
    return {**kept, **own} or None


def text_at(config: Mapping[str, object], path: str) -> str:
    """Return a string, empty when it is absent."""
    value = read(config, path)
    return value if isinstance(value, str) else ""


def number_at(config: Mapping[str, object], path: str) -> int:
    """Return a whole number, 0 when it is absent."""
    value = read(config, path)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def is_on(config: Mapping[str, object], path: str) -> bool:
    """Return whether a switch is on."""
    return read(config, path) is True


def strings_at(config: Mapping[str, object], path: str) -> tuple[str, ...]:
    """Return a list of strings, empty when it is absent."""
    value = read(config, path)
    return tuple(map(str, value)) if isinstance(value, (list, tuple)) else ()


def objects_at(config: Mapping[str, object], path: str) -> tuple[Config, ...]:
    """Return a list of objects, empty when it is absent."""
    value = read(config, path)
    items = value if isinstance(value, (list, tuple)) else ()
    return tuple(dict(item) for item in items if isinstance(item, Mapping))


def without_server_metadata(config: Mapping[str, object]) -> Config:
    """Return a copy without the metadata that the server writes about itself."""
    metadata = config.get("metadata")
    if not isinstance(metadata, Mapping):
        return dict(config)
    own = {k: v for k, v in metadata.items() if not str(k).startswith(READ_ONLY_METADATA)}
    return written(config, "metadata", own or None)
