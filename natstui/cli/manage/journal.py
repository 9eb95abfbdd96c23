"""`natstui journal` and `natstui undo`: list the changes made from this machine, and undo one."""

from __future__ import annotations

import json
from typing import Any

import click
from msgspec import to_builtins

from natstui.clean import clean_line
from natstui.cli.manage.writing import (
    WriterSession,
    confirm_preview,
    print_change_result,
    print_warnings,
    refuse_read_only,
)
from natstui.cli.options import change_flags, connection_options
from natstui.cli.sections import command
from natstui.config import Connection
from natstui.errors import NatstuiError, UsageError
from natstui.jetstream.connection.journal import Journal, JournalContent
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.managing.undo import find_entry_to_undo, preview_undo
from natstui.jetstream.managing.undo import undo as undo_entry
from natstui.model.assets.differences import AssetKind
from natstui.model.records.confirmation import Confirmation
from natstui.model.records.journal import (
    entry_command,
    entry_text,
    find_newest_not_undoable,
    select_entries,
    undo_of,
)
from natstui.model.records.managing import (
    JournalEntry,
    Undo,
)
from natstui.units import local_text


@command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--commands", is_flag=True, help="As nats commands.")
def journal(as_json: bool, commands: bool) -> None:
    """List the changes made from this machine. Prints the oldest first."""
    journal_content = Journal().read()
    entries = journal_content.entries
    _warn_of_damage(journal_content)
    if as_json:
        click.echo(json.dumps(to_builtins(entries)))
        return
    for entry in entries:
        if commands:
            # A change that failed is a comment in a script that repeats the others.
            comment_mark = "" if entry.outcome == "done" else f"# {entry.outcome}: "
            click.echo(clean_line(comment_mark + entry_command(entry)))
            continue
        time_text = local_text(entry.at_us, "%Y-%m-%d %H:%M:%S")
        cells = [entry.entry, time_text, entry.server, entry.who]
        reason = f": {entry.reason}" if entry.reason else ""
        click.echo(clean_line("  ".join([*cells, entry_text(entry), entry.outcome + reason])))


def _warn_of_damage(journal_content: JournalContent) -> None:
    if journal_content.warning:
        click.echo(clean_line(f"natstui: warning: {journal_content.warning}"), err=True)


async def _read_entry_and_preview(
    writer: Writer, entry: str | None
) -> tuple[JournalEntry, Confirmation]:
    """Return the journal entry to undo, and a preview of its undo.

    Raises UsageError if `entry` is None and the last change is damaged or cannot be undone.
    """
    journal_content = writer.journal.read()
    entries = journal_content.entries
    _warn_of_damage(journal_content)
    journal_entry = find_entry_to_undo(entries, entry, writer.server_identity)
    if entry is None and journal_content.is_end_damaged:
        undo_hint = await _older_undo_hint(writer, journal_entry, None)
        raise UsageError(f"the last change may be the damaged one{undo_hint}")
    last_entry = find_newest_not_undoable(select_entries(entries, writer.server_identity))
    if entry is None and last_entry is not None:
        undo_hint = await _older_undo_hint(writer, journal_entry, last_entry)
        raise UsageError(
            f"the last change, {clean_line(entry_text(last_entry))}, cannot be undone{undo_hint}"
        )
    return journal_entry, await preview_undo(writer, journal_entry.entry)


async def _older_undo_hint(
    writer: Writer, entry: JournalEntry, last_entry: JournalEntry | None
) -> str:
    """Return the end of a sentence: how to undo an older change than the last one, and what is
    lost.

    Empty if it cannot be undone any more, or if its undo would delete a used stream or consumer.
    """
    try:
        undo_preview = await preview_undo(writer, entry.entry)
    except NatstuiError:
        return ""
    change = undo_of(entry, 0)
    if change is not None and change.action.startswith("delete"):
        is_stream_of_last_entry = last_entry is not None and last_entry.stream == entry.stream
        if is_stream_of_last_entry or undo_preview.most_msgs != 0:
            return ""
    losses_text = f" ({'; '.join(undo_preview.lines)})" if undo_preview.lines else ""
    text = f"; to undo {entry_text(entry)}: natstui undo {entry.entry}{losses_text}"
    return clean_line(text)


@command()
@click.argument("entry", required=False)
@change_flags
@connection_options
def undo(connection: Connection, entry: str | None, **flags: Any) -> None:
    """Undo the last change on this server.

    With ENTRY: that change of the journal; the ENTRY of an undo makes the change again. A last
    change that cannot be undone, such as a purge, is reported and not skipped.
    """
    refuse_read_only(connection, flags["read_only"])
    with WriterSession(connection) as session:
        journal_entry, undo_preview = session.run(
            lambda writer: _read_entry_and_preview(writer, entry)
        )
        if entry is None and not flags["as_json"]:
            # Another terminal may have made a later change than the one that is meant.
            text = (
                f"natstui: the last change is {journal_entry.entry}, {entry_text(journal_entry)}"
            )
            click.echo(clean_line(text), err=True)
        change = undo_of(journal_entry, 0)
        if change is not None and change.body_json != "{}":
            config = json.loads(change.body_json)
            kind: AssetKind = "stream" if journal_entry.consumer is None else "consumer"
            print_warnings(session, kind, journal_entry.stream, journal_entry.consumer, config)
        name = confirm_preview(connection, undo_preview, flags)
        undo_command = Undo(
            0, journal_entry.entry, name, undo_preview.most_msgs, undo_preview.last_seq
        )
        print_change_result(
            session.run(lambda writer: undo_entry(writer, undo_command)), flags["as_json"]
        )
