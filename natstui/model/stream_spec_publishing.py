"""Options of a stream: what a publisher may do, and what becomes of subjects."""

from __future__ import annotations

from natstui.model.config_field import Field

PUBLISHING = (
    Field(
        "no_ack", "No acknowledgement", "switch", "Publishing",
        "Publishers get no answer; needed to store > or subjects of the system.",
        default=False, flag="no-ack",
    ),
    Field(
        "allow_msg_ttl", "Message TTL", "switch", "Publishing",
        "A message may carry its own time to live in Nats-TTL.",
        default=False, api_level_count=1, flag="allow-msg-ttl",
    ),
    Field(
        "subject_delete_marker_ttl", "Delete marker TTL", "duration", "Publishing",
        "When age removes the last message of a subject, a marker stays this long; at least 1s.",
        default=0, api_level_count=1, flag="subject-del-markers-ttl",
    ),
    Field(
        "allow_rollup_hdrs", "Roll-ups", "switch", "Publishing",
        "A message with Nats-Rollup replaces what is stored before it.",
        default=False, flag="allow-rollup",
    ),
    Field(
        "allow_atomic", "Atomic batches", "switch", "Publishing",
        "Several messages are stored together or not at all.",
        default=False, api_level_count=2, flag="allow-batch",
    ),
    Field(
        "allow_batched", "Fast batches", "switch", "Publishing",
        "Publishers may send batches that are acknowledged together.",
        default=False, api_level_count=4, flag="allow-fast",
    ),
    Field(
        "allow_msg_counter", "Counters", "switch", "Publishing",
        "Each subject is a counter that Nats-Incr adds to.",
        default=False, api_level_count=2, flag="allow-counter",
        fixed="a stream is made for counters or never has them",
    ),
    Field(
        "allow_msg_schedules", "Schedules", "switch", "Publishing",
        "A stored message may be published later, or again and again (Nats-Schedule).",
        default=False, api_level_count=2, flag="allow-schedules",
    ),
)  # fmt: skip

SUBJECTS = (
    Field(
        "subject_transform.src", "Transform from", "subject", "Subjects",
        "Arriving subjects that match this are renamed before they are stored.",
        flag="transform-source",
    ),
    Field(
        "subject_transform.dest", "Transform to", "text", "Subjects",
        "The new subject, with wildcards of the old one as $1 or {{wildcard(1)}}.",
        flag="transform-destination",
    ),
    Field(
        "republish.src", "Republish from", "subject", "Subjects",
        "Stored messages that match this are published once more.", flag="republish-source",
    ),
    Field(
        "republish.dest", "Republish to", "text", "Subjects",
        "Where to; it may not lead back into this stream.", flag="republish-destination",
    ),
    Field(
        "republish.headers_only", "Republish headers", "switch", "Subjects",
        "Republish the headers without the payload.", flag="republish-headers",
    ),
)  # fmt: skip
