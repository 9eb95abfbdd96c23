"""Options of streams and consumers, and arguments of actions, as flags of the command line."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import click

from natstui.asset_file import parse_asset, read_asset_file
from natstui.cli.options import SEQUENCE
from natstui.cli.sections import Edit, option_in
from natstui.errors import UsageError
from natstui.files import MOST_TEXT_BYTES, read_stdin
from natstui.model.assets.differences import AssetKind, changed, fields_of
from natstui.model.assets.fields import Config, Field
from natstui.model.assets.text import SWITCHED, parsed, parsed_all
from natstui.model.natscli.meaning import in_our_words
from natstui.model.natscli.otherwise import emptied_only_here
from natstui.model.natscli.spellings import BACKOFF_FLAGS, SPELLINGS, Said, Spelling, own_flag
from natstui.model.records.actions import CATALOGUE
from natstui.model.records.managing import JournalAction

_of_nats = option_in("As in the NATS CLI")
_NAMED_OTHERWISE = {"name", "durable_name", "sealed"}


def config_options(
    kind: AssetKind, *, adding: bool
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command one flag per field, and those that the NATS CLI spells otherwise.

    It gets them as `values`, path → value; None for an empty text, which takes a field away.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_values(**words: Any) -> Any:
            texts = {f.path: value for f in fields_of(kind) if (value := words.pop(_word(f), ()))}
            names = [*(spelling.flag for spelling in _spellings(kind, adding)), *_beside(kind)]
            given = {name: words.pop(_spelled(name), None) for name in names}
            spelled = {name: _values(value) for name, value in given.items() if value}
            defaults = words.pop("defaults", False)
            from_file = bool(words.get("file") or words.get("whole"))
            whole = bool(words.get("whole"))
            said = Said(kind, adding, texts, spelled, defaults, from_file, whole)
            values = _parsed_values(kind, _in_our_words(said))
            for sentence in emptied_only_here(said):
                click.echo(f"natstui: {sentence}", err=True)
            return command(values=values, **words)

        decorated: Callable[..., Any] = with_values
        options = [
            _option(f, kind, adding) for f in fields_of(kind) if f.path not in _NAMED_OTHERWISE
        ]
        options += [_spelling_option(spelling) for spelling in _spellings(kind, adding)]
        options += [_beside_option(flag) for flag in _beside(kind)]
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


def argument_options(action: JournalAction) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command one flag per argument of an action; it gets them as `asked`, path → value."""
    arguments = CATALOGUE[action].arguments

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_asked(**words: Any) -> Any:
            values = {field.path: _argument(field, words.pop(_word(field))) for field in arguments}
            asked = {path: value for path, value in values.items() if value is not None}
            return command(asked=asked, **words)

        decorated: Callable[..., Any] = with_asked
        for field in reversed(arguments):
            whole = field.kind == "count"
            names = dict.fromkeys((f"--{field.path}", f"--{field.flag or field.path}"))
            option = click.option(
                *names,
                _word(field),
                type=SEQUENCE if whole else str,
                metavar=None if whole else _METAVARS.get(field.kind, "TEXT"),
                help=field.help,
            )
            decorated = option(decorated)
        return decorated

    return decorate


def _argument(field: Field, given: object) -> object:
    try:
        return parsed(field, given) if isinstance(given, str) else given
    except ValueError as error:
        raise UsageError(str(error)) from error


def _word(field: Field) -> str:
    return "field_" + re.sub(r"\W", "_", field.path)


def _in_our_words(said: Said) -> dict[str, Sequence[str]]:
    try:
        return in_our_words(said)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _parsed_values(kind: AssetKind, texts: Mapping[str, Sequence[str]]) -> dict[str, object]:
    try:
        return {
            field.path: parsed_all(field, texts[field.path])
            for field in fields_of(kind)
            if field.path in texts
        }
    except ValueError as error:
        raise UsageError(str(error)) from error


def _spellings(kind: AssetKind, adding: bool) -> list[Spelling]:
    here = "add" if adding else "edit"
    return [one for one in SPELLINGS[kind] if one.only in ("", here)]


def _beside(kind: AssetKind) -> Sequence[str]:
    return tuple(BACKOFF_FLAGS) if kind == "consumer" else ()


def _spelled(flag: str) -> str:
    return "spelled_" + flag.replace("-", "_")


def _values(given: object) -> tuple[str, ...]:
    return given if isinstance(given, tuple) else ("",)


def _spelling_option(one: Spelling) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    names = [f"--{one.flag}", *([f"-{one.short}"] if one.short else []), _spelled(one.flag)]
    if one.metavar:
        words: dict[str, Any] = {"metavar": one.metavar, "multiple": True}
        return _of_nats(*names, help=one.help, hidden=one.hidden, **words)
    return _of_nats(*names, is_flag=True, help=one.help, hidden=one.hidden)


