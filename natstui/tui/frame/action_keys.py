"""Actions on streams, consumers and messages: a row each, with key, prompt and permission."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast, get_args

from textual.binding import Binding, BindingType

from natstui.clean import clean_line
from natstui.model.assets.fields import Field
from natstui.model.assets.text import parse_field
from natstui.model.live.permissions import may_publish_some
from natstui.model.live.state import State
from natstui.model.records.actions import CATALOGUE, IRREVERSIBLE, OF_CONSUMER
from natstui.model.records.managing import Action, JournalAction
from natstui.units import local_text


class Target(NamedTuple):
    """A stream, or a consumer of it."""

    stream: str
    consumer: str | None = None
    created_at_us: int | None = None
    """Creation time of the stream or consumer on the screen."""
    seen_seq: int | None = None
    """Sequence of a message on the screen."""
    seen_at_us: int | None = None
    """When that message was stored."""


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """An action with its key and the request it sends; its texts and permission follow
    from that.
    """

    name: str
    """Name in a `Manage` message: an action of the catalogue, or a form of natstui."""
    sends: JournalAction | None = None
    """What the server receives in the end; None for actions that only read."""
    key: str = ""
    """The key; empty for actions that are only in the actions menu."""
    label: str = ""
    """Label in the footer."""
    id: str = ""
    """Id of the key in a keymap."""
    is_shown: bool = False
    """Whether the footer shows it."""
    takes: Literal["none", "one", "marked"] = "marked"
    """Which rows it needs: none, the one under the cursor, or all marked ones."""
    says: str = ""
    """Help text, for actions that are not in the catalogue."""

    @property
    def action(self) -> Action:
        """Return the catalogue's action; only for actions with a prompt."""
        assert self.is_asked
        return cast("Action", self.sends)

    @property
    def is_asked(self) -> bool:
        """Return whether the action is confirmed in a prompt, not in a form or screen of
        its own.
        """
        return self.name == self.sends and self.name in get_args(Action)

    @property
    def needs_consumer(self) -> bool:
        """Return whether the action needs a consumer as its target, not only a stream."""
        return self.sends in OF_CONSUMER or self.name in (
            "clone-consumer", "tap", "dead-letters", "clients",
        )  # fmt: skip

    @property
    def word(self) -> str:
        """Return the name of the action for people."""
        return CATALOGUE[self.action].word

    @property
    def help(self) -> str:
        """Return the help text of the action."""
        return CATALOGUE[self.action].help

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return the fields of the action's prompt."""
        return CATALOGUE[self.action].arguments

    @property
    def told(self) -> str:
        """Return a short help text of the action."""
        return self.says or (CATALOGUE[self.sends].help if self.sends else "")

    def binding(self, call: str) -> Binding:
        """Return the binding of the key, for a screen whose action `call` executes it."""
        return Binding(
            self.key, call, self.label, show=self.is_shown, id=self.id, tooltip=self.told
        )

    def menu(self) -> Binding:
        """Return the binding on screens where the key opens the list of actions of a row."""
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


def read_only(state: State) -> str:
    """Return why the engine refuses all writes; empty if it allows them."""
    engine_started = state.started
    if engine_started is None or not engine_started.read_only:
        return ""
    if engine_started.account is not None:
        return (
            f"read-only: the account {clean_line(engine_started.account)} is watched through the "
            "system account"
        )
    return "read-only"


def not_allowed(state: State) -> str:
    """Return the reason to show for actions that are not allowed."""
    return read_only(state) or "you have no permission for this"


def allowed(state: State, action: str) -> bool:
    """Return whether an action is allowed; actions that send nothing always are.

    For a consumer with one filter, the filter follows its name in the subject, so that permissions
    may be for that filter; the default prefix represents every other one.
    """
    spec = SPECS.get(action)
    if spec is not None and state.started is not None and state.started.account is not None:
        # Not even read: the API that we reach is that of our own account.
        return False
    if spec is None or spec.sends is None:
        return True
    verb = CATALOGUE[spec.sends].verb
    return not read_only(state) and (
        not verb or may_publish_some(state.permitted, f"$JS.API.{verb}")
    )


def manage_keys(kind: Literal["stream", "consumer"]) -> list[BindingType]:
    """Return the bindings of a screen of streams or consumers; those in the footer come first."""
    specs = STREAM_ACTIONS if kind == "stream" else CONSUMER_ACTIONS
    keys = [
        spec.binding(f"part('managing', 'manage', '{spec.name}')") for spec in specs if spec.key
    ]
    actions_binding = Binding(
        "x", f"part('managing', 'actions', '{kind}')", "Actions", id=f"{kind}.actions"
    )
    return [
        *(key for key in keys if key.show),
        actions_binding,
        *(key for key in keys if not key.show),
    ]


def word_to_type(spec: ActionSpec, targets: Sequence[Target], production: bool) -> str | None:
    """Return the text to type before the action: the name, or the number of targets; None for no
    text.
    """
    if spec.action not in IRREVERSIBLE and not production:
        return None
    return name_of(targets[0]) if len(targets) == 1 else f"{spec.word} {len(targets)}"


def name_of(target: Target) -> str:
    """Return the name of the stream or consumer to change."""
    return target.consumer or target.stream


def targets_text(targets: Sequence[Target]) -> str:
    """Return the targets, one per line."""
    lines = [
        f"{target.stream} › {target.consumer}" if target.consumer else target.stream
        for target in targets
    ]
    return "\n".join(lines)


def arguments(spec: ActionSpec, texts: Mapping[str, str]) -> dict[str, object]:
    """Return the action's arguments from the texts of its fields; raises ValueError with a
    sentence.
    """
    values = {field.path: parse_field(field, texts.get(field.path, "")) for field in spec.fields}
    return {path: value for path, value in values.items() if value is not None}


def made_at_us(state: State, target: Target) -> int | None:
    """Return the creation time of the target with this name now; None when there is none.

    Cheap for an unchanged one: its creation time is in `target`.
    """
    table = state.consumers if target.consumer is not None else state.streams
    name = (target.stream,) if target.consumer is None else (target.stream, target.consumer)
    if target.created_at_us is not None and (*name, target.created_at_us) in table.roster.row_of:
        return target.created_at_us
    rows = table.roster.rows_of_stream.get(target.stream, ())
    keys = (table.roster.keys[row] for row in reversed(rows))
    return next((int(key[-1]) for key in keys if key[:-1] == name), None)


def replaced_text(state: State, target: Target) -> str:
    """Return that the target was deleted or recreated since it was opened; empty if not."""
    now_us = made_at_us(state, target)
    if target.created_at_us is None or now_us == target.created_at_us:
        return ""
    kind = "stream" if target.consumer is None else "consumer"
    target_text = f"{kind} {target.consumer or target.stream}"
    if now_us is None:
        return f"{target_text} was deleted: this screen shows its last state"
    return f"{target_text} was recreated at {local_text(now_us)}: this screen shows the old one"
