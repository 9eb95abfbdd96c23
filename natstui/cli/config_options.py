"""Every option of a stream or consumer as a flag, read like the fields of the form."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from natstui.errors import UsageError
from natstui.model.config_change import AssetKind, changed, fields_of
from natstui.model.config_field import Config, Field
from natstui.model.config_text import parsed

_NAMED_OTHERWISE = {"name", "durable_name", "sealed"}


def config_options(kind: AssetKind) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command one flag per field; it gets them as `texts`, path → text."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_texts(**words: Any) -> Any:
            texts = {
                field.path: value
                for field in fields_of(kind)
                if (value := words.pop(_word(field), None)) is not None
            }
            return command(texts=texts, **words)

        decorated: Callable[..., Any] = with_texts
        for field in reversed(fields_of(kind)):
            if field.path not in _NAMED_OTHERWISE:
                decorated = _option(field)(decorated)
        return decorated

    return decorate


def _word(field: Field) -> str:
    return "field_" + field.path.replace(".", "_")


def _option(field: Field) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    names = [f"--{field.path.replace('_', '-').replace('.', '-')}"]
    if field.flag and f"--{field.flag}" not in names:
        names.append(f"--{field.flag}")
    metavar = "|".join(field.choices) if field.choices else _METAVARS.get(field.kind, "TEXT")
    return click.option(*names, _word(field), metavar=metavar, help=field.help)


_METAVARS = {
    "subjects": "SUBJECTS", "subject": "SUBJECT", "switch": "yes|no", "count": "NUMBER",
    "bytes": "SIZE", "duration": "DURATION", "durations": "DURATIONS", "time": "TIME",
    "metadata": "KEY=VALUE,…", "source": "SOURCE", "sources": "SOURCES",
}  # fmt: skip


def with_texts(kind: AssetKind, config: Mapping[str, object], texts: Mapping[str, str]) -> Config:
    """Return the configuration with what the flags say; an empty text takes a field away.

    Raises UsageError with the words of the form.
    """
    result = dict(config)
    for field in fields_of(kind):
        if field.path in texts:
            try:
                result = changed(result, field, parsed(field, texts[field.path]))
            except ValueError as error:
                raise UsageError(str(error)) from error
    return result


def read_config_file(path: str) -> Config:
    """Return the object in a JSON, YAML or TOML file; `-` reads JSON or YAML from stdin."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    loaded = _load(path, text)
    if not isinstance(loaded, dict):
        raise UsageError(f"{path} holds no configuration: it must be an object with keys")
    config = loaded.get("config", loaded)
    return dict(config) if isinstance(config, dict) else loaded


def _load(path: str, text: str) -> object:
    import tomllib

    import yaml

    try:
        if path.endswith(".toml"):
            return tomllib.loads(text)
        if path.endswith(".json"):
            return json.loads(text)
        return yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as error:
        raise UsageError(f"{path} cannot be understood: {error}") from error
