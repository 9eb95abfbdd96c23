"""The catalogue of actions on a server: labels, arguments, API verbs and irreversibility."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from natstui.model.assets.buckets import KV, OBJECTS
from natstui.model.assets.fields import Field
from natstui.model.records.managing import Change, JournalAction

DataLoss = Literal["always", "sometimes", "never"]


class ActionTraits(Struct, frozen=True):
    """The texts, API verb, loss of data, command and arguments of a kind of change on a server."""

    word: str
    help: str
    verb: str
    """API verb of the request, below the prefix; empty for a subject of the user."""
    removes: DataLoss
    """Whether the action deletes or overwrites data for good; `sometimes`: losses are counted."""
    command: str = ""
    """The equivalent command of natstui without its arguments; empty without one."""
    related_commands: tuple[str, ...] = ()
    """Other commands that include the action, or do a part of it."""
    arguments: tuple[Field, ...] = ()
    """The arguments of the action; `flag` is the option of the `nats` command."""


_PURGE_FIELDS = (
    Field(
        "filter", "Subject", "subject", "", "Only messages of this subject or filter.",
        flag="subject",
    ),
    Field(
        "seq", "Before sequence", "count", "", "Only messages before this sequence.", flag="seq"
    ),
    Field("keep", "Keep newest", "count", "", "How many of the newest messages to keep.",
        flag="keep"),
)  # fmt: skip
_SEQUENCE_FIELD = Field("seq", "Sequence", "count", "", "The message to delete.")
_PAUSE_UNTIL_FIELD = Field(
    "pause_until", "Pause until", "text", "", "A time, or a duration as 1h30m."
)
_FROM_SEQUENCE_FIELD = Field(
    "seq", "From sequence", "count", "", "The sequence to start from; empty: the ack floor."
)
_PREFERRED_LEADER_FIELD = Field(
    "preferred", "To server", "text", "", "The next leader; empty: the replicas elect one.",
    flag="preferred",
)  # fmt: skip
_PEER_FIELD = Field(
    "peer", "Server", "text", "", "The server whose replica is removed.",
    flag="peer",
)  # fmt: skip
_PRIORITY_GROUP_FIELD = Field("group", "Group", "text", "", "The priority group to unpin.")

CATALOGUE: Mapping[JournalAction, ActionTraits] = {
    "create_stream": ActionTraits(
        "make",
        "make a stream",
        "STREAM.CREATE.*",
        "never",
        "stream add",
        ("stream copy", "kv add", "object add"),
    ),
    "edit_stream": ActionTraits(
        "change",
        "change it",
        "STREAM.UPDATE.*",
        "sometimes",
        "stream edit",
        ("stream seal", "stream scale", "stream move", "object seal"),
    ),
    "delete_stream": ActionTraits(
        "delete",
        "delete it with its messages and consumers",
        "STREAM.DELETE.*",
        "always",
        "stream rm",
        ("kv rm",),
    ),
    "purge_stream": ActionTraits(
        "purge",
        "remove messages: all, of a subject, or old ones",
        "STREAM.PURGE.*",
        "always",
        "stream purge",
        arguments=_PURGE_FIELDS,
    ),
    "delete_message": ActionTraits(
        "delete message",
        "delete one message",
        "STREAM.MSG.DELETE.*",
        "always",
        "stream rmm",
        arguments=(_SEQUENCE_FIELD,),
    ),
    "step_down_stream": ActionTraits(
        "step down",
        "elect another leader",
        "STREAM.LEADER.STEPDOWN.*",
        "never",
        "stream step-down",
        ("balance",),
        arguments=(_PREFERRED_LEADER_FIELD,),
    ),
    "remove_peer_stream": ActionTraits(
        "remove peer",
        "remove the copy on one server, and create a new one on another",
        "STREAM.PEER.REMOVE.*",
        "always",
        "stream peer-remove",
        arguments=(_PEER_FIELD,),
    ),
    "restore_stream": ActionTraits(
        "restore",
        "create a stream from a backup",
        "STREAM.RESTORE.*",
        "never",
        "stream restore",
        ("restore",),
    ),
    "create_consumer": ActionTraits(
        "make",
        "make a consumer",
        "CONSUMER.CREATE.*.>",
        "never",
        "consumer add",
        ("consumer copy",),
    ),
    "edit_consumer": ActionTraits(
        "change", "change it", "CONSUMER.CREATE.*.>", "sometimes", "consumer edit"
    ),
    "delete_consumer": ActionTraits(
        "delete",
        "delete the consumer and its delivery state",
        "CONSUMER.DELETE.*.*",
        "always",
        "consumer rm",
    ),
    "pause_consumer": ActionTraits(
        "pause",
        "deliver nothing for a while",
        "CONSUMER.PAUSE.*.*",
        "never",
        "consumer pause",
        arguments=(_PAUSE_UNTIL_FIELD,),
    ),
    "resume_consumer": ActionTraits(
        "resume", "deliver again", "CONSUMER.PAUSE.*.*", "never", "consumer resume"
    ),
    "reset_consumer": ActionTraits(
        "reset",
        "deliver again from a sequence",
        "CONSUMER.RESET.*.*",
        "always",
        "consumer reset",
        arguments=(_FROM_SEQUENCE_FIELD,),
    ),
    "unpin_consumer": ActionTraits(
        "unpin",
        "unpin the client, so that another one receives",
        "CONSUMER.UNPIN.*.*",
        "never",
        "consumer unpin",
        arguments=(_PRIORITY_GROUP_FIELD,),
    ),
    "step_down_consumer": ActionTraits(
        "step down",
        "elect another leader",
        "CONSUMER.LEADER.STEPDOWN.*.*",
        "never",
        "consumer step-down",
        ("balance",),
        arguments=(_PREFERRED_LEADER_FIELD,),
    ),
    "put_key": ActionTraits(
        "put",
        "set a key to a new value",
        "",
        "sometimes",
        "kv put",
        ("kv create",),
    ),
    "delete_key": ActionTraits("delete", "delete a key", "", "sometimes", "kv del"),
    "purge_key": ActionTraits("purge", "delete a key with its history", "", "always", "kv purge"),
    "put_object": ActionTraits("put", "store a file", "", "sometimes", "object put"),
    "link_object": ActionTraits("link", "link a name to a file", "", "never", "object link"),
    "delete_object": ActionTraits("delete", "delete a file", "", "always", "object rm"),
    "step_down_meta": ActionTraits(
        "step down",
        "let another server lead the meta group",
        "META.LEADER.STEPDOWN",
        "never",
        "meta step-down",
        arguments=(_PREFERRED_LEADER_FIELD,),
    ),
    "kick_connection": ActionTraits(
        "kick", "close the connection of a client, which may reconnect", "", "always", "kick"
    ),
    "remove_server": ActionTraits(
        "remove server",
        "remove a server that will not come back from the meta group",
        "SERVER.REMOVE",
        "always",
        "meta peer-remove",
    ),
    "publish": ActionTraits(
        "publish",
        "store a message, or roll up the earlier ones",
        "",
        "sometimes",
        "pub",
        ("messages copy",),
    ),
    "request": ActionTraits(
        "request", "send a request and show the first reply", "", "sometimes", "request"
    ),
    "reply": ActionTraits("reply", "answer requests", "", "never", "reply"),
    "pull": ActionTraits(
        "pull",
        "receive the next message",
        "CONSUMER.MSG.NEXT.*.*",
        "never",
        "consumer next",
        ("consumer sub", "sub"),
    ),
    "answer": ActionTraits("answer", "acknowledge a message", "", "never"),
    "benchmark": ActionTraits(
        "benchmark", "publish to existing streams, or consume from them", "", "sometimes"
    ),
}
"""Action → properties, for permissions, confirmations, keys and tests of losses."""

ACTIONS_ON_CONSUMER = frozenset(name for name in CATALOGUE if name.endswith("_consumer")) - {
    "create_consumer"
}
"""Actions on an existing consumer."""
IRREVERSIBLE_ACTIONS = frozenset(
    name for name, traits in CATALOGUE.items() if traits.removes == "always"
)
"""Actions that always delete data for good: confirmed by typing the name of the target."""


def change_text(action: JournalAction, stream: str, consumer: str | None) -> str:
    """Return the text of an action with its target, as `pause consumer C on S`."""
    verb, _, object_kind = action.partition("_")
    if object_kind in ("key", "object"):
        bucket = stream.removeprefix(KV if object_kind == "key" else OBJECTS)
        return f"{verb} {object_kind} {consumer} of {bucket}"
    if action == "remove_peer_stream":
        return f"remove a peer of stream {stream}"
    if action == "delete_message":
        return f"delete a message of stream {stream}"
    if action.startswith("step_down"):
        verb, object_kind = "step down", action.removeprefix("step_down_")
    if action == "create_consumer" and not consumer:
        return f"create a consumer on {stream}"
    return f"{verb} {object_kind} {f'{consumer} on {stream}' if consumer else stream}"


def confirmation_text(change: Change, loss_text: str) -> str:
    """Return the text to confirm before a change: action, target and losses."""
    text = f"this will {change_text(change.action, change.stream, change.consumer)}"
    if change.action == "delete_message":
        seq = json.loads(change.body_json).get("seq")
        text = f"this will delete message {seq} of stream {change.stream}"
    return f"{text}: {loss_text}" if loss_text else text
