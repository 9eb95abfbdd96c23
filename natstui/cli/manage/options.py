"""Options of streams and consumers, and arguments of actions, as flags of the command line."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from natstui.asset_file import parse_asset, read_asset_file
from natstui.errors import UsageError
from natstui.model.assets.differences import AssetKind, changed, fields_of
from natstui.model.assets.fields import Config, Field
from natstui.model.assets.text import parsed_all
from natstui.model.records.actions import CATALOGUE
from natstui.model.records.managing import JournalAction

_NAMED_OTHERWISE = {"name", "durable_name", "sealed"}


as_json = click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")


def config_options(kind: AssetKind) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command one flag per field; it gets them as `texts`, path → what was given."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_texts(**words: Any) -> Any:
            texts = {
                field.path: value
                for field in fields_of(kind)
                if (value := words.pop(_word(field), ()))
            }
            return command(texts=texts, **words)

        decorated: Callable[..., Any] = with_texts
        for field in reversed(fields_of(kind)):
            if field.path not in _NAMED_OTHERWISE:
                decorated = _option(field)(decorated)
        return decorated

    return decorate


def argument_options(action: JournalAction) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command one flag per argument of an action; it gets them as `asked`, path → value."""
    arguments = CATALOGUE[action].arguments

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_asked(**words: Any) -> Any:
            values = {field.path: words.pop(_word(field)) for field in arguments}
            asked = {path: value for path, value in values.items() if value is not None}
            return command(asked=asked, **words)

        decorated: Callable[..., Any] = with_asked
        for field in reversed(arguments):
            whole = field.kind == "count"
            option = click.option(
                f"--{field.path}",
                _word(field),
                type=click.IntRange(min=1) if whole else str,
                metavar=None if whole else _METAVARS[field.kind],
                help=field.help,
            )
            decorated = option(decorated)
        return decorated

    return decorate


def _word(field: Field) -> str:
    return "field_" + re.sub(r"\W", "_", field.path)


def _option(field: Field) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    if field.kind == "threshold":
        names = [f"--monitor-{field.path.rpartition('.')[2]}"]
    else:
        names = [f"--{field.path.replace('_', '-').replace('.', '-')}"]
    if field.flag and f"--{field.flag}" not in names:
        names.append(f"--{field.flag}")
    metavar = "|".join(field.choices) if field.choices else _METAVARS.get(field.kind, "TEXT")
    again = " Give it again for more." if field.kind in _SEVERAL else ""
    text = field.help.removesuffix(".") + "." + again
    return click.option(*names, _word(field), metavar=metavar, help=text, multiple=True)


_SEVERAL = {"subjects", "words", "durations", "metadata", "sources"}
_METAVARS = {
    "subjects": "SUBJECTS", "subject": "SUBJECT", "switch": "yes|no", "count": "NUMBER",
    "bytes": "SIZE", "duration": "DURATION", "durations": "DURATIONS", "time": "TIME",
    "metadata": "KEY=VALUE", "threshold": "VALUE", "source": "SOURCE", "sources": "SOURCES",
}  # fmt: skip


def with_texts(
    kind: AssetKind, config: Mapping[str, object], texts: Mapping[str, Sequence[str]]
) -> Config:
    """Return the configuration with what the flags say; an empty text takes a field away.

    Raises UsageError with the words of the form.
    """
    result = dict(config)
    for field in fields_of(kind):
        if field.path in texts:
            try:
                result = changed(result, field, parsed_all(field, texts[field.path]))
            except ValueError as error:
                raise UsageError(str(error)) from error
    return result


def read_config_file(path: str) -> Config:
    """Return the configuration in a JSON, YAML or TOML file, or on stdin (`-`)."""
    if path == "-":
        return parse_asset(sys.stdin.buffer.read(), "stdin")
    return read_asset_file(path)
