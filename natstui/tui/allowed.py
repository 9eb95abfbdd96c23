"""What may be done to the server: not when read-only, nor what the user has no permission for."""

from __future__ import annotations

from natstui.model.permissions import may_publish_some
from natstui.model.state import State

VERBS = {
    "add-stream": "STREAM.CREATE.*",
    "clone-stream": "STREAM.CREATE.*",
    "edit-stream": "STREAM.UPDATE.*",
    "purge_stream": "STREAM.PURGE.*",
    "delete_stream": "STREAM.DELETE.*",
    "delete_message": "STREAM.MSG.DELETE.*",
    "step_down_stream": "STREAM.LEADER.STEPDOWN.*",
    "add-consumer": "CONSUMER.CREATE.*.*",
    "clone-consumer": "CONSUMER.CREATE.*.*",
    "edit-consumer": "CONSUMER.CREATE.*.*",
    "delete_consumer": "CONSUMER.DELETE.*.*",
    "pause_consumer": "CONSUMER.PAUSE.*.*",
    "resume_consumer": "CONSUMER.PAUSE.*.*",
    "reset_consumer": "CONSUMER.RESET.*.*",
    "unpin_consumer": "CONSUMER.UNPIN.*.*",
    "step_down_consumer": "CONSUMER.LEADER.STEPDOWN.*.*",
    "pull": "CONSUMER.MSG.NEXT.*.*",
}
"""What each thing to do sends in the end; the default prefix stands for every other one."""


def read_only(state: State) -> bool:
    """Tell whether the engine refuses every write."""
    return state.started is not None and state.started.read_only


def allowed(state: State, what: str) -> bool:
    """Tell whether something may be done; what sends nothing may be."""
    verb = VERBS.get(what)
    if verb is None:
        return True
    return not read_only(state) and may_publish_some(state.permitted, f"$JS.API.{verb}")
