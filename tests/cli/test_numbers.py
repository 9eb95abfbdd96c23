"""Numbers beyond all measure in every option that takes one: refused, with one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from natstui.cli.options import WholeNumber
from natstui.cli.root import root
from natstui.errors import UsageError

HUGE = ("1" + "0" * 30, "9" * 5000, "9" * 400 + ".5", "-" + "9" * 30, "1e400", "nan", "inf")
"""Each is refused in another place of a parser."""
LARGE = HUGE[:1]
"""For options whose type was tried with all of them."""
UNITS = {"TIME": "s", "DURATION": "s", "DURATIONS": "s", "SIZE": "GB", "BYTES": "GB"}
NUMBERS = {*UNITS, "N", "NUMBER", "SEQ"}
"""What stands for a number in the help."""
RANGES = (click.IntRange, click.FloatRange, WholeNumber)
LONGEST_SENTENCE = 200
JUDGING = {"health", "stuck"}
"""Commands whose exit codes 1 and 2 say something about the server."""


def every_command(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from every_command(found, (*path, name))
    else:
        yield path, command


COMMANDS = dict(every_command(root))


def takes_number(option: click.Parameter) -> bool:
    return isinstance(option.type, RANGES) or (option.metavar or "").strip("[]") in NUMBERS


def needed(command: click.Command, but: click.Parameter) -> list[str]:
    """Return words for all that a command needs besides one parameter."""
    words = list[str]()
    for one in command.params:
        if one is but or not one.required:
            continue
        value = "1" if isinstance(one.type, RANGES) else "x"
        words += [one.opts[0], value] if isinstance(one, click.Option) else [value]
    return words


NUMBERED = {
    path: found
    for path, command in COMMANDS.items()
    if (found := [one for one in command.params if takes_number(one)])
}
"""The commands that take numbers, and where."""


def kind_of(option: click.Parameter) -> tuple[object, ...]:
    """Return what decides how the value of an option is read."""
    limits = [getattr(option.type, name, None) for name in ("min", "max")]
    return type(option.type), option.metavar, *limits, option.callback


FIRST = {
    kind_of(option): (path, option.opts[0])
    for path, options in reversed(NUMBERED.items())
    for option in reversed(options)
}
"""The first option of each kind."""


IN_SHORT = {*(path for path, _ in FIRST.values()), ("bench", "kv", "put"), ("bench", "serve")}
"""Benchmarks share their options: those that are the first to have one of a kind, and two."""


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path,
            id=" ".join(path),
            marks=[pytest.mark.long] * (path[0] == "bench" and path not in IN_SHORT),
        )
        for path in NUMBERED
    ],
)
def test_a_number_beyond_all_measure_is_refused_with_one_sentence(
    path: tuple[str, ...], tmp_path: Path
) -> None:
    home = {f"XDG_{name}_HOME": str(tmp_path / name) for name in ("STATE", "CONFIG", "DATA")}
    # Nobody is there: what is not refused speaks of that.
    environment = {**home, "NATSTUI_CONNECTION_SERVER": "nats://127.0.0.1:1"}
    tried = [
        (option, number)
        for option in NUMBERED[path]
        for number in (HUGE if FIRST[kind_of(option)] == (path, option.opts[0]) else LARGE)
    ]
    for option, number in tried:
        text = f"{number}{UNITS.get((option.metavar or '').strip('[]'), '')}"
        value = [f"{option.opts[0]}={text}"] if isinstance(option, click.Option) else ["--", text]
        words = [*path, *needed(COMMANDS[path], option), *value]
        done = CliRunner().invoke(root, words, env=environment)
        shown = " ".join(words)[:200]
        if isinstance(done.exception, UsageError):
            said = str(done.exception)
        else:
            assert isinstance(done.exception, SystemExit), (shown, done.exception)
            code = 3 if path[0] in JUDGING else 2
            assert done.exit_code == code, (shown, done.exit_code, done.output)
            said = done.output.strip().splitlines()[-1]
        assert "127.0.0.1" not in said, (shown, said)
        assert len(said) < len(text) + LONGEST_SENTENCE and "\n" not in said, (shown, said)


def test_every_range_of_an_option_has_both_ends() -> None:
    open_ranges = [
        (*path, one.opts[0])
        for path, command in COMMANDS.items()
        for one in command.params
        if isinstance(one.type, (click.IntRange, click.FloatRange))
        and (one.type.min is None or one.type.max is None)
    ]
    assert open_ranges == []
    plain: tuple[Any, ...] = (click.INT, click.FLOAT)
    found = [path for path, options in NUMBERED.items() for one in options if one.type in plain]
    assert found == []
