"""The list of commands: by topic, without loading any of them, and in the words of each."""

from __future__ import annotations

import click
from click.testing import CliRunner

from natstui.cli.root import COMMANDS, TOPICS, root


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
