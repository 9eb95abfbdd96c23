"""Actions on streams, consumers and messages: a row each, with key, prompt and permission."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, cast, get_args

from msgspec import Struct
from textual.binding import Binding, BindingType

from natstui.clean import clean_line
from natstui.model.assets.fields import Field
from natstui.model.assets.text import parse_field
from natstui.model.keys import DEFAULT_KEYS
from natstui.model.live.permissions import may_publish_some
from natstui.model.live.state import State
from natstui.model.records.actions import ACTIONS_ON_CONSUMER, CATALOGUE, IRREVERSIBLE_ACTIONS
from natstui.model.records.managing import Action, JournalAction
from natstui.units import local_text


class Target(NamedTuple):
    """The stream, consumer or stored message that an action changes."""

    stream: str
    consumer: str | None = None
    created_at_us: int | None = None
    """Creation time of the stream or consumer that the screen shows."""
    message_seq: int | None = None
    """Sequence of the message that the screen shows."""
    message_stored_at_us: int | None = None
    """Time when that message was stored."""


class ActionSpec(Struct, frozen=True):
    """An action, and the change that it sends, which determines its texts and permission."""

    name: str
    """Name in a `Manage` message: an action of the catalogue, or a form of natstui."""
    sent_action: JournalAction | None = None
    """The change that the server receives; None for actions that only read."""
    label: str = ""
    """Label in the footer."""
    id: str = ""
    """Id of the key in a keymap."""
    is_shown: bool = False
    """Whether the footer shows the key."""
    target_rows: Literal["none", "one", "marked"] = "marked"
    """The rows that the action needs: none, the row under the cursor, or all marked rows."""
    help_outside_catalogue: str = ""
    """Help text of an action that is not in the catalogue."""

    @property
    def key(self) -> str:
        """Return the default key; empty for actions that are only in the actions menu."""
        return DEFAULT_KEYS.get(self.id, "")

    @property
    def action(self) -> Action:
        """Return the action of the catalogue; only for actions with a prompt."""
        assert self.has_prompt
        return cast("Action", self.sent_action)

    @property
    def has_prompt(self) -> bool:
        """Return whether the action is confirmed in a prompt, not in its own form or screen."""
        return self.name == self.sent_action and self.name in get_args(Action)

    @property
    def needs_consumer(self) -> bool:
        """Return whether the action needs a consumer as its target, not only a stream."""
        return self.sent_action in ACTIONS_ON_CONSUMER or self.name in (
            "clone-consumer", "tap", "dead-letters", "clients",
        )  # fmt: skip

    @property
    def word(self) -> str:
        """Return the name of the action for users."""
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
    def short_help(self) -> str:
        """Return the help text of the action, also if it is not in the catalogue; empty without
        one.
        """
        return self.help_outside_catalogue or (
            CATALOGUE[self.sent_action].help if self.sent_action else ""
        )

    def binding(self, call: str) -> Binding:
        """Return the binding of the key on a screen; `call` is the screen's action to execute."""
        return Binding(
            self.key, call, self.label, show=self.is_shown, id=self.id, tooltip=self.short_help
        )

    def menu_binding(self) -> Binding:
        """Return the binding for screens where the key opens the list of a row's actions."""
        return Binding(self.key, "row_actions", "Actions", id=self.id, tooltip=self.short_help)


_MESSAGES_HELP = "stored messages, without a consumer"
_CLONE_HELP = "create a new one with the same configuration"
_DEAD_LETTERS_HELP = "messages dropped after max deliver, and sending them again"
_TAP_HELP = "count acks, naks and terms for a while"
_CLIENTS_HELP = "the clients, with their connections"
_PUBLISHERS_HELP = "the publishing clients, with their connections"
_PULL_FROM_CONSUMER = ActionSpec("pull", "pull", "Pull next", "pull.next_of", target_rows="one")
UNDO = ActionSpec(
    "undo", None, "Undo", "undo", target_rows="none",
    help_outside_catalogue="undo the last change, as far as possible",
)  # fmt: skip

ADD_STREAM = ActionSpec("add-stream", "create_stream", "Add", "stream.add", True, "none")
ADD_CONSUMER = ActionSpec(
    "add-consumer", "create_consumer", "Add", "consumer.add", True, "none"
)  # fmt: skip

