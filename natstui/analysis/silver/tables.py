"""The silver tables: flat, typed, one row per sample, every column documented."""

from __future__ import annotations

from natstui.analysis.tables import CONSUMER_IDENTITY, STREAM_IDENTITY, Table, columns
from natstui.model.live.advisory_counts import MAX_MESSAGES

_RUN_COLUMNS = columns(
    ("session", "string", "Folder name of the recording"),
    ("run_id", "string", "The benchmark run"),
)


_WORKER_COLUMNS = columns(
    ("at_us", "bigint", "When the worker reported"),
    ("role", "string", "Role of the worker"),
    ("worker_id", "bigint", "Number of the worker in its role, from 0"),
    ("phase", "string", "Phase of the run, as reported by the benchmark"),
)


_COUNTER_MEANINGS = {
    "sent_msgs": "Sent",
    "sent_bytes": "Payload sent",
    "acked_msgs": "Messages that the server acknowledged as newly stored",
    "duplicate_acked_msgs": "Acknowledged as a duplicate",
    "refused_msgs": "Messages that the server refused: publish acks with an error",
    "unanswered_msgs": "Messages that were not acknowledged in time",
    "missed_msgs": "Messages due by the schedule but never sent",
    "received_msgs": "Received",
    "received_bytes": "Payload received",
    "redelivered_msgs": "Messages received with a delivery count above 1",
    "duplicate_msgs": "Messages received again by this worker",
    "out_of_order_msgs": "Messages received out of order, after a later one",
    "acks_sent_msgs": "Acknowledgements sent",
    "acks_confirmed_msgs": "Double acks that the server confirmed",
    "naks_sent_msgs": "Negative acknowledgements sent",
    "terms_sent_msgs": "Terminations sent",
    "never_acked_msgs": "Messages left unacknowledged on purpose",
    "foreign_msgs": "Messages received that this run did not send",
}


BENCH_INTERVAL = Table(
    "bench_interval",
    "Counters of a benchmark worker since its last report.",
    _RUN_COLUMNS
    + _WORKER_COLUMNS
    + columns(
        (
            "pattern",
            "string",
            "Load pattern of the role, from the result; null if the run did not end",
        ),
        ("interval_s", "double", "Time since the last report of the worker"),
        ("cpu_ratio", "double", "CPU time in this interval, as a share of one core"),
        *((name, "bigint", meaning) for name, meaning in _COUNTER_MEANINGS.items()),
    ),
    key=("session", "run_id", "role", "worker_id", "at_us"),
)


BENCH_LATENCY = Table(
    "bench_latency",
    "Latencies a worker measured since its last report: one row per bucket of the histogram.",
    _RUN_COLUMNS
    + _WORKER_COLUMNS
    + columns(
        ("metric", "string", "Kind of latency: ack, e2e, store, rtt, response or late"),
        (
            "corrected",
            "boolean",
            "Whether latency starts at the due time (true) or at sending (false)",
        ),
        ("bucket_id", "bigint", "Number of the bucket, 128 per power of two"),
        ("latency_ns", "bigint", "Middle of the bucket, within 0.4 %"),
        ("latencies_count", "bigint", "Latencies in the bucket"),
    ),
    key=("session", "run_id", "role", "worker_id", "at_us", "metric", "corrected", "bucket_id"),
)


BENCH_RESULT = Table(
    "bench_result",
    "The result that a benchmark recorded at its end.",
    _RUN_COLUMNS
    + columns(
        ("at_us", "bigint", "End of the run"),
        ("title", "string", "Title of the scenario"),
        ("started_at_us", "bigint", "Start of the measured part"),
        ("duration_s", "double", "Length of the measured part"),
        ("verdict", "string", "Verdict: ok, incomplete, failed or stopped"),
        ("partial", "boolean", "Whether the run ended before its planned end"),
        ("publish_per_s", "double", "Messages published per second"),
        ("receive_per_s", "double", "Messages received per second"),
        ("fan_out_ratio", "double", "Messages received per message stored or sent"),
        (
            "fairness_ratio",
            "double",
            "How evenly workers share the load (Jain's index, 1: evenly)",
        ),
        ("sent_msgs", "bigint", "Sent"),
        ("acked_msgs", "bigint", "Messages that the server acknowledged as newly stored"),
        ("duplicate_acked_msgs", "bigint", "Acknowledged as a duplicate"),
        ("refused_msgs", "bigint", "Messages that the server refused: publish acks with an error"),
        ("unanswered_msgs", "bigint", "Messages that were not acknowledged in time"),
        ("missed_msgs", "bigint", "Messages due by the schedule but never sent"),
        ("stored_msgs", "bigint", "Stored messages, as reported by the server"),
        ("expected_msgs", "bigint", "Messages that all receivers should have received together"),
        ("received_msgs", "bigint", "Received"),
        ("distinct_msgs", "bigint", "Different messages received"),
        ("redelivered_msgs", "bigint", "Messages received with a delivery count above 1"),
        ("duplicate_msgs", "bigint", "Messages received more than once"),
        ("lost_msgs", "bigint", "Messages expected but never received"),
        ("out_of_order_msgs", "bigint", "Messages received out of order, after a later one"),
        ("closes", "boolean", "Whether the message counts add up"),
    ),
    key=("session", "run_id"),
)


