"""Numbers of commands, and the answers that belong to them."""

from __future__ import annotations

import itertools

from natstui.model.state import State
from natstui.model.tail import Answered

_numbers = itertools.count(2_000_000)


def next_command_id() -> int:
    """Return a number no other command of this viewer has."""
    return next(_numbers)


def answer_to(state: State, command_id: int) -> Answered | None:
    """Return the answer to a command, None while it has not come."""
    return next((one for one in reversed(state.answers) if one.command_id == command_id), None)
