"""The silver tables: flat, typed, one row per sample, every column documented."""

from __future__ import annotations

from natstui.analysis.tables import CONSUMER_IDENTITY, STREAM_IDENTITY, Column, Table, columns

_RUN = columns(
    ("session", "string", "Folder name of the recording"),
    ("run_id", "string", "The benchmark run"),
)


_WORKER = columns(
    ("at_us", "bigint", "When the worker reported"),
    ("role", "string", "Role of the worker"),
    ("worker_id", "bigint", "Number of the worker in its role, from 0"),
    ("phase", "string", "Phase the run was in, as the benchmark announced it"),
)


_COUNTED = {
    "sent_msgs": "Sent",
    "sent_bytes": "Payload sent",
    "acked_msgs": "Acknowledged as stored for the first time",
    "duplicate_acked_msgs": "Acknowledged as a duplicate",
    "refused_msgs": "Acknowledged with an error",
    "unanswered_msgs": "Not acknowledged in time",
    "missed_msgs": "Owed by the schedule and never sent",
    "received_msgs": "Received",
    "received_bytes": "Payload received",
    "redelivered_msgs": "Received with a delivery count above 1",
    "duplicate_msgs": "Received by this worker before",
    "out_of_order_msgs": "Received behind a later one",
    "acks_sent_msgs": "Acknowledgements sent",
    "acks_confirmed_msgs": "Double acknowledgements the server answered",
    "naks_sent_msgs": "Negative acknowledgements sent",
    "terms_sent_msgs": "Terminations sent",
    "never_acked_msgs": "Left without an acknowledgement on purpose",
    "foreign_msgs": "Received, and sent by somebody else than this run",
}


BENCH_INTERVAL = Table(
    "bench_interval",
    "What one benchmark worker did since its last report.",
    _RUN
    + _WORKER
    + columns(
        ("interval_s", "double", "Since its last report"),
        ("cpu_ratio", "double", "Of one core, in this interval"),
        *((name, "bigint", meaning) for name, meaning in _COUNTED.items()),
    ),
)


BENCH_LATENCY = Table(
    "bench_latency",
    "Latencies a worker measured since its last report: one row per bucket of the histogram.",
    _RUN
    + _WORKER
    + columns(
        ("metric", "string", "ack, e2e, store, rtt or response"),
        ("corrected", "boolean", "Counted from when the message was due, not from when it went"),
        ("bucket_id", "bigint", "Number of the bucket, 128 per power of two"),
        ("latency_ns", "bigint", "Middle of the bucket, within 0.4 %"),
        ("latencies_count", "bigint", "Latencies in the bucket"),
    ),
)


BENCH_RESULT = Table(
    "bench_result",
    "The result that a benchmark recorded at its end.",
    _RUN
    + columns(
        ("at_us", "bigint", "When it was over"),
        ("title", "string", "Title of the scenario"),
        ("started_at_us", "bigint", "When the measured part began"),
        ("duration_s", "double", "Of the measured part"),
        ("verdict", "string", "ok, incomplete, failed or stopped"),
        ("partial", "boolean", "It ended before its time"),
        ("publish_per_s", "double", "Messages published per second"),
        ("receive_per_s", "double", "Messages received per second"),
        ("fan_out_ratio", "double", "Received per stored or sent message"),
        ("fairness_ratio", "double", "Jain's index over the workers"),
        ("sent_msgs", "bigint", "Sent"),
        ("acked_msgs", "bigint", "Acknowledged as stored for the first time"),
        ("duplicate_acked_msgs", "bigint", "Acknowledged as a duplicate"),
        ("refused_msgs", "bigint", "Acknowledged with an error"),
        ("unanswered_msgs", "bigint", "Not acknowledged in time"),
        ("missed_msgs", "bigint", "Owed by the schedule and never sent"),
        ("stored_msgs", "bigint", "Stored, asked of the server"),
        ("expected_msgs", "bigint", "What the receivers should have got together"),
        ("received_msgs", "bigint", "Received"),
        ("distinct_msgs", "bigint", "Different messages received"),
        ("redelivered_msgs", "bigint", "Received with a delivery count above 1"),
        ("duplicate_msgs", "bigint", "Received more than once"),
        ("lost_msgs", "bigint", "Expected and never received"),
        ("out_of_order_msgs", "bigint", "Received behind a later one"),
        ("closes", "boolean", "The sums of the account agree"),
    ),
)


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
        ("said_count", "bigint", "How many: 1, or those that came too fast to be recorded singly"),
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


