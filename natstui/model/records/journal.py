"""Entries of the journal: their texts, their undo, and the equivalent `nats` commands."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from natstui.model.assets.buckets import KV, OBJECTS
from natstui.model.assets.fields import Config, number_at, read, text_at
from natstui.model.assets.loss import removed_replicas_count
from natstui.model.natscli.commands import consumer_command, stream_command
from natstui.model.natscli.values import format_time
from natstui.model.records.actions import CATALOGUE, change_text
from natstui.model.records.confirmation import ServerIdentity
from natstui.model.records.managing import (
    Action,
    Change,
    JournalAction,
    JournalEntry,
    SilenceAction,
)
from natstui.model.records.stores import KeyAction, ObjectAction
from natstui.units import counted, local_text
from natstui.values import replace


def is_about_messages(entry: JournalEntry) -> bool:
    """Return whether an entry is about sent, pulled or acked messages."""
    return entry.action in ("publish", "request", "reply", "pull", "answer")


def is_about_silence(entry: JournalEntry) -> bool:
    """Return whether an entry is about silencing a finding."""
    return entry.action in get_args(SilenceAction)


def is_about_key(entry: JournalEntry) -> bool:
    """Return whether an entry is about a key of a bucket; its `consumer` field is then the key."""
    return entry.action in get_args(KeyAction)


def benchmark_text(entry: JournalEntry) -> str:
    """Return the text of a benchmark's entry, as `end benchmark 19a on S: 5 published, …`."""
    request: Config = json.loads(entry.request_json)
    name = f"benchmark {text_at(request, 'run')} on {text_at(request, 'what')}"
    if text_at(request, "phase") == "begin":
        return f"begin {name}: {text_at(request, 'roles')}"
    if entry.after_json is None:
        return f"end {name}"
    after: Config = json.loads(entry.after_json)
    return (
        f"end {name}: {_format_count(number_at(after, 'published_msgs'), 'message')} published,"
        f" {number_at(after, 'received_msgs'):,} received,"
        f" {number_at(after, 'acknowledged_msgs'):,} acknowledged"
    )


def _format_count(count: float, noun: str) -> str:
    return counted(f"{count:,}", noun)


def not_undoable_text(entry: JournalEntry) -> str:
    """Return a sentence that says that an entry cannot be undone, and the reason if known."""
    text = f"{entry_text(entry)} cannot be undone"
    if entry.outcome == "unknown" and (
        entry.action in _UNDO_ACTION_BY_ACTION or is_about_key(entry)
    ):
        return f"{text}: no reply came, so what is there now may be of somebody else"
    if _is_used_creation(entry):
        return f"{text}: {entry.reason}"
    if entry.action != "benchmark":
        return text
    return f"{text}: published messages stay, and acknowledged ones are not delivered again"


def silence_text(entry: JournalEntry) -> str:
    """Return the text of a silence's entry, as `silence NT-C07 of C on S until …: reason`."""
    request: Config = json.loads(entry.request_json)
    target_text = f"{entry.consumer} on {entry.stream}" if entry.consumer else entry.stream
    finding_text = " of ".join(filter(None, (text_at(request, "code"), target_text)))
    if entry.action == "lift_silence":
        return f"report {finding_text} again"
    until_us = number_at(request, "until_us")
    time_text = local_text(until_us, "%Y-%m-%d %H:%M:%S")
    return f"silence {finding_text} until {time_text}: {text_at(request, 'reason')}"


