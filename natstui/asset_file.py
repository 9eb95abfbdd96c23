"""The configuration of a stream or consumer in a file: JSON, YAML or TOML, or a whole INFO.

Form, command line and templates all read it here, with the same result. It is no part of `config`,
which the terminal room must not import.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from datetime import UTC, date, datetime

from natstui.clean import clean_line
from natstui.errors import UsageError
from natstui.model.assets.fields import Config, without_server_metadata
from natstui.paths import user_path


def read_asset_file(name: str) -> Config:
    """Return the configuration in a file; raises UsageError for one that cannot be read."""
    try:
        content = user_path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error
    return parse_asset(content, name)


def parse_asset(content: bytes, name: str) -> Config:
    """Return the configuration in a file's content, without what the server wrote about itself.

    The end of `name` says which language it is; without one it may be any of them. Raises
    UsageError.
    """
    try:
        loaded = _plain(_loaded(content.decode("utf-8-sig"), name))
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} cannot be read: it is not text in UTF-8") from error
    except (ValueError, RecursionError) as error:
        why = clean_line(" ".join(str(error).split()))
        raise UsageError(f"{name} cannot be understood: {why}") from error
    config = loaded.get("config", loaded) if isinstance(loaded, dict) else None
    if not isinstance(config, dict):
        raise UsageError(f"{name} holds no configuration: it must be an object with keys")
    metadata = config.get("metadata")
    if isinstance(metadata, dict):
        config["metadata"] = {key: _word(value) for key, value in metadata.items()}
    return without_server_metadata(config)


def _loaded(text: str, name: str) -> object:
    """Try JSON before YAML, because YAML forbids the tabs that JSON allows."""
    ending = name.lower().rpartition(".")[2]
    if ending == "toml":
        return tomllib.loads(text)
    if ending == "json":
        return json.loads(text)
    try:
        return json.loads(text)
    except ValueError:
        pass
    if ending in ("yaml", "yml"):
        return _yaml(text)
    try:
        found = _yaml(text)
    except ValueError as error:
        return _toml_or(error, text)
    return found if isinstance(found, dict) else _toml_or(None, text)


def _yaml(text: str) -> object:
    # Imported here: it takes a tenth of the viewer's start and is seldom needed.
    import yaml

    class Loader(yaml.SafeLoader):
        """Keeps times as text: the server counts nanoseconds, a datetime only microseconds."""

    Loader.yaml_implicit_resolvers = {
        letter: [one for one in found if one[0] != "tag:yaml.org,2002:timestamp"]
        for letter, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _toml_or(error: ValueError | None, text: str) -> object:
    """Read a text of an unknown language as TOML; raise the first error when that fails too."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as other:
        raise error or ValueError("it is neither JSON nor YAML nor TOML") from other


def _plain(value: object) -> object:
    """Return what JSON can hold: YAML and TOML also have times, and keys that are no text."""
    if isinstance(value, Mapping):
        return {_word(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return moment.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise ValueError(f"it holds a {type(value).__name__}, which no configuration has")


def _word(value: object) -> str:
    """Return a key, or a value of metadata, as text: the server takes only text there."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
