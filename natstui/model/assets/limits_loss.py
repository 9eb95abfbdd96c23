"""Messages that limits delete when new ones are published, counted before the publishing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Protocol

from msgspec import Struct, field

from natstui.model.assets.fields import is_on, number_at, text_at
from natstui.model.assets.subjects import stored_filter
from natstui.units import bytes_text, counted, duration_text

SHORT_MAX_AGE_S = 60.0
"""Maximum of a short max age in seconds: published messages expire before they are read."""
MAX_MESSAGE_OVERHEAD_BYTES = 256
"""Maximum overhead of a stored message beside payload and headers."""


class StoredCounts(Protocol):
    """The counts of a stream's state that decide which messages its limits remove."""

    messages: int
    bytes: int
    consumer_count: int


class PlannedMessages(Struct, frozen=True):
    """The messages to publish to a stream."""

    added_msgs: int | None
    """Number of messages; None: as many as are sent within a duration."""
    stored_bytes: int = 0
    """Stored size of all these messages, with the server's overhead."""
    by_subject_msgs: Mapping[str, int] | None = None
    """Messages by subject; None: each may have any subject."""


class RemovedMessages(Struct, frozen=True):
    """The maximum numbers of messages that limits delete because of a publish."""

    existing_msgs: int = 0
    """Messages that the stream has now."""
    published_msgs: int = 0
    """Messages that are published."""


class LimitedStream(Struct, frozen=True):
    """A stream whose limits may delete messages: its configuration, state and counts."""

    config: Mapping[str, object]
    state: StoredCounts
    present_msgs: Mapping[str, int] = field(default_factory=dict)
    """Messages by subject, for the subjects that are published to."""
    has_all_subjects: bool = True
    """Whether `present_msgs` has all such subjects; for a missing one, the maximum is assumed."""

    @property
    def drops_messages(self) -> bool:
        """Return whether the stream has a limit that deletes old messages for new ones."""
        limits = (
            self._removing_limit("max_msgs"),
            self._removing_limit("max_bytes"),
            self._removing_subject_limit,
        )
        return any(limits)

    def count_removed(self, planned_messages: PlannedMessages) -> RemovedMessages:
        """Return the maximum numbers of messages that limits delete for the planned messages."""
        removals = (
            self._count_removed_above_msgs(planned_messages),
            self._count_removed_above_bytes(planned_messages),
            self._count_removed_above_subject_limit(planned_messages),
        )
        return RemovedMessages(
            max(removal.existing_msgs for removal in removals),
            max(removal.published_msgs for removal in removals),
        )

    def may_remove_concurrent_messages(self, planned_messages: PlannedMessages) -> bool:
        """Return whether limits may also delete messages that other clients publish meanwhile."""
        if planned_messages.added_msgs is None:
            return self.drops_messages
        removed_messages = self.count_removed(planned_messages)
        fills_subject_limit = 0 < self._removing_subject_limit <= planned_messages.added_msgs
        return fills_subject_limit or removed_messages != RemovedMessages()

    def _removing_limit(self, limit_field: str) -> int:
        """Return the value of a limit that deletes the oldest messages; 0 without one."""
        limit_value = number_at(self.config, limit_field)
        return limit_value if limit_value > 0 and text_at(self.config, "discard") != "new" else 0

    @property
    def _removing_subject_limit(self) -> int:
        limit_msgs = number_at(self.config, "max_msgs_per_subject")
        discards_new = text_at(self.config, "discard") == "new"
        refuses_new_messages = discards_new and is_on(self.config, "discard_new_per_subject")
        return limit_msgs if limit_msgs > 0 and not refuses_new_messages else 0

    def _count_removed_above_msgs(self, planned_messages: PlannedMessages) -> RemovedMessages:
        limit_msgs = self._removing_limit("max_msgs")
        if not limit_msgs:
            return RemovedMessages()
        return _count_removed(self.state.messages, planned_messages.added_msgs, limit_msgs)

    def _count_removed_above_bytes(self, planned_messages: PlannedMessages) -> RemovedMessages:
        """Return the messages that max bytes may delete: all if it may be exceeded, else none.

        The number is not more exact, because the size of each message is unknown.
        """
        limit_bytes, stored_msgs = self._removing_limit("max_bytes"), self.state.messages
        if not limit_bytes:
            return RemovedMessages()
        if planned_messages.added_msgs is None:
            return RemovedMessages(stored_msgs)
        added_bytes = planned_messages.stored_bytes
        existing_msgs = stored_msgs if self.state.bytes + added_bytes > limit_bytes else 0
        return RemovedMessages(
            existing_msgs, planned_messages.added_msgs if added_bytes > limit_bytes else 0
        )

    def _count_removed_above_subject_limit(
        self, planned_messages: PlannedMessages
    ) -> RemovedMessages:
        limit_msgs = self._removing_subject_limit
        if not limit_msgs:
            return RemovedMessages()
        new_msgs_by_subject = planned_messages.by_subject_msgs
        if new_msgs_by_subject is None:
            removals = [
                _count_removed(stored_msgs, planned_messages.added_msgs, limit_msgs)
                for stored_msgs in self.present_msgs.values()
            ]
            if not self.has_all_subjects:
                msgs_of_other_subjects = self.state.messages - sum(self.present_msgs.values())
                added_msgs = planned_messages.added_msgs
                removals.append(
                    RemovedMessages(
                        msgs_of_other_subjects
                        if added_msgs is None
                        else min(msgs_of_other_subjects, added_msgs)
                    )
                )
        else:
            # A subject that was not counted may be at the limit.
            assumed_stored_msgs = 0 if self.has_all_subjects else limit_msgs
            removals = [
                _count_removed(
                    self.present_msgs.get(subject, assumed_stored_msgs), new_msgs, limit_msgs
                )
                for subject, new_msgs in new_msgs_by_subject.items()
            ]
        return RemovedMessages(
            sum(removal.existing_msgs for removal in removals),
            0
            if new_msgs_by_subject is None
            else sum(removal.published_msgs for removal in removals),
        )