def sent_text(entry: JournalEntry) -> str:
    """Return the text of a message's entry, as `publish 5 bytes to w.a, stored as 3 in W`."""
    request: Config = json.loads(entry.request_json)
    after: Config = json.loads(entry.after_json or "{}")
    target_text = f"{entry.consumer} on {entry.stream}" if entry.stream else f"{entry.consumer}"
    match entry.action:
        case "pull" if request.get("received"):
            acked_count = number_at(after, "acknowledged_msgs")
            return (
                f"receive {number_at(after, 'received_msgs'):,}, acknowledge {acked_count:,} "
                f"of {target_text}"
            )
        case "pull":
            return f"pull message {after.get('stream_seq') or '?'} from {target_text}"
        case "reply":
            times_text = _format_count(number_at(after, "replies_count"), "time")
            return f"reply {times_text} to requests on {text_at(request, 'subject')}"
        case "answer":
            answer_text = text_at(request, "answer").replace("_", " ")
            return f"{answer_text} message {request.get('stream_seq') or '?'} of {target_text}"
        case "publish" if request.get("copied_from"):
            has_count = "sent_count" in after
            count_text = (
                _format_count(number_at(after, "sent_count"), "message")
                if has_count
                else "messages"
            )
            return (
                f"copy {count_text} of {request['copied_from']} to {text_at(request, 'subject')}"
            )
        case action:
            size = _format_count(number_at(request, "payload_bytes"), "byte")
            if number_at(request, "count") > 1:
                # The entry of a killed run has no number of sent messages.
                sent_count = number_at(after, "sent_count")
                prefix = f"{sent_count:,} of " if "sent_count" in after else ""
                size = f"{prefix}{number_at(request, 'count'):,} messages"
            prefix = f"{action} {size} to"
            return f"{prefix} {text_at(request, 'subject')}{_stored_seq_text(after)}"


def _stored_seq_text(after: Config) -> str:
    if not after.get("stored_seq"):
        return ""
    ack_text = "a duplicate of" if after.get("duplicate") else "stored as"
    return f", {ack_text} {after['stored_seq']} in {after.get('stream')}"


def headers_of(request: Config) -> dict[str, str]:
    """Return the headers in a request of the journal; most values are left out."""
    headers = request.get("headers")
    return {str(k): str(v) for k, v in headers.items()} if isinstance(headers, dict) else {}


def sent_command(entry: JournalEntry) -> str:
    """Return the `nats` command of an entry about messages; it reads a payload from stdin."""
    request: Config = json.loads(entry.request_json)
    subject = text_at(request, "subject")
    if request.get("copied_from"):
        return f"# {sent_text(entry)}: the NATS CLI cannot copy messages"
    match entry.action:
        case "pull" if request.get("received"):
            ack = "--ack" if request.get("acknowledges") else "--no-ack"
            arguments = ["consumer", "sub", entry.stream, entry.consumer or "", ack]
        case "pull":
            arguments = ["consumer", "next", entry.stream, entry.consumer or "", "--no-ack"]
        case "reply":
            queue = text_at(request, "queue")
            arguments = ["reply", subject, *([f"--queue={queue}"] if queue else []), "--echo"]
        case "answer":
            # Only a request waits until the server confirms it.
            verb = "request" if request.get("answer") == "double_ack" else "publish"
            arguments = [verb, subject, "--", text_at(request, "payload")]
        case action:
            flags = [f"--header={name}:{text}" for name, text in headers_of(request).items()]
            flags += [f"--count={request['count']}"] if number_at(request, "count") > 1 else []
            arguments = [action, *flags, subject, *([] if request.get("payload_bytes") else [""])]
            arguments += (
                ["--force-stdin"] if action == "publish" and request.get("payload_bytes") else []
            )
    return shlex.join(["nats", *arguments])


_UNDO_ACTION_BY_ACTION: dict[JournalAction, Action] = {
    "create_stream": "delete_stream",
    "restore_stream": "delete_stream",
    "edit_stream": "edit_stream",
    "delete_stream": "create_stream",
    "create_consumer": "delete_consumer",
    "edit_consumer": "edit_consumer",
    "delete_consumer": "create_consumer",
    "pause_consumer": "resume_consumer",
}


ServerMatch = Literal["here", "elsewhere", "unproven"]


