"""What the journal's entries mean: how to take one back, and how to say it with `nats`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence

from natstui.model.config_field import number_at, text_at
from natstui.model.journal_sends import is_sent, sent_command, sent_text
from natstui.model.manage import Action, Change, JournalAction, JournalEntry
from natstui.model.nats_command import consumer_command, stream_command

_REVERSED: dict[JournalAction, Action] = {
    "create_stream": "delete_stream",
    "edit_stream": "edit_stream",
    "delete_stream": "create_stream",
    "create_consumer": "delete_consumer",
    "edit_consumer": "edit_consumer",
    "delete_consumer": "create_consumer",
    "pause_consumer": "resume_consumer",
}


def last_undoable(entries: Sequence[JournalEntry]) -> JournalEntry | None:
    """Return the newest entry that can be taken back and was not; `entries` oldest first."""
    undone = {entry.undoes for entry in entries}
    for entry in reversed(entries):
        if entry.undoes is None and entry.entry not in undone and undo_of(entry, 0) is not None:
            return entry
    return None


def passed_over(entries: Sequence[JournalEntry]) -> JournalEntry | None:
    """Return the newest change of a stream or consumer when nothing takes it back, else None."""
    undone = {entry.undoes for entry in entries}
    for entry in reversed(entries):
        gone = entry.undoes is not None or entry.entry in undone
        if not gone and entry.outcome != "failed" and not is_sent(entry):
            return entry if undo_of(entry, 0) is None else None
    return None


def undo_of(entry: JournalEntry, command_id: int) -> Change | None:
    """Return the change that takes an entry back; None when nothing can."""
    action = _REVERSED.get(entry.action)
    if action is None or entry.outcome != "done":
        return None
    made_again = entry.action in ("delete_stream", "delete_consumer")
    wanted = entry.before_json if made_again or entry.action.startswith("edit") else "{}"
    if wanted is None:
        return None
    seen = entry.after_json if action.startswith("edit") else None
    return Change(command_id, action, entry.stream, entry.consumer, wanted, seen)


def undo_text(entry: JournalEntry) -> str:
    """Return what taking an entry back does, for people."""
    what = f"consumer {entry.consumer} on {entry.stream}" if entry.consumer else entry.stream
    if entry.action == "delete_stream":
        return f"make stream {what} again, without its messages"
    if entry.action == "delete_consumer":
        return f"make {what} again, from its start and without what it knew"
    if entry.action in ("create_stream", "create_consumer"):
        return f"delete {what}"
    if entry.action == "pause_consumer":
        return f"resume {what}"
    return f"give {what} its previous configuration back"


def entry_text(entry: JournalEntry) -> str:
    """Return what an entry did, as `edit stream ORDERS` or `pause consumer C on ORDERS`."""
    if is_sent(entry):
        return sent_text(entry)
    verb, _, what = entry.action.partition("_")
    if entry.action.startswith("step_down"):
        verb, what = "step down", entry.action.removeprefix("step_down_")
    place = f"{entry.consumer} on {entry.stream}" if entry.consumer else entry.stream
    return f"{verb} {what} {place}"


def entry_command(entry: JournalEntry) -> str:
    """Return the `nats` command that does what an entry did."""
    if is_sent(entry):
        return sent_command(entry)
    request = json.loads(entry.request_json)
    before = json.loads(entry.before_json) if entry.before_json else None
    if entry.action in ("create_stream", "edit_stream"):
        return stream_command(request, before if entry.action == "edit_stream" else None)
    if entry.action in ("create_consumer", "edit_consumer"):
        base = before if entry.action == "edit_consumer" else None
        return consumer_command(entry.stream, request, base)
    return shlex.join(["nats", *_words(entry, request)])


def _words(entry: JournalEntry, request: Mapping[str, object]) -> list[str]:
    stream, consumer = entry.stream, entry.consumer or ""
    match entry.action:
        case "delete_stream":
            return ["stream", "rm", stream, "--force"]
        case "purge_stream":
            return ["stream", "purge", stream, *_purge_flags(request), "--force"]
        case "delete_message":
            return ["stream", "rmm", stream, str(number_at(request, "seq")), "--force"]
        case "step_down_stream":
            return ["stream", "cluster", "step-down", stream]
        case "step_down_consumer":
            return ["consumer", "cluster", "step-down", stream, consumer]
        case "delete_consumer":
            return ["consumer", "rm", stream, consumer, "--force"]
        case "pause_consumer":
            return ["consumer", "pause", stream, consumer, text_at(request, "pause_until"), "-f"]
        case "reset_consumer":
            sequence = number_at(request, "seq")
            return ["consumer", "reset", stream, consumer, *([str(sequence)] if sequence else [])]
        case "unpin_consumer":
            return ["consumer", "unpin", stream, consumer, text_at(request, "group"), "--force"]
        case _:
            return ["consumer", "resume", stream, consumer, "--force"]


def _purge_flags(request: Mapping[str, object]) -> list[str]:
    flags = [f"--subject={text_at(request, 'filter')}"] if text_at(request, "filter") else []
    for key in ("seq", "keep"):
        flags += [f"--{key}={number_at(request, key)}"] if number_at(request, key) else []
    return flags
