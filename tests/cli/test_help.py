"""The list of commands: by topic, without loading any of them, and in the words of each."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from natstui.bench.result.assertions import parse_checks
from natstui.cli.root import COMMANDS, COMMANDS_BY_TOPIC, root
from natstui.errors import UsageError
from natstui.model.assets.differences import AssetKind, fields_of

MOST_LETTERS = 45
"""A list of commands shows so much of a summary on a terminal of 80 columns."""


def commands_below(context: click.Context) -> Iterator[click.Context]:
    """Yield the context of every command below a group."""
    group = context.command
    if isinstance(group, click.Group):
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            below = click.Context(command, parent=context, info_name=name)
            yield below
            yield from commands_below(below)


def test_every_summary_is_one_short_sentence() -> None:
    commands = list(commands_below(click.Context(root, info_name="natstui")))
    assert len(commands) > 130
    summaries = {
        context.command_path: context.command.get_short_help_str(limit=1000)
        for context in commands
        if not context.command.hidden
    }
    assert [path for path, summary in summaries.items() if not summary.endswith(".")] == []
    long = {path: text for path, text in summaries.items() if len(text) > MOST_LETTERS}
    assert long == {}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["sream", "ls"], "No such command 'sream'. Did you mean 'stream'?"),
        (["stream", "inof", "S"], "No such command 'inof'. Did you mean 'info'?"),
        (["bench", "js", "fech"], "No such command 'fech'. Did you mean 'fetch'?"),
        (["kv", "hsitory", "B", "K"], "No such command 'hsitory'. Did you mean 'history'?"),
        (["stream", "add", "S", "--subjets", "a"], "'--subjects'?)"),
    ],
)
def test_a_command_that_was_mistyped_is_answered_with_the_nearest(
    words: list[str], sentence: str
) -> None:
    result = CliRunner().invoke(root, words)
    assert result.exit_code == 2
    assert sentence in result.output


_NAMED = re.compile(r"`natstui((?: [a-z][a-z-]*)+)")
_HOME = Path(__file__).parents[2]


def named_commands() -> dict[str, str]:
    """Return each command that a sentence or a page names, and where."""
    pages = [*_HOME.glob("docs/*.md"), _HOME / "README.md", _HOME / "CHANGELOG.md"]
    files = [*_HOME.glob("natstui/**/*.py"), *pages]
    return {
        match[1].strip(): f"{file.name}"
        for file in files
        for match in _NAMED.finditer(file.read_text())
    }


def test_every_command_that_is_named_somewhere_exists() -> None:
    named, wrong = named_commands(), {}
    assert len(named) > 40
    for words, file in named.items():
        command: click.Command | None = root
        for word in words.split():
            if not isinstance(command, click.Group):
                takes = any(isinstance(one, click.Argument) for one in command.params)
                if not takes:
                    wrong[words] = file
                break
            command = command.get_command(click.Context(command), word)
            if command is None:
                wrong[words] = file
                break
    assert wrong == {}


def test_every_command_is_listed_once_in_its_own_words() -> None:
    listed = [name for topic in COMMANDS_BY_TOPIC.values() for name in topic]
    assert len(listed) == len(set(listed))
    context = click.Context(root)
    for name in COMMANDS:
        command = root.get_command(context, name)
        assert command is not None
        assert command.hidden == (name not in listed), name
    for topic in COMMANDS_BY_TOPIC.values():
        for name, one in topic.items():
            command = root.get_command(context, name)
            assert command is not None
            assert command.get_short_help_str(limit=1000) == f"{one.help}.", name


def test_the_help_names_every_topic_and_fits_eighty_columns() -> None:
    text = CliRunner().invoke(root, ["--help"], terminal_width=80).output
    for topic, commands in COMMANDS_BY_TOPIC.items():
        assert f"\n{topic}:\n" in text
        assert all(f"\n  {name} " in text for name in commands)
    assert max(map(len, text.splitlines())) <= 80
    assert "replay-engine" not in text


def asked(*topic: str) -> str:
    result = CliRunner().invoke(root, ["help", *topic], terminal_width=80)
    assert result.exit_code == 0, result.output
    return result.output


def test_help_explains_commands_groups_and_findings() -> None:
    everything = CliRunner().invoke(root, ["--help"], terminal_width=80, prog_name="natstui")
    assert asked() == everything.output
    assert asked("stream", "add").startswith("Usage: natstui stream add ")
    assert "  kv " in asked("stores")
    assert "restore" not in asked("stores")
    assert asked("nt-c07").startswith("NT-C07 no open pulls: critical, of a consumer\n  means ")
    assert asked("NT-C07") in asked("no", "open", "pulls")


def test_help_on_nothing_there_is_says_what_can_be_asked() -> None:
    result = CliRunner().invoke(root, ["help", "stream", "nothing"])
    assert isinstance(result.exception, UsageError)
    assert "no help on 'stream nothing'" in str(result.exception)


def titles(text: str) -> list[str]:
    """Return the titles of the sections of a help."""
    return [line.removesuffix(":") for line in text.splitlines() if line and line[0].isupper()][1:]


@pytest.mark.parametrize("kind", ["stream", "consumer"])
@pytest.mark.parametrize("verb", ["add", "copy", "edit"])
def test_options_of_streams_and_consumers_stand_in_the_sections_of_the_form(
    kind: AssetKind, verb: str
) -> None:
    of_form = list(dict.fromkeys(field.section for field in fields_of(kind)))
    found = titles(asked(kind, verb))
    assert found[: len(of_form) + 1] == ["Options", *of_form]


def test_options_of_the_connection_are_the_last_section_of_every_command() -> None:
    checked = 0
    for context in commands_below(click.Context(root, info_name="natstui")):
        command = context.command
        of_connection = any(option.name == "server" for option in command.params)
        found = [one for one in titles(command.get_help(context)) if one != "Examples"]
        assert (found[-1:] == ["Connection"]) == of_connection, context.command_path
        checked += of_connection
    assert checked > 80


def parse(words: Sequence[str]) -> None:
    """Parse a command line without doing what it says; raises click.UsageError."""
    command: click.Command = root
    context, rest = click.Context(root, info_name=words[0]), list(words[1:])
    while isinstance(command, click.Group):
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None, words
        command, parent = found, context
        context = click.Context(command, parent=parent, info_name=name)
    command.make_context(words[-1], rest, parent=context.parent)


@pytest.mark.parametrize("topic", ["stream add", "consumer add", "bench"])
def test_long_helps_end_with_three_examples_that_the_command_understands(topic: str) -> None:
    text = asked(*topic.split())
    examples = text[text.index("\nExamples:\n") :].split("\n  ")[1:]
    assert len(examples) == 3
    for example in examples:
        assert example.startswith(f"natstui {topic} ")
        assert len(example) <= 78
        words = shlex.split(example)
        parse(words)
        parse_checks(words[at + 1] for at, word in enumerate(words) if word == "--assert")


def parsed(words: Sequence[str]) -> click.Context:
    """Return the context of a command after its line was read as far as it can be."""
    command: click.Command = root
    context = root.make_context("natstui", list(words), resilient_parsing=True)
    while isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None, words
        command = found
        context = found.make_context(name, rest, parent=context, resilient_parsing=True)
    return context


FLAGS = {
    "server": "nats://n1:4222", "context": "east", "profile": "staging", "config": "mine.toml",
    "js_domain": "hub", "js_api_prefix": "$JS.hub.API",
}  # fmt: skip


@pytest.mark.slow
def test_flags_of_the_connection_stand_before_and_after_every_command() -> None:
    checked = 0
    before = [word for name, value in FLAGS.items() for word in (name.replace("_", "-"), value)]
    before[::2] = [f"--{flag}" for flag in before[::2]]
    # Of commands that make a stream or consumer, --config is that of the NATS CLI.
    behind = ["--settings" if word == "--config" else word for word in before]
    expected = {**FLAGS, "server": (FLAGS["server"],)}
    for below in commands_below(click.Context(root, info_name="natstui")):
        command, path = below.command, below.command_path.split()[1:]
        if isinstance(command, click.Group) or FLAGS.keys() - {it.name for it in command.params}:
            continue
        for words in ([*before, *path], [path[0], *before, *path[1:]], [*path, *behind]):
            found = parsed(words).params
            assert {name: found[name] for name in FLAGS} == expected, words
            checked += 1
    assert checked > 240