ACK_TIME = _event_table(
    "ack_time",
    "Times to acknowledge: one row per sample, or per bucket of samples counted together.",
    _NAMED,
    *columns(
        ("at_us", "bigint", "When it arrived"),
        ("bucket_id", "bigint", "Number of the bucket, 128 per power of two"),
        ("latency_ns", "bigint", "Middle of the bucket, within 0.4 %"),
        ("latencies_count", "bigint", "Samples in the bucket"),
        ("repeated_count", "bigint", "Samples of messages delivered before; in one row of many"),
        ("left_out_count", "bigint", "Samples that came too fast to be read; in one row of many"),
    ),
)


FINDING = _event_table(
    "finding",
    "A finding each time that it was raised, told something else, or was over.",
    _NAMED,
    *columns(
        ("part", "string", "What of it: a source, what cannot be read"),
        ("created_at_us", "bigint", "When the stream or consumer was created; 0 for others"),
        ("at_us", "bigint", "When it was told"),
        ("code", "string", "Of the catalogue"),
        ("since_at_us", "bigint", "Since when it holds"),
        ("until_at_us", "bigint", "When it was over; null while it is open"),
        ("text", "string", "The evidence"),
        ("sequences", "string", "Messages that it is about, the worst first"),
        ("numbers", "string", "The evidence as numbers, a JSON object"),
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
        ("max_msgs_per_subject", "bigint", "Limit of a stream; null is unlimited"),
        ("durable", "boolean", "A consumer with a durable name"),
        ("pull", "boolean", "A pull consumer"),
        ("ack_policy", "string", "Acknowledgement policy of a consumer"),
        ("max_ack_pending_msgs", "bigint", "Limit of a consumer; null is unlimited"),
        ("max_deliver_count", "bigint", "Deliveries until a message is given up"),
        ("filtered", "boolean", "The consumer filters subjects"),
    ),
)


_SAMPLE = columns(
    ("series_id", "bigint", "Hash of session, names and creation time: one line on a chart"),
    ("at_us", "bigint", "When the server's reply with this row arrived"),
    ("mono_us", "bigint", "The same moment on the recorder's monotonic clock"),
)
_STEP = columns(
    ("elapsed_us", "bigint", "Since the sample before; null at the first, after a gap, a reset"),
    ("reset", "boolean", "A counter went backwards since the sample before"),
)
_PEERS = columns(
    ("leader", "string", "Name of the leader; null while there is none or it is not known"),
    ("peers_count", "bigint", "Replicas beside the leader"),
    ("away_peers_count", "bigint", "Replicas that the leader does not hear of"),
    ("peer_lag_msgs", "bigint", "Raft entries the furthest replica is behind"),
)

STREAM_SAMPLE = Table(
    "stream_sample",
    "One stream as one poll saw it, with the change since the sample before.",
    STREAM_IDENTITY
    + _SAMPLE
    + columns(
        ("stored_msgs", "bigint", "Messages stored"),
        ("stored_bytes", "bigint", "Bytes stored"),
        ("first_seq", "bigint", "First sequence still stored"),
        ("last_seq", "bigint", "Last sequence given out"),
        ("first_at_us", "bigint", "When the first message was stored"),
        ("last_at_us", "bigint", "When the last message was stored"),
        ("deleted_msgs", "bigint", "Holes between first and last"),
        ("lost_msgs", "bigint", "Lost by damage of the store"),
        ("subjects_count", "bigint", "Distinct subjects"),
        ("consumers_count", "bigint", "Consumers"),
        ("upstream_lag_msgs", "bigint", "The furthest mirror or source is behind by"),
    )
    + _PEERS
    + _STEP
    + columns(
        ("published_msgs", "bigint", "Sequences given out since the sample before"),
        ("grown_msgs", "bigint", "Change of the messages stored since the sample before"),
        ("grown_bytes", "bigint", "Change of the bytes stored since the sample before"),
        ("leader_before", "string", "Leader at the sample before"),
    ),
)

