"""What can be done to streams, consumers and messages: a row each, and how it is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast, get_args

from textual.binding import Binding, BindingType

from natstui.model.assets.fields import Field
from natstui.model.assets.text import parsed
from natstui.model.live.state import State
from natstui.model.records.actions import CATALOGUE, IRREVERSIBLE, OF_CONSUMER
from natstui.model.records.managing import Action, JournalAction
from natstui.units import local_text


class Target(NamedTuple):
    """A stream, or a consumer of it."""

    stream: str
    consumer: str | None = None
    created_at_us: int | None = None
    """When the one was made that is on the screen."""


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """One thing to do, its key, and what it sends; its words and permission follow from that."""

    name: str
    """What a message `Manage` carries: an action of the catalogue, or a form of ours."""
    sends: JournalAction | None = None
    """What the server gets in the end; None for what only reads."""
    key: str = ""
    """Empty: it is found in the list of actions alone."""
    label: str = ""
    """What the footer calls it."""
    id: str = ""
    """What a keymap calls the key."""
    is_shown: bool = False
    """Whether the footer has it."""
    takes: Literal["none", "one", "marked"] = "marked"
    """Whether it needs something under the cursor, and is done to everything marked."""
    says: str = ""
    """What it does, where the catalogue does not say it."""

    @property
    def action(self) -> Action:
        """Return the action that is asked about and sent; only for those with a question."""
        assert self.is_asked
        return cast("Action", self.sends)

    @property
    def is_asked(self) -> bool:
        """Tell whether it is done behind a question, and not by a form or a screen of its own."""
        return self.name == self.sends and self.name in get_args(Action)

    @property
    def needs_consumer(self) -> bool:
        """Return whether a stream alone does not say what it is done to."""
        return self.sends in OF_CONSUMER or self.name in (
            "clone-consumer", "tap", "dead-letters", "clients",
        )  # fmt: skip

    @property
    def word(self) -> str:
        """Return what it is called."""
        return CATALOGUE[self.action].word

    @property
    def help(self) -> str:
        """Return what it does."""
        return CATALOGUE[self.action].help

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return what can be said about it."""
        return CATALOGUE[self.action].arguments

    @property
    def told(self) -> str:
        """Return what it does, in a few words."""
        return self.says or (CATALOGUE[self.sends].help if self.sends else "")

    def binding(self, call: str) -> Binding:
        """Return its key, for a screen whose action `call` does it."""
        return Binding(
            self.key, call, self.label, show=self.is_shown, id=self.id, tooltip=self.told
        )

    def menu(self) -> Binding:
        """Return its key on a screen where it is the first of the actions of a row."""
        return Binding(self.key, "row_actions", "Actions", id=self.id, tooltip=self.told)


_MESSAGES = "stored messages, without a consumer"
_CLONE = "create a new one with the same configuration"
_DEAD = "messages dropped after max deliver, and sending them again"
_TAP = "count acks, naks and terms for a while"
_CLIENTS = "the clients, with their connections"
_PUBLISHERS = "the publishing clients, with their connections"
_PULL = ActionSpec("pull", "pull", "N", "Pull next", "pull.next_of", takes="one")
UNDO = ActionSpec(
    "undo", None, "u", "Undo", "undo", takes="none",
    says="undo the last change, as far as possible",
)  # fmt: skip

ADD_STREAM = ActionSpec("add-stream", "create_stream", "a", "Add", "stream.add", True, "none")
ADD_CONSUMER = ActionSpec(
    "add-consumer", "create_consumer", "a", "Add", "consumer.add", True, "none"
)  # fmt: skip

