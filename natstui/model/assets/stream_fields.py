"""Every option of a stream on servers 2.10 to 2.15, in the order of the form."""

from __future__ import annotations

from natstui.model.assets.fields import Field, monitoring_fields
from natstui.model.assets.monitor_keys import STREAM_KEYS

BASIC_FIELDS = (
    Field(
        "name", "Name", "text", "Stream",
        "Up to 255 characters; no spaces, dots, * > / or \\.",
        fixed_reason="a stream cannot be renamed; clone it under another name",
    ),
    Field(
        "description", "Description", "text", "Stream",
        "A note for people: what is stored here, and who is responsible.",
        default="", flag="description",
        absent_text="none",
    ),
    Field(
        "subjects", "Subjects", "subjects", "Stream",
        "Subjects to store, such as orders.>; if empty, the name of the stream.",
        flag="subjects",
        absent_text="none",
    ),
    Field(
        "storage", "Storage", "choice", "Stream",
        "file survives a restart; memory is faster, but lost when the servers stop.",
        default="file", choices=("file", "memory"), spellings=(("f", "file"), ("m", "memory")),
        flag="storage", flag_add_only=True,
        fixed_reason="the storage of a stream cannot change; copy it into a new stream",
    ),
    Field(
        "retention", "Retention", "choice", "Stream",
        "limits: kept up to the limits; interest: until all consumers acked; workqueue: until "
        "acked.",
        default="limits", choices=("limits", "interest", "workqueue"),
        spellings=(("work", "workqueue"), ("workq", "workqueue")), flag="retention",
    ),
    Field(
        "metadata", "Metadata", "metadata", "Stream",
        "Your own key=value pairs; write double quotes around a value with a comma.",
        flag="metadata", absent_text="none",
    ),
)  # fmt: skip


LIMIT_FIELDS = (
    Field(
        "max_age", "Maximum age", "duration", "Limits",
        "Messages older than this are removed, as 1d3h; at least 100ms.",
        default=0, flag="max-age",
        absent_text="unlimited",
    ),
    Field(
        "max_bytes", "Maximum size", "bytes", "Limits",
        "The most bytes that all messages may use, as 256MB or 10GiB.",
        default=-1, flag="max-bytes",
    ),
    Field(
        "max_msgs", "Maximum messages", "count", "Limits",
        "The most messages that the stream keeps.", default=-1, flag="max-msgs",
    ),
    Field(
        "max_msgs_per_subject", "Maximum per subject", "count", "Limits",
        "The most messages kept per subject; 1 keeps only the last value.",
        default=-1, flag="max-msgs-per-subject",
    ),
    Field(
        "max_msg_size", "Maximum message size", "bytes", "Limits",
        "Messages larger than this, headers included, are refused.",
        default=-1, flag="max-msg-size",
    ),
    Field(
        "max_consumers", "Maximum consumers", "count", "Limits",
        "The most consumers; further ones are refused.", default=-1, flag="max-consumers",
    ),
    Field(
        "discard", "When full", "choice", "Limits",
        "old removes the oldest to make room; new refuses the new message.",
        default="old", choices=("old", "new"), flag="discard",
    ),
    Field(
        "discard_new_per_subject", "New per subject", "switch", "Limits",
        "With discard new: a full subject refuses new messages instead of removing the oldest.",
        default=False, flag="discard-per-subject",
    ),
    Field(
        "duplicate_window", "Duplicate window", "duration", "Limits",
        "How long a Nats-Msg-Id is remembered, so that a message published twice is stored once.",
        default=120_000_000_000, flag="dupe-window",
        absent_text="nothing is remembered",
    ),
    Field(
        "consumer_limits.inactive_threshold", "Consumers inactive", "duration", "Limits",
        "The longest inactive threshold that a consumer may have.",
        flag="limit-consumer-inactive", flag_add_only=True,
        absent_text="unlimited",
    ),
    Field(
        "consumer_limits.max_ack_pending", "Consumers ack pending", "count", "Limits",
        "The highest max ack pending that a consumer may have.",
        flag="limit-consumer-max-pending", flag_add_only=True,
        absent_text="unlimited",
    ),
)  # fmt: skip


PUBLISHING_FIELDS = (
    Field(
        "no_ack", "No acknowledgement", "switch", "Publishing",
        "Publishers get no ack; needed to store > or system subjects.",
        default=False, flag="no-ack",
    ),
    Field(
        "allow_msg_ttl", "Message TTL", "switch", "Publishing",
        "A message may have its own time to live in the header Nats-TTL.",
        default=False, needed_api_level=1, flag="allow-msg-ttl",
    ),
    Field(
        "subject_delete_marker_ttl", "Delete marker TTL", "duration", "Publishing",
        "When age removes the last message of a subject, a marker stays this long; at least 1s.",
        default=0, needed_api_level=1, flag="subject-del-markers-ttl",
        absent_text="no markers",
    ),
    Field(
        "allow_rollup_hdrs", "Roll-ups", "switch", "Publishing",
        "A message with the header Nats-Rollup replaces all earlier messages.",
        default=False, flag="allow-rollup",
    ),
    Field(
        "allow_atomic", "Atomic batches", "switch", "Publishing",
        "Publishers may send batches that are stored completely or not at all.",
        default=False, needed_api_level=2, flag="allow-batch",
    ),
    Field(
        "allow_batched", "Fast batches", "switch", "Publishing",
        "Publishers may send batches that are acknowledged together.",
        default=False, needed_api_level=4, flag="allow-fast",
    ),
    Field(
        "allow_msg_counter", "Counters", "switch", "Publishing",
        "Each subject is a counter; the header Nats-Incr adds to it.",
        default=False, needed_api_level=2, flag="allow-counter",
        fixed_reason="counters cannot be switched on or off after the creation of the stream",
    ),
    Field(
        "allow_msg_schedules", "Schedules", "switch", "Publishing",
        "A stored message may be published later or repeatedly (header Nats-Schedule).",
        default=False, needed_api_level=2, flag="allow-schedules",
    ),
)  # fmt: skip

