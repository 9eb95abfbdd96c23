"""Options of a stream that concern its copies, its upstreams and its rules for messages."""

from __future__ import annotations

from natstui.model.config_field import Field

REPLICATION = (
    Field(
        "num_replicas", "Replicas", "count", "Replication",
        "Copies on different servers: 3 survives the loss of one, 5 of two.",
        default=1, flag="replicas",
    ),
    Field(
        "placement.cluster", "Cluster", "text", "Replication",
        "Place it in this cluster of a super-cluster.", flag="cluster",
    ),
    Field(
        "placement.tags", "Tags", "words", "Replication",
        "Place it only on servers that have all of these tags.", flag="tag",
    ),
    Field(
        "mirror", "Mirror", "source", "Replication",
        "A copy of one stream: NAME [seq=N] [time=T] [filter=S] [map=SRC:DEST] [api=PREFIX].",
        fixed="a mirror keeps its origin; it can only be removed, which makes it a stream",
        flag="mirror",
    ),
    Field(
        "sources", "Sources", "sources", "Replication",
        "Streams it copies from, separated by ; and each written like a mirror.", flag="source",
    ),
    Field(
        "mirror_direct", "Mirror direct", "switch", "Replication",
        "A mirror answers direct gets for its origin; off when the origin has no direct gets.",
        default=False, flag="allow-mirror-direct",
    ),
)  # fmt: skip

FEATURES = (
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
        fixed="the first sequence counts only when the stream is made",
    ),
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
    Field(
        "allow_direct", "Direct get", "switch", "Access",
        "Any replica answers reads of single messages: faster, and perhaps a moment behind.",
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
