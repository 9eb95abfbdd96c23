"""What may be done to the server: not when read-only, nor what the user has no permission for."""

from __future__ import annotations

from natstui.clean import clean_line
from natstui.model.live.permissions import may_publish_some
from natstui.model.live.state import State
from natstui.model.records.actions import CATALOGUE
from natstui.tui.frame.action_keys import SPECS


def read_only(state: State) -> str:
    """Return why the engine refuses every write; empty where it does not."""
    started = state.started
    if started is None or not started.read_only:
        return ""
    if started.account is not None:
        return (
            f"read-only: the account {clean_line(started.account)} is watched through the "
            "system account"
        )
    return "read-only"


def not_allowed(state: State) -> str:
    """Return why something may not be done that is not allowed."""
    return read_only(state) or "you have no permission for this"


def allowed(state: State, what: str) -> bool:
    """Return whether something may be done; what sends nothing may be.

    A consumer with one filter has it behind its name, so that permissions may be for that filter;
    the default prefix stands for every other one.
    """
    spec = SPECS.get(what)
    if spec is not None and state.started is not None and state.started.account is not None:
        # Not even read: the API that we reach is that of our own account.
        return False
    if spec is None or spec.sends is None:
        return True
    verb = CATALOGUE[spec.sends].verb
    return not read_only(state) and (
        not verb or may_publish_some(state.permitted, f"$JS.API.{verb}")
    )
