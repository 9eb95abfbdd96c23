"""Options of a stream: its limits, and what happens when they are reached."""

from __future__ import annotations

from natstui.model.config_field import Field

LIMITS = (
    Field(
        "max_age", "Maximum age", "duration", "Limits",
        "Messages older than this are removed, as 1d3h; at least 100ms.",
        default=0, flag="max-age",
    ),
    Field(
        "max_bytes", "Maximum size", "bytes", "Limits",
        "All messages together, as 256MB or 10GiB.", default=-1, flag="max-bytes",
    ),
    Field(
        "max_msgs", "Maximum messages", "count", "Limits",
        "How many messages it keeps.", default=-1, flag="max-msgs",
    ),
    Field(
        "max_msgs_per_subject", "Maximum per subject", "count", "Limits",
        "How many messages it keeps of each subject; 1 is a table of last values.",
        default=-1, flag="max-msgs-per-subject",
    ),
    Field(
        "max_msg_size", "Maximum message size", "bytes", "Limits",
        "Larger messages are refused, headers included.", default=-1, flag="max-msg-size",
    ),
    Field(
        "max_consumers", "Maximum consumers", "count", "Limits",
        "More consumers are refused.", default=-1, flag="max-consumers",
    ),
    Field(
        "discard", "When full", "choice", "Limits",
        "old removes the oldest to make room; new refuses the new message.",
        default="old", choices=("old", "new"), flag="discard",
    ),
    Field(
        "discard_new_per_subject", "New per subject", "switch", "Limits",
        "With discard new: a subject that is full refuses, instead of removing its oldest.",
        default=False, flag="discard-per-subject",
    ),
    Field(
        "duplicate_window", "Duplicate window", "duration", "Limits",
        "How long a Nats-Msg-Id is remembered, to drop a message published twice.",
        default=120_000_000_000, flag="dupe-window",
    ),
    Field(
        "consumer_limits.inactive_threshold", "Consumers inactive", "duration", "Limits",
        "Consumers may not ask for a longer inactive threshold than this.",
        flag="limit-consumer-inactive", flag_add_only=True,
    ),
    Field(
        "consumer_limits.max_ack_pending", "Consumers ack pending", "count", "Limits",
        "Consumers may not ask for more unacknowledged messages than this.",
        flag="limit-consumer-max-pending", flag_add_only=True,
    ),
)  # fmt: skip