def _beside_option(flag: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    text = f"With --backoff linear; without it {BACKOFF_FLAGS[flag]}."
    metavar = "NUMBER" if flag.endswith("steps") else "DURATION"
    return _of_nats(f"--{flag}", _spelled(flag), metavar=metavar, help=text, multiple=True)


def _option(
    field: Field, kind: AssetKind, adding: bool
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    names = [f"--{own_flag(field)}"]
    elsewhere = {spelling.flag for spelling in _spellings(kind, adding)}
    if field.flag and f"--{field.flag}" not in names and field.flag not in elsewhere:
        names.append(f"--{field.flag}")
    option = option_in(field.section)
    text = field.help.removesuffix(".") + "."
    if field.kind == "switch":
        return option(
            *names, _word(field), type=Switch(), metavar="[yes|no]", help=text, multiple=True
        )
    metavar = "|".join(field.choices) if field.choices else _METAVARS.get(field.kind, "TEXT")
    again = " Repeat for several." if field.kind in _SEVERAL else ""
    return option(*names, _word(field), metavar=metavar, help=text + again, multiple=True)


_SEVERAL = {"subjects", "words", "durations", "metadata", "sources"}
_METAVARS = {
    "subjects": "SUBJECTS", "subject": "SUBJECT", "count": "NUMBER",
    "bytes": "SIZE", "duration": "DURATION", "durations": "DURATIONS", "time": "TIME",
    "metadata": "KEY=VALUE", "threshold": "VALUE", "source": "SOURCE", "sources": "SOURCES",
}  # fmt: skip


def with_values(
    kind: AssetKind, config: Mapping[str, object], values: Mapping[str, object]
) -> Config:
    """Return the configuration with what the flags say; None takes a field away."""
    result = dict(config)
    for field in fields_of(kind):
        if field.path in values:
            result = changed(result, field, values[field.path])
    return result


def file_options(command: Callable[..., Any], *, adding: bool) -> Callable[..., Any]:
    """Give a command `--file`, `--config` as the NATS CLI has it, and `--dry-run`."""
    begin = "to start from; - is stdin" if adding else "with the settings to change"
    whole = "" if adding else " The file is complete: missing settings get the server's default."
    dry = "Print what would be sent; exit 1 if it differs from the server."
    dry = dry if adding else "Print the difference; exit 1 when there is one."
    options = [
        click.option("--file", metavar="FILE", help=f"JSON, YAML or TOML {begin}."),
        click.option("--config", "whole", metavar="FILE", help=f"{_WHOLE}{whole}"),
        click.option("--dry-run", is_flag=True, help=dry),
    ]
    if adding:
        options.append(click.option("--defaults", is_flag=True, help=_DEFAULTS))
    for option in reversed(options):
        command = option(command)
    return command


_WHOLE = "A configuration in JSON, as in the NATS CLI; our own settings: --settings."
_DEFAULTS = "Use the defaults of the NATS CLI; natstui never prompts for options."


def read_config_file(kind: AssetKind, path: str) -> Config:
    """Return the configuration in a JSON, YAML or TOML file, or on stdin (`-`)."""
    if path == "-":
        try:
            content = read_stdin(MOST_TEXT_BYTES)
        except OSError as error:
            raise UsageError(f"stdin cannot be read: {error.strerror}") from error
        return parse_asset(content, "stdin", kind)
    return read_asset_file(path, kind)


def read_files(kind: AssetKind, file: str | None, whole: str | None) -> Config:
    """Return what the files of a command say; nothing without any. Raises UsageError.

    `file` has some of the configuration, `whole` all of it, as `--config` of the NATS CLI.
    """
    if file and whole:
        raise UsageError("both --file and --config are given: use only one")
    if whole:
        return _read_whole(kind, whole)
    return read_config_file(kind, file) if file else {}


def _read_whole(kind: AssetKind, path: str) -> Config:
    """Return the configuration in a JSON file of the NATS CLI; raises UsageError."""
    if path.lower().endswith((".toml", ".yaml", ".yml")):
        read_asset_file(path)  # what is wrong with the file itself comes first
        raise UsageError(
            "--config is a configuration in JSON here, as in the NATS CLI: say --file for "
            "another language, --settings for the settings of natstui"
        )
    return read_config_file(kind, path)


class Switch(click.ParamType[str]):
    """The type of an option that may stand without a value."""

    name = "switch"


class WithSwitches(Edit):
    """A command whose switches may stand without a value.

    What follows one belongs to it when it is one of the words of a switch, and never otherwise.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Say every switch out before anything is parsed."""
        return super().parse_args(ctx, list(_said_out(self, args)))


def _said_out(command: click.Command, words: Sequence[str]) -> Iterator[str]:
    options = {
        name: param
        for param in command.params
        if isinstance(param, click.Option)
        for name in (*param.opts, *param.secondary_opts)
    }
    place = 0
    while place < len(words):
        word, place = words[place], place + 1
        name, sign, _ = word.partition("=")
        option = options.get(name)
        plain = options.get(f"--{name.removeprefix('--no-')}") if option is None else None
        if word == "--":
            yield from words[place - 1 :]
            return
        if plain is not None and isinstance(plain.type, Switch) and not sign:
            yield f"--{name.removeprefix('--no-')}=no"
        elif option is None or option.is_flag or sign or place == len(words):
            yield f"{word}=yes" if _is_switch(option) and not sign else word
        elif _is_switch(option):
            given = words[place].lower() in SWITCHED or not words[place]
            yield f"{word}={words[place] if given else 'yes'}"
            place += given
        else:
            yield word
            yield words[place]
            place += 1


def _is_switch(option: click.Option | None) -> bool:
    return option is not None and isinstance(option.type, Switch)
