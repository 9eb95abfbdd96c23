"""The list of commands: by topic, without loading any of them, and in the words of each."""

from __future__ import annotations

import click
from click.testing import CliRunner

from natstui.cli.root import COMMANDS, TOPICS, root
from natstui.errors import UsageError


def test_every_command_is_listed_once_in_its_own_words() -> None:
    listed = [name for topic in TOPICS.values() for name in topic]
    assert len(listed) == len(set(listed))
    context = click.Context(root)
    for name in COMMANDS:
        command = root.get_command(context, name)
        assert command is not None
        assert command.hidden == (name not in listed), name
    for topic in TOPICS.values():
        for name, one in topic.items():
            command = root.get_command(context, name)
            assert command is not None and command.help is not None
            assert " ".join(command.help.split()).startswith(one.help), name


def test_the_help_names_every_topic_and_fits_eighty_columns() -> None:
    text = CliRunner().invoke(root, ["--help"], terminal_width=80).output
    for topic, commands in TOPICS.items():
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
