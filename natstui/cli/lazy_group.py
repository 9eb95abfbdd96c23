"""A group of commands of which none is imported before it is used."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click
from click.exceptions import NoSuchCommand

from natstui.cli.sections import Group


class LazyGroup(Group):
    """A group that imports a command when somebody types its name or reads its help."""

    def __init__(self, *args: Any, targets: Mapping[str, str], **options: Any) -> None:
        super().__init__(*args, **options)
        self._targets = targets
        """Name of a command → `module:function`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return every command's name."""
        return sorted({*self.commands, *self._targets})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in self._targets:
            return super().get_command(ctx, cmd_name)
        module, function = self._targets[cmd_name].split(":")
        command: click.Command = getattr(importlib.import_module(module), function)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that was typed; the error names the nearest ones."""
        try:
            return super().resolve_command(ctx, args)
        except NoSuchCommand as error:
            raise NoSuchCommand(
                error.command_name, possibilities=self.list_commands(ctx), ctx=ctx
            ) from None
