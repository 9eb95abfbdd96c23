"""Write the pages of `docs/` that are generated: `python .ci/docs.py`, after a change of either.

`findings.md` is made from the catalogue, `columns.md` from the tables of columns,
`command-line.md` and `man/` from the commands.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from click_man.man import ManPage

from natstui import __version__
from natstui.cli.root import root
from natstui.cli.sections import Command, Group
from natstui.model.columns.buckets import BUCKET_COLUMNS
from natstui.model.columns.column import Column, json_fields
from natstui.model.columns.connections import CONNECTION_COLUMNS
from natstui.model.columns.consumers import CONSUMER_COLUMNS
from natstui.model.columns.findings import FINDING_COLUMNS
from natstui.model.columns.servers import SERVER_COLUMNS
from natstui.model.columns.streams import STREAM_COLUMNS
from natstui.model.findings.catalogue.document import catalogue_text

DOCS = Path(__file__).resolve().parent.parent / "docs"
OF_CONNECTION = (
    "server", "context", "profile", "config", "js_domain", "js_api_prefix", "account",
)  # fmt: skip
"""Options that nearly every command has: explained once."""
BEGIN = """\
# Command line

Generated from the commands. `natstui help COMMAND` prints the same, and so does `man
natstui-stream-add` once natstui is installed. Commands that connect also have these options:

"""
COLUMNS = """\
# Columns and fields

Generated from the tables of columns. Columns are on the screens and in the tables of commands.
Fields are those of `natstui watch --json`, and of `natstui health --json` for findings; `stream
find --where` and `consumer find --where` read them, and `natstui watch --schema` prints their
types.
"""


def pages() -> dict[str, str]:
    """Return each generated page by its file name."""
    written = {
        "findings.md": catalogue_text(),
        "columns.md": columns_text(),
        "command-line.md": command_line_text(),
    }
    context = click.Context(root, info_name="natstui")
    manuals = {f"man/{_page_name(it)}.1": _manual(it) for it in _contexts(context)}
    return written | manuals


def columns_text() -> str:
    """Return the columns and fields of every entity, in Markdown."""
    tables: dict[str, Iterable[Column[Any]]] = {
        "Streams": STREAM_COLUMNS,
        "Consumers": CONSUMER_COLUMNS,
        "Buckets": BUCKET_COLUMNS,
        "Servers": SERVER_COLUMNS,
        "Connections": CONNECTION_COLUMNS,
        "Findings": FINDING_COLUMNS,
    }
    return COLUMNS + "".join(f"\n## {name}\n\n{_table(of)}" for name, of in tables.items())


def _table(columns: Iterable[Column[Any]]) -> str:
    lines = ["| column | shows |", "|---|---|"]
    lines += [f"| {it.title} | {_plain(it.help)} |" for it in columns if it.title]
    fields = json_fields(columns)
    if fields:
        lines += ["", "| field | value |", "|---|---|"]
        lines += [f"| `{field.name}` | {_plain(field.help)} |" for field in fields]
    return "\n".join(lines) + "\n"


def command_line_text() -> str:
    """Return every command with its usage and options, in Markdown."""
    context = click.Context(root, info_name="natstui")
    connection = [one for one in root.params if one.name in OF_CONNECTION]
    commands = "".join(_described(context))
    return BEGIN + "".join(_options(connection, context)) + commands


def _contexts(context: click.Context) -> Iterator[click.Context]:
    """Yield the context of a command, then of those below it that are not hidden."""
    yield context
    for below in _below(context):
        yield from _contexts(below)


def _below(context: click.Context) -> list[click.Context]:
    """Return the commands of a group that are not hidden; none of a command."""
    group = context.command
    if not isinstance(group, click.Group):
        return []
    found = [(name, group.get_command(context, name)) for name in group.list_commands(context)]
    return [
        click.Context(command, parent=context, info_name=name)
        for name, command in found
        if command is not None and not command.hidden
    ]


def _manual(context: click.Context) -> str:
    """Return the manual page of a command, for `man natstui-stream-add`."""
    command, page = context.command, ManPage(context.command_path)
    page.date = page.version = f"natstui {__version__}"
    page.short_help = _roff(command.get_short_help_str(limit=1000).rstrip("."))
    page.synopsis = " ".join(command.collect_usage_pieces(context))
    page.description = _roff(inspect.cleandoc(command.help or ""))
    records = [it.get_help_record(context) for it in command.params if _is_shown(it)]
    page.options = [(_roff(it[0]), _roff(it[1])) for it in records if it is not None]
    page.commands = [
        (str(it.info_name), _roff(it.command.get_short_help_str(limit=1000)))
        for it in _below(context)
    ]
    examples = command.examples if isinstance(command, Command | Group) else ()
    lines = [f".SH EXAMPLES\n.nf\n{_roff(chr(10).join(examples))}\n.fi\n"] if examples else []
    text = str(page).replace(f"{context.command_path}-", f"{_page_name(context)}-")
    return "".join([text, *lines])


def _page_name(context: click.Context) -> str:
    return context.command_path.replace(" ", "-")


def _is_shown(parameter: click.Parameter) -> bool:
    """Tell whether a parameter is an option that the help lists."""
    return isinstance(parameter, click.Option) and not parameter.hidden


def _roff(text: str) -> str:
    """Return text in which roff finds no commands."""
    lines = text.replace("\\", "\\e").splitlines()
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in lines)


def _described(context: click.Context) -> Iterator[str]:
    """Yield the section of a command, then those below it."""
    command = context.command
    yield f"\n## {context.command_path}\n\n"
    for paragraph in (command.help or "").split("\n\n"):
        yield f"{_plain(paragraph)}\n\n"
    pieces = " ".join(command.collect_usage_pieces(context))
    yield f"```\n{context.command_path} {pieces}\n```\n\n"
    if isinstance(command, Command | Group) and command.examples:
        yield "```\n" + "".join(f"{example}\n" for example in command.examples) + "```\n\n"
    own = [it for it in command.params if _is_shown(it) and it.name not in OF_CONNECTION]
    yield from _options(own, context)
    for below in _below(context):
        yield from _described(below)


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
    for manual in (DOCS / "man").glob("*.1"):
        manual.unlink()
    for name, text in pages().items():
        (DOCS / name).parent.mkdir(exist_ok=True)
        (DOCS / name).write_text(text, encoding="utf-8")
