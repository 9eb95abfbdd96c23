"""What may be done to the server: not when read-only, nor what the user has no permission for."""

from __future__ import annotations

from natstui.model.live.permissions import may_publish_some
from natstui.model.live.state import State
from natstui.model.records.actions import CATALOGUE
from natstui.model.records.managing import JournalAction

_OPENED_AS: dict[str, JournalAction] = {
    "add-stream": "create_stream",
    "clone-stream": "create_stream",
    "edit-stream": "edit_stream",
    "add-consumer": "create_consumer",
    "clone-consumer": "create_consumer",
    "edit-consumer": "edit_consumer",
}
"""What a form sends in the end."""

VERBS: dict[str, str] = {
    **{name: CATALOGUE[action].verb for name, action in _OPENED_AS.items()},
    **{action: traits.verb for action, traits in CATALOGUE.items() if traits.verb},
}
"""What each thing to do sends in the end; the default prefix stands for every other one.

A consumer with one filter has it behind its name, so that permissions may be for that filter."""


def read_only(state: State) -> bool:
    """Tell whether the engine refuses every write."""
    return state.started is not None and state.started.read_only


def allowed(state: State, what: str) -> bool:
    """Tell whether something may be done; what sends nothing may be."""
    verb = VERBS.get(what)
    if verb is None:
        return True
    return not read_only(state) and may_publish_some(state.permitted, f"$JS.API.{verb}")
