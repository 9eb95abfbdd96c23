"""`natstui journal` and `natstui undo`: what was changed from here, and the way back."""

from __future__ import annotations

import json
from typing import Any

import click
import msgspec

from natstui.clean import clean_line
from natstui.cli.manage.writing import (
    WriterSession,
    change_flags,
    confirmed_name,
    print_changed,
    print_warnings,
    refuse_read_only,
)
from natstui.cli.options import connection_options
from natstui.cli.sections import command
from natstui.config import Connection
from natstui.errors import UsageError
from natstui.jetstream.connection.journal import Journal
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.managing.undo import entry_to_undo, preview_undo
from natstui.jetstream.managing.undo import undo as undo_entry
from natstui.model.assets.differences import AssetKind
from natstui.model.records.journal import (
    done_here,
    entry_command,
    entry_text,
    passed_over,
    undo_of,
)
from natstui.model.records.managing import Confirmation, JournalEntry, Undo
from natstui.units import local_text


@command()
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
@click.option("--commands", is_flag=True, help="As nats commands.")
def journal(as_json: bool, commands: bool) -> None:
    """List the changes made from this machine. Prints the oldest first."""
    entries = Journal().entries()
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(entries)))
        return
    for entry in entries:
        if commands:
            # A change that failed is a comment in a script that repeats the others.
            mark = "" if entry.outcome == "done" else f"# {entry.outcome}: "
            click.echo(clean_line(mark + entry_command(entry)))
            continue
        when = local_text(entry.at_us, "%Y-%m-%d %H:%M:%S")
        words = [entry.entry, when, entry.server, entry.who]
        reason = f": {entry.reason}" if entry.reason else ""
        click.echo(clean_line("  ".join([*words, entry_text(entry), entry.outcome + reason])))


async def _entry_and_preview(
    writer: Writer, entry: str | None
) -> tuple[JournalEntry, Confirmation]:
    """Return the entry to take back and what that would do."""
    entries = writer.journal.entries()
    found = entry_to_undo(entries, entry, writer.place)
    last = passed_over(done_here(entries, writer.place))
    if entry is None and last is not None:
        raise UsageError(
            f"the last change, {clean_line(entry_text(last))}, cannot be undone; to undo "
            f"{clean_line(entry_text(found))}: natstui undo {found.entry}"
        )
    return found, await preview_undo(writer, found.entry)


@command()
@click.argument("entry", required=False)
@change_flags
@connection_options
def undo(connection: Connection, entry: str | None, **words: Any) -> None:
    """Undo the last change on this server.

    With ENTRY: that change of the journal. A last change that cannot be undone, such as a
    purge, is reported and not skipped.
    """
    refuse_read_only(connection, words["read_only"])
    with WriterSession(connection) as session:
        found, shown = session.run(lambda w: _entry_and_preview(w, entry))
        if entry is None and not words["as_json"]:
            # Another terminal may have made a later change than the one that is meant.
            text = f"natstui: the last change is {found.entry}, {entry_text(found)}"
            click.echo(clean_line(text), err=True)
        change = undo_of(found, 0)
        if change is not None and change.body_json != "{}":
            config = json.loads(change.body_json)
            kind: AssetKind = "stream" if found.consumer is None else "consumer"
            print_warnings(session, kind, found.stream, found.consumer, config)
        name = confirmed_name(connection, shown, words)
        asked = Undo(0, found.entry, name, shown.most_msgs, shown.last_seq)
        print_changed(session.run(lambda w: undo_entry(w, asked)), words["as_json"])
