"""The screens to open for findings, and the actions that their advice names.

The advice itself is in the catalogue; only actions listed here are offered.
"""

from __future__ import annotations

from collections.abc import Mapping

from natstui.model.findings.catalogue import consumers as c
from natstui.model.findings.catalogue import risky_settings as k
from natstui.model.findings.catalogue import streams as s
from natstui.model.findings.catalogue.kind import ANY_LIMIT_PATH, Kind
from natstui.model.findings.finding import Finding
from natstui.model.live.state import State
from natstui.tui.frame.action_keys import Target, find_created_at_us, is_allowed
from natstui.tui.frame.action_runner import message_list_request
from natstui.tui.frame.messages import AppRequest, EnteredCommand, Manage, Open

MESSAGE_FINDING_KINDS = frozenset({c.POISON, c.MAX_DELIVER_REACHED, c.TERMINATED, c.FLOOR_BLOCKED})
"""Kinds of findings that open their messages."""

ADVISED_ACTIONS: Mapping[Kind, tuple[str, ...]] = {
    c.ALL_NAKD: ("pause_consumer",),
    c.POISON: ("delete_message",),
    c.NO_PULLS: ("pull",),
    c.NO_PULLS_PACE_UNKNOWN: ("pull",),
    c.MAX_ACK_PENDING_REACHED: ("edit-consumer max_ack_pending",),
    c.PULLS_REFUSED: ("edit-consumer max_batch",),
    c.PULL_STALLED: ("step_down_consumer",),
    c.PUSH_STALLED: ("step_down_consumer",),
    c.LOST_BEFORE_DELIVERY: ("edit-stream max_bytes",),
    c.MAX_DELIVER_REACHED: ("publish-again",),
    c.LAGGING: ("edit-consumer max_ack_pending",),
    c.REDELIVERING: ("edit-consumer ack_wait",),
    c.PAUSED: ("resume_consumer",),
    c.ACKED_AFTER_ACK_WAIT: ("edit-consumer ack_wait",),
    c.MAX_WAITING_REACHED: ("edit-consumer max_waiting",),
    c.FILTER_MATCHES_NOTHING: ("edit-consumer filter_subjects",),
    c.PINNED_IDLE: ("unpin_consumer",),
    c.EXPIRES_SOON: ("edit-consumer inactive_threshold",),
    c.LEADER_CHANGES_OFTEN: ("step_down_consumer",),
    c.CONSUMER_DELETED: ("undo",),
    c.NEAR_MAX_ACK_PENDING: ("edit-consumer max_ack_pending",),
    c.RATE_LIMIT_REACHED: ("edit-consumer rate_limit_bps",),
    c.WAITS_FOR_BACKOFF: ("edit-consumer backoff",),
    s.STREAM_MESSAGES_LOST: ("purge_stream",),
    s.STREAM_FULL: ("edit-stream max_bytes", "purge_stream"),
    s.MIRROR_NOT_ACTIVE: ("edit-stream sources",),
    s.SOURCE_ERROR: ("edit-stream sources",),
    s.ORPHANED_MESSAGES: ("add-consumer", "edit-stream subjects"),
    s.STREAM_NEARLY_FULL: ("edit-stream max_bytes", "purge_stream"),
    s.STREAM_FULL_SOON: ("edit-stream max_bytes", "purge_stream"),
    s.MANY_SUBJECTS: ("edit-stream max_msgs_per_subject",),
    s.SUBJECT_PER_MESSAGE: ("edit-stream max_msgs_per_subject", "edit-stream max_age"),
    s.MANY_HOLES: ("purge_stream",),
    s.STREAM_LEADER_CHANGES_OFTEN: ("step_down_stream",),
    s.STREAM_DELETED: ("undo",),
    s.CONSUMER_LIMIT_REACHED: ("edit-stream max_consumers",),
    s.ORIGIN_MISSING: ("edit-stream sources",),
    s.SOURCE_FILTER_MATCHES_NOTHING: ("edit-stream sources",),
    k.MAX_AGE_BELOW_ACK_WAIT: ("edit-consumer ack_wait", "edit-stream max_age"),
    k.MAX_ACK_PENDING_IS_ONE: ("edit-consumer max_ack_pending",),
    k.UNLIMITED_DELIVERIES: ("edit-consumer max_deliver",),
    k.CONSUMER_UNUSED: ("delete_consumer",),
    k.INACTIVE_THRESHOLD_BELOW_ACK_WAIT: ("edit-consumer inactive_threshold",),
    k.FEWER_REPLICAS_THAN_STREAM: ("edit-consumer num_replicas",),
    k.LAST_BACKOFF_REPEATS: ("edit-consumer max_deliver",),
    k.STREAM_WITHOUT_LIMIT: ("edit-stream max_bytes",),
    k.STREAM_IN_MEMORY: ("clone-stream",),
    k.ONE_REPLICA: ("edit-stream num_replicas",),
    k.STREAM_INACTIVE: ("delete_stream", "edit-stream num_replicas"),
    k.NO_DIRECT_GET: ("edit-stream allow_direct",),
    k.PUBLISHES_UNCONFIRMED: ("edit-stream no_ack",),
    k.SHORT_DUPLICATE_WINDOW: ("edit-stream duplicate_window",),
    k.LEADERS_ON_ONE_SERVER: ("step_down_stream",),
}
"""Advised actions by kind of finding, the best first; a form is followed by the field to edit."""