def match_server(entry: JournalEntry, current_server: ServerIdentity) -> ServerMatch:
    """Return `here` for an entry of the current server, `elsewhere` for one of another server.

    Else `unproven`: for a server without a lasting name, and for an entry of an older natstui.
    """
    if (
        None not in (entry.account, current_server.account)
        and entry.account != current_server.account
    ):
        return "elsewhere"
    if None not in (entry.place, current_server.place) and entry.place != current_server.place:
        return "elsewhere"
    is_same_name = entry.place is not None and entry.place == current_server.place
    is_same_server_start = (
        entry.server_id is not None and entry.server_id == current_server.server_id
    )
    if (
        entry.account is not None
        and entry.account == current_server.account
        and (is_same_name or is_same_server_start)
    ):
        return "here"
    return (
        "unproven"
        if entry.server == current_server.target or is_same_name or is_same_server_start
        else "elsewhere"
    )


def is_same_jetstream(first: ServerIdentity, second: ServerIdentity) -> bool:
    """Return whether both are in the same JetStream system and not in two known accounts."""
    is_same_name = first.server_id == second.server_id or (
        first.place is not None and first.place == second.place
    )
    accounts = {first.account, second.account} - {None}
    return is_same_name and len(accounts) < 2


def select_entries(
    entries: Sequence[JournalEntry], current_server: ServerIdentity
) -> list[JournalEntry]:
    """Return the entries that are, or may be, of the current server; oldest first."""
    return [entry for entry in entries if match_server(entry, current_server) != "elsewhere"]


def origin_text(entry: JournalEntry) -> str:
    """Return the account and server of an entry, as `account A of LAB at nats://…`."""
    account = f"account {entry.account}" if entry.account else "an unknown account"
    return (
        f"{account} of {entry.place} at {entry.server}"
        if entry.place
        else (f"{account} at {entry.server}")
    )


def _undone_names(entries: Sequence[JournalEntry]) -> set[str]:
    """Return the names of the entries that are undone, except if the undo was undone."""
    undone_names = set[str]()
    for entry in reversed(entries):
        if (
            entry.undoes is not None
            and entry.outcome != "failed"
            and entry.entry not in undone_names
        ):
            undone_names.add(entry.undoes)
    return undone_names


def restored_revisions(
    entries: Sequence[JournalEntry], put_entry: JournalEntry
) -> tuple[int, ...]:
    """Return the revisions of a key with the value of the change `put_entry`.

    These are its own revision, and later ones by which undos restored the value.
    """
    key_entries = [
        entry
        for entry in entries
        if is_about_key(entry)
        and entry.outcome == "done"
        and (entry.stream, entry.consumer, entry.created_at_us)
        == (put_entry.stream, put_entry.consumer, put_entry.created_at_us)
    ]
    entry_by_name = {entry.entry: entry for entry in key_entries}
    revisions = [_read_revision(put_entry.after_json)]
    for entry in key_entries:
        undone_entry = entry_by_name.get(entry.undoes or "")
        if undone_entry is not None and _read_revision(undone_entry.before_json) in revisions:
            revisions.append(_read_revision(entry.after_json))
    return tuple(revisions)


def _read_revision(state_json: str | None) -> int:
    return int(number_at(json.loads(state_json or "{}"), "revision"))


def find_last_undoable(entries: Sequence[JournalEntry]) -> JournalEntry | None:
    """Return the newest entry that can be undone and is not undone; `entries` oldest first."""
    undone_names = _undone_names(entries)
    for entry in reversed(entries):
        if entry.undoes is None and entry.entry not in undone_names and is_undoable(entry):
            return entry
    return None


def find_newest_not_undoable(entries: Sequence[JournalEntry]) -> JournalEntry | None:
    """Return the newest change or sent message if it cannot be undone; None if it can."""
    undone_names = _undone_names(entries)
    for entry in reversed(entries):
        is_undone_or_undo = entry.undoes is not None or entry.entry in undone_names
        if is_about_silence(entry):
            continue
        # A sent message is a change as well: the entry before may have created its stream.
        if not is_undone_or_undo and entry.outcome != "failed":
            return None if is_undoable(entry) else entry
    return None