_STREAM_AND_CONSUMER = columns(
    ("session", "string", "Folder name of the recording"),
    ("stream", "string", "Name of the stream"),
    ("consumer", "string", "Name of the consumer"),
)


ONLY_FREQUENT_MESSAGES_MEANING = (
    "of advisories that arrived too fast to be recorded singly, only the "
    f"{MAX_MESSAGES} most frequent messages of each second, consumer and kind are known"
)
ADVISORY = Table(
    "advisory",
    "Advisories of the server.",
    _STREAM_AND_CONSUMER
    + columns(
        (
            "at_us",
            "bigint",
            "When the server sent it, or its arrival if that time is impossible; of a count the "
            "middle of its second",
        ),
        ("kind", "string", "Last part of the advisory's type"),
        (
            "advisories_count",
            "bigint",
            "Number of advisories: 1, or more if they arrived too fast to be recorded singly",
        ),
        ("stream_seq", "bigint", f"The message concerned; {ONLY_FREQUENT_MESSAGES_MEANING}"),
        ("deliveries_count", "bigint", "Deliveries of the message so far"),
        ("leader", "string", "The leader elected"),
        ("text", "string", "One sentence"),
        (
            "server_at_us",
            "bigint",
            "at_us as recorded: not moved when the clock of the recorder was set",
        ),
    ),
)


ACK_SAMPLE = Table(
    "ack_sample",
    "A sampled acknowledgement.",
    _STREAM_AND_CONSUMER
    + columns(
        ("at_us", "bigint", "When the server sent it; its arrival if that time is impossible"),
        ("stream_seq", "bigint", "The message"),
        ("consumer_seq", "bigint", "The delivery"),
        ("deliveries_count", "bigint", "Deliveries of the message so far"),
        ("ack_ns", "bigint", "From delivery to acknowledgement"),
    ),
)


ACK_TIME = Table(
    "ack_time",
    "Times to acknowledge: one row per sample, or per bucket of samples counted together.",
    _STREAM_AND_CONSUMER
    + columns(
        (
            "at_us",
            "bigint",
            "When it was sent, as in ack_sample; of a count the middle of its second",
        ),
        ("bucket_id", "bigint", "Number of the bucket, 128 per power of two"),
        ("latency_ns", "bigint", "Middle of the bucket, within 0.4 %"),
        ("latencies_count", "bigint", "Samples in the bucket"),
        (
            "repeated_count",
            "bigint",
            "Samples of redelivered messages; written in only one of the rows",
        ),
        (
            "left_out_count",
            "bigint",
            "Samples not read because they arrived too fast; written in only one of the rows",
        ),
        ("counted", "boolean", "Whether the samples were recorded as a count, without messages"),
    ),
)


FINDING = Table(
    "finding",
    "A row each time that a finding began, changed or ended.",
    _STREAM_AND_CONSUMER
    + columns(
        (
            "part",
            "string",
            "Part of the stream concerned, such as a source, or the data that cannot be read",
        ),
        ("created_at_us", "bigint", "When the stream or consumer was created; 0 for others"),
        ("at_us", "bigint", "When the finding was reported"),
        ("code", "string", "Of the catalogue"),
        ("since_at_us", "bigint", "Start of the finding"),
        ("until_at_us", "bigint", "End of the finding; null while it is open"),
        ("text", "string", "The evidence"),
        ("sequences", "string", "Sequences of the messages concerned, the worst first"),
        ("numbers", "string", "The evidence as numbers, a JSON object"),
    ),
)


EVENT = Table(
    "event",
    "Events of the recorder: connection, failed polls, notes, commands; sessions not judged.",
    columns(
        ("session", "string", "Folder name of the recording"),
        ("at_us", "bigint", "When"),
        ("kind", "string", "Kind of record"),
        ("what", "string", "State, source or status of the event"),
        ("text", "string", "One sentence"),
    ),
)


