"""Messages that limits delete when new ones are published, counted before the publishing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from natstui.model.assets.fields import is_on, number_at, text_at
from natstui.model.assets.subjects import stored_filter
from natstui.units import bytes_text, counted, duration_text

SHORT_AGE_S = 60.0
"""Maximum of a short max age in seconds: published messages expire before they are read."""
OVERHEAD_BYTES = 256
"""Maximum overhead of a stored message beside payload and headers."""


@dataclass(frozen=True, slots=True)
class Publishing:
    """The messages to publish to a stream."""

    added_msgs: int | None
    """Number of messages; None: as many as are sent within a duration."""
    stored_bytes: int = 0
    """Stored size of all these messages, with the server's overhead."""
    by_subject_msgs: Mapping[str, int] | None = None
    """Messages by subject; None: each may have any subject."""


@dataclass(frozen=True, slots=True)
class RemovedMessages:
    """The maximum numbers of messages that limits delete."""

    others_msgs: int = 0
    """Messages that the stream has now."""
    own_msgs: int = 0
    """Messages that are published."""


@dataclass(frozen=True, slots=True)
class LimitedStream:
    """The configuration and counts of a stream for its limits."""

    config: Mapping[str, object]
    state: Mapping[str, object]
    present_msgs: Mapping[str, int] = field(default_factory=dict)
    """Messages by subject, for the subjects that are published to."""
    has_all_subjects: bool = True
    """Whether `present_msgs` has all such subjects; for a missing one, the maximum is assumed."""

    @property
    def drops_messages(self) -> bool:
        """Return whether a limit deletes old messages for new ones."""
        limits = (
            self._removing_limit("max_msgs"),
            self._removing_limit("max_bytes"),
            self._removing_subject_limit,
        )
        return any(limits)

    def count_removed(self, publishing: Publishing) -> RemovedMessages:
        """Return the maximum numbers of deleted messages over all limits."""
        removals = (
            self._count_removed_above_msgs(publishing),
            self._count_removed_above_bytes(publishing),
            self._count_removed_above_subject_limit(publishing),
        )
        return RemovedMessages(
            max(removal.others_msgs for removal in removals),
            max(removal.own_msgs for removal in removals),
        )

    def may_remove_later(self, publishing: Publishing) -> bool:
        """Return whether limits may also delete messages that others publish meanwhile."""
        if publishing.added_msgs is None:
            return self.drops_messages
        removed_messages = self.count_removed(publishing)
        is_full = 0 < self._removing_subject_limit <= publishing.added_msgs
        return is_full or removed_messages != RemovedMessages()

    def _removing_limit(self, limit: str) -> int:
        """Return the value of a limit that deletes the oldest messages; 0 without one."""
        limit_value = number_at(self.config, limit)
        return limit_value if limit_value > 0 and text_at(self.config, "discard") != "new" else 0

    @property
    def _removing_subject_limit(self) -> int:
        limit_msgs = number_at(self.config, "max_msgs_per_subject")
        is_new = text_at(self.config, "discard") == "new"
        refuses = is_new and is_on(self.config, "discard_new_per_subject")
        return limit_msgs if limit_msgs > 0 and not refuses else 0

    def _count_removed_above_msgs(self, publishing: Publishing) -> RemovedMessages:
        limit_msgs, stored_msgs = (
            self._removing_limit("max_msgs"),
            number_at(self.state, "messages"),
        )
        if not limit_msgs:
            return RemovedMessages()
        return _count_removed(stored_msgs, publishing.added_msgs, limit_msgs)

    def _count_removed_above_bytes(self, publishing: Publishing) -> RemovedMessages:
        """Return all messages if the byte limit may be reached, as their sizes are unknown."""
        limit_bytes, stored_msgs = (
            self._removing_limit("max_bytes"),
            number_at(self.state, "messages"),
        )
        if not limit_bytes:
            return RemovedMessages()
        if publishing.added_msgs is None:
            return RemovedMessages(stored_msgs)
        added_bytes = publishing.stored_bytes
        others_msgs = (
            stored_msgs if number_at(self.state, "bytes") + added_bytes > limit_bytes else 0
        )
        return RemovedMessages(
            others_msgs, publishing.added_msgs if added_bytes > limit_bytes else 0
        )

    def _count_removed_above_subject_limit(self, publishing: Publishing) -> RemovedMessages:
        limit_msgs = self._removing_subject_limit
        if not limit_msgs:
            return RemovedMessages()
        added_by_subject = publishing.by_subject_msgs
        if added_by_subject is None:
            removals = [
                _count_removed(count, publishing.added_msgs, limit_msgs)
                for count in self.present_msgs.values()
            ]
            if not self.has_all_subjects:
                uncounted_msgs = number_at(self.state, "messages") - sum(
                    self.present_msgs.values()
                )
                added_msgs = publishing.added_msgs
                removals.append(
                    RemovedMessages(
                        uncounted_msgs if added_msgs is None else min(uncounted_msgs, added_msgs)
                    )
                )
        else:
            # A subject that was not counted may be at the limit.
            unseen_msgs = 0 if self.has_all_subjects else limit_msgs
            removals = [
                _count_removed(self.present_msgs.get(subject, unseen_msgs), added, limit_msgs)
                for subject, added in added_by_subject.items()
            ]
        return RemovedMessages(
            sum(removal.others_msgs for removal in removals),
            0 if added_by_subject is None else sum(removal.own_msgs for removal in removals),
        )