def is_undoable(entry: JournalEntry) -> bool:
    """Return whether an entry can be undone."""
    if is_about_key(entry):
        return entry.outcome == "done" and entry.action != "purge_key"
    return undo_of(entry, 0) is not None


def undo_of(entry: JournalEntry, command_id: int) -> Change | None:
    """Return the change that undoes an entry; None without one."""
    action = _UNDO_ACTION_BY_ACTION.get(entry.action)
    is_recreation = entry.action in ("delete_stream", "delete_consumer")
    is_certainly_done = entry.outcome == "done" or is_recreation or entry.created_at_us is not None
    if (
        action is None
        or entry.outcome == "failed"
        or not is_certainly_done
        or _is_used_creation(entry)
    ):
        return None
    target_json = entry.before_json if is_recreation or entry.action.startswith("edit") else "{}"
    if target_json is None:
        return None
    if entry.action == "pause_consumer":
        paused_until = _paused_until_before(entry)
        if paused_until:
            action, target_json = "pause_consumer", json.dumps({"pause_until": paused_until})
        return Change(
            command_id, action, entry.stream, entry.consumer, target_json, entry.request_json,
            created_at_us=entry.created_at_us,
        )  # fmt: skip
    # Without a reply, the change is undone only if the server has the requested configuration.
    after_json = entry.after_json if entry.outcome == "done" else entry.request_json
    expected_json = after_json if action.startswith("edit") else None
    created_at_us = None if is_recreation else entry.created_at_us
    change = Change(command_id, action, entry.stream, entry.consumer, target_json, expected_json)
    return replace(change, created_at_us=created_at_us)


def _is_used_creation(entry: JournalEntry) -> bool:
    """Return whether an entry created an asset that clients used at once, so that it must stay."""
    is_creation = entry.action in ("create_stream", "create_consumer")
    return is_creation and entry.outcome == "done" and entry.reason is not None


def _paused_until_before(entry: JournalEntry) -> str:
    """Return the end of the earlier pause that a new pause replaced; empty without one."""
    before: Config = json.loads(entry.before_json or "{}")
    return text_at(before, "pause_until")


_LOSS_TEXT_BY_DELETION: dict[JournalAction, str] = {
    "delete_stream": "without its messages and consumers",
    "delete_consumer": "without its delivery state",
}


def recreation_loss_text(entry: JournalEntry) -> str:
    """Return the data that the undo of a deletion cannot restore; empty for other entries."""
    if entry.action not in _LOSS_TEXT_BY_DELETION:
        return ""
    return ": ".join(filter(None, (_LOSS_TEXT_BY_DELETION[entry.action], entry.loses)))


def recreated_copies_text(entry: JournalEntry) -> str:
    """Return a sentence about the replicas that the undo of an edit recreates; empty if none."""
    if entry.action != "edit_stream" or entry.before_json is None:
        return ""
    after_json = entry.after_json or entry.request_json
    count = removed_replicas_count(json.loads(entry.before_json), json.loads(after_json))
    if not count:
        return ""
    pronoun = "it" if count == 1 else "them"
    copies_text = counted(count, "copy")
    return f"the servers make {copies_text} again, and no message was lost with {pronoun}"


def undo_text(entry: JournalEntry) -> str:
    """Return the effect of undoing an entry, as a clause for people."""
    target_text = (
        f"consumer {entry.consumer} on {entry.stream}"
        if entry.consumer
        else (f"stream {entry.stream}")
    )
    if loss_text := recreation_loss_text(entry):
        return f"recreate {target_text}, {loss_text}"
    if entry.action in ("create_stream", "restore_stream", "create_consumer"):
        return f"delete {target_text}"
    if entry.action == "pause_consumer":
        paused_until = _paused_until_before(entry)
        return (
            f"pause {target_text} until {paused_until}"
            if paused_until
            else (f"resume {target_text}")
        )
    text = f"restore the previous configuration of {target_text}"
    return f"{text}, but not what the change removed ({entry.loses})" if entry.loses else text


