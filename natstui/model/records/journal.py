"""Entries of the journal: how to undo one, and the `nats` command that does the same."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, get_args

from natstui.model.assets.buckets import KV, OBJECTS
from natstui.model.assets.fields import Config, number_at, read, text_at
from natstui.model.natscli.commands import consumer_command, stream_command
from natstui.model.natscli.values import moment
from natstui.model.records.actions import CATALOGUE, change_text
from natstui.model.records.managing import (
    Action,
    Change,
    JournalAction,
    JournalEntry,
    Place,
    SilenceAction,
)
from natstui.model.records.stores import KeyAction, ObjectAction
from natstui.units import local_text


def is_sent(entry: JournalEntry) -> bool:
    """Return whether an entry is about a message, and not about a stream or consumer."""
    return entry.action in ("publish", "request", "reply", "pull", "answer")


def is_silence(entry: JournalEntry) -> bool:
    """Return whether an entry is about a finding that nobody wanted to hear of."""
    return entry.action in get_args(SilenceAction)


def is_key(entry: JournalEntry) -> bool:
    """Return whether an entry is about a key of a bucket; `consumer` is then the key."""
    return entry.action in get_args(KeyAction)


def benchmark_text(entry: JournalEntry) -> str:
    """Return what a benchmark did, as `end benchmark 19a on S: 5 published, 0 acknowledged`."""
    asked: Config = json.loads(entry.request_json)
    name = f"benchmark {text_at(asked, 'run')} on {text_at(asked, 'what')}"
    if text_at(asked, "phase") == "begin":
        return f"begin {name}: {text_at(asked, 'roles')}"
    if entry.after_json is None:
        return f"end {name}"
    after: Config = json.loads(entry.after_json)
    return (
        f"end {name}: {number_at(after, 'published_msgs'):,} messages published,"
        f" {number_at(after, 'received_msgs'):,} received,"
        f" {number_at(after, 'acknowledged_msgs'):,} acknowledged"
    )


def final_text(entry: JournalEntry) -> str:
    """Return that an entry cannot be undone, and what stays of a benchmark."""
    text = f"{entry_text(entry)} cannot be undone"
    if entry.action != "benchmark":
        return text
    return f"{text}: published messages stay, and acknowledged ones are not delivered again"


def silence_text(entry: JournalEntry) -> str:
    """Return what was silenced or is heard of again, as `silence NT-C07 of C on S: mended`."""
    asked: Config = json.loads(entry.request_json)
    place = f"{entry.consumer} on {entry.stream}" if entry.consumer else entry.stream
    what = " of ".join(filter(None, (text_at(asked, "code"), place)))
    if entry.action == "lift_silence":
        return f"hear of {what} again"
    until_us = number_at(asked, "until_us")
    when = local_text(until_us, "%Y-%m-%d %H:%M:%S")
    return f"silence {what} until {when}: {text_at(asked, 'reason')}"


def sent_text(entry: JournalEntry) -> str:
    """Return what was sent or taken, as `publish 5 bytes to w.a, stored as 3 in W`."""
    asked: Config = json.loads(entry.request_json)
    after: Config = json.loads(entry.after_json or "{}")
    place = f"{entry.consumer} on {entry.stream}" if entry.stream else f"{entry.consumer}"
    match entry.action:
        case "pull" if asked.get("received"):
            done = number_at(after, "acknowledged_msgs")
            return (
                f"receive {number_at(after, 'received_msgs'):,}, acknowledge {done:,} of {place}"
            )
        case "pull":
            return f"pull message {after.get('stream_seq') or '?'} from {place}"
        case "reply":
            count = number_at(after, "replies_count")
            return f"reply {count:,} times to requests on {text_at(asked, 'subject')}"
        case "answer":
            said = text_at(asked, "answer").replace("_", " ")
            return f"{said} message {asked.get('stream_seq') or '?'} of {place}"
        case "publish" if asked.get("copied_from"):
            some = f"{after['sent_count']:,} messages" if "sent_count" in after else "messages"
            return f"copy {some} of {asked['copied_from']} to {text_at(asked, 'subject')}"
        case action:
            size = f"{number_at(asked, 'payload_bytes'):,} bytes"
            if number_at(asked, "count") > 1:
                # A run that failed does not say how many were sent before.
                sent = f"{after['sent_count']:,} of " if "sent_count" in after else ""
                size = f"{sent}{asked['count']:,} messages"
            sent = f"{action} {size} to"
            return f"{sent} {text_at(asked, 'subject')}{_stored(after)}"


def _stored(after: Config) -> str:
    if not after.get("stored_seq"):
        return ""
    said = "a duplicate of" if after.get("duplicate") else "stored as"
    return f", {said} {after['stored_seq']} in {after.get('stream')}"


def headers_of(asked: Config) -> dict[str, str]:
    """Return the headers the journal kept: most with their names only."""
    headers = asked.get("headers")
    return {str(k): str(v) for k, v in headers.items()} if isinstance(headers, dict) else {}


def sent_command(entry: JournalEntry) -> str:
    """Return the `nats` command that does the same; it reads a payload from its stdin."""
    asked: Config = json.loads(entry.request_json)
    subject = text_at(asked, "subject")
    if asked.get("copied_from"):
        return f"# {sent_text(entry)}: the NATS CLI cannot copy messages"
    match entry.action:
        case "pull" if asked.get("received"):
            ack = "--ack" if asked.get("acknowledges") else "--no-ack"
            words = ["consumer", "sub", entry.stream, entry.consumer or "", ack]
        case "pull":
            words = ["consumer", "next", entry.stream, entry.consumer or "", "--no-ack"]
        case "reply":
            queue = text_at(asked, "queue")
            words = ["reply", subject, *([f"--queue={queue}"] if queue else []), "--echo"]
        case "answer":
            # Only a request waits until the server confirms it.
            verb = "request" if asked.get("answer") == "double_ack" else "publish"
            words = [verb, subject, "--", text_at(asked, "payload")]
        case action:
            flags = [f"--header={name}:{text}" for name, text in headers_of(asked).items()]
            flags += [f"--count={asked['count']}"] if number_at(asked, "count") > 1 else []
            words = [action, *flags, subject, *([] if asked.get("payload_bytes") else [""])]
            words += ["--force-stdin"] if action == "publish" and asked["payload_bytes"] else []
    return shlex.join(["nats", *words])


_REVERSED: dict[JournalAction, Action] = {
    "create_stream": "delete_stream",
    "restore_stream": "delete_stream",
    "edit_stream": "edit_stream",
    "delete_stream": "create_stream",
    "create_consumer": "delete_consumer",
    "edit_consumer": "edit_consumer",
    "delete_consumer": "create_consumer",
    "pause_consumer": "resume_consumer",
}


Where = Literal["here", "elsewhere", "unproven"]


def where_done(entry: JournalEntry, here: Place) -> Where:
    """Return whether an entry was written in this JetStream and this account.

    A server without a lasting name, or an entry of an older natstui, does not prove it.
    """
    if None not in (entry.account, here.account) and entry.account != here.account:
        return "elsewhere"
    if None not in (entry.place, here.place) and entry.place != here.place:
        return "elsewhere"
    named = entry.place is not None and entry.place == here.place
    same_start = entry.server_id is not None and entry.server_id == here.server_id
    if entry.account is not None and entry.account == here.account and (named or same_start):
        return "here"
    return "unproven" if entry.server == here.target or named or same_start else "elsewhere"


def is_same_place(first: Place, second: Place) -> bool:
    """Return whether both are the same JetStream, and not known as different accounts of it."""
    is_same_server = first.server_id == second.server_id or (
        first.place is not None and first.place == second.place
    )
    accounts = {first.account, second.account} - {None}
    return is_same_server and len(accounts) < 2


def done_here(entries: Sequence[JournalEntry], here: Place) -> list[JournalEntry]:
    """Return the entries that were, or may have been, written here; oldest first."""
    return [entry for entry in entries if where_done(entry, here) != "elsewhere"]


def place_text(entry: JournalEntry) -> str:
    """Return where an entry was written, as `account A of LAB at nats://…`."""
    account = f"account {entry.account}" if entry.account else "an unknown account"
    return (
        f"{account} of {entry.place} at {entry.server}"
        if entry.place
        else (f"{account} at {entry.server}")
    )


def last_undoable(entries: Sequence[JournalEntry]) -> JournalEntry | None:
    """Return the newest entry that can be taken back and was not; `entries` oldest first."""
    undone = {entry.undoes for entry in entries}
    for entry in reversed(entries):
        if entry.undoes is None and entry.entry not in undone and is_undoable(entry):
            return entry
    return None


def passed_over(entries: Sequence[JournalEntry]) -> JournalEntry | None:
    """Return the newest change, or message sent, when nothing takes it back, else None."""
    undone = {entry.undoes for entry in entries}
    for entry in reversed(entries):
        gone = entry.undoes is not None or entry.entry in undone
        if is_silence(entry):
            continue
        # A message that was sent is a change as well: what is before it may be its stream.
        if not gone and entry.outcome != "failed":
            return None if is_undoable(entry) else entry
    return None


def is_undoable(entry: JournalEntry) -> bool:
    """Tell whether something takes an entry back: another change, or the value before of a key."""
    if is_key(entry):
        return entry.outcome == "done" and entry.action != "purge_key"
    return undo_of(entry, 0) is not None


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
    made = None if made_again else entry.created_at_us
    change = Change(command_id, action, entry.stream, entry.consumer, wanted, seen)
    return replace(change, created_at_us=made)


def undo_text(entry: JournalEntry) -> str:
    """Return what taking an entry back does, for people."""
    what = (
        f"consumer {entry.consumer} on {entry.stream}"
        if entry.consumer
        else (f"stream {entry.stream}")
    )
    if entry.action == "delete_stream":
        return f"recreate {what}, without its messages"
    if entry.action == "delete_consumer":
        return f"recreate {what}: it starts again, its delivery state is lost"
    if entry.action in ("create_stream", "restore_stream", "create_consumer"):
        return f"delete {what}"
    if entry.action == "pause_consumer":
        return f"resume {what}"
    back = f"restore the previous configuration of {what}"
    return f"{back}, but not what the change removed ({entry.loses})" if entry.loses else back


def entry_text(entry: JournalEntry) -> str:
    """Return what an entry did, as `edit stream ORDERS` or `pause consumer C on ORDERS`."""
    if is_silence(entry):
        return silence_text(entry)
    if is_sent(entry):
        return sent_text(entry)
    if entry.action == "benchmark":
        return benchmark_text(entry)
    return change_text(entry.action, entry.stream, entry.consumer)


def entry_command(entry: JournalEntry) -> str:
    """Return the `nats` command that does what an entry did; of a silence a comment."""
    if is_silence(entry):
        return f"# {silence_text(entry)}"
    if is_sent(entry):
        return sent_command(entry)
    if entry.action == "benchmark":
        return f"# {benchmark_text(entry)}"
    if is_key(entry):
        return _key_command(entry)
    if entry.action in get_args(ObjectAction):
        return _object_command(entry)
    request = json.loads(entry.request_json)
    before = json.loads(entry.before_json) if entry.before_json else None
    if entry.action in ("create_stream", "edit_stream"):
        return stream_command(request, before if entry.action == "edit_stream" else None)
    if entry.action in ("create_consumer", "edit_consumer"):
        base = before if entry.action == "edit_consumer" else None
        return consumer_command(entry.stream, request, base)
    if entry.action == "restore_stream":
        return _restore_command(entry, request)
    return shlex.join(["nats", *_words(entry, request)])


def _key_command(entry: JournalEntry) -> str:
    """Return the command for a key; it reads the value from its stdin."""
    verb = {"put_key": "put", "delete_key": "del"}.get(entry.action, "purge")
    words = ["nats", "kv", verb, entry.stream.removeprefix(KV), entry.consumer or ""]
    return shlex.join([*words, *(["--force"] if verb != "put" else [])])


def _object_command(entry: JournalEntry) -> str:
    """Return the command for an object; it reads what is put from its stdin."""
    bucket, name = entry.stream.removeprefix(OBJECTS), entry.consumer or ""
    words = ["put", bucket, f"--name={name}"] if entry.action == "put_object" else None
    return shlex.join(["nats", "object", *(words or ["rm", bucket, name]), "--force"])


def _restore_command(entry: JournalEntry, request: Config) -> str:
    if text_at(request, "stream") != entry.stream:
        return f"# restored as {entry.stream}: the NATS CLI cannot restore under another name"
    replicas = number_at(request, "replicas")
    flags = [f"--replicas={replicas}"] if replicas else []
    return shlex.join(["nats", "stream", "restore", text_at(request, "folder"), *flags])


def _step_down(entry: JournalEntry, request: Mapping[str, object]) -> list[str]:
    kind = entry.action.removeprefix("step_down_")
    words = [entry.stream, entry.consumer or ""]
    names = [word for word in words if word] if kind != "meta" else []
    name = text_at(request, "preferred")
    flags = [f"--preferred={name}"] if name else []
    return ["server" if kind == "meta" else kind, "cluster", "step-down", *names, *flags]


def _system_words(entry: JournalEntry, request: Mapping[str, object]) -> list[str]:
    """Return the words of what is done to servers and their connections."""
    if entry.action == "kick_connection":
        number = str(number_at(request, "connection_id"))
        return ["server", "request", "kick", number, text_at(request, "server_id")]
    remove = ["cluster", "peer-remove"]
    if entry.action == "remove_server":
        return ["server", *remove, entry.stream, "--force"]
    return ["stream", *remove, entry.stream, text_at(request, "peer"), "--force"]


def _words(entry: JournalEntry, request: Mapping[str, object]) -> list[str]:
    stream, consumer = entry.stream, entry.consumer or ""
    match entry.action:
        case "delete_stream":
            return ["stream", "rm", stream, "--force"]
        case "purge_stream":
            return ["stream", "purge", stream, *_purge_flags(request), "--force"]
        case "delete_message":
            return ["stream", "rmm", stream, str(number_at(request, "seq")), "--force"]
        case "step_down_stream" | "step_down_consumer" | "step_down_meta":
            return _step_down(entry, request)
        case "remove_peer_stream" | "remove_server" | "kick_connection":
            return _system_words(entry, request)
        case "delete_consumer":
            return ["consumer", "rm", stream, consumer, "--force"]
        case "pause_consumer":
            until = moment(text_at(request, "pause_until"))
            return ["consumer", "pause", stream, consumer, until, "--force"]
        case "reset_consumer":
            sequence = number_at(request, "seq")
            flags = [f"--sequence={sequence}"] if sequence else []
            return ["consumer", "reset", stream, consumer, *flags, "--force"]
        case "unpin_consumer":
            return ["consumer", "unpin", stream, consumer, text_at(request, "group"), "--force"]
        case _:
            return ["consumer", "resume", stream, consumer, "--force"]


def _purge_flags(request: Mapping[str, object]) -> list[str]:
    asked = ((field, read(request, field.path)) for field in CATALOGUE["purge_stream"].arguments)
    return [f"--{field.flag}={value}" for field, value in asked if value]
