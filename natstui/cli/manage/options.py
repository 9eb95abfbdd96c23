"""Options of streams and consumers, and arguments of actions, as command line flags."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import click

from natstui.asset_file import parse_asset, read_asset_file
from natstui.cli.options import SEQUENCE
from natstui.cli.sections import EditCommand, section_option_factory
from natstui.errors import UsageError
from natstui.files import MAX_TEXT_BYTES, read_stdin, read_user_file
from natstui.model.assets.differences import AssetKind, fields_of, with_field
from natstui.model.assets.fields import Config, Field
from natstui.model.assets.text import SWITCH_VALUES, parse_field, parse_repeated
from natstui.model.natscli.meaning import interpret_flags, removal_notes
from natstui.model.natscli.spellings import (
    BACKOFF_FLAGS,
    NATS_CLI_FLAGS,
    FlagInputs,
    NatsCliFlag,
    natstui_flag,
)
from natstui.model.records.actions import CATALOGUE
from natstui.model.records.managing import JournalAction
from natstui.paths import expand_user_path

_nats_cli_option = section_option_factory("As in the NATS CLI")
_FIELDS_WITHOUT_FLAG = {"name", "durable_name", "sealed"}


def config_options(
    kind: AssetKind, *, is_new: bool
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds a flag per field of an asset to a command, and the flags of the
    NATS CLI.

    The command gets `values`: the value by path of each typed field; None for an empty text, which
    removes the field. `is_new`: for a new asset, else for an edit. An invalid value raises
    UsageError.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def call_command_with_values(**options: Any) -> Any:
            texts_by_field_path = {
                field.path: value
                for field in fields_of(kind)
                if (value := options.pop(_field_argument_name(field), ()))
            }
            names = [
                *(nats_cli_flag.flag for nats_cli_flag in _nats_cli_flags_of(kind, is_new)),
                *_backoff_flags(kind),
            ]
            flag_values = {
                name: options.pop(_nats_cli_flag_argument_name(name), None) for name in names
            }
            texts_by_flag = {
                name: _convert_flag_value_to_texts(value)
                for name, value in flag_values.items()
                if value
            }
            uses_nats_cli_defaults = options.pop("defaults", False)
            has_file = bool(options.get("file") or options.get("config_file"))
            has_complete_config = bool(options.get("config_file"))
            flag_inputs = FlagInputs(
                kind,
                is_new,
                texts_by_field_path,
                texts_by_flag,
                uses_nats_cli_defaults,
                has_file,
                has_complete_config,
            )
            values = _parse_field_values(kind, _read_texts_by_field_path(flag_inputs))
            for sentence in removal_notes(flag_inputs):
                click.echo(f"natstui: {sentence}", err=True)
            return command(values=values, **options)

        decorated_command: Callable[..., Any] = call_command_with_values
        options = [
            _create_field_option(field, kind, is_new)
            for field in fields_of(kind)
            if field.path not in _FIELDS_WITHOUT_FLAG
        ]
        options += [
            _create_nats_cli_option(nats_cli_flag)
            for nats_cli_flag in _nats_cli_flags_of(kind, is_new)
        ]
        options += [_create_backoff_option(flag) for flag in _backoff_flags(kind)]
        for option in reversed(options):
            decorated_command = option(decorated_command)
        return decorated_command

    return decorate


def argument_options(action: JournalAction) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds a flag per argument of an action to a command.

    The command gets `arguments`: the value by path of each typed field. An invalid value raises
    UsageError.
    """
    arguments = CATALOGUE[action].arguments

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def run_with_arguments(**options: Any) -> Any:
            values = {
                field.path: _parse_argument(field, options.pop(_field_argument_name(field)))
                for field in arguments
            }
            typed_values = {path: value for path, value in values.items() if value is not None}
            return command(arguments=typed_values, **options)

        decorated_command: Callable[..., Any] = run_with_arguments
        for field in reversed(arguments):
            is_count_field = field.kind == "count"
            names = dict.fromkeys((f"--{field.path}", f"--{field.flag or field.path}"))
            option = click.option(
                *names,
                _field_argument_name(field),
                type=SEQUENCE if is_count_field else str,
                metavar=None if is_count_field else _METAVAR_BY_FIELD_KIND.get(field.kind, "TEXT"),
                help=field.help,
            )
            decorated_command = option(decorated_command)
        return decorated_command

    return decorate


def _parse_argument(field: Field, value: object) -> object:
    try:
        return parse_field(field, value) if isinstance(value, str) else value
    except ValueError as error:
        raise UsageError(str(error)) from error