STREAM_ACTIONS = (
    ADD_STREAM,
    ActionSpec("edit-stream", "edit_stream", "e", "Edit", "stream.edit", True, "one"),
    ActionSpec("messages", None, "m", "Messages", "stream.messages", True, "one", _MESSAGES),
    ActionSpec(
        "clone-stream", "create_stream", "A", "Clone", "stream.clone", False, "one", _CLONE
    ),
    ActionSpec(
        "publishers", None, "W", "Who publishes", "stream.publishers", False, "one", _PUBLISHERS
    ),
    ActionSpec("purge_stream", "purge_stream", "P", "Purge", "stream.purge"),
    ActionSpec("delete_stream", "delete_stream", "ctrl+d", "Delete", "stream.delete"),
    ActionSpec("step_down_stream", "step_down_stream"),
    ActionSpec("remove_peer_stream", "remove_peer_stream"),
    _PULL,
    UNDO,
)  # fmt: skip

CONSUMER_ACTIONS = (
    ADD_CONSUMER,
    ActionSpec("edit-consumer", "edit_consumer", "e", "Edit", "consumer.edit", True, "one"),
    ActionSpec("messages", None, "m", "Messages", "consumer.messages", True, "one", _MESSAGES),
    ActionSpec(
        "dead-letters", None, "D", "Dead letters", "consumer.dead", False, "one", _DEAD
    ),
    ActionSpec("tap", None, "T", "Tap acks", "consumer.tap", False, "one", _TAP),
    ActionSpec("clients", None, "W", "Who holds it", "consumer.clients", False, "one", _CLIENTS),
    ActionSpec(
        "clone-consumer", "create_consumer", "A", "Clone", "consumer.clone", False, "one", _CLONE
    ),
    ActionSpec("pause_consumer", "pause_consumer"),
    ActionSpec("resume_consumer", "resume_consumer"),
    ActionSpec("reset_consumer", "reset_consumer"),
    ActionSpec("unpin_consumer", "unpin_consumer"),
    ActionSpec("step_down_consumer", "step_down_consumer"),
    ActionSpec("delete_consumer", "delete_consumer", "ctrl+d", "Delete", "consumer.delete"),
    _PULL,
    UNDO,
)  # fmt: skip

PUBLISH = ActionSpec("publish", "publish", "w", "Publish", "msg.write", True, "one")
PUBLISH_AGAIN = ActionSpec("publish-again", "publish", "x", "Re-publish", "msg.again", takes="one")
PUBLISH_THIS = ActionSpec(
    "publish-again", "publish", "x", "Re-publish", "message.again", True, "one"
)
SEND_AGAIN = ActionSpec(
    "send-again", "publish", "x", "Send again", "dead.again", True, "marked",
    "publish them again, to their own subject or another",
)  # fmt: skip
PULL_NEXT = ActionSpec("pull", "pull", "N", "Pull next", "msg.pull", takes="one")
DELETE_MESSAGE = ActionSpec(
    "delete_message",
    "delete_message",
    "ctrl+d",
    "Delete",
    "msg.delete",
)

MESSAGE_ACTIONS = (PUBLISH, PUBLISH_AGAIN, SEND_AGAIN, PULL_NEXT, DELETE_MESSAGE)

PUT_KEY = ActionSpec("put-key", "put_key", "a", "Put", "key.put", True, "none")
KEY_ACTIONS = (
    PUT_KEY,
    ActionSpec("edit-key", "put_key", "e", "Edit", "key.edit", True, "one"),
    ActionSpec("delete_key", "delete_key", "ctrl+d", "Delete", "key.delete", True, "one"),
    ActionSpec("purge_key", "purge_key", "P", "Purge", "key.purge", takes="one"),
)
REVERT = ActionSpec("revert-key", "put_key", "x", "Revert", "key.revert", True, "one")
ADD_BUCKET = ActionSpec(
    "add-bucket", "create_stream", "a", "Add", "bucket.add", True, "none",
    "create a key-value bucket or an object store",
)  # fmt: skip
PUT_OBJECT = ActionSpec("put-object", "put_object", "a", "Put", "object.put", True, "none")
LINK_OBJECT = ActionSpec("link-object", "link_object", "L", "Link", "object.link", True, "one")
SEAL_STORE = ActionSpec(
    "seal-store", "edit_stream", "S", "Seal", "object.seal", True, "none",
    "for ever: nothing can be stored or removed any more",
)  # fmt: skip
DELETE_OBJECT = ActionSpec(
    "delete_object", "delete_object", "ctrl+d", "Delete", "object.delete", True, "one"
)