def entry_text(entry: JournalEntry) -> str:
    """Return the text of any entry, as `pause consumer C on ORDERS`."""
    if is_about_silence(entry):
        return silence_text(entry)
    if is_about_messages(entry):
        return sent_text(entry)
    if entry.action == "benchmark":
        return benchmark_text(entry)
    return change_text(entry.action, entry.stream, entry.consumer)


def entry_command(entry: JournalEntry) -> str:
    """Return the equivalent `nats` command of an entry, or a comment if there is none."""
    if is_about_silence(entry):
        return f"# {silence_text(entry)}"
    if is_about_messages(entry):
        return sent_command(entry)
    if entry.action == "benchmark":
        return f"# {benchmark_text(entry)}"
    if is_about_key(entry):
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
    return shlex.join(["nats", *_cli_arguments(entry, request)])


def _key_command(entry: JournalEntry) -> str:
    """Return the `nats` command of a key's entry; it reads the value from stdin."""
    verb = {"put_key": "put", "delete_key": "del"}.get(entry.action, "purge")
    arguments = ["nats", "kv", verb, entry.stream.removeprefix(KV), entry.consumer or ""]
    return shlex.join([*arguments, *(["--force"] if verb != "put" else [])])


def _object_command(entry: JournalEntry) -> str:
    """Return the `nats` command of an object's entry; it reads the content from stdin."""
    bucket, name = entry.stream.removeprefix(OBJECTS), entry.consumer or ""
    arguments = ["put", bucket, f"--name={name}"] if entry.action == "put_object" else None
    return shlex.join(["nats", "object", *(arguments or ["rm", bucket, name]), "--force"])


def _restore_command(entry: JournalEntry, request: Config) -> str:
    if text_at(request, "stream") != entry.stream:
        return f"# restored as {entry.stream}: the NATS CLI cannot restore under another name"
    replicas = number_at(request, "replicas")
    flags = [f"--replicas={replicas}"] if replicas else []
    return shlex.join(["nats", "stream", "restore", text_at(request, "folder"), *flags])


def _step_down_arguments(entry: JournalEntry, request: Mapping[str, object]) -> list[str]:
    kind = entry.action.removeprefix("step_down_")
    arguments = [entry.stream, entry.consumer or ""]
    names = [argument for argument in arguments if argument] if kind != "meta" else []
    name = text_at(request, "preferred")
    flags = [f"--preferred={name}"] if name else []
    return ["server" if kind == "meta" else kind, "cluster", "step-down", *names, *flags]


def _system_arguments(entry: JournalEntry, request: Mapping[str, object]) -> list[str]:
    """Return the arguments of the `nats` command about a server, peer or connection."""
    if entry.action == "kick_connection":
        number = str(number_at(request, "connection_id"))
        return ["server", "request", "kick", number, text_at(request, "server_id")]
    peer_remove_verb = ["cluster", "peer-remove"]
    if entry.action == "remove_server":
        return ["server", *peer_remove_verb, entry.stream, "--force"]
    return ["stream", *peer_remove_verb, entry.stream, text_at(request, "peer"), "--force"]


def _cli_arguments(entry: JournalEntry, request: Mapping[str, object]) -> list[str]:
    stream, consumer = entry.stream, entry.consumer or ""
    match entry.action:
        case "delete_stream":
            return ["stream", "rm", stream, "--force"]
        case "purge_stream":
            return ["stream", "purge", stream, *_purge_flags(request), "--force"]
        case "delete_message":
            return ["stream", "rmm", stream, str(number_at(request, "seq")), "--force"]
        case "step_down_stream" | "step_down_consumer" | "step_down_meta":
            return _step_down_arguments(entry, request)
        case "remove_peer_stream" | "remove_server" | "kick_connection":
            return _system_arguments(entry, request)
        case "delete_consumer":
            return ["consumer", "rm", stream, consumer, "--force"]
        case "pause_consumer":
            until = format_time(text_at(request, "pause_until"))
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
    values = ((field, read(request, field.path)) for field in CATALOGUE["purge_stream"].arguments)
    return [f"--{field.flag}={value}" for field, value in values if value]