STREAM_ACTIONS = (
    ADD_STREAM,
    ActionSpec("edit-stream", "edit_stream", "Edit", "stream.edit", True, "one"),
    ActionSpec("messages", None, "Messages", "stream.messages", True, "one", _MESSAGES_HELP),
    ActionSpec(
        "clone-stream", "create_stream", "Clone", "stream.clone", False, "one", _CLONE_HELP
    ),
    ActionSpec(
        "publishers",
        None,
        "Who publishes",
        "stream.publishers",
        False,
        "one",
        _PUBLISHERS_HELP,
    ),
    ActionSpec("purge_stream", "purge_stream", "Purge", "stream.purge"),
    ActionSpec("delete_stream", "delete_stream", "Delete", "stream.delete"),
    ActionSpec("step_down_stream", "step_down_stream"),
    ActionSpec("remove_peer_stream", "remove_peer_stream"),
    _PULL_FROM_CONSUMER,
    UNDO,
)  # fmt: skip

CONSUMER_ACTIONS = (
    ADD_CONSUMER,
    ActionSpec("edit-consumer", "edit_consumer", "Edit", "consumer.edit", True, "one"),
    ActionSpec(
        "messages", None, "Messages", "consumer.messages", True, "one", _MESSAGES_HELP
    ),
    ActionSpec(
        "dead-letters",
        None,
        "Dead letters",
        "consumer.dead",
        False,
        "one",
        _DEAD_LETTERS_HELP,
    ),
    ActionSpec("tap", None, "Tap acks", "consumer.tap", False, "one", _TAP_HELP),
    ActionSpec(
        "clients", None, "Who holds it", "consumer.clients", False, "one", _CLIENTS_HELP
    ),
    ActionSpec(
        "clone-consumer",
        "create_consumer",
        "Clone",
        "consumer.clone",
        False,
        "one",
        _CLONE_HELP,
    ),
    ActionSpec("pause_consumer", "pause_consumer"),
    ActionSpec("resume_consumer", "resume_consumer"),
    ActionSpec("reset_consumer", "reset_consumer"),
    ActionSpec("unpin_consumer", "unpin_consumer"),
    ActionSpec("step_down_consumer", "step_down_consumer"),
    ActionSpec("delete_consumer", "delete_consumer", "Delete", "consumer.delete"),
    _PULL_FROM_CONSUMER,
    UNDO,
)  # fmt: skip

PUBLISH = ActionSpec("publish", "publish", "Publish", "msg.write", True, "one")
PUBLISH_AGAIN = ActionSpec(
    "publish-again", "publish", "Re-publish", "msg.again", target_rows="one"
)
PUBLISH_OPEN_MESSAGE_AGAIN = ActionSpec(
    "publish-again", "publish", "Re-publish", "message.again", True, "one"
)
SEND_AGAIN = ActionSpec(
    "send-again", "publish", "Send again", "dead.again", True, "marked",
    "publish them again, to their own subject or another",
)  # fmt: skip
PULL_NEXT = ActionSpec("pull", "pull", "Pull next", "msg.pull", target_rows="one")
DELETE_MESSAGE = ActionSpec(
    "delete_message",
    "delete_message",
    "Delete",
    "msg.delete",
)

MESSAGE_ACTIONS = (PUBLISH, PUBLISH_AGAIN, SEND_AGAIN, PULL_NEXT, DELETE_MESSAGE)

PUT_KEY = ActionSpec("put-key", "put_key", "Put", "key.put", True, "none")
KEY_ACTIONS = (
    PUT_KEY,
    ActionSpec("edit-key", "put_key", "Edit", "key.edit", True, "one"),
    ActionSpec("delete_key", "delete_key", "Delete", "key.delete", True, "one"),
    ActionSpec("purge_key", "purge_key", "Purge", "key.purge", target_rows="one"),
)
REVERT_KEY = ActionSpec("revert-key", "put_key", "Revert", "key.revert", True, "one")
ADD_BUCKET = ActionSpec(
    "add-bucket", "create_stream", "Add", "bucket.add", True, "none",
    "create a key-value bucket or an object store",
)  # fmt: skip
PUT_OBJECT = ActionSpec("put-object", "put_object", "Put", "object.put", True, "none")
LINK_OBJECT = ActionSpec("link-object", "link_object", "Link", "object.link", True, "one")
SEAL_STORE = ActionSpec(
    "seal-store", "edit_stream", "Seal", "object.seal", True, "none",
    "for ever: nothing can be stored or removed any more",
)  # fmt: skip
DELETE_OBJECT = ActionSpec(
    "delete_object", "delete_object", "Delete", "object.delete", True, "one"
)

