"""What every command has: options in sections, those of the connection wherever they stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click
from click.core import ParameterSource

from natstui.errors import UsageError

CONNECTION = "Connection"
"""The section of the options that say where to connect."""


_CONNECTION_FLAGS = {
    "--server": "--server", "-s": "--server", "--context": "--context", "--profile": "--profile",
    "--config": "--settings", "--settings": "--settings", "--js-domain": "--js-domain",
    "--js-api-prefix": "--js-api-prefix", "--account": "--account",
}  # fmt: skip
"""Flags of the connection, each with a value, and what a command calls them."""


def _with_flags_behind(words: list[str]) -> list[str]:
    """Return a command line whose flags of the connection stand behind its command."""
    flags, at = list[str](), 0
    while at < len(words):
        name, sign, value = words[at].partition("=")
        if name.startswith("-s") and name[2:] and not name.startswith("--"):
            name, sign, value = "-s", "=", words[at][2:]
        if name not in _CONNECTION_FLAGS:
            break
        value = value if sign else "".join(words[at + 1 : at + 2])
        flags += [_CONNECTION_FLAGS[name], value]
        at += 1 if sign else 2
    if at >= len(words) or words[at].startswith("-"):
        # No command follows, or a flag that only the viewer has.
        return words
    rest = words[at:]
    end = rest.index("--") if "--" in rest else len(rest)
    return [*rest[:end], *flags, *rest[end:]]


class SectionOption(click.Option):
    """An option that stands in a section of the help."""

    def __init__(self, *args: Any, section: str, **options: Any) -> None:
        super().__init__(*args, **options)
        self.section = section


def option_in(section: str) -> Callable[..., Callable[[Callable[..., Any]], Callable[..., Any]]]:
    """Return what declares an option of a section, as `click.option` does."""

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
        record = option.get_help_record(ctx) if isinstance(option, click.Option) else None
        if record is not None:
            sections.setdefault(_section_of(option), []).append(record)
    connection = sections.pop(CONNECTION, [])
    for title, records in (*sections.items(), (CONNECTION, connection)):
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def _refuse_empty(command: click.Command, ctx: click.Context, *, empty_means: bool) -> None:
    """Raise for an option whose value is empty: a variable that is not set is not "all" of it.

    `empty_means`: of this command an empty value means something, but of its connection.
    """
    for option in command.params:
        name = option.name or ""
        value = ctx.params.get(name)
        is_empty = value == "" or (isinstance(value, tuple) and "" in value)
        given = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if not (given and isinstance(option, click.Option)) or option.flag_value == "":
            # The last may stand without a value, which is read as an empty one.
            continue
        if is_empty and not (empty_means and _section_of(option) != CONNECTION):
            raise UsageError(
                f"{option.opts[0]} is empty: give it a value, or leave the option out"
            )


class Command(click.Command):
    """A command with sections and examples in its help."""

    empty_means = False
    """Whether an empty value of its options means something: that a setting is removed."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self.examples = examples
        """Complete command lines."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words; the error for a flag of the connection says why there is none."""
        try:
            left = super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name not in _CONNECTION_FLAGS:
                raise
            text = (
                f"{error.option_name}: this command does not connect to a server, so omit the "
                "option"
            )
            raise click.UsageError(text, ctx) from None
        _refuse_empty(self, ctx, empty_means=self.empty_means)
        return left

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by section, then the examples."""
        _write_options(self, ctx, formatter)
        _write_examples(self.examples, formatter)


class Group(click.Group):
    """A group with sections and examples in its help, of such commands."""

    command_class = Command
    group_class = type

    def __init__(self, *args: Any, examples: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self.examples = examples
        """Complete command lines."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words; flags of the connection may stand before the command."""
        left = super().parse_args(ctx, _with_flags_behind(args))
        _refuse_empty(self, ctx, empty_means=False)
        return left

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by section, the commands, then the examples."""
        _write_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)
        _write_examples(self.examples, formatter)


class Edit(Command):
    """A command of which an empty value removes what was set."""

    empty_means = True


def _write_examples(examples: Sequence[str], formatter: click.HelpFormatter) -> None:
    """Write complete command lines, each on a line of its own."""
    if examples:
        with formatter.section("Examples"):
            for example in examples:
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


def command(name: str | None = None, **options: Any) -> Callable[[Callable[..., Any]], Command]:
    """Return what makes a command of a function, as `click.command` does."""
    options.setdefault("cls", Command)
    return click.command(name, **options)
