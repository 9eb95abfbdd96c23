"""One door for every change, and the way back."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable

from natstui.errors import NotFound, OutcomeUnknown, Refused
from natstui.jetstream.admin import Changed, create, edit
from natstui.jetstream.admin_consumers import (
    delete_consumer,
    pause_consumer,
    reset_consumer,
    resume_consumer,
    step_down_consumer,
    unpin_consumer,
)
from natstui.jetstream.admin_streams import (
    delete_message,
    delete_stream,
    purge_stream,
    step_down_stream,
)
from natstui.jetstream.aftermath import aftermath
from natstui.jetstream.writer import Writer
from natstui.model.journal import last_undoable, undo_of
from natstui.model.manage import Action, Change, JournalEntry, Undo

_UNDOABLE: dict[Action, Callable[[Writer, Change, str | None], Awaitable[Changed]]] = {
    "create_stream": create,
    "create_consumer": create,
    "edit_stream": edit,
    "edit_consumer": edit,
    "delete_stream": delete_stream,
    "delete_consumer": delete_consumer,
    "resume_consumer": resume_consumer,
}

_FINAL: dict[Action, Callable[[Writer, Change], Awaitable[Changed]]] = {
    "purge_stream": purge_stream,
    "delete_message": delete_message,
    "step_down_stream": step_down_stream,
    "pause_consumer": pause_consumer,
    "reset_consumer": reset_consumer,
    "unpin_consumer": unpin_consumer,
    "step_down_consumer": step_down_consumer,
}


async def apply(writer: Writer, change: Change) -> Changed:
    """Do a change.

    Raises UsageError for what is invalid, Refused, NotFound, EditConflict and the other request
    errors; nothing was written unless the journal says so. When no answer says whether it was
    done, OutcomeUnknown tells what the server shows now.
    """
    return await _do(writer, change, None)


async def _do(writer: Writer, change: Change, undoes: str | None) -> Changed:
    try:
        if change.action in _FINAL:
            return await _FINAL[change.action](writer, change)
        return await _UNDOABLE[change.action](writer, change, undoes)
    except OutcomeUnknown as error:
        raise OutcomeUnknown(f"{error}; {await aftermath(writer, change)}") from error


_LOST = {
    "delete_stream": " again, without its messages",
    "delete_consumer": " again, without what it knew",
}
"""What a deleted thing comes back without."""


def entry_to_undo(entries: list[JournalEntry], wanted: str | None) -> JournalEntry:
    """Return the named entry, or the last that can be taken back; raises NotFound."""
    if wanted is None:
        entry = last_undoable(entries)
    else:
        entry = next((one for one in entries if one.entry == wanted), None)
    if entry is None:
        raise NotFound("the journal has no such change, or none that can be taken back")
    return entry


async def undo(writer: Writer, asked: Undo) -> Changed:
    """Take back a change of the journal. Deleted things come back without what was in them.

    Raises NotFound, Refused, and EditConflict when it was changed again since.
    """
    here = writer.client.connection.target
    entries = [entry for entry in writer.journal.entries() if entry.server == here]
    entry = entry_to_undo(entries, asked.entry)
    change = undo_of(entry, asked.command_id)
    if change is None:
        raise Refused("this change cannot be taken back")
    confirmed = Change(
        change.command_id,
        change.action,
        change.stream,
        change.consumer,
        change.body_json,
        change.seen_json,
        asked.confirmed,
    )
    changed = await _do(writer, confirmed, entry.entry)
    return dataclasses.replace(changed, text=changed.text + _LOST.get(entry.action, ""))
