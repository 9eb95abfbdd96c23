"""`natstui journal` and `natstui undo`: what was changed from here, and the way back."""

from __future__ import annotations

import json
from typing import Any

import click
import msgspec

from natstui.clean import clean_line
from natstui.cli.managing import confirmation, managing, print_changed, run_with_writer
from natstui.cli.options import connection_options
from natstui.config import Connection
from natstui.errors import UsageError
from natstui.jetstream.admin_apply import entry_to_undo
from natstui.jetstream.admin_apply import undo as undo_entry
from natstui.jetstream.journal import Journal
from natstui.model.journal import entry_command, entry_text, passed_over, undo_text
from natstui.model.manage import Undo
from natstui.units import local_text


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
@click.option("--commands", is_flag=True, help="As nats commands.")
def journal(as_json: bool, commands: bool) -> None:
    """Show every change made from here, oldest first."""
    entries = Journal().entries()
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(entries)))
        return
    for entry in entries:
        if commands:
            # What did not happen is no part of a script that does the same again.
            mark = "" if entry.outcome == "done" else f"# {entry.outcome}: "
            click.echo(clean_line(mark + entry_command(entry)))
            continue
        when = local_text(entry.at_us, "%Y-%m-%d %H:%M:%S")
        words = [entry.entry, when, entry.server, entry.who]
        reason = f": {entry.reason}" if entry.reason else ""
        click.echo(clean_line("  ".join([*words, entry_text(entry), entry.outcome + reason])))


@click.command()
@click.argument("entry", required=False)
@managing
@connection_options
def undo(connection: Connection, entry: str | None, **words: Any) -> None:
    """Take back the last change on this server, or the ENTRY of the journal.

    A last change that cannot be taken back, as a purge, is not passed over in silence.
    """
    here = [one for one in Journal().entries() if one.server == connection.target]
    found = entry_to_undo(here, entry)
    if entry is None and (last := passed_over(here)) is not None:
        raise UsageError(
            f"the last change, {clean_line(entry_text(last))}, cannot be taken back; to take back"
            f" {clean_line(entry_text(found))}: natstui undo {found.entry}"
        )
    confirmed = words["confirm"]
    if found.action.startswith("create") or connection.production:
        name = found.consumer or found.stream
        confirmed = confirmation(
            connection, name, f"this will {undo_text(found)}", yes=words["yes"], confirm=confirmed
        )
    asked = Undo(0, found.entry, confirmed)
    changed = run_with_writer(connection, words["read_only"], lambda w: undo_entry(w, asked))
    print_changed(changed, words["as_json"])
