"""What can be done to streams and consumers besides configuring them, and how it is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from natstui.model.config_field import Field
from natstui.model.config_text import parsed
from natstui.model.manage import IRREVERSIBLE, Action

Target = tuple[str, str | None]
"""Stream, and consumer of it."""


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """One action, its words, and what has to be told."""

    action: Action
    word: str
    help: str
    fields: tuple[Field, ...] = ()


_SEQ = Field("seq", "Before sequence", "count", "", "Only messages before this sequence.")
_FROM = Field("seq", "From sequence", "count", "", "Empty begins again at the ack floor.")

STREAM_ACTIONS = (
    ActionSpec(
        "purge_stream", "purge", "remove messages: all, of a subject, or old ones",
        (
            Field("filter", "Subject", "subject", "", "Only messages of this subject or filter."),
            _SEQ,
            Field("keep", "Keep newest", "count", "", "All but the newest so many."),
        ),
    ),
    ActionSpec("delete_stream", "delete", "delete it with its messages and consumers"),
    ActionSpec("step_down_stream", "step down", "let it elect another leader"),
)  # fmt: skip

CONSUMER_ACTIONS = (
    ActionSpec(
        "pause_consumer", "pause", "deliver nothing for a while",
        (Field("pause_until", "Pause until", "text", "", "A time, or a duration as 1h30m."),),
    ),
    ActionSpec("resume_consumer", "resume", "deliver again"),
    ActionSpec("reset_consumer", "reset", "deliver again from a sequence", (_FROM,)),
    ActionSpec(
        "unpin_consumer", "unpin", "take the pin from a client",
        (Field("group", "Group", "text", "", "The priority group to unpin."),),
    ),
    ActionSpec("step_down_consumer", "step down", "let it elect another leader"),
    ActionSpec("delete_consumer", "delete", "delete it and what it knows of deliveries"),
)  # fmt: skip

DELETE_MESSAGE = ActionSpec(
    "delete_message", "delete message", "delete one message",
    (Field("seq", "Sequence", "count", "", "The message to delete."),),
)  # fmt: skip

SPECS = {spec.action: spec for spec in (*STREAM_ACTIONS, *CONSUMER_ACTIONS, DELETE_MESSAGE)}


def word_to_type(spec: ActionSpec, targets: Sequence[Target], production: bool) -> str | None:
    """Return what has to be typed before it is done: the name, or how many; None for nothing."""
    if spec.action not in IRREVERSIBLE and not production:
        return None
    return name_of(targets[0]) if len(targets) == 1 else f"{spec.word} {len(targets)}"


def name_of(target: Target) -> str:
    """Return the name of what is changed."""
    return target[1] or target[0]


def targets_text(targets: Sequence[Target]) -> str:
    """Return the targets, one per line."""
    lines = [f"{stream} › {consumer}" if consumer else stream for stream, consumer in targets]
    return "\n".join(lines)


def arguments(spec: ActionSpec, texts: Mapping[str, str]) -> dict[str, object]:
    """Return what the fields say; raises ValueError with a sentence."""
    values = {field.path: parsed(field, texts.get(field.path, "")) for field in spec.fields}
    return {path: value for path, value in values.items() if value is not None}