SUBJECT_FIELDS = (
    Field(
        "subject_transform.src", "Transform from", "subject", "Subjects",
        "Subjects that match this are renamed before the message is stored.",
        flag="transform-source",
        absent_text="everything",
    ),
    Field(
        "subject_transform.dest", "Transform to", "text", "Subjects",
        "The new subject; $1 or {{wildcard(1)}} inserts a wildcard of the old one.",
        flag="transform-destination",
        absent_text="not renamed",
    ),
    Field(
        "republish.src", "Republish from", "subject", "Subjects",
        "Stored messages that match this are published again under another subject.",
        flag="republish-source",
        absent_text="everything",
    ),
    Field(
        "republish.dest", "Republish to", "text", "Subjects",
        "The subject of the republished messages; this stream must not store it.",
        flag="republish-destination", absent_text="not republished",
    ),
    Field(
        "republish.headers_only", "Republish headers", "switch", "Subjects",
        "Republish the headers without the payload.", flag="republish-headers",
    ),
)  # fmt: skip


REPLICATION_FIELDS = (
    Field(
        "num_replicas", "Replicas", "count", "Replication",
        "Copies on different servers: 3 survive the loss of one server, 5 of two.",
        default=1, flag="replicas",
    ),
    Field(
        "placement.cluster", "Cluster", "text", "Replication",
        "Place the stream in this cluster of a super-cluster.", flag="cluster",
        absent_text="any",
    ),
    Field(
        "placement.tags", "Tags", "words", "Replication",
        "Place the stream only on servers that have all of these tags.", flag="tag",
        absent_text="any",
    ),
    Field(
        "mirror", "Mirror", "source", "Replication",
        "A copy of one stream: NAME [seq=N] [time=T] [filter=S] [map=SRC:DEST] [api=PREFIX].",
        fixed_reason="the origin of a mirror cannot change; removing it turns the mirror into a "
            "normal stream",
        flag="mirror",
        absent_text="none",
    ),
    Field(
        "sources", "Sources", "sources", "Replication",
        "Streams to copy from, each written like a mirror; separate several by semicolons in a "
        "form.",
        flag="source",
        absent_text="none",
    ),
    Field(
        "mirror_direct", "Mirror direct", "switch", "Replication",
        "The mirror also serves direct gets of its origin; needs allow direct at the origin.",
        default=False, flag="allow-mirror-direct",
    ),
)  # fmt: skip


STORAGE_FIELDS = (
    Field(
        "compression", "Compression", "choice", "Storage",
        "s2 makes files smaller but uses some CPU time.",
        default="none", choices=("none", "s2"), flag="compression",
    ),
    Field(
        "persist_mode", "Persist mode", "choice", "Storage",
        "async acks before the message is on disk: faster, but a crash may lose messages.",
        default="default", choices=("default", "async"), needed_api_level=2,
        flag="persist-mode", flag_add_only=True,
        fixed_reason="the persist mode of a stream cannot change",
    ),
    Field(
        "first_seq", "First sequence", "count", "Storage",
        "The sequence of the first message.", default=0,
        flag="first-sequence", flag_add_only=True,
        fixed_reason="the first sequence can be set only at creation; a server would accept a new "
            "value, and drop every message before it at its next restart",
        absent_text="1",
    ),
)  # fmt: skip

ACCESS_FIELDS = (
    Field(
        "allow_direct", "Direct get", "switch", "Access",
        "Every replica serves reads of single messages: faster, but perhaps slightly behind.",
        default=False, flag="allow-direct",
    ),
    Field(
        "deny_delete", "Deny delete", "switch", "Access",
        "Single messages cannot be deleted; this cannot be undone.",
        default=False, flag="deny-delete",
    ),
    Field(
        "deny_purge", "Deny purge", "switch", "Access",
        "Forbids purging; cannot be switched off again.",
        default=False, flag="deny-purge",
    ),
    Field(
        "sealed", "Sealed", "switch", "Access",
        "No message can be added or removed any more; this cannot be undone.",
        default=False,
    ),
)  # fmt: skip


MONITORING_FIELDS = monitoring_fields(STREAM_KEYS)

STREAM_FIELDS: tuple[Field, ...] = (
    BASIC_FIELDS
    + LIMIT_FIELDS
    + REPLICATION_FIELDS
    + STORAGE_FIELDS
    + PUBLISHING_FIELDS
    + SUBJECT_FIELDS
    + ACCESS_FIELDS
    + MONITORING_FIELDS
)

STREAM_FIELD_BY_PATH = {field.path: field for field in STREAM_FIELDS}

NEW_STREAM_CONFIG: dict[str, object] = {"name": "", "storage": "file", "allow_direct": True}
"""Initial values of an empty creation form."""
