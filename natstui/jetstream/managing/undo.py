"""Undo: the change that takes back an entry of the journal, and whether it may still be done."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from natstui.errors import Conflict, NotFound, Refused
from natstui.jetstream.connection.writer import NotConfirmed, Writer
from natstui.jetstream.managing.apply import apply, preview
from natstui.jetstream.managing.configure import ChangeResult, read_asset
from natstui.jetstream.managing.keys import preview_put_back, put_back
from natstui.model.records.actions import change_text
from natstui.model.records.journal import (
    done_here,
    final_text,
    is_key,
    is_undoable,
    last_undoable,
    passed_over,
    place_text,
    undo_of,
    undo_text,
    where_done,
)
from natstui.model.records.managing import Change, Confirmation, JournalEntry, Place, Undo

_LOST = {
    "delete_stream": "its messages",
    "delete_consumer": "what it knew",
}
"""What is not restored with a deleted stream or consumer."""


def entry_to_undo(
    entries: Sequence[JournalEntry], wanted: str | None, here: Place
) -> JournalEntry:
    """Return the named entry, or the last that can be taken back where we are.

    Raises NotFound, and Refused for an entry that was written elsewhere.
    """
    if wanted is None:
        entry = last_undoable(done_here(entries, here))
    else:
        entry = next((one for one in entries if one.entry == wanted), None)
    last = passed_over(done_here(entries, here))
    if entry is None and wanted is None and last is not None:
        raise Refused(final_text(last))
    if entry is None:
        raise NotFound("the journal has no such change, or none that can be undone")
    if where_done(entry, here) == "elsewhere":
        raise Refused(f"this change was made in {place_text(entry)}: nothing is done here")
    return entry


async def undo(writer: Writer, asked: Undo) -> ChangeResult:
    """Take back a change of the journal. A deleted stream or consumer comes back empty.

    Raises NotFound, Refused, EditConflict when it was changed again since, and NotConfirmed.
    """
    entry = entry_to_undo(writer.journal.entries(), asked.entry, writer.place)
    if is_key(entry):
        _check_place(writer, entry)
        return await put_back(writer, entry, asked.confirmed)
    change = await _checked_change(writer, entry, asked.command_id)
    confirmed = dataclasses.replace(
        change,
        confirmed=asked.confirmed,
        previewed_msgs=asked.previewed_msgs,
        previewed_last_seq=asked.previewed_last_seq,
    )
    try:
        changed = await apply(writer, confirmed, undoes=entry.entry)
    except NotConfirmed as error:
        raise NotConfirmed(str(error), _of_undoing(entry, error.confirmation)) from None
    text = changed.text
    if entry.action in _LOST:
        what = f"consumer {entry.consumer}" if entry.consumer else f"stream {entry.stream}"
        text = f"{what} recreated, without {_LOST[entry.action]}"
    elif entry.loses:
        text = f"{text}; not restored: {entry.loses}"
    return dataclasses.replace(changed, text=text)


async def _checked_change(writer: Writer, entry: JournalEntry, command_id: int) -> Change:
    """Return the change that takes an entry back; raises Refused or Conflict unless it is safe.

    The same JetStream and account are not enough: what is changed must have the creation time of
    the entry, and what is recreated must go where it was.
    """
    change = undo_of(entry, command_id)
    if change is None:
        raise Refused(final_text(entry))
    sure = where_done(entry, writer.place) == "here"
    what = change_text(entry.action, entry.stream, entry.consumer)
    if entry.action == "delete_consumer" and entry.stream_created_at_us is not None:
        stream = await read_asset(writer, "stream", entry.stream)
        if stream.created_at_us != entry.stream_created_at_us:
            raise Conflict(
                f"stream {entry.stream} was recreated in the meantime: nothing was changed"
            )
        return change
    unsure = entry.action in ("delete_stream", "delete_consumer") and not sure
    if unsure or (not entry.action.startswith("delete") and entry.created_at_us is None):
        raise Refused(
            f"the journal does not contain server, account and creation time of {what}: nothing "
            "was changed"
        )
    return change


def _check_place(writer: Writer, entry: JournalEntry) -> None:
    """Raise Refused for a change of a key that cannot be taken back, or not surely here."""
    if not is_undoable(entry):
        raise Refused(final_text(entry))
    if where_done(entry, writer.place) != "here":
        raise Refused(
            "the journal does not contain server and account of this key: nothing was changed"
        )


async def preview_undo(
    writer: Writer, entry_name: str | None, command_id: int = 0
) -> Confirmation:
    """Return what taking back an entry would do; raises what `undo` raises."""
    entry = entry_to_undo(writer.journal.entries(), entry_name, writer.place)
    if is_key(entry):
        _check_place(writer, entry)
        return await preview_put_back(writer, entry)
    change = await _checked_change(writer, entry, command_id)
    return _of_undoing(entry, await preview(writer, change))


def _of_undoing(entry: JournalEntry, shown: Confirmation) -> Confirmation:
    """Return the confirmation of a change with the words of taking an entry back."""
    text = f"this will {undo_text(entry)}"
    question = f"{text}: {'; '.join(shown.lines)}" if shown.lines else text
    return dataclasses.replace(shown, question=question)