KICK_CONNECTION = ActionSpec(
    "kick_connection", "kick_connection", "Kick", "connection.kick", True, "one"
)
REMOVE_SERVER = ActionSpec(
    "remove_server", "remove_server", "Remove", "server.remove", True, "none"
)

SPECS: Mapping[str, ActionSpec] = {
    spec.name: spec
    for spec in (
        *STREAM_ACTIONS,
        *CONSUMER_ACTIONS,
        *MESSAGE_ACTIONS,
        *KEY_ACTIONS,
        REVERT_KEY,
        ADD_BUCKET,
        PUT_OBJECT,
        LINK_OBJECT,
        SEAL_STORE,
        DELETE_OBJECT,
        KICK_CONNECTION,
        REMOVE_SERVER,
    )
}


def read_only_reason(state: State) -> str:
    """Return the reason why the engine refuses all writes; empty if it allows writes."""
    engine_started = state.started
    if engine_started is None or not engine_started.read_only:
        return ""
    if engine_started.account is not None:
        return (
            f"read-only: the account {clean_line(engine_started.account)} is watched through the "
            "system account"
        )
    return "read-only"


def refusal_text(state: State) -> str:
    """Return the reason to show for actions that are not allowed."""
    return read_only_reason(state) or "you have no permission for this"


def is_allowed(state: State, action: str) -> bool:
    """Return whether the permissions allow an action, as far as known; reading is allowed.

    For a consumer with one filter, the API subject ends with the filter, and permissions may be
    for some filters only: then the action is allowed. Other API prefixes are not checked.
    """
    spec = SPECS.get(action)
    if spec is not None and state.started is not None and state.started.account is not None:
        # Not even reading: the reachable API is that of the own account.
        return False
    if spec is None or spec.sent_action is None:
        return True
    api_verb = CATALOGUE[spec.sent_action].verb
    return not read_only_reason(state) and (
        not api_verb or may_publish_some(state.permitted, f"$JS.API.{api_verb}")
    )


def action_bindings(kind: Literal["stream", "consumer"]) -> list[BindingType]:
    """Return the bindings of actions on streams or consumers; keys in the footer come first."""
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


def text_to_type(spec: ActionSpec, targets: Sequence[Target], is_production: bool) -> str | None:
    """Return the text that the user must type before an action: the name of the single target, or
    the number of targets; None if no text is needed.
    """
    if spec.action not in IRREVERSIBLE_ACTIONS and not is_production:
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


def parse_arguments(spec: ActionSpec, texts: Mapping[str, str]) -> dict[str, object]:
    """Return the arguments of an action, parsed from the texts of its fields; raises ValueError
    with a sentence for a text that is not valid.
    """
    values = {field.path: parse_field(field, texts.get(field.path, "")) for field in spec.fields}
    return {path: value for path, value in values.items() if value is not None}


def find_created_at_us(state: State, target: Target) -> int | None:
    """Return the creation time in Unix µs of the stream or consumer that now has the target's
    name; None if there is none.

    The search is fast if the target still exists.
    """
    table = state.consumers if target.consumer is not None else state.streams
    name = (target.stream,) if target.consumer is None else (target.stream, target.consumer)
    if target.created_at_us is not None and (*name, target.created_at_us) in table.roster.row_of:
        return target.created_at_us
    rows = table.roster.rows_of_stream.get(target.stream, ())
    keys = (table.roster.keys[row] for row in reversed(rows))
    return next((int(key[-1]) for key in keys if key[:-1] == name), None)


def replacement_text(state: State, target: Target) -> str:
    """Return a sentence if the target was deleted or recreated since the screen was opened, else
    an empty text.
    """
    current_created_at_us = find_created_at_us(state, target)
    if target.created_at_us is None or current_created_at_us == target.created_at_us:
        return ""
    kind = "stream" if target.consumer is None else "consumer"
    target_text = f"{kind} {target.consumer or target.stream}"
    if current_created_at_us is None:
        return f"{target_text} was deleted: this screen shows its last state"
    time_text = local_text(current_created_at_us)
    return f"{target_text} was recreated at {time_text}: this screen shows the old one"