def removed_by_limits_text(
    config: Mapping[str, object],
    state: StoredCounts,
    added_msgs: int | None,
    added_bytes: int = 0,
) -> str | None:
    """Return a clause about messages that a stream's limits remove for new ones; None if none.

    Messages above the limit per subject are not counted. `added_msgs` None: unknown.
    """
    planned_messages = PlannedMessages(added_msgs, added_bytes, {})
    removed_msgs = LimitedStream(config, state).count_removed(planned_messages).existing_msgs
    if not removed_msgs:
        return None
    count_text = f"up to {removed_msgs:,} of {counted(state.messages, 'message')}"
    return f"{count_text} of {text_at(config, 'name')} are removed by its limits to make room"


CONTROL_HEADER_PREFIXES = ("nats-rollup", "nats-schedule", "nats-trace-")
"""Prefixes, in lower case, of headers by which a message removes earlier ones, or makes the
server publish others.
"""
SINGLE_PUBLISH_HEADER_PREFIXES = (
    *CONTROL_HEADER_PREFIXES, "nats-expected-", "nats-msg-size", "nats-batch-",
    "nats-stream-source",
)  # fmt: skip
"""Prefixes, in lower case, of headers that are valid only for one publish or one server."""


def rolled_up_filters(subject: str, headers: Iterable[tuple[str, str]]) -> list[str]:
    """Return filters of the earlier messages that a message with these headers removes.

    A roll-up removes messages of its subject or of all subjects; a schedule removes those of its
    subject, of its target, or of another schedule.
    """
    texts_by_header: dict[str, list[str]] = {}
    for name, text in headers:
        texts_by_header.setdefault(name.lower(), []).append(text.strip())
    filters = [
        ">" if text.lower() == "all" else subject
        for text in texts_by_header.get("nats-rollup", ())
    ]
    if "nats-schedule" in texts_by_header:
        filters.append(subject)
    if "nats-schedule-rollup" in texts_by_header:
        filters += texts_by_header.get("nats-schedule-target", [">"])
    if "nats-schedule-next" in texts_by_header:
        filters += texts_by_header.get("nats-scheduler", [">"])
    return list(dict.fromkeys(filters))


_HEADERS_WITH_TARGET_SUBJECT = ("nats-schedule-target", "nats-trace-dest")


def find_target_subjects(headers: Iterable[tuple[str, str]]) -> list[str]:
    """Return the subjects to which servers publish because of a message with these headers: the
    targets of schedules and the destinations of traces.
    """
    return [text.strip() for name, text in headers if name.lower() in _HEADERS_WITH_TARGET_SUBJECT]


def stored_filters(config: Mapping[str, object], filters: Iterable[str]) -> list[str]:
    """Return the filters under which a stream stores the messages published to `filters`."""
    source = text_at(config, "subject_transform.src")
    destination = text_at(config, "subject_transform.dest")
    return list(
        dict.fromkeys(
            stored_filter(subject_filter, source, destination) for subject_filter in filters
        )
    )


