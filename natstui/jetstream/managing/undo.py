"""Undo: the change that reverts an entry of the journal, and whether it is still allowed."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Sequence

from natstui.errors import Conflict, NotFound, Refused
from natstui.jetstream.connection.writer import NotConfirmed, Writer
from natstui.jetstream.managing.apply import apply, preview
from natstui.jetstream.managing.configure import ChangeResult, read_asset, read_config
from natstui.jetstream.managing.keys import preview_put_back, put_back
from natstui.model.assets.differences import AssetKind, differences
from natstui.model.records.actions import change_text
from natstui.model.records.confirmation import Confirmation, Place
from natstui.model.records.journal import (
    done_here,
    final_text,
    is_key,
    is_undoable,
    last_undoable,
    lost_text,
    made_again_text,
    passed_over,
    place_text,
    undo_of,
    undo_text,
    where_done,
)
from natstui.model.records.managing import (
    Change,
    JournalEntry,
    Undo,
)


def entry_to_undo(
    entries: Sequence[JournalEntry], entry_name: str | None, place: Place
) -> JournalEntry:
    """Return the named entry, or the last that can be undone at this place.

    Raises NotFound, and Refused for an entry that was written elsewhere.
    """
    if entry_name is None:
        entry = last_undoable(done_here(entries, place))
    else:
        entry = next((entry for entry in entries if entry.entry == entry_name), None)
    last = passed_over(done_here(entries, place))
    if entry is None and entry_name is None and last is not None:
        raise Refused(final_text(last))
    if entry is None:
        raise NotFound("the journal has no such change, or none that can be undone")
    if where_done(entry, place) == "elsewhere":
        raise Refused(f"this change was made in {place_text(entry)}: nothing is done here")
    return entry


async def undo(writer: Writer, command: Undo) -> ChangeResult:
    """Undo a change of the journal. A deleted stream or consumer is recreated empty.

    Raises NotFound, Refused, EditConflict when it was changed again since, and NotConfirmed.
    """
    entry = entry_to_undo(writer.journal.entries(), command.entry, writer.place)
    if is_key(entry):
        _check_place(writer, entry)
        return await put_back(writer, entry, command.confirmed)
    change = await _checked_change(writer, entry, command.command_id)
    doubt = await _doubt(writer, entry)
    if doubt and command.confirmed is None:
        confirmation = _doubted(_of_undoing(entry, await preview(writer, change)), doubt)
        raise NotConfirmed(f"not confirmed: {doubt}", confirmation)
    confirmed_change = dataclasses.replace(
        change,
        confirmed=command.confirmed,
        previewed_msgs=command.previewed_msgs,
        previewed_last_seq=command.previewed_last_seq,
        previewed_last_at_us=command.previewed_last_at_us,
    )
    try:
        result = await apply(writer, confirmed_change, undoes=entry.entry)
    except NotConfirmed as error:
        raise NotConfirmed(str(error), _of_undoing(entry, error.confirmation)) from None
    text = result.text
    if lost := lost_text(entry):
        target_text = f"consumer {entry.consumer}" if entry.consumer else f"stream {entry.stream}"
        text = f"{target_text} recreated, {lost}"
    else:
        removed = f"what the change removed is not restored: {entry.loses}" if entry.loses else ""
        text = "; ".join(filter(None, (text, made_again_text(entry), removed)))
    return dataclasses.replace(result, text=text)


async def _checked_change(writer: Writer, entry: JournalEntry, command_id: int) -> Change:
    """Return the change that reverts an entry; raises Refused or Conflict unless it is safe.

    The same JetStream and account are not enough: what is changed must have the creation time of
    the entry, and what is recreated must be created in the same place.
    """
    change = undo_of(entry, command_id)
    if change is None:
        raise Refused(final_text(entry))
    sure = where_done(entry, writer.place) == "here"
    change_label = change_text(entry.action, entry.stream, entry.consumer)
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
            "the journal does not contain server, account and creation time of "
            f"{change_label}: nothing "
            "was changed"
        )
    if entry.outcome == "unknown" and entry.action.startswith("edit"):
        kind: AssetKind = "stream" if entry.consumer is None else "consumer"
        current = await read_config(writer, kind, entry.stream, entry.consumer or "")
        if differences(kind, json.loads(change.seen_json or "{}"), current):
            raise Conflict(
                f"{kind} {entry.consumer or entry.stream} is not as it was requested: it was not "
                "changed, or it was changed again; nothing was done"
            )
    return change


async def _doubt(writer: Writer, entry: JournalEntry) -> str:
    """Return why it is not proven that a deleted stream was in this system; empty if it is.

    Another system may have the same address, names and account. A server that was not restarted is
    the same, and so is a system with a stream of then. Raises Refused where none of them is left,
    though nobody deleted them here.
    """
    if entry.action != "delete_stream" or entry.server_id == writer.place.server_id:
        return ""
    deleted = {
        (later.stream, later.created_at_us)
        for later in writer.journal.entries()
        if later.action == "delete_stream"
    }
    streams = [stream for stream in entry.others_created_at_us.items() if stream not in deleted]
    for name, created_at_us in streams:
        with contextlib.suppress(NotFound):
            if (await read_asset(writer, "stream", name)).created_at_us == created_at_us:
                return ""
    if streams:
        names = ", ".join(name for name, _ in streams)
        raise Refused(
            f"this is not the system from which stream {entry.stream} was deleted: it had other"
            f" streams then ({names}), and none of them is here; nothing was changed"
        )
    return (
        f"whether stream {entry.stream} was deleted from this system is unknown: the server was"
        " restarted or is another one, and no other stream proves that it is the same"
    )


def _doubted(confirmation: Confirmation, doubt: str) -> Confirmation:
    """Return a confirmation for which the name has to be typed because of a doubt."""
    question = f"{confirmation.question}; {doubt}"
    lines = (*confirmation.lines, doubt)
    return dataclasses.replace(confirmation, question=question, needed=True, lines=lines)


def _check_place(writer: Writer, entry: JournalEntry) -> None:
    """Raise Refused for a change of a key that cannot be undone, or not certainly here."""
    if not is_undoable(entry):
        raise Refused(final_text(entry))
    if where_done(entry, writer.place) != "here":
        raise Refused(
            "the journal does not contain server and account of this key: nothing was changed"
        )


async def preview_undo(
    writer: Writer, entry_name: str | None, command_id: int = 0
) -> Confirmation:
    """Return the effect of undoing an entry; raises what `undo` raises."""
    entry = entry_to_undo(writer.journal.entries(), entry_name, writer.place)
    if is_key(entry):
        _check_place(writer, entry)
        return await preview_put_back(writer, entry)
    change = await _checked_change(writer, entry, command_id)
    shown = _of_undoing(entry, await preview(writer, change))
    doubt = await _doubt(writer, entry)
    return _doubted(shown, doubt) if doubt else shown


def _of_undoing(entry: JournalEntry, confirmation: Confirmation) -> Confirmation:
    """Return the confirmation of a change with the texts of an undo."""
    text = f"this will {undo_text(entry)}"
    question = f"{text}: {'; '.join(confirmation.lines)}" if confirmation.lines else text
    return dataclasses.replace(confirmation, question=question)
