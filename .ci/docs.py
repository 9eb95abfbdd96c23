"""Write the pages of `docs/` that are generated: `python .ci/docs.py`, after a change of either.

`findings.md` is made from the catalogue, `command-line.md` from the commands themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from natstui.cli.root import root
from natstui.model.findings.catalogue.document import catalogue_text

DOCS = Path(__file__).resolve().parent.parent / "docs"
OF_CONNECTION = (
    "server", "context", "profile", "config", "js_domain", "js_api_prefix", "account",
)  # fmt: skip
"""Options that nearly every command has: explained once."""
BEGIN = """\
# Command line

Generated from the commands. `natstui help COMMAND` prints the same. Commands that connect also
have these options:

"""


def pages() -> dict[str, str]:
    """Return each generated page by its file name."""
    return {"findings.md": catalogue_text(), "command-line.md": command_line_text()}


def command_line_text() -> str:
    """Return every command with its usage and options, in Markdown."""
    context = click.Context(root, info_name="natstui")
    connection = [one for one in root.params if one.name in OF_CONNECTION]
    commands = "".join(_described(context))
    return BEGIN + "".join(_options(connection, context)) + commands


def _described(context: click.Context) -> Iterator[str]:
    """Yield the section of a command, then those below it."""
    command = context.command
    yield f"\n## {context.command_path}\n\n"
    for paragraph in (command.help or "").split("\n\n"):
        yield f"{_plain(paragraph)}\n\n"
    pieces = " ".join(command.collect_usage_pieces(context))
    yield f"```\n{context.command_path} {pieces}\n```\n\n"
    own = [
        one
        for one in command.params
        if isinstance(one, click.Option) and one.name not in OF_CONNECTION and not one.hidden
    ]
    yield from _options(own, context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from _described(click.Context(below, parent=context, info_name=name))


def _options(options: Iterable[click.Parameter], context: click.Context) -> Iterator[str]:
    """Yield a list of options."""
    for option in options:
        record = option.get_help_record(context)
        if record is not None:
            yield f"- `{record[0]}`: {_plain(record[1])}\n"


def _plain(text: str) -> str:
    """Return text in one line, in which Markdown finds no marks."""
    line = " ".join(text.replace("\b", "").split())
    return line.replace("<", "\\<").replace("*", "\\*").replace("_", "\\_").replace("[", "\\[")


if __name__ == "__main__":
    for name, text in pages().items():
        (DOCS / name).write_text(text, encoding="utf-8")