def _field_argument_name(field: Field) -> str:
    return "field_" + re.sub(r"\W", "_", field.path)


def _read_texts_by_field_path(flag_inputs: FlagInputs) -> dict[str, Sequence[str]]:
    try:
        return interpret_flags(flag_inputs)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _parse_field_values(
    kind: AssetKind, texts_by_field_path: Mapping[str, Sequence[str]]
) -> dict[str, object]:
    try:
        return {
            field.path: parse_repeated(field, texts_by_field_path[field.path])
            for field in fields_of(kind)
            if field.path in texts_by_field_path
        }
    except ValueError as error:
        raise UsageError(str(error)) from error


def _nats_cli_flags_of(kind: AssetKind, is_new: bool) -> list[NatsCliFlag]:
    verb = "add" if is_new else "edit"
    return [
        nats_cli_flag
        for nats_cli_flag in NATS_CLI_FLAGS[kind]
        if nats_cli_flag.only_verb in ("", verb)
    ]


def _backoff_flags(kind: AssetKind) -> Sequence[str]:
    return tuple(BACKOFF_FLAGS) if kind == "consumer" else ()


def _nats_cli_flag_argument_name(flag: str) -> str:
    """Return the name of the argument in which a command gets the value of a NATS CLI flag."""
    return "spelled_" + flag.replace("-", "_")


def _convert_flag_value_to_texts(value: object) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ("",)


