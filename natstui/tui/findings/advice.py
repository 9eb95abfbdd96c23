"""Links of findings to screens, and actions of their advice. Pure.

The advice itself is in the catalogue; only actions listed here are offered.
"""

from __future__ import annotations

from collections.abc import Mapping

from natstui.model.findings.catalogue import consumers as c
from natstui.model.findings.catalogue import settings as k
from natstui.model.findings.catalogue import streams as s
from natstui.model.findings.catalogue.kind import ANY_LIMIT_PATH, Kind
from natstui.model.findings.finding import Finding
from natstui.model.live.state import State
from natstui.tui.frame.action_keys import Target, allowed, made_at_us
from natstui.tui.frame.action_runner import messages_from
from natstui.tui.frame.messages import Manage, Open, ToApp, Typed

ABOUT_MESSAGES = frozenset({c.POISON, c.GAVE_UP, c.TERMINATED, c.FLOOR_BLOCKED})
"""Kinds that link to a message."""

ADVISED: Mapping[Kind, tuple[str, ...]] = {
    c.ALL_NAKED: ("pause_consumer",),
    c.POISON: ("delete_message",),
    c.NO_PULLS: ("pull",),
    c.NO_PULLS_SEEN: ("pull",),
    c.ACK_LIMIT: ("edit-consumer max_ack_pending",),
    c.PULLS_REFUSED: ("edit-consumer max_batch",),
    c.STALLED: ("step_down_consumer",),
    c.PUSH_STALLED: ("step_down_consumer",),
    c.SKIPPED: ("edit-stream max_bytes",),
    c.GAVE_UP: ("publish-again",),
    c.FALLING_BEHIND: ("edit-consumer max_ack_pending",),
    c.REDELIVERING: ("edit-consumer ack_wait",),
    c.PAUSED: ("resume_consumer",),
    c.ACK_WAIT_SHORT: ("edit-consumer ack_wait",),
    c.MAX_WAITING: ("edit-consumer max_waiting",),
    c.NO_MATCH: ("edit-consumer filter_subjects",),
    c.PINNED_IDLE: ("unpin_consumer",),
    c.EXPIRING: ("edit-consumer inactive_threshold",),
    c.LEADER_FLAPS: ("step_down_consumer",),
    c.GONE: ("undo",),
    c.NEAR_ACK_LIMIT: ("edit-consumer max_ack_pending",),
    c.RATE_LIMITED: ("edit-consumer rate_limit_bps",),
    c.WAITS_FOR_BACKOFF: ("edit-consumer backoff",),
    s.S_LOST: ("purge_stream",),
    s.S_REFUSING: ("edit-stream max_bytes", "purge_stream"),
    s.S_SILENT: ("edit-stream sources",),
    s.S_SOURCE_ERROR: ("edit-stream sources",),
    s.S_UNSERVED: ("add-consumer", "edit-stream subjects"),
    s.S_NEAR: ("edit-stream max_bytes", "purge_stream"),
    s.S_FULL_SOON: ("edit-stream max_bytes", "purge_stream"),
    s.S_SUBJECTS: ("edit-stream max_msgs_per_subject",),
    s.S_OWN_SUBJECTS: ("edit-stream max_msgs_per_subject", "edit-stream max_age"),
    s.S_HOLES: ("purge_stream",),
    s.S_LEADER_FLAPS: ("step_down_stream",),
    s.S_GONE: ("undo",),
    s.S_CONSUMER_LIMIT: ("edit-stream max_consumers",),
    s.S_ORIGIN_MISSING: ("edit-stream sources",),
    s.S_SOURCE_UNMATCHED: ("edit-stream sources",),
    k.K_AGE_BELOW_WAIT: ("edit-consumer ack_wait", "edit-stream max_age"),
    k.K_ONE_PENDING: ("edit-consumer max_ack_pending",),
    k.K_UNLIMITED_DELIVERIES: ("edit-consumer max_deliver",),
    k.K_UNUSED: ("delete_consumer",),
    k.K_EXPIRES_BEFORE_ACK: ("edit-consumer inactive_threshold",),
    k.K_FEWER_REPLICAS: ("edit-consumer num_replicas",),
    k.K_BACKOFF_CUT: ("edit-consumer max_deliver",),
    k.K_NO_LIMIT: ("edit-stream max_bytes",),
    k.K_MEMORY: ("clone-stream",),
    k.K_ONE_REPLICA: ("edit-stream num_replicas",),
    k.K_INACTIVE: ("delete_stream", "edit-stream num_replicas"),
    k.K_NO_DIRECT: ("edit-stream allow_direct",),
    k.K_NO_ACK: ("edit-stream no_ack",),
    k.K_SHORT_DUPLICATES: ("edit-stream duplicate_window",),
    k.K_LED_TOGETHER: ("step_down_stream",),
}
"""Kind → advised actions, the best first; those of a form with the field to edit."""

_ON_MESSAGES = {"delete_message", "publish-again"}
_ANY_LIMIT = f"edit-stream {ANY_LIMIT_PATH}"
"""Links to the limit that is reached."""


def name_of(advised_action: str) -> str:
    """Return the name of an action without its form field."""
    return advised_action.partition(" ")[0]


def advised(finding: Finding) -> tuple[str, ...]:
    """Return the advised actions of a finding; empty if its kind has none."""
    actions = ADVISED.get(finding.kind, ())
    if finding.limit is not None:
        path = f"edit-stream {finding.limit.path}"
        actions = tuple(path if action == _ANY_LIMIT else action for action in actions)
    if finding.sequences:
        return actions
    return tuple(action for action in actions if action not in _ON_MESSAGES)


def action_message(finding: Finding, action: str) -> Manage:
    """Return the message to the app that executes an advised action."""
    entity = finding.entity
    of_stream = Target(entity.stream, None, None if entity.consumer else entity.created_at_us)
    match name_of(action):
        case "undo":
            return Manage("undo")
        case "delete_message":
            return Manage(f"delete_message {finding.sequences[0]}", (of_stream,))
        case "publish-again":
            return Manage("publish", (Target(entity.stream, str(finding.sequences[0])),))
        case "pull":
            return Manage("pull", (Target(entity.stream, entity.consumer),))
        case name if "stream" in name or not entity.consumer:
            return Manage(action, (of_stream,))
        case _:
            target = Target(entity.stream, entity.consumer, entity.created_at_us)
            return Manage(action, (target,))


def messages_message(finding: Finding) -> Manage:
    """Return the message to the app that lists messages from the first evidence on."""
    target = Target(finding.entity.stream, finding.entity.consumer or None)
    return messages_from(target, finding)


def place_of(finding: Finding, state: State) -> ToApp | str:
    """Return the message to the app that opens a finding's subject; or why there is none."""
    entity, is_live = finding.entity, state.replay is None
    if not entity.stream:
        return Typed("server")
    exists = made_at_us(state, Target(entity.stream)) is not None
    if not exists:
        return f"stream {entity.stream} is gone"
    if is_live and finding.kind in ABOUT_MESSAGES and finding.sequences:
        return messages_message(finding)
    forms = [action for action in advised(finding) if action.startswith("edit-")]
    if is_live and finding.kind in k.SETTING_KINDS and forms and allowed(state, name_of(forms[0])):
        return action_message(finding, forms[0])
    consumer = Target(entity.stream, entity.consumer)
    if entity.consumer and made_at_us(state, consumer) is not None:
        return Open("consumer", entity.stream, entity.consumer)
    return Open("stream", entity.stream)
