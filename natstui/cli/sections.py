"""Base classes of commands: options in sections, connection flags in any position."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise, takewhile
from typing import Any

import click
from click.core import ParameterSource
from click.exceptions import NoSuchCommand

from natstui.errors import UsageError

CONNECTION_SECTION = "Connection"
"""The help section of the connection options."""


_CONNECTION_FLAGS = {
    "--server": "--server", "-s": "--server", "--context": "--context", "--profile": "--profile",
    "--config": "--settings", "--settings": "--settings", "--js-domain": "--js-domain",
    "--js-api-prefix": "--js-api-prefix", "--account": "--account",
}  # fmt: skip
"""Connection flags with a value → their name in commands."""


def _move_connection_flags(arguments: list[str]) -> list[str]:
    """Return a command line with the connection flags moved behind the command."""
    flags, index = list[str](), 0
    while index < len(arguments):
        name, equals_sign, value = arguments[index].partition("=")
        if name.startswith("-s") and name[2:] and not name.startswith("--"):
            name, equals_sign, value = "-s", "=", arguments[index][2:]
        if name not in _CONNECTION_FLAGS:
            break
        value = value if equals_sign else "".join(arguments[index + 1 : index + 2])
        flags += [_CONNECTION_FLAGS[name], value]
        index += 1 if equals_sign else 2
    if index >= len(arguments) or arguments[index].startswith("-"):
        # No command follows, or a flag that only the viewer has.
        return arguments
    remaining_arguments = arguments[index:]
    end = (
        remaining_arguments.index("--")
        if "--" in remaining_arguments
        else len(remaining_arguments)
    )
    return [*remaining_arguments[:end], *flags, *remaining_arguments[end:]]


class SectionOption(click.Option):
    """An option that the help lists in a section of its own."""

    def __init__(self, *args: Any, section: str, **options: Any) -> None:
        super().__init__(*args, **options)
        self.section = section


def section_option_factory(
    section: str,
) -> Callable[..., Callable[[Callable[..., Any]], Callable[..., Any]]]:
    """Return a replacement of `click.option` whose options are listed in a section of the help."""

    def option(*names: str, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        return click.option(*names, cls=SectionOption, section=section, **options)

    return option


def _section_of(option: click.Parameter) -> str:
    return option.section if isinstance(option, SectionOption) else "Options"


def _write_options(
    command: click.Command, ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    """Write the options by section, those of the connection last."""
    sections: dict[str, list[tuple[str, str]]] = {"Options": []}
    for option in command.get_params(ctx):
        help_row = option.get_help_record(ctx) if isinstance(option, click.Option) else None
        if help_row is not None:
            sections.setdefault(_section_of(option), []).append(help_row)
    connection_rows = sections.pop(CONNECTION_SECTION, [])
    for title, help_rows in (*sections.items(), (CONNECTION_SECTION, connection_rows)):
        if help_rows:
            with formatter.section(title):
                formatter.write_dl(help_rows)


def _refuse_options_as_values(command: click.Command, ctx: click.Context, args: list[str]) -> None:
    """Raise UsageError if an option would get the next option as its value, as in `--subject
    --yes`: the command would run without that next option. `--subject=--yes` is allowed.
    """
    options = [param for param in command.params if isinstance(param, click.Option)]
    names = {name for option in options for name in (*option.opts, *option.secondary_opts)}
    options_with_value = {
        # One with a value of its own may stand alone.
        name for option in options
        if not option.is_flag and not isinstance(option.flag_value, str) for name in option.opts
    }  # fmt: skip
    for name, value in pairwise(takewhile(lambda text: text != "--", args)):
        if name in options_with_value and value.startswith("--") and value in names:
            raise click.UsageError(f"{name} needs a value before {value}", ctx)


def _refuse_empty_options(
    command: click.Command, ctx: click.Context, *, allows_empty: bool
) -> None:
    """Raise UsageError for an option with an empty value: a shell variable may be unset.

    `allows_empty` allows an empty value, but not one of blanks, and not for connection options.
    """
    for option in command.params:
        name = option.name or ""
        value = ctx.params.get(name)
        texts = value if isinstance(value, tuple) else (value,)
        blank_texts = [text for text in texts if isinstance(text, str) and not text.strip()]
        is_typed = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if not (is_typed and isinstance(option, click.Option)) or option.flag_value == "":
            # The last may stand without a value, which is read as an empty one.
            continue
        is_removal_allowed = (
            allows_empty and not any(blank_texts) and _section_of(option) != CONNECTION_SECTION
        )
        if blank_texts and not is_removal_allowed:
            raise UsageError(
                f"{option.opts[0]} is empty: give it a value, or leave the option out"
            )


class Command(click.Command):
    """A command with sections and examples in its help."""

    allows_empty = False
    """Whether an empty value of its options is allowed, and removes a setting."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self.examples = examples
        """Complete command lines."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the remaining arguments.

        Raises UsageError for an option with an empty value or with another option as its value,
        and for a connection flag that the command does not have, with the reason.
        """
        _refuse_options_as_values(self, ctx, args)
        try:
            remaining_arguments = super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name not in _CONNECTION_FLAGS:
                raise
            reason = "does not connect to a server, so omit the option"
            if any("--server" in option.opts for option in self.params):
                reason = "works in the account of its user: connect as a user of the other account"
            raise click.UsageError(f"{error.option_name}: this command {reason}", ctx) from None
        _refuse_empty_options(self, ctx, allows_empty=self.allows_empty)
        return remaining_arguments

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options into the help by section, then the examples."""
        _write_options(self, ctx, formatter)
        _write_examples(self.examples, formatter)


class Group(click.Group):
    """A group whose commands are of class `Command`, with sections and examples in its help."""

    command_class = Command
    group_class = type

    def __init__(self, *args: Any, examples: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self.examples = examples
        """Complete command lines."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the remaining arguments; connection flags may precede the command."""
        remaining_arguments = super().parse_args(ctx, _move_connection_flags(args))
        _refuse_empty_options(self, ctx, allows_empty=False)
        return remaining_arguments

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options into the help by section, then the commands and the examples."""
        _write_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)
        _write_examples(self.examples, formatter)


class LazyGroup(Group):
    """A group that imports a command only when it is run or its help is read."""

    def __init__(self, *args: Any, import_paths: Mapping[str, str], **options: Any) -> None:
        super().__init__(*args, **options)
        self._import_paths = import_paths
        """Name of a command → `module:function`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, ordered, without importing them."""
        return sorted({*self.commands, *self._import_paths})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command of a name; None if no command has the name."""
        if cmd_name not in self._import_paths:
            return super().get_command(ctx, cmd_name)
        module, function = self._import_paths[cmd_name].split(":")
        command: click.Command = getattr(importlib.import_module(module), function)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return name, command and remaining arguments of a command line.

        Raises NoSuchCommand with similar names if no command has the name.
        """
        try:
            return super().resolve_command(ctx, args)
        except NoSuchCommand as error:
            raise NoSuchCommand(
                error.command_name, possibilities=self.list_commands(ctx), ctx=ctx
            ) from None


class EditCommand(Command):
    """A command in which an empty value removes a setting."""

    allows_empty = True


def _write_examples(examples: Sequence[str], formatter: click.HelpFormatter) -> None:
    """Write complete command lines, each on its own line."""
    if examples:
        with formatter.section("Examples"):
            for example in examples:
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


def command(name: str | None = None, **options: Any) -> Callable[[Callable[..., Any]], Command]:
    """Return a decorator that creates a `Command` from a function.

    `name` is that of the function by default; `options` are as of `click.command`.
    """
    options.setdefault("cls", Command)
    return click.command(name, **options)