CONFIGURATION = Table(
    "configuration",
    "Configurations of streams (consumer is null) and consumers, when first seen and changed.",
    _STREAM_AND_CONSUMER
    + columns(
        ("created_at_us", "bigint", "When the stream or consumer was created"),
        ("at_us", "bigint", "When the configuration was seen"),
        ("change_count", "bigint", "0 when first seen, then 1, 2 … per change"),
        ("replicas_count", "bigint", "Replicas"),
        ("retention", "string", "Retention of a stream"),
        ("discard", "string", "What a full stream discards"),
        ("max_msgs", "bigint", "Limit of a stream; null: unlimited"),
        ("max_bytes", "bigint", "Limit of a stream; null: unlimited"),
        ("max_age_ns", "bigint", "Limit of a stream; null: unlimited"),
        ("max_msgs_per_subject", "bigint", "Limit of a stream; null: unlimited"),
        ("durable", "boolean", "A consumer with a durable name"),
        ("pull", "boolean", "A pull consumer"),
        ("ack_policy", "string", "Acknowledgement policy of a consumer"),
        ("max_ack_pending_msgs", "bigint", "Limit of a consumer; null: unlimited"),
        ("max_deliver_count", "bigint", "Deliveries until a message is dropped"),
        ("filtered", "boolean", "The consumer filters subjects"),
    ),
    key=("session", "stream", "consumer", "created_at_us", "change_count"),
)


SERVER_SAMPLE = Table(
    "server_sample",
    "One server in one reading of the servers.",
    columns(
        ("session", "string", "Folder name of the recording"),
        ("server_id", "string", "Identifier of the server, which a restart changes"),
        ("server", "string", "Name of the server"),
        ("cluster", "string", "Cluster of the server; null without one"),
        ("version", "string", "Version of the server; null if it is unknown"),
        ("at_us", "bigint", "When the servers were read"),
    ),
    key=("session", "server_id", "at_us"),
)


_SAMPLE_COLUMNS = columns(
    (
        "series_id",
        "bigint",
        "Hash of session, names and creation time; identifies one line of a chart",
    ),
    ("at_us", "bigint", "When the server's reply with this row arrived"),
    ("mono_us", "bigint", "The same time on the recorder's monotonic clock"),
)
_CHANGE_COLUMNS = columns(
    (
        "elapsed_us",
        "bigint",
        "Time since the previous sample; null for the first one, after a gap or reset",
    ),
    ("reset", "boolean", "Whether a counter decreased since the previous sample"),
)
_REPLICA_COLUMNS = columns(
    ("leader", "string", "Name of the leader; null if there is none or it is unknown"),
    ("peers_count", "bigint", "Number of replicas, not counting the leader"),
    ("away_peers_count", "bigint", "Replicas without contact to the leader"),
    ("peer_lag_msgs", "bigint", "Lag of the slowest replica, in Raft entries"),
)

STREAM_SAMPLE = Table(
    "stream_sample",
    "One stream in one poll, with the change since the previous sample.",
    STREAM_IDENTITY
    + _SAMPLE_COLUMNS
    + columns(
        ("stored_msgs", "bigint", "Messages stored"),
        ("stored_bytes", "bigint", "Bytes stored"),
        ("first_seq", "bigint", "First sequence still stored"),
        ("last_seq", "bigint", "Last sequence assigned by the stream"),
        ("first_at_us", "bigint", "When the first message was stored"),
        ("last_at_us", "bigint", "When the last message was stored"),
        ("deleted_msgs", "bigint", "Deleted messages between the first and the last sequence"),
        ("lost_msgs", "bigint", "Messages lost because the store was damaged"),
        ("subjects_count", "bigint", "Distinct subjects"),
        ("consumers_count", "bigint", "Consumers"),
        (
            "upstream_lag_msgs",
            "bigint",
            "Lag of the slowest mirror or source, in messages",
        ),
    )
    + _REPLICA_COLUMNS
    + _CHANGE_COLUMNS
    + columns(
        ("published_msgs", "bigint", "Sequences assigned since the previous sample"),
        ("grown_msgs", "bigint", "Change of the stored messages since the previous sample"),
        ("grown_bytes", "bigint", "Change of the stored bytes since the previous sample"),
        ("leader_before", "string", "Leader at the previous sample"),
        ("gaps_count", "bigint", "Gaps of the recording before this sample"),
    ),
)

