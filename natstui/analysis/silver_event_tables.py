"""The silver tables of what happened: advisories, acknowledgements, events, configurations."""

from __future__ import annotations

from natstui.analysis.tables import Column, Table, columns


def _event_table(name: str, meaning: str, identity: tuple[Column, ...], *rows: Column) -> Table:
    return Table(name, meaning, identity[:3] + rows)


_NAMED = columns(
    ("session", "string", "Folder name of the recording"),
    ("stream", "string", "Name of the stream"),
    ("consumer", "string", "Name of the consumer"),
)


ADVISORY = _event_table(
    "advisory",
    "What the server announced.",
    _NAMED,
    *columns(
        ("at_us", "bigint", "When it arrived"),
        ("kind", "string", "Last word of the advisory's type"),
        ("stream_seq", "bigint", "The message concerned"),
        ("deliveries_count", "bigint", "Deliveries of that message so far"),
        ("leader", "string", "The leader elected"),
        ("text", "string", "One sentence"),
    ),
)


ACK_SAMPLE = _event_table(
    "ack_sample",
    "A sampled acknowledgement.",
    _NAMED,
    *columns(
        ("at_us", "bigint", "When it arrived"),
        ("stream_seq", "bigint", "The message"),
        ("consumer_seq", "bigint", "The delivery"),
        ("deliveries_count", "bigint", "Deliveries of the message so far"),
        ("ack_ns", "bigint", "From delivery to acknowledgement"),
    ),
)


EVENT = Table(
    "event",
    "What happened to the recorder: connection, failed polls, notes, commands.",
    columns(
        ("session", "string", "Folder name of the recording"),
        ("at_us", "bigint", "When"),
        ("kind", "string", "Kind of record"),
        ("what", "string", "The state, source or status"),
        ("text", "string", "One sentence"),
    ),
)


CONFIGURATION = _event_table(
    "configuration",
    "Configurations of streams (consumer is null) and consumers, when first seen and changed.",
    _NAMED,
    *columns(
        ("created_at_us", "bigint", "When the stream or consumer was created"),
        ("at_us", "bigint", "When the configuration was seen"),
        ("change_count", "bigint", "0 when first seen, then 1, 2 … per change"),
        ("replicas_count", "bigint", "Replicas"),
        ("retention", "string", "Retention of a stream"),
        ("discard", "string", "What a full stream discards"),
        ("max_msgs", "bigint", "Limit of a stream; null is unlimited"),
        ("max_bytes", "bigint", "Limit of a stream; null is unlimited"),
        ("max_age_ns", "bigint", "Limit of a stream; null is unlimited"),
        ("pull", "boolean", "A pull consumer"),
        ("ack_policy", "string", "Acknowledgement policy of a consumer"),
        ("max_ack_pending_msgs", "bigint", "Limit of a consumer; null is unlimited"),
        ("max_deliver_count", "bigint", "Deliveries until a message is given up"),
        ("filtered", "boolean", "The consumer filters subjects"),
    ),
)