_MESSAGE_ACTIONS = {"delete_message", "publish-again"}
_EDIT_ANY_LIMIT = f"edit-stream {ANY_LIMIT_PATH}"
"""The advised action for a stream limit; the field of the reached limit replaces the path."""


def action_name(advised_action: str) -> str:
    """Return the name of an advised action, without the field to edit."""
    return advised_action.partition(" ")[0]


def advised_actions(finding: Finding) -> tuple[str, ...]:
    """Return the advised actions of a finding; empty if its kind has none."""
    actions = ADVISED_ACTIONS.get(finding.kind, ())
    if finding.limit is not None:
        path = f"edit-stream {finding.limit.path}"
        actions = tuple(path if action == _EDIT_ANY_LIMIT else action for action in actions)
    if finding.sequences:
        return actions
    return tuple(action for action in actions if action not in _MESSAGE_ACTIONS)


def action_request(finding: Finding, action: str) -> Manage:
    """Return the request to the app that executes an advised action."""
    entity = finding.entity
    stream_target = Target(entity.stream, None, None if entity.consumer else entity.created_at_us)
    match action_name(action):
        case "undo":
            return Manage("undo")
        case "delete_message":
            return Manage(f"delete_message {finding.sequences[0]}", (stream_target,))
        case "publish-again":
            return Manage("publish", (Target(entity.stream, str(finding.sequences[0])),))
        case "pull":
            return Manage("pull", (Target(entity.stream, entity.consumer),))
        case name if "stream" in name or not entity.consumer:
            return Manage(action, (stream_target,))
        case _:
            target = Target(entity.stream, entity.consumer, entity.created_at_us)
            return Manage(action, (target,))


def messages_request(finding: Finding) -> Manage:
    """Return the request to the app that lists the messages of a finding."""
    target = Target(finding.entity.stream, finding.entity.consumer or None)
    return message_list_request(target, finding)


def find_destination(finding: Finding, state: State) -> AppRequest | str:
    """Return the request to the app that opens the screen for a finding, or the reason as text if
    there is none.
    """
    entity, is_live = finding.entity, state.replay is None
    if not entity.stream:
        return EnteredCommand("server")
    stream_exists = find_created_at_us(state, Target(entity.stream)) is not None
    if not stream_exists:
        return f"stream {entity.stream} was deleted"
    if is_live and finding.kind in MESSAGE_FINDING_KINDS and finding.sequences:
        return messages_request(finding)
    form_actions = [action for action in advised_actions(finding) if action.startswith("edit-")]
    if (
        is_live
        and finding.kind in k.SETTING_KINDS
        and form_actions
        and is_allowed(state, action_name(form_actions[0]))
    ):
        return action_request(finding, form_actions[0])
    consumer = Target(entity.stream, entity.consumer)
    if entity.consumer and find_created_at_us(state, consumer) is not None:
        return Open("consumer", entity.stream, entity.consumer)
    return Open("stream", entity.stream)