def _create_nats_cli_option(
    nats_cli_flag: NatsCliFlag,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    names = [
        f"--{nats_cli_flag.flag}",
        *([f"-{nats_cli_flag.short_flag}"] if nats_cli_flag.short_flag else []),
        _nats_cli_flag_argument_name(nats_cli_flag.flag),
    ]
    if nats_cli_flag.metavar:
        option_attributes: dict[str, Any] = {"metavar": nats_cli_flag.metavar, "multiple": True}
        return _nats_cli_option(
            *names, help=nats_cli_flag.help, hidden=nats_cli_flag.is_hidden, **option_attributes
        )
    return _nats_cli_option(
        *names, is_flag=True, help=nats_cli_flag.help, hidden=nats_cli_flag.is_hidden
    )


def _create_backoff_option(flag: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    text = f"With --backoff linear; without it {BACKOFF_FLAGS[flag]}."
    metavar = "NUMBER" if flag.endswith("steps") else "DURATION"
    return _nats_cli_option(
        f"--{flag}", _nats_cli_flag_argument_name(flag), metavar=metavar, help=text, multiple=True
    )


def _create_field_option(
    field: Field, kind: AssetKind, is_new: bool
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    names = [f"--{natstui_flag(field)}"]
    nats_cli_flag_names = {
        nats_cli_flag.flag for nats_cli_flag in _nats_cli_flags_of(kind, is_new)
    }
    if field.flag and f"--{field.flag}" not in names and field.flag not in nats_cli_flag_names:
        names.append(f"--{field.flag}")
    option = section_option_factory(field.section)
    text = field.help.removesuffix(".") + "."
    if field.kind == "switch":
        return option(
            *names,
            _field_argument_name(field),
            type=SwitchType(),
            metavar="[yes|no]",
            help=text,
            multiple=True,
        )
    metavar = (
        "|".join(field.choices)
        if field.choices
        else _METAVAR_BY_FIELD_KIND.get(field.kind, "TEXT")
    )
    repeat_hint = " Repeat for several." if field.kind in _REPEATABLE_FIELD_KINDS else ""
    return option(
        *names,
        _field_argument_name(field),
        metavar=metavar,
        help=text + repeat_hint,
        multiple=True,
    )


_REPEATABLE_FIELD_KINDS = {"subjects", "words", "durations", "metadata", "sources"}
_METAVAR_BY_FIELD_KIND = {
    "subjects": "SUBJECTS", "subject": "SUBJECT", "count": "NUMBER",
    "bytes": "SIZE", "duration": "DURATION", "durations": "DURATIONS", "time": "TIME",
    "metadata": "KEY=VALUE", "threshold": "VALUE", "source": "SOURCE", "sources": "SOURCES",
}  # fmt: skip


def set_field_values(
    kind: AssetKind, config: Mapping[str, object], values: Mapping[str, object]
) -> Config:
    """Return a copy of a configuration with the values of the flags, by path of a field.

    None removes a field.
    """
    result = dict(config)
    for field in fields_of(kind):
        if field.path in values:
            result = with_field(result, field, values[field.path])
    return result


def file_options(command: Callable[..., Any], *, is_new: bool) -> Callable[..., Any]:
    """Add `--file`, `--config` (as `config_file`) and `--dry-run` to a command; `--defaults` if
    `is_new`.

    `is_new`: the command creates an asset; otherwise it edits an asset. The help differs.
    """
    file_purpose = "to start from; - is stdin" if is_new else "with the settings to change"
    complete_file_hint = (
        "" if is_new else " The file is complete: missing settings get the server's default."
    )
    dry_run_help = "Print what would be sent; exit 1 if it differs from the server."
    dry_run_help = dry_run_help if is_new else "Print the difference; exit 1 when there is one."
    options = [
        click.option("--file", metavar="FILE", help=f"JSON, YAML or TOML {file_purpose}."),
        click.option(
            "--config", "config_file", metavar="FILE", help=f"{_CONFIG_HELP}{complete_file_hint}"
        ),
        click.option("--dry-run", is_flag=True, help=dry_run_help),
    ]
    if is_new:
        options.append(click.option("--defaults", is_flag=True, help=_DEFAULTS_HELP))
    for option in reversed(options):
        command = option(command)
    return command


_CONFIG_HELP = "A configuration in JSON, as in the NATS CLI; our own settings: --settings."
_DEFAULTS_HELP = "Use the defaults of the NATS CLI; natstui never prompts for options."


def read_config_file(kind: AssetKind, path: str) -> Config:
    """Return the configuration in a JSON, YAML or TOML file, or on stdin for `-`.

    Raises UsageError if it cannot be read or parsed, or has unknown fields.
    """
    name = "stdin" if path == "-" else path
    try:
        content = (
            read_stdin(MAX_TEXT_BYTES)
            if path == "-"
            else read_user_file(expand_user_path(path), MAX_TEXT_BYTES)
        )
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error
    return parse_asset(content, name, kind)


def read_files(kind: AssetKind, file: str | None, config_file: str | None) -> Config:
    """Return the configuration of the files of a command; empty without a file.

    `file` has a part of a configuration, `config_file` a complete one in JSON, as `--config` of
    the NATS CLI. Raises UsageError if both are given, or if a file cannot be read or parsed.
    """
    if file and config_file:
        raise UsageError("both --file and --config are given: use only one")
    if config_file:
        return _read_nats_cli_config(kind, config_file)
    return read_config_file(kind, file) if file else {}


def _read_nats_cli_config(kind: AssetKind, path: str) -> Config:
    """Return the configuration in a JSON file of the NATS CLI; raises UsageError for another
    format.
    """
    if path.lower().endswith((".toml", ".yaml", ".yml")):
        read_asset_file(path)  # what is wrong with the file itself comes first
        raise UsageError(
            "--config is a configuration in JSON here, as in the NATS CLI: use --file for "
            "another format, --settings for the settings of natstui"
        )
    return read_config_file(kind, path)


class SwitchType(click.ParamType[str]):
    """The type of a yes-or-no option, whose value may be omitted (`yes`)."""

    name = "switch"


class SwitchCommand(EditCommand):
    """A command whose switches may be used without a value.

    An argument after a switch is its value only if it is a valid switch value.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the remaining arguments; parses a switch without a value as `yes`."""
        return super().parse_args(ctx, list(_insert_switch_values(self, args)))


def _insert_switch_values(command: click.Command, arguments: Sequence[str]) -> Iterator[str]:
    options = {
        name: param
        for param in command.params
        if isinstance(param, click.Option)
        for name in (*param.opts, *param.secondary_opts)
    }
    index = 0
    while index < len(arguments):
        argument, index = arguments[index], index + 1
        name, equals_sign, _ = argument.partition("=")
        option = options.get(name)
        negated_option = options.get(f"--{name.removeprefix('--no-')}") if option is None else None
        if argument == "--":
            yield from arguments[index - 1 :]
            return
        if (
            negated_option is not None
            and isinstance(negated_option.type, SwitchType)
            and not equals_sign
        ):
            yield f"--{name.removeprefix('--no-')}=no"
        elif option is None or option.is_flag or equals_sign or index == len(arguments):
            yield f"{argument}=yes" if _is_switch(option) and not equals_sign else argument
        elif _is_switch(option):
            has_value = arguments[index].lower() in SWITCH_VALUES or not arguments[index]
            yield f"{argument}={arguments[index] if has_value else 'yes'}"
            index += has_value
        else:
            yield argument
            yield arguments[index]
            index += 1


def _is_switch(option: click.Option | None) -> bool:
    return option is not None and isinstance(option.type, SwitchType)
