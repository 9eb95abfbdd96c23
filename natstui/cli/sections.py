"""Commands whose help lists options in sections, those of the connection last, and examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

CONNECTION = "Connection"
"""The section of the options that say where to connect."""


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


class Command(click.Command):
    """A command with sections and examples in its help."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self.examples = examples
        """Complete command lines."""

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

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by section, the commands, then the examples."""
        _write_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)
        _write_examples(self.examples, formatter)


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
