"""Undoes changes: finds the change that reverts an entry of the journal, checks and applies it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence

from natstui.errors import ActionRefusal, Conflict, NotFound
from natstui.jetstream.connection.writer import MissingConfirmation, Writer
from natstui.jetstream.managing.apply import apply, preview
from natstui.jetstream.managing.configure import ChangeResult, read_asset, read_config
from natstui.jetstream.managing.keys import preview_key_undo, undo_key_change
from natstui.model.assets.differences import AssetKind, differences
from natstui.model.records.actions import change_text
from natstui.model.records.confirmation import Confirmation, ServerIdentity
from natstui.model.records.journal import (
    find_last_undoable,
    find_newest_not_undoable,
    is_about_key,
    is_undoable,
    match_server,
    not_undoable_text,
    origin_text,
    recreated_copies_text,
    recreation_loss_text,
    select_entries,
    undo_of,
    undo_text,
)
from natstui.model.records.managing import (
    Change,
    JournalEntry,
    Undo,
)
from natstui.values import replace


def find_entry_to_undo(
    entries: Sequence[JournalEntry], entry_name: str | None, server_identity: ServerIdentity
) -> JournalEntry:
    """Return the named entry, or the last one that can be undone on this server and account.

    Raises NotFound without such an entry, and ActionRefusal for one of another server or account.
    """
    if entry_name is None:
        entry = find_last_undoable(select_entries(entries, server_identity))
    else:
        entry = next((entry for entry in entries if entry.entry == entry_name), None)
    newest_not_undoable_entry = find_newest_not_undoable(select_entries(entries, server_identity))
    if entry is None and entry_name is None and newest_not_undoable_entry is not None:
        raise ActionRefusal(not_undoable_text(newest_not_undoable_entry))
    if entry is None:
        raise NotFound("the journal has no such change, or none that can be undone")
    if match_server(entry, server_identity) == "elsewhere":
        raise ActionRefusal(f"this change was made in {origin_text(entry)}: nothing is done here")
    return entry


async def undo(writer: Writer, command: Undo) -> ChangeResult:
    """Undo a change of the journal; a deleted stream or consumer is recreated empty.

    Raises NotFound, ActionRefusal, MissingConfirmation, and EditConflict if the stream or consumer
    was changed again since.
    """
    entry = find_entry_to_undo(writer.journal.entries(), command.entry, writer.server_identity)
    if is_about_key(entry):
        _check_key_entry(writer, entry)
        return await undo_key_change(writer, entry, command.confirmed)
    change = await _find_checked_change(writer, entry, command.command_id)
    doubt = await _find_doubt(writer, entry)
    if doubt and command.confirmed is None:
        confirmation = _add_doubt(_use_undo_texts(entry, await preview(writer, change)), doubt)
        raise MissingConfirmation(f"not confirmed: {doubt}", confirmation)
    confirmed_change = replace(
        change,
        confirmed=command.confirmed,
        previewed_msgs=command.previewed_msgs,
        previewed_last_seq=command.previewed_last_seq,
        previewed_last_at_us=command.previewed_last_at_us,
    )
    try:
        result = await apply(writer, confirmed_change, undoes=entry.entry)
    except MissingConfirmation as error:
        raise MissingConfirmation(str(error), _use_undo_texts(entry, error.confirmation)) from None
    text = result.text
    if loss_text := recreation_loss_text(entry):
        target_text = f"consumer {entry.consumer}" if entry.consumer else f"stream {entry.stream}"
        text = f"{target_text} recreated, {loss_text}"
    else:
        removed_text = (
            f"what the change removed is not restored: {entry.loses}" if entry.loses else ""
        )
        text = "; ".join(filter(None, (text, recreated_copies_text(entry), removed_text)))
    return replace(result, text=text)


async def _find_checked_change(writer: Writer, entry: JournalEntry, command_id: int) -> Change:
    """Return the change that reverts an entry; raises ActionRefusal or Conflict if it is not safe.

    The same server and account are not enough: a changed stream or consumer must have the creation
    time of the entry, and a deleted one is only recreated on the same server and in the same
    stream.
    """
    change = undo_of(entry, command_id)
    if change is None:
        raise ActionRefusal(not_undoable_text(entry))
    is_same_server = match_server(entry, writer.server_identity) == "here"
    change_label = change_text(entry.action, entry.stream, entry.consumer)
    if entry.action == "delete_consumer" and entry.stream_created_at_us is not None:
        stream = await read_asset(writer, "stream", entry.stream)
        if stream.created_at_us != entry.stream_created_at_us:
            raise Conflict(
                f"stream {entry.stream} was recreated in the meantime: nothing was changed"
            )
        return change
    is_server_unknown = entry.action in ("delete_stream", "delete_consumer") and not is_same_server
    if is_server_unknown or (
        not entry.action.startswith("delete") and entry.created_at_us is None
    ):
        raise ActionRefusal(
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


async def _find_doubt(writer: Writer, entry: JournalEntry) -> str:
    """Return why it is not certain that a deleted stream was in this system; empty if certain.

    Another system may have the same address, names and account. The system is the same if its
    server was not restarted since, or if another stream that it had then still exists. Raises
    ActionRefusal if none of those streams exists, though natstui deleted none of them.
    """
    if entry.action != "delete_stream" or entry.server_id == writer.server_identity.server_id:
        return ""
    deleted_streams = {
        (later_entry.stream, later_entry.created_at_us)
        for later_entry in writer.journal.entries()
        if later_entry.action == "delete_stream"
    }
    undeleted_other_streams = [
        stream for stream in entry.others_created_at_us.items() if stream not in deleted_streams
    ]
    for name, created_at_us in undeleted_other_streams:
        with contextlib.suppress(NotFound):
            if (await read_asset(writer, "stream", name)).created_at_us == created_at_us:
                return ""
    if undeleted_other_streams:
        names = ", ".join(name for name, _ in undeleted_other_streams)
        raise ActionRefusal(
            f"this is not the system from which stream {entry.stream} was deleted: it had other"
            f" streams then ({names}), and none of them is here; nothing was changed"
        )
    return (
        f"whether stream {entry.stream} was deleted from this system is unknown: the server was"
        " restarted or is another one, and no other stream proves that it is the same"
    )


def _add_doubt(confirmation: Confirmation, doubt: str) -> Confirmation:
    """Return the confirmation with a doubt added, so that the name must be typed."""
    question = f"{confirmation.question}; {doubt}"
    lines = (*confirmation.lines, doubt)
    return replace(confirmation, question=question, needed=True, lines=lines)


def _check_key_entry(writer: Writer, entry: JournalEntry) -> None:
    """Raise ActionRefusal for a change of a key that cannot be undone, or of an unknown server."""
    if not is_undoable(entry):
        raise ActionRefusal(not_undoable_text(entry))
    if match_server(entry, writer.server_identity) != "here":
        raise ActionRefusal(
            "the journal does not contain server and account of this key: nothing was changed"
        )


async def preview_undo(
    writer: Writer, entry_name: str | None, command_id: int = 0
) -> Confirmation:
    """Return the confirmation of undoing an entry; raises what `undo` raises."""
    entry = find_entry_to_undo(writer.journal.entries(), entry_name, writer.server_identity)
    if is_about_key(entry):
        _check_key_entry(writer, entry)
        return await preview_key_undo(writer, entry)
    change = await _find_checked_change(writer, entry, command_id)
    confirmation = _use_undo_texts(entry, await preview(writer, change))
    doubt = await _find_doubt(writer, entry)
    return _add_doubt(confirmation, doubt) if doubt else confirmation


def _use_undo_texts(entry: JournalEntry, confirmation: Confirmation) -> Confirmation:
    """Return the confirmation of a change with the texts of its undo."""
    text = f"this will {undo_text(entry)}"
    question = f"{text}: {'; '.join(confirmation.lines)}" if confirmation.lines else text
    return replace(confirmation, question=question)
