"""Every option of a stream on servers 2.10 to 2.15, in the order of the form."""

from __future__ import annotations

from natstui.model.assets.fields import Field, monitoring_fields
from natstui.model.assets.monitor_keys import STREAM_KEYS

BASIC = (
    Field(
        "name", "Name", "text", "Stream",
        "Up to 255 characters; no spaces, dots, * > / or \\.",
        fixed="a stream keeps its name; clone it to have another one",
    ),
    Field(
        "description", "Description", "text", "Stream",
        "For people: what is stored here and who cares for it.",
        default="", flag="description",
        absent="none",
    ),
    Field(
        "subjects", "Subjects", "subjects", "Stream",
        "What it stores: subjects or filters such as orders.>; without any, its own name.",
        flag="subjects",
        absent="none",
    ),
    Field(
        "storage", "Storage", "choice", "Stream",
        "file survives a restart; memory is faster and lost when its servers stop.",
        default="file", choices=("file", "memory"), spellings=(("f", "file"), ("m", "memory")),
        flag="storage", flag_add_only=True,
        fixed="the storage of a stream cannot change; copy it into a new stream",
    ),
    Field(
        "retention", "Retention", "choice", "Stream",
        "limits keeps until a limit; interest until every consumer acked; workqueue until acked.",
        default="limits", choices=("limits", "interest", "workqueue"),
        spellings=(("work", "workqueue"), ("workq", "workqueue")), flag="retention",
    ),
    Field(
        "metadata", "Metadata", "metadata", "Stream",
        "Your own key=value pairs; a value with a comma in double quotes.", flag="metadata",
        absent="none",
    ),
)  # fmt: skip


LIMITS = (
    Field(
        "max_age", "Maximum age", "duration", "Limits",
        "Messages older than this are removed, as 1d3h; at least 100ms.",
        default=0, flag="max-age",
        absent="unlimited",
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
        absent="nothing is remembered",
    ),
    Field(
        "consumer_limits.inactive_threshold", "Consumers inactive", "duration", "Limits",
        "Consumers may not ask for a longer inactive threshold than this.",
        flag="limit-consumer-inactive", flag_add_only=True,
        absent="unlimited",
    ),
    Field(
        "consumer_limits.max_ack_pending", "Consumers ack pending", "count", "Limits",
        "Consumers may not ask for more unacknowledged messages than this.",
        flag="limit-consumer-max-pending", flag_add_only=True,
        absent="unlimited",
    ),
)  # fmt: skip


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
        absent="no markers",
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
        absent="everything",
    ),
    Field(
        "subject_transform.dest", "Transform to", "text", "Subjects",
        "The new subject, with wildcards of the old one as $1 or {{wildcard(1)}}.",
        flag="transform-destination",
        absent="not renamed",
    ),
    Field(
        "republish.src", "Republish from", "subject", "Subjects",
        "Stored messages that match this are published once more.", flag="republish-source",
        absent="everything",
    ),
    Field(
        "republish.dest", "Republish to", "text", "Subjects",
        "The subject of the copies; it may not lead back into this stream.",
        flag="republish-destination", absent="not republished",
    ),
    Field(
        "republish.headers_only", "Republish headers", "switch", "Subjects",
        "Republish the headers without the payload.", flag="republish-headers",
    ),
)  # fmt: skip


REPLICATION = (
    Field(
        "num_replicas", "Replicas", "count", "Replication",
        "Copies on different servers: 3 survives the loss of one, 5 of two.",
        default=1, flag="replicas",
    ),
    Field(
        "placement.cluster", "Cluster", "text", "Replication",
        "Place it in this cluster of a super-cluster.", flag="cluster",
        absent="any",
    ),
    Field(
        "placement.tags", "Tags", "words", "Replication",
        "Place it only on servers that have all of these tags.", flag="tag",
        absent="any",
    ),
    Field(
        "mirror", "Mirror", "source", "Replication",
        "A copy of one stream: NAME [seq=N] [time=T] [filter=S] [map=SRC:DEST] [api=PREFIX].",
        fixed="a mirror keeps its origin; it can only be removed, which makes it a stream",
        flag="mirror",
        absent="none",
    ),
    Field(
        "sources", "Sources", "sources", "Replication",
        "Streams it copies from, each written like a mirror; in a form separated by ; signs.",
        flag="source",
        absent="none",
    ),
    Field(
        "mirror_direct", "Mirror direct", "switch", "Replication",
        "A mirror answers direct gets for its origin; off when the origin has no direct gets.",
        default=False, flag="allow-mirror-direct",
    ),
)  # fmt: skip


STORAGE = (
    Field(
        "compression", "Compression", "choice", "Storage",
        "s2 makes files smaller and costs some processor time.",
        default="none", choices=("none", "s2"), flag="compression",
    ),
    Field(
        "persist_mode", "Persist mode", "choice", "Storage",
        "async answers before the message is on the disk: faster, and a crash may lose some.",
        default="default", choices=("default", "async"), api_level_count=2,
        flag="persist-mode", flag_add_only=True,
        fixed="the persist mode of a stream cannot change",
    ),
    Field(
        "first_seq", "First sequence", "count", "Storage",
        "The sequence of the first message.", default=0,
        flag="first-sequence", flag_add_only=True,
        fixed="the first sequence counts only when the stream is made; servers take another one, "
        "and drop every message before it when they start again",
        absent="1",
    ),
)  # fmt: skip

ACCESS = (
    Field(
        "allow_direct", "Direct get", "switch", "Access",
        "Every replica answers reads of single messages: faster, and perhaps a moment behind.",
        default=False, flag="allow-direct",
    ),
    Field(
        "deny_delete", "Deny delete", "switch", "Access",
        "Single messages cannot be deleted; this cannot be taken back.",
        default=False, flag="deny-delete",
    ),
    Field(
        "deny_purge", "Deny purge", "switch", "Access",
        "The stream cannot be purged; this cannot be taken back.",
        default=False, flag="deny-purge",
    ),
    Field(
        "sealed", "Sealed", "switch", "Access",
        "Nothing can be added or removed any more; this cannot be taken back.",
        default=False,
    ),
)  # fmt: skip


MONITORING = monitoring_fields(STREAM_KEYS)

STREAM_FIELDS: tuple[Field, ...] = (
    BASIC + LIMITS + REPLICATION + STORAGE + PUBLISHING + SUBJECTS + ACCESS + MONITORING
)

STREAM_FIELD = {field.path: field for field in STREAM_FIELDS}

NEW_STREAM: dict[str, object] = {"name": "", "storage": "file", "allow_direct": True}
"""What an empty creation form starts with."""
