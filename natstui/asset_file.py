"""The configuration of a stream or consumer in a file: JSON, YAML or TOML, or a whole INFO.

Form, command line and templates all read it here, with the same result. It is no part of `config`,
which the terminal room must not import.
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
from natstui.files import MOST_TEXT_BYTES, read_plain
from natstui.model.assets.differences import AssetKind, fields_of, with_field
from natstui.model.assets.fields import Config, read, without_server_metadata
from natstui.model.assets.text import parse_field, word_text
from natstui.parsing import parse_json, parse_toml, within_levels
from natstui.paths import user_path
from natstui.units import LARGEST, LARGEST_UNSIGNED

_MOST_VALUES = 100_000
"""Limit of values in a configuration."""


def read_asset_file(name: str, kind: AssetKind | None = None) -> Config:
    """Return the configuration in a plain file; raises UsageError for one that cannot be read."""
    try:
        content = read_plain(user_path(name), MOST_TEXT_BYTES)
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error
    return parse_asset(content, name, kind)


def parse_asset(content: bytes, name: str, kind: AssetKind | None = None) -> Config:
    """Return the configuration in a file's content, without what the server wrote about itself.

    The end of `name` says which language it is; without one it may be any of them. With `kind`,
    values written as text (`1h`, `100MB`) become the server's numbers, and unknown fields are
    refused, but for those of a complete INFO, which a newer server may have. Raises UsageError.
    """
    try:
        text = content.decode("utf-8-sig")
        _refuse_manifest(text, name)
        values = _plain(_loaded(text, name), count())
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} cannot be read: it is not text in UTF-8") from error
    except ValueError as error:
        error_text = clean_line(" ".join(str(error).split()))
        raise UsageError(f"{name} cannot be understood: {error_text}") from error
    config = values.get("config", values) if isinstance(values, dict) else None
    if not isinstance(config, dict) or not config:
        raise UsageError(f"{name} has no configuration: it must be an object with keys")
    metadata = config.get("metadata")
    if isinstance(metadata, dict):
        config["metadata"] = {key: word_text(value) for key, value in metadata.items()}
    config = without_server_metadata(config)
    if kind is None:
        return config
    if not (isinstance(values, dict) and "config" in values):
        _refuse_unknown(kind, config, text, name)
    return _without_texts(kind, config, text, name)


_MANIFEST = re.compile(r"""^[\s{]*["']?apiVersion["']?\s*:\s*["']?jetstream\.nats\.io/""", re.M)


def _refuse_manifest(text: str, name: str) -> None:
    if _MANIFEST.search(text):
        raise UsageError(
            f"{name} is a manifest of the Kubernetes controller for JetStream: apply it with "
            f"kubectl apply -f {name}; natstui reads one stream or consumer per file, with the "
            "server's field names (max_age, num_replicas), in JSON, YAML or TOML"
        )


def _refuse_unknown(kind: AssetKind, config: Config, text: str, name: str) -> None:
    """Raise UsageError for fields that no server knows, with their lines and the nearest names."""
    known_fields = {field.path.split(".")[0] for field in fields_of(kind)} | _BESIDE_FIELDS[kind]
    nested = dict[str, set[str]]()
    for field in fields_of(kind):
        outer, dot, inner = field.path.partition(".")
        if dot and field.kind != "threshold":
            nested.setdefault(outer, set()).add(inner)
    sentences = [_unknown(key, known_fields, text) for key in config if key not in known_fields]
    for outer, inners in nested.items():
        value = config.get(outer)
        if isinstance(value, dict):
            sentences += [_unknown(key, inners, text) for key in value if key not in inners]
    if sentences:
        raise UsageError(f"{name}: {'; '.join(sentences)}")


_BESIDE_FIELDS: Mapping[AssetKind, set[str]] = {
    "stream": {"template_owner", "help"},
    "consumer": {"filter_subject", "direct"},
}
"""Fields that no form shows; `help` is what a template is for."""


def _unknown(key: str, known_fields: set[str], text: str) -> str:
    similar = difflib.get_close_matches(key, sorted(known_fields), 1)
    hint = f", did you mean {similar[0]}" if similar else ""
    return f"{_line_of(key, text)}unknown field {clean_line(key)}{hint}"


def _line_of(key: str, text: str) -> str:
    pattern = re.compile(rf"""(?<![\w.-])["']?{re.escape(key)}["']?\s*[:=]""")
    for number, line in enumerate(text.splitlines(), start=1):
        if pattern.search(line):
            return f"line {number}: "
    return ""


_WRITTEN_AS_TEXT = {"duration", "durations", "bytes", "count"}
_OCTAL = re.compile(r"[-+]?0\d+")
"""Numbers that YAML readers take as octal or as decimal."""


def _without_texts(kind: AssetKind, config: Config, text: str, name: str) -> Config:
    """Return the configuration with numbers where a file has `1h` or `100MB`."""
    for field in fields_of(kind):
        value = read(config, field.path)
        if field.kind not in _WRITTEN_AS_TEXT:
            continue
        key = field.path.rpartition(".")[2]
        if isinstance(value, bool):
            raise UsageError(f"{name}: {_line_of(key, text)}{key}: a number is missing")
        if isinstance(value, str) and _OCTAL.fullmatch(value):
            source_text = (
                f"{value}: some programs read a leading zero as octal: write it without the zero"
            )
            raise UsageError(f"{name}: {_line_of(key, text)}{key}: {source_text}")
        if field.kind == "durations" and isinstance(value, list):
            value = ",".join(map(str, value)) if any(isinstance(v, str) for v in value) else None
        if isinstance(value, str):
            try:
                config = with_field(config, field, parse_field(field, value))
            except ValueError as error:
                raise UsageError(f"{name}: {_line_of(key, text)}{key}: {error}") from error
    return config


def _loaded(text: str, name: str) -> object:
    """Try JSON before YAML, because YAML forbids the tabs that JSON allows."""
    ending = name.lower().rpartition(".")[2]
    if ending == "toml":
        return parse_toml(text)
    if ending == "json":
        return parse_json(text, _object)
    try:
        parse_json(text)
    except json.JSONDecodeError:
        pass
    else:
        return parse_json(text, _object)
    if ending in ("yaml", "yml"):
        return _yaml(text)
    try:
        value = _yaml(text)
    except ValueError as error:
        return _toml_or(error, text)
    return value if isinstance(value, dict) else _toml_or(None, text)


_TEXT_KINDS = {"text", "subject", "subjects", "words", "choice", "time"}
_WITHIN_SOURCES = {"name", "filter_subject", "src", "dest", "api", "deliver", "domain"}
_KINDS: tuple[AssetKind, ...] = ("stream", "consumer")
_TEXT_KEYS = _WITHIN_SOURCES | {
    field.path.rpartition(".")[2]
    for kind in _KINDS
    for field in fields_of(kind)
    if field.kind in _TEXT_KINDS
}
"""Keys whose values are text, alone or in a list."""
_YAML_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)$")


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    _refuse_twice([key for key, _ in pairs])
    return dict(pairs)


def _refuse_twice(keys: Sequence[str]) -> None:
    """Raise ValueError for a key that is repeated: which of both is meant is unknown."""
    repeated = [key for key, times_count in Counter(keys).items() if times_count > 1]
    if repeated:
        raise ValueError(f"{clean_line(repeated[0])} is given twice")


def _yaml(text: str) -> object:
    # Imported here: it takes a tenth of the viewer's start and is seldom needed.
    import yaml

    def as_written(node: yaml.Node) -> None:
        if node.tag in ("tag:yaml.org,2002:bool", *as_number):
            node.tag = "tag:yaml.org,2002:str"

    as_number = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")

    class Loader(yaml.SafeLoader):
        """A YAML loader that keeps values as text where readers differ, and refuses repeated keys.

        The server counts nanoseconds, a datetime only microseconds; and to YAML 1.1 `010` is 8,
        `1:30` is 90. A name, a subject and metadata are as written: to YAML 1.1 `on` is true.
        """

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            """Return a mapping; raises ValueError for two equal keys of it."""
            keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            _refuse_twice([key for key in keys if key != "<<"])
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    continue
                as_written(key)
                if key.value == "metadata" and isinstance(value, yaml.MappingNode):
                    for inner in (part for pair in value.value for part in pair):
                        as_written(inner)
                elif key.value in _TEXT_KEYS:
                    items = value.value if isinstance(value, yaml.SequenceNode) else [value]
                    for item in items:
                        as_written(item)
            mapping: dict[Any, Any] = super().construct_mapping(node, deep)
            return mapping

    as_text = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:int")
    Loader.yaml_implicit_resolvers = {
        letter: [resolver for resolver in resolvers if resolver[0] not in as_text]
        for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Loader.add_implicit_resolver("tag:yaml.org,2002:int", _YAML_INTEGER, list("-+0123456789"))
    try:
        return within_levels(lambda: yaml.load(text, Loader), yaml.YAMLError)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _toml_or(error: ValueError | None, text: str) -> object:
    """Read a text of an unknown language as TOML; raise the first error when that fails too."""
    try:
        return parse_toml(text)
    except tomllib.TOMLDecodeError as other:
        raise error or ValueError("it is neither JSON nor YAML nor TOML") from other


def _plain(value: object, numbers: Iterator[int]) -> object:
    """Return a value as JSON can represent it: YAML and TOML also have times, and keys that are no
    text.

    `numbers` counts the values: an alias of YAML counts as a copy of its anchor.
    """
    if next(numbers) > _MOST_VALUES:
        raise ValueError(f"it has more than {_MOST_VALUES:,} values")
    if isinstance(value, Mapping):
        return {word_text(key): _plain(item, numbers) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, numbers) for item in value]
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return moment.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"a number in it is {value}, which JSON cannot contain")
    if isinstance(value, int) and not -LARGEST <= value <= LARGEST_UNSIGNED:
        raise ValueError(f"a number in it is beyond {LARGEST_UNSIGNED:,}, the largest of servers")
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise ValueError(f"it has a {type(value).__name__}, which a configuration cannot contain")