def removed_by_limits_text(
    config: Mapping[str, object],
    state: Mapping[str, object],
    added_msgs: int | None,
    added_bytes: int = 0,
) -> str | None:
    """Return a clause about messages that a stream's limits remove for new ones; None if none.

    Messages above the limit per subject are not counted. `added_msgs` None: unknown.
    """
    publishing = Publishing(added_msgs, added_bytes, {})
    removed_msgs = LimitedStream(config, state).count_removed(publishing).others_msgs
    if not removed_msgs:
        return None
    count_text = f"up to {removed_msgs:,} of {counted(number_at(state, 'messages'), 'message')}"
    return f"{count_text} of {text_at(config, 'name')} are removed by its limits to make room"


CONTROL_HEADERS = ("nats-rollup", "nats-schedule", "nats-trace-")
"""Prefixes, in lower case, of headers by which a message removes earlier ones, or makes the
server publish others.
"""
ONE_WRITE_HEADERS = (
    *CONTROL_HEADERS, "nats-expected-", "nats-msg-size", "nats-batch-", "nats-stream-source",
)  # fmt: skip
"""Prefixes, in lower case, of headers that are valid only for one publish or one server."""


def rolled_up_filters(subject: str, headers: Iterable[tuple[str, str]]) -> list[str]:
    """Return filters of the messages that a message with these headers removes from its stream.

    A roll-up removes messages, and so does a schedule: of its subject, its target, or another
    schedule.
    """
    texts: dict[str, list[str]] = {}
    for name, text in headers:
        texts.setdefault(name.lower(), []).append(text.strip())
    filters = [">" if text.lower() == "all" else subject for text in texts.get("nats-rollup", ())]
    if "nats-schedule" in texts:
        filters.append(subject)
    if "nats-schedule-rollup" in texts:
        filters += texts.get("nats-schedule-target", [">"])
    if "nats-schedule-next" in texts:
        filters += texts.get("nats-scheduler", [">"])
    return list(dict.fromkeys(filters))


_TARGET_HEADERS = ("nats-schedule-target", "nats-trace-dest")


def find_target_subjects(headers: Iterable[tuple[str, str]]) -> list[str]:
    """Return the subjects to which servers publish because of a message with these headers: the
    targets of schedules and the destinations of traces.
    """
    return [text.strip() for name, text in headers if name.lower() in _TARGET_HEADERS]


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
    config: Mapping[str, object], state: Mapping[str, object], age_s: float = math.inf
) -> str | None:
    """Return the possible causes of the deletion of new messages; None for only acks.

    With work queue or interest retention, acks delete messages. `state` is that of the stream's
    INFO, `age_s` the age of the oldest of these messages.
    """
    retention, has_consumers = text_at(config, "retention"), bool(state.get("consumer_count"))
    if retention == "interest" and not has_consumers:
        return "interest retention, and it has no consumer"
    if retention in ACK_RETENTIONS and has_consumers:
        size_limits = {key: config.get(key) for key in ("max_msgs", "max_bytes", "discard")}
        reasons = reached_limits(size_limits, state, age_s)
        return f"{', '.join(reasons)}, or acks of its consumers" if reasons else None
    return later_removal_reason(config, state, age_s)


def later_removal_reason(
    config: Mapping[str, object], state: Mapping[str, object], age_s: float = math.inf
) -> str:
    """Return the possible causes of a later deletion of messages of a stream, as text."""
    reasons = reached_limits(config, state, age_s)
    if text_at(config, "retention") in ACK_RETENTIONS:
        has_consumers = number_at(state, "consumer_count") > 0
        reasons.append("acks of its consumers" if has_consumers else "acks of former consumers")
    return " or ".join(filter(None, (", ".join(reasons), "a deletion or purge by somebody")))


def removes_by_itself(config: Mapping[str, object]) -> bool:
    """Return whether a stream may delete messages without a request."""
    return text_at(config, "retention") in ACK_RETENTIONS or bool(_describe_limits(config))


_REMOVING_SHARE = 0.5
"""Share of max bytes above which the limit may have removed messages for a large new one."""


def reached_limits(
    config: Mapping[str, object], state: Mapping[str, object], age_s: float
) -> list[str]:
    """Return the limits that may have removed messages which are not older than `age_s`."""
    return [
        text
        for key, text in _describe_limits(config).items()
        if not (key == "max_msgs" and number_at(state, "messages") < number_at(config, key))
        and not (
            key == "max_bytes"
            and number_at(state, "bytes") < number_at(config, key) * _REMOVING_SHARE
        )
        and not (key == "max_age" and age_s < max_age_s(config))
    ]


def _describe_limits(config: Mapping[str, object]) -> dict[str, str]:
    """Return the limits of a stream's messages: field → its name and value."""
    counts = {"max_msgs": "max messages", "max_msgs_per_subject": "max messages per subject"}
    refuses = text_at(config, "discard") == "new"
    limits = {
        key: f"{label} {number_at(config, key):,}"
        for key, label in counts.items()
        if number_at(config, key) > 0
    }
    if number_at(config, "max_bytes") > 0:
        limits["max_bytes"] = f"max bytes {bytes_text(number_at(config, 'max_bytes'))}"
    if refuses:
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
    over_msgs = max(stored_msgs + added_msgs - max_msgs, 0)
    others_msgs = min(stored_msgs, over_msgs)
    return RemovedMessages(others_msgs, over_msgs - others_msgs)