KICK = ActionSpec(
    "kick_connection", "kick_connection", "K", "Kick", "connection.kick", True, "one"
)
REMOVE_SERVER = ActionSpec(
    "remove_server", "remove_server", "ctrl+d", "Remove", "server.remove", True, "none"
)

SPECS: Mapping[str, ActionSpec] = {
    spec.name: spec
    for spec in (
        *STREAM_ACTIONS,
        *CONSUMER_ACTIONS,
        *MESSAGE_ACTIONS,
        *KEY_ACTIONS,
        REVERT,
        ADD_BUCKET,
        PUT_OBJECT,
        LINK_OBJECT,
        SEAL_STORE,
        DELETE_OBJECT,
        KICK,
        REMOVE_SERVER,
    )
}


def manage_keys(kind: Literal["stream", "consumer"]) -> list[BindingType]:
    """Return the keys of a screen whose rows are streams or consumers; the footer's come first."""
    specs = STREAM_ACTIONS if kind == "stream" else CONSUMER_ACTIONS
    keys = [
        spec.binding(f"part('managing', 'manage', '{spec.name}')") for spec in specs if spec.key
    ]
    more = Binding("x", f"part('managing', 'actions', '{kind}')", "Actions", id=f"{kind}.actions")
    return [*(key for key in keys if key.show), more, *(key for key in keys if not key.show)]


def word_to_type(spec: ActionSpec, targets: Sequence[Target], production: bool) -> str | None:
    """Return what has to be typed before it is done: the name, or how many; None for nothing."""
    if spec.action not in IRREVERSIBLE and not production:
        return None
    return name_of(targets[0]) if len(targets) == 1 else f"{spec.word} {len(targets)}"


def name_of(target: Target) -> str:
    """Return the name of what is changed."""
    return target.consumer or target.stream


def targets_text(targets: Sequence[Target]) -> str:
    """Return the targets, one per line."""
    lines = [
        f"{target.stream} › {target.consumer}" if target.consumer else target.stream
        for target in targets
    ]
    return "\n".join(lines)


def arguments(spec: ActionSpec, texts: Mapping[str, str]) -> dict[str, object]:
    """Return what the fields say; raises ValueError with a sentence."""
    values = {field.path: parsed(field, texts.get(field.path, "")) for field in spec.fields}
    return {path: value for path, value in values.items() if value is not None}


def made_at_us(state: State, target: Target) -> int | None:
    """Return when the one was made that has the name now; None when there is none.

    Cheap for one that is still the same: its creation time is in `target`.
    """
    table = state.consumers if target.consumer is not None else state.streams
    name = (target.stream,) if target.consumer is None else (target.stream, target.consumer)
    if target.created_at_us is not None and (*name, target.created_at_us) in table.roster.row_of:
        return target.created_at_us
    rows = table.roster.rows_of_stream.get(target.stream, ())
    keys = (table.roster.keys[row] for row in reversed(rows))
    return next((int(key[-1]) for key in keys if key[:-1] == name), None)


def replaced_text(state: State, target: Target) -> str:
    """Return whether it was deleted or recreated since it was opened; empty if not."""
    now_us = made_at_us(state, target)
    if target.created_at_us is None or now_us == target.created_at_us:
        return ""
    kind = "stream" if target.consumer is None else "consumer"
    what = f"{kind} {target.consumer or target.stream}"
    if now_us is None:
        return f"{what} was deleted: this screen shows its last state"
    return f"{what} was recreated at {local_text(now_us)}: this screen shows the old one"
