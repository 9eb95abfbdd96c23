"""Switches of a stream or consumer: `--x`, `--no-x`, and `--x yes|no` all mean what they say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from natstui.cli.sections import Command
from natstui.model.assets.text import SWITCHED


class Switch(click.ParamType[str]):
    """The type of an option that may stand without a value."""

    name = "switch"


class WithSwitches(Command):
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
