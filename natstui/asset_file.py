"""The configuration of a stream or consumer in a file: JSON, YAML or TOML, or a complete INFO
reply.

Forms, command line and templates read it here, with the same result. This module is not in
`natstui.config`, because `natstui.tui` must not import that package.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from itertools import count
from typing import Any

from natstui.clean import clean_line
from natstui.errors import UsageError
from natstui.files import MAX_TEXT_BYTES, read_regular_file
from natstui.model.assets.differences import AssetKind, fields_of, with_field
from natstui.model.assets.fields import Config, read, without_server_metadata
from natstui.model.assets.text import metadata_text, parse_field
from natstui.parsing import parse_json, parse_toml, parse_within_limits
from natstui.paths import expand_user_path
from natstui.units import MAX_INT64, MAX_UINT64

_MAX_VALUES = 100_000
"""Limit of values in a configuration."""


def read_asset_file(name: str, kind: AssetKind | None = None) -> Config:
    """Return the configuration in a regular file; raises UsageError if it cannot be read or is not
    valid.
    """
    try:
        content = read_regular_file(expand_user_path(name), MAX_TEXT_BYTES)
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error
    return parse_asset(content, name, kind)


def parse_asset(content: bytes, name: str, kind: AssetKind | None = None) -> Config:
    """Return the configuration in a file's content, without the metadata that the server adds.

    The extension of `name` selects the language; without one, JSON, YAML and TOML are tried. With
    `kind`, values written as text (`1h`, `100MB`) become the server's numbers, and unknown fields
    raise UsageError, except in a complete INFO reply, which may be of a newer server. Raises
    UsageError also for any other error of the content.
    """
    try:
        text = content.decode("utf-8-sig")
        _refuse_kubernetes_manifest(text, name)
        document = _to_json_value(_parse_document(text, name), count())
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} cannot be read: it is not text in UTF-8") from error
    except ValueError as error:
        error_text = clean_line(" ".join(str(error).split()))
        raise UsageError(f"{name} cannot be understood: {error_text}") from error
    config = document.get("config", document) if isinstance(document, dict) else None
    if not isinstance(config, dict) or not config:
        raise UsageError(f"{name} has no configuration: it must be an object with keys")
    metadata = config.get("metadata")
    if isinstance(metadata, dict):
        config["metadata"] = {key: metadata_text(value) for key, value in metadata.items()}
    config = without_server_metadata(config)
    if kind is None:
        return config
    if not (isinstance(document, dict) and "config" in document):
        _refuse_unknown_fields(kind, config, text, name)
    return _parse_text_values(kind, config, text, name)


_KUBERNETES_MANIFEST_PATTERN = re.compile(
    r"""^[\s{]*["']?apiVersion["']?\s*:\s*["']?jetstream\.nats\.io/""", re.M
)


def _refuse_kubernetes_manifest(text: str, name: str) -> None:
    if _KUBERNETES_MANIFEST_PATTERN.search(text):
        raise UsageError(
            f"{name} is a manifest of the Kubernetes controller for JetStream: apply it with "
            f"kubectl apply -f {name}; natstui reads one stream or consumer per file, with the "
            "server's field names (max_age, num_replicas), in JSON, YAML or TOML"
        )


def _refuse_unknown_fields(kind: AssetKind, config: Config, text: str, name: str) -> None:
    """Raise UsageError for fields that no server has, with their lines and the nearest names."""
    known_fields = {
        field.path.split(".")[0] for field in fields_of(kind)
    } | _FIELDS_ABSENT_FROM_FORMS[kind]
    inner_names_by_field = dict[str, set[str]]()
    for field in fields_of(kind):
        outer_name, separator, inner_name = field.path.partition(".")
        if separator and field.kind != "threshold":
            inner_names_by_field.setdefault(outer_name, set()).add(inner_name)
    sentences = [
        _unknown_field_text(key, known_fields, text) for key in config if key not in known_fields
    ]
    for outer_name, inner_names in inner_names_by_field.items():
        value = config.get(outer_name)
        if isinstance(value, dict):
            sentences += [
                _unknown_field_text(key, inner_names, text)
                for key in value
                if key not in inner_names
            ]
    if sentences:
        raise UsageError(f"{name}: {'; '.join(sentences)}")


_FIELDS_ABSENT_FROM_FORMS: Mapping[AssetKind, set[str]] = {
    "stream": {"template_owner", "help"},
    "consumer": {"filter_subject", "direct"},
}
"""Valid fields that no form shows; `help` is the description of a template."""


def _unknown_field_text(key: str, known_fields: set[str], text: str) -> str:
    similar_keys = difflib.get_close_matches(key, sorted(known_fields), 1)
    hint = f", did you mean {similar_keys[0]}" if similar_keys else ""
    return f"{_line_number_prefix(key, text)}unknown field {clean_line(key)}{hint}"


def _line_number_prefix(key: str, text: str) -> str:
    pattern = re.compile(rf"""(?<![\w.-])["']?{re.escape(key)}["']?\s*[:=]""")
    for number, line in enumerate(text.splitlines(), start=1):
        if pattern.search(line):
            return f"line {number}: "
    return ""


_NUMBER_KINDS_WRITTEN_AS_TEXT = {"duration", "durations", "bytes", "count"}
_LEADING_ZERO_PATTERN = re.compile(r"[-+]?0\d+")
"""Numbers that YAML readers parse as octal or as decimal."""


def _parse_text_values(kind: AssetKind, config: Config, text: str, name: str) -> Config:
    """Return the configuration with numbers for values such as `1h` or `100MB`.

    Raises UsageError for a value that its field cannot have; `text` and `name` are those of the
    file, for the error.
    """
    for field in fields_of(kind):
        value = read(config, field.path)
        if field.kind not in _NUMBER_KINDS_WRITTEN_AS_TEXT:
            continue
        key = field.path.rpartition(".")[2]
        if isinstance(value, bool):
            raise UsageError(f"{name}: {_line_number_prefix(key, text)}{key}: a number is missing")
        if isinstance(value, str) and _LEADING_ZERO_PATTERN.fullmatch(value):
            hint = (
                f"{value}: some programs read a leading zero as octal: write it without the zero"
            )
            raise UsageError(f"{name}: {_line_number_prefix(key, text)}{key}: {hint}")
        if field.kind == "durations" and isinstance(value, list):
            has_text = any(isinstance(item, str) for item in value)
            value = ",".join(map(str, value)) if has_text else None
        if isinstance(value, str):
            try:
                config = with_field(config, field, parse_field(field, value))
            except ValueError as error:
                raise UsageError(
                    f"{name}: {_line_number_prefix(key, text)}{key}: {error}"
                ) from error
    return config


def _parse_document(text: str, name: str) -> object:
    """Return the value of a text in JSON, YAML or TOML; tries JSON before YAML, because YAML
    forbids the tabs that JSON allows.
    """
    extension = name.lower().rpartition(".")[2]
    if extension == "toml":
        return parse_toml(text)
    if extension == "json":
        return parse_json(text, _create_object_without_repeats)
    try:
        parse_json(text)
    except json.JSONDecodeError:
        pass
    else:
        return parse_json(text, _create_object_without_repeats)
    if extension in ("yaml", "yml"):
        return _parse_yaml(text)
    try:
        value = _parse_yaml(text)
    except ValueError as error:
        return _parse_toml_or_raise(error, text)
    return value if isinstance(value, dict) else _parse_toml_or_raise(None, text)


_TEXT_FIELD_KINDS = {"text", "subject", "subjects", "words", "choice", "time"}
_SOURCE_KEYS_WITH_TEXT_VALUES = {
    "name",
    "filter_subject",
    "src",
    "dest",
    "api",
    "deliver",
    "domain",
}
_ASSET_KINDS: tuple[AssetKind, ...] = ("stream", "consumer")
_KEYS_WITH_TEXT_VALUES = _SOURCE_KEYS_WITH_TEXT_VALUES | {
    field.path.rpartition(".")[2]
    for kind in _ASSET_KINDS
    for field in fields_of(kind)
    if field.kind in _TEXT_FIELD_KINDS
}
"""Keys whose values are text, alone or in a list."""
_YAML_INTEGER_PATTERN = re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)$")


def _create_object_without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    _refuse_repeated_keys([key for key, _ in pairs])
    return dict(pairs)


def _refuse_repeated_keys(keys: Sequence[str]) -> None:
    """Raise ValueError if a key is repeated, because its value is ambiguous."""
    repeated_keys = [key for key, count in Counter(keys).items() if count > 1]
    if repeated_keys:
        raise ValueError(f"{clean_line(repeated_keys[0])} is given twice")


def _parse_yaml(text: str) -> object:
    # Imported here: it takes a tenth of the viewer's start and is seldom needed.
    import yaml

    def mark_as_text(node: yaml.Node) -> None:
        if node.tag in ("tag:yaml.org,2002:bool", *number_tags):
            node.tag = "tag:yaml.org,2002:str"

    number_tags = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")

    class Loader(yaml.SafeLoader):
        """A YAML loader that keeps a value as text where YAML readers differ, and refuses repeated
        keys.

        A time stays text, because a datetime has microseconds and the server nanoseconds; a number
        with a leading zero or a colon, because `010` is 8 and `1:30` is 90 in YAML 1.1. Names,
        subjects and metadata stay text, because `on` is true in YAML 1.1.
        """

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            """Return a mapping; raises ValueError if a key is repeated."""
            keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            _refuse_repeated_keys([key for key in keys if key != "<<"])
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    continue
                mark_as_text(key)
                if key.value == "metadata" and isinstance(value, yaml.MappingNode):
                    for inner_node in (child for pair in value.value for child in pair):
                        mark_as_text(inner_node)
                elif key.value in _KEYS_WITH_TEXT_VALUES:
                    text_nodes = value.value if isinstance(value, yaml.SequenceNode) else [value]
                    for text_node in text_nodes:
                        mark_as_text(text_node)
            mapping: dict[Any, Any] = super().construct_mapping(node, deep)
            return mapping

    dropped_resolver_tags = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:int")
    Loader.yaml_implicit_resolvers = {
        first_character: [
            resolver for resolver in resolvers if resolver[0] not in dropped_resolver_tags
        ]
        for first_character, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:int", _YAML_INTEGER_PATTERN, list("-+0123456789")
    )
    try:
        return parse_within_limits(lambda: yaml.load(text, Loader), yaml.YAMLError)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _parse_toml_or_raise(first_error: ValueError | None, text: str) -> object:
    """Return the value of a text in TOML; raises `first_error`, of the language tried before, if
    it is not TOML.
    """
    try:
        return parse_toml(text)
    except tomllib.TOMLDecodeError as toml_error:
        raise first_error or ValueError("it is neither JSON nor YAML nor TOML") from toml_error


def _to_json_value(value: object, value_counter: Iterator[int]) -> object:
    """Return a value as JSON can represent it: times and keys of YAML and TOML become text.

    `value_counter` counts the values: an alias of YAML counts as a copy of its anchor. Raises
    ValueError for too many values, and for a value that JSON or the server cannot have.
    """
    if next(value_counter) > _MAX_VALUES:
        raise ValueError(f"it has more than {_MAX_VALUES:,} values")
    if isinstance(value, Mapping):
        return {
            metadata_text(key): _to_json_value(item, value_counter) for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_to_json_value(item, value_counter) for item in value]
    if isinstance(value, datetime):
        time = value if value.tzinfo else value.replace(tzinfo=UTC)
        return time.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"a number in it is {value}, which JSON cannot contain")
    if isinstance(value, int) and not -MAX_INT64 <= value <= MAX_UINT64:
        raise ValueError(f"a number in it is beyond {MAX_UINT64:,}, the largest of servers")
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise ValueError(f"it has a {type(value).__name__}, which a configuration cannot contain")
