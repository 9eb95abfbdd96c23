"""What can be done to streams and consumers besides configuring them, and how it is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from natstui.model.assets.fields import Field
from natstui.model.assets.text import parsed
from natstui.model.live.state import State
from natstui.model.records.actions import CATALOGUE, IRREVERSIBLE
from natstui.model.records.managing import Action
from natstui.units import local_text


class Target(NamedTuple):
    """A stream, or a consumer of it."""

    stream: str
    consumer: str | None = None
    created_at_us: int | None = None
    """When the one was made that is on the screen."""


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """One action, its words, and what has to be told."""

    action: Action
    fields: tuple[Field, ...] = ()

    @property
    def word(self) -> str:
        """Return what it is called."""
        return CATALOGUE[self.action].word

    @property
    def help(self) -> str:
        """Return what it does."""
        return CATALOGUE[self.action].help


_SEQ = Field("seq", "Before sequence", "count", "", "Only messages before this sequence.")
_FROM = Field("seq", "From sequence", "count", "", "Empty begins again at the ack floor.")

STREAM_ACTIONS = (
    ActionSpec(
        "purge_stream",
        (
            Field("filter", "Subject", "subject", "", "Only messages of this subject or filter."),
            _SEQ,
            Field("keep", "Keep newest", "count", "", "All but the newest so many."),
        ),
    ),
    ActionSpec("delete_stream"),
    ActionSpec("step_down_stream"),
)  # fmt: skip

CONSUMER_ACTIONS = (
    ActionSpec(
        "pause_consumer",
        (Field("pause_until", "Pause until", "text", "", "A time, or a duration as 1h30m."),),
    ),
    ActionSpec("resume_consumer"),
    ActionSpec("reset_consumer", (_FROM,)),
    ActionSpec(
        "unpin_consumer",
        (Field("group", "Group", "text", "", "The priority group to unpin."),),
    ),
    ActionSpec("step_down_consumer"),
    ActionSpec("delete_consumer"),
)  # fmt: skip

DELETE_MESSAGE = ActionSpec(
    "delete_message",
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
    return target.consumer or target.stream


def targets_text(targets: Sequence[Target]) -> str:
    """Return the targets, one per line."""
    lines = [f"{one.stream} › {one.consumer}" if one.consumer else one.stream for one in targets]
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


def fate_text(state: State, target: Target) -> str:
    """Return what became of it since it was opened; empty while it is the same."""
    now_us = made_at_us(state, target)
    if target.created_at_us is None or now_us == target.created_at_us:
        return ""
    kind = "stream" if target.consumer is None else "consumer"
    what = f"{kind} {target.consumer or target.stream}"
    if now_us is None:
        return f"{what} was deleted: this screen was opened on it"
    return (
        f"{what} was deleted and made again at {local_text(now_us)}: "
        "this screen was opened on the one before"
    )