ACK_RETENTIONS = ("interest", "workqueue")
"""Retentions with which acks delete messages."""


def max_age_s(config: Mapping[str, object]) -> float:
    """Return the max age of a stream in seconds; 0 if unlimited."""
    return number_at(config, "max_age") / 1e9


def removal_reason(
    config: Mapping[str, object], state: StoredCounts, age_s: float = math.inf
) -> str | None:
    """Return what may have deleted newly stored messages, as text; None if only acks may have.

    With work queue or interest retention, acks delete messages. `state` is that of the stream's
    INFO, `age_s` the age in seconds of the oldest of these messages.
    """
    retention, has_consumers = text_at(config, "retention"), state.consumer_count > 0
    if retention == "interest" and not has_consumers:
        return "interest retention, and it has no consumer"
    if retention in ACK_RETENTIONS and has_consumers:
        size_limits = {key: config.get(key) for key in ("max_msgs", "max_bytes", "discard")}
        reasons = reached_limits(size_limits, state, age_s)
        return f"{', '.join(reasons)}, or acks of its consumers" if reasons else None
    return later_removal_reason(config, state, age_s)


def later_removal_reason(
    config: Mapping[str, object], state: StoredCounts, age_s: float = math.inf
) -> str:
    """Return what may have deleted messages of a stream long after they were stored, as text.

    `state` and `age_s` are those of `removal_reason`.
    """
    reasons = reached_limits(config, state, age_s)
    if text_at(config, "retention") in ACK_RETENTIONS:
        consumers_text = "its consumers" if state.consumer_count else "former consumers"
        reasons.append(f"acks of {consumers_text}")
    return " or ".join(filter(None, (", ".join(reasons), "a deletion or purge by somebody")))


def removes_messages_by_itself(config: Mapping[str, object]) -> bool:
    """Return whether a stream may delete messages without a request: by acks or by a limit."""
    return text_at(config, "retention") in ACK_RETENTIONS or bool(_describe_limits(config))


_MIN_BYTES_USED_SHARE = 0.5
"""Share of max bytes above which the limit may have removed messages for a large new one."""


def reached_limits(config: Mapping[str, object], state: StoredCounts, age_s: float) -> list[str]:
    """Return as texts the limits that may have removed messages which are at most `age_s` old."""
    return [
        text
        for key, text in _describe_limits(config).items()
        if not (key == "max_msgs" and state.messages < number_at(config, key))
        and not (
            key == "max_bytes" and state.bytes < number_at(config, key) * _MIN_BYTES_USED_SHARE
        )
        and not (key == "max_age" and age_s < max_age_s(config))
    ]


def _describe_limits(config: Mapping[str, object]) -> dict[str, str]:
    """Return the removing limits of a stream: key of the option → label and value, as text."""
    label_by_limit = {
        "max_msgs": "max messages",
        "max_msgs_per_subject": "max messages per subject",
    }
    discards_new = text_at(config, "discard") == "new"
    limits = {
        key: f"{label} {number_at(config, key):,}"
        for key, label in label_by_limit.items()
        if number_at(config, key) > 0
    }
    if number_at(config, "max_bytes") > 0:
        limits["max_bytes"] = f"max bytes {bytes_text(number_at(config, 'max_bytes'))}"
    if discards_new:
        # Discard new refuses new messages, and removes no old ones.
        limits.pop("max_msgs", None)
        limits.pop("max_bytes", None)
        if is_on(config, "discard_new_per_subject"):
            limits.pop("max_msgs_per_subject", None)
    if max_age_s(config):
        limits["max_age"] = f"max age {duration_text(max_age_s(config))}"
    if is_on(config, "allow_msg_ttl"):
        limits["allow_msg_ttl"] = "TTLs of messages"
    if is_on(config, "allow_rollup_hdrs"):
        limits["allow_rollup_hdrs"] = "roll-ups"
    return limits


def _count_removed(stored_msgs: int, added_msgs: int | None, max_msgs: int) -> RemovedMessages:
    if added_msgs is None:
        return RemovedMessages(stored_msgs)
    excess_msgs = max(stored_msgs + added_msgs - max_msgs, 0)
    existing_msgs = min(stored_msgs, excess_msgs)
    return RemovedMessages(existing_msgs, excess_msgs - existing_msgs)