CONSUMER_SAMPLE = Table(
    "consumer_sample",
    "One consumer in one poll, with the change since the previous sample.",
    CONSUMER_IDENTITY
    + _SAMPLE_COLUMNS
    + columns(
        ("delivered_consumer_seq", "bigint", "Deliveries, redeliveries included"),
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
        ("pending_msgs", "bigint", "Messages that match the filter and were never delivered"),
        ("ack_pending_msgs", "bigint", "Messages delivered and not yet acknowledged"),
        ("redelivered_msgs", "bigint", "Messages delivered more than once and not acked"),
        ("waiting_pulls_count", "bigint", "Open pull requests"),
        ("push_bound", "boolean", "Whether a client subscribes to the deliver subject"),
        ("paused", "boolean", "Whether the consumer is paused"),
        ("pinned_client", "string", "Id of the pinned client"),
        ("next_at_us", "bigint", "When the next message to deliver was stored, if measured"),
    )
    + _REPLICA_COLUMNS
    + _CHANGE_COLUMNS
    + columns(
        ("delivered_msgs", "bigint", "Deliveries since the previous sample"),
        ("fresh_msgs", "bigint", "Advance of the stream sequence since the previous sample"),
        (
            "settled_msgs",
            "bigint",
            "Advance of the ack floor, in deliveries, since the previous sample",
        ),
        (
            "stuck_since_us",
            "bigint",
            "Since when the ack floor has not moved although messages are outstanding; else null",
        ),
        (
            "behind_since_us",
            "bigint",
            "Since when there are always unprocessed messages; else null",
        ),
    ),
)

POLL = Table(
    "poll",
    "One poll: its cost, the use of the account, and a gap before it.",
    columns(
        ("session", "string", "Folder name of the recording"),
        ("at_us", "bigint", "Time of the poll"),
        ("mono_us", "bigint", "The same time on the recorder's monotonic clock"),
        ("gap_before_us", "bigint", "Length of the gap without a poll before this one, if any"),
        ("lost_before_count", "bigint", "Unreadable records between the two polls"),
        ("clock_step_us", "bigint", "Change of the wall clock since the previous poll"),
        ("interval_us", "bigint", "Pause between polls"),
        ("elapsed_us", "bigint", "Duration of the poll"),
        ("api_rtt_us", "bigint", "Round trip of one API request"),
        ("requests_count", "bigint", "API requests of the poll"),
        ("received_bytes", "bigint", "Bytes received"),
        ("backoff_reason", "string", "Why the pause was longer than configured"),
        (
            "round_us",
            "bigint",
            "Longest time between two reads of a row; null if each poll reads all rows",
        ),
        (
            "unreachable_streams",
            "array<string>",
            "Streams whose leader did not reply to the server",
        ),
        (
            "unreachable_consumers",
            "array<array<string>>",
            "Consumers whose leader did not reply to the server, with stream",
        ),
        ("memory_bytes", "bigint", "Memory used by the account"),
        ("storage_bytes", "bigint", "Storage used by the account"),
        ("max_memory_bytes", "bigint", "Limit of the account; null: unlimited"),
        ("max_storage_bytes", "bigint", "Limit of the account; null: unlimited"),
        ("api_requests_count", "bigint", "API requests of the account since the server started"),
        ("api_errors_count", "bigint", "API errors of the account since the server started"),
    ),
    key=("session", "mono_us"),
)

SEGMENT = Table(
    "segment",
    "One file of a recording, and whether it is complete.",
    columns(
        ("session", "string", "Folder name of the recording"),
        ("segment", "string", "File name"),
        ("size_bytes", "bigint", "Size on disk"),
        ("read_bytes", "bigint", "Uncompressed size that could be read"),
        ("lines_count", "bigint", "Lines read"),
        (
            "torn_lines_count",
            "bigint",
            "Lines ignored because they are incomplete or not readable",
        ),
        (
            "unfinished_lines_count",
            "bigint",
            "Of these ignored lines: incomplete last lines of open files",
        ),
        (
            "unknown_lines_count",
            "bigint",
            "Lines ignored because this version does not know their kind",
        ),
        ("missing_lines_count", "bigint", "Records missing from a closed file of the recording"),
        ("corrupt", "boolean", "Whether a closed file is incomplete or damaged"),
    ),
    key=("session", "segment"),
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
    SERVER_SAMPLE,
    BENCH_INTERVAL,
    BENCH_LATENCY,
    BENCH_RESULT,
)
