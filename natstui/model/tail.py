"""A live tail of subjects, and the answers of an engine that nobody records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from natstui.model.stored import StoredMessage

ANSWERS_KEPT = 1_000
ANSWERS_KEPT_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Answered:
    """What a command asked for, for the viewer only: it is never recorded."""

    at_us: int
    command_id: int
    status: Literal["done", "refused", "failed"]
    text: str
    """One sentence for people."""
    body_json: str | None = None


@dataclass(frozen=True, slots=True)
class StartTail:
    """Show messages of these subjects as they arrive; one tail at a time."""

    command_id: int
    subjects: tuple[str, ...]
    preview_bytes: int = 512


@dataclass(frozen=True, slots=True)
class StopTail:
    """End the tail."""

    command_id: int


@dataclass(frozen=True, slots=True)
class Tailed:
    """Messages that arrived alive since the last record of the tail; never recorded."""

    at_us: int
    command_id: int
    messages: tuple[StoredMessage, ...]
    arrived_msgs: int
    """All that arrived since the tail began, shown or not."""
    dropped_msgs: int
    """Of those, how many are in no record because they came too fast."""


def newest_answers(answers: tuple[Answered, ...]) -> tuple[Answered, ...]:
    """Return the newest answers that fit into what is kept, and always the last."""
    answers = answers[-ANSWERS_KEPT:]
    left_bytes = ANSWERS_KEPT_BYTES
    for at in range(len(answers) - 1, -1, -1):
        left_bytes -= len(answers[at].body_json or "")
        if left_bytes < 0:
            return answers[min(at + 1, len(answers) - 1) :]
    return answers
