"""Shared rules of streams and consumers: their inputs, and the type of a problem."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field

from natstui.model.assets.fields import (
    SERVER_VERSION_BY_API_LEVEL,
    Config,
    Field,
    number_at,
    read,
    text_at,
    with_value_at,
)
from natstui.model.assets.templates import Template

MAX_NAME_BYTES = 255
MAX_DESCRIPTION_BYTES = 4096
MAX_METADATA_BYTES = 128 * 1024

_INVALID_NAME_CHARACTER = re.compile(r"[.*>/\\\s\x00-\x1f\x7f]")


class Problem(Struct, frozen=True):
    """A reason why the server would refuse a configuration, with a text for people."""

    path: str
    """The path of the field, as in the field table."""
    text: str


class OtherStream(Struct, frozen=True):
    """Another stream of the account, whose name and subjects are in use."""

    name: str
    subjects: tuple[str, ...]


class NamesInUse(Struct, frozen=True):
    """The existing streams and consumers, for validation of a form."""

    streams: tuple[OtherStream, ...] = ()
    servers_count: int | None = None
    """Number of servers for replicas; None if the user may not request it."""
    api_level: int | None = None
    consumer_filters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Name of a consumer of the stream → its filters; an empty tuple matches everything."""
    templates: tuple[Template, ...] = ()
    streams_known: bool = False
    """Whether `streams` has all streams of the account."""


def name_problems(path: str, name: str, noun: str) -> Iterator[Problem]:
    """Yield the problems of a name; `noun` is `stream` or `consumer`, `path` the name's field."""
    if not name:
        yield Problem(path, f"a {noun} needs a name")
    elif _INVALID_NAME_CHARACTER.search(name):
        yield Problem(
            path,
            f"the name of the {noun} has a space, a dot, a control character, or one of * > / \\",
        )
    elif len(name.encode()) > MAX_NAME_BYTES:
        yield Problem(path, f"the name of the {noun} is longer than {MAX_NAME_BYTES} bytes")


def common_problems(
    config: Mapping[str, object], fields: Sequence[Field], api_level: int | None
) -> Iterator[Problem]:
    """Yield the problems that streams and consumers share: of description, metadata, replicas,
    values, and options that the server is too old for.
    """
    if len(text_at(config, "description").encode()) > MAX_DESCRIPTION_BYTES:
        yield Problem(
            "description", f"the description is longer than {MAX_DESCRIPTION_BYTES} bytes"
        )
    metadata = config.get("metadata")
    if isinstance(metadata, Mapping):
        metadata_bytes = sum(
            len(str(key).encode()) + len(str(item).encode()) for key, item in metadata.items()
        )
        if metadata_bytes > MAX_METADATA_BYTES:
            yield Problem("metadata", f"the metadata is larger than {MAX_METADATA_BYTES} bytes")
    if not 0 <= number_at(config, "num_replicas") <= 5:
        yield Problem("num_replicas", "the number of replicas must be between 1 and 5")
    for option in fields:
        value = read(config, option.path)
        yield from _value_problems(option, value)
        if api_level is not None:
            yield from _api_level_problems(option, value, api_level)


def _value_problems(field: Field, value: object) -> Iterator[Problem]:
    if value is None:
        return
    if field.choices and value not in field.choices:
        choices_text = ", ".join(field.choices)
        yield Problem(field.path, f"{field.label} must be one of {choices_text}, not {value!r}")
    if field.kind == "switch" and not isinstance(value, bool):
        yield Problem(field.path, f"{field.label} must be yes or no, not {value!r}")
    if field.kind in ("count", "bytes", "duration") and not isinstance(value, int):
        yield Problem(field.path, f"{field.label} must be a whole number, not {value!r}")


def drop_newer_fields(config: Config, fields: Sequence[Field], api_level: int | None) -> Config:
    """Return the configuration without unset fields that a server of `api_level` does not know.

    Servers since 2.12 refuse any unknown field, whatever its value.
    """
    for option in fields:
        if api_level is None or option.needed_api_level <= api_level:
            continue
        value = read(config, option.path)
        if value is not None and _is_unset(option, value):
            config = with_value_at(config, option.path, None)
    return config


def _is_unset(field: Field, value: object) -> bool:
    return value in (None, field.default, [], "")


def _api_level_problems(field: Field, value: object, api_level: int) -> Iterator[Problem]:
    if _is_unset(field, value):
        return
    if field.needed_api_level > api_level:
        yield Problem(field.path, newer_server_text(field))
    for choice, min_api_level in field.choices_min_api_level:
        if value == choice and min_api_level > api_level:
            version = SERVER_VERSION_BY_API_LEVEL[min_api_level]
            text = f"{field.label} {choice} needs server {version} or newer"
            yield Problem(field.path, text)


def newer_server_text(field: Field) -> str:
    """Return the sentence that an option needs a newer server."""
    version = SERVER_VERSION_BY_API_LEVEL[field.needed_api_level]
    return f"{field.label} needs server {version} or newer"