CONSUMER_SAMPLE = Table(
    "consumer_sample",
    "One consumer as one poll saw it, with the change since the sample before.",
    CONSUMER_IDENTITY
    + _SAMPLE
    + columns(
        ("delivered_consumer_seq", "bigint", "Deliveries made, redeliveries included"),
        ("delivered_stream_seq", "bigint", "Highest stream sequence delivered"),
        (
            "ack_floor_consumer_seq",
            "bigint",
            "Ack floor of deliveries: all up to here were acked, terminated or dropped",
        ),
        (
            "ack_floor_stream_seq",
            "bigint",
            "Ack floor: all messages up to here were acked, terminated or dropped",
        ),
        ("delivered_at_us", "bigint", "Last delivery"),
        ("acked_at_us", "bigint", "Last acknowledgement"),
        ("pending_msgs", "bigint", "Matching and never delivered"),
        ("ack_pending_msgs", "bigint", "Delivered and waiting for their acknowledgement"),
        ("redelivered_msgs", "bigint", "Messages delivered more than once and not settled"),
        ("waiting_pulls_count", "bigint", "Open pull requests"),
        ("push_bound", "boolean", "A subscriber listens on the deliver subject"),
        ("paused", "boolean", "The consumer is paused"),
        ("pinned_client", "string", "Id of the pinned client"),
        ("next_at_us", "bigint", "When the next message to deliver was stored, if asked for"),
    )
    + _PEERS
    + _STEP
    + columns(
        ("delivered_msgs", "bigint", "Deliveries since the sample before"),
        ("fresh_msgs", "bigint", "Advance of the stream sequence since the sample before"),
        ("settled_msgs", "bigint", "Advance of the ack floor in deliveries since then"),
        ("stuck_since_us", "bigint", "Floor unmoved with messages outstanding since; else null"),
        ("behind_since_us", "bigint", "Messages unprocessed without a break since; else null"),
    ),
)

POLL = Table(
    "poll",
    "One poll: what it cost, what the account used, and whether the recorder was away before.",
    columns(
        ("session", "string", "Folder name of the recording"),
        ("at_us", "bigint", "When the poll was done"),
        ("mono_us", "bigint", "The same moment on the recorder's monotonic clock"),
        ("gap_before_us", "bigint", "Time without a poll before this one, where it is a gap"),
        ("lost_before_count", "bigint", "Records between the two polls that cannot be read"),
        ("clock_step_us", "bigint", "How far the wall clock was set since the poll before"),
        ("interval_us", "bigint", "Pause the poller kept between polls"),
        ("elapsed_us", "bigint", "Time the poll took"),
        ("api_rtt_us", "bigint", "Round trip of one API request"),
        ("requests_count", "bigint", "Requests of the poll"),
        ("received_bytes", "bigint", "Bytes received"),
        ("backoff_reason", "string", "Why the pause was longer than asked for"),
        ("round_us", "bigint", "Longest wait of a row for its turn; null where each poll has all"),
        ("unreachable_streams", "array<string>", "Streams whose leader did not answer the server"),
        ("unreachable_consumers", "array<array<string>>", "The same of consumers, with stream"),
        ("memory_bytes", "bigint", "Memory the account uses"),
        ("storage_bytes", "bigint", "Storage the account uses"),
        ("max_memory_bytes", "bigint", "Limit of the account; null is unlimited"),
        ("max_storage_bytes", "bigint", "Limit of the account; null is unlimited"),
        ("api_requests_count", "bigint", "API requests of the account so far"),
        ("api_errors_count", "bigint", "API errors of the account so far"),
    ),
)

SEGMENT = Table(
    "segment",
    "One file of a recording and whether it is whole.",
    columns(
        ("session", "string", "Folder name of the recording"),
        ("segment", "string", "File name"),
        ("size_bytes", "bigint", "Size on disk"),
        ("read_bytes", "bigint", "Uncompressed size that could be read"),
        ("lines_count", "bigint", "Lines read"),
        ("torn_lines_count", "bigint", "Lines cut off or not readable, left out"),
        ("unfinished_lines_count", "bigint", "Of these, the end of an open file: being written"),
        ("unknown_lines_count", "bigint", "Lines of a kind this version does not know, left out"),
        ("missing_lines_count", "bigint", "Records of a sealed segment that are not in it"),
        ("corrupt", "boolean", "A sealed segment that is cut off or damaged"),
    ),
)


TABLES = (
    STREAM_SAMPLE,
    CONSUMER_SAMPLE,
    POLL,
    SEGMENT,
    ADVISORY,
    ACK_SAMPLE,
    ACK_TIME,
    FINDING,
    EVENT,
    CONFIGURATION,
    BENCH_INTERVAL,
    BENCH_LATENCY,
    BENCH_RESULT,
)
