"""The silver tables: flat, typed, one row per sample, every column documented."""

from __future__ import annotations

from natstui.analysis.silver_bench_tables import BENCH_INTERVAL, BENCH_LATENCY, BENCH_RESULT
from natstui.analysis.silver_event_tables import ACK_SAMPLE, ADVISORY, CONFIGURATION, EVENT
from natstui.analysis.tables import CONSUMER_IDENTITY, STREAM_IDENTITY, Table, columns

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
    ("down_peers_count", "bigint", "Replicas that are offline or not current"),
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
        ("ack_floor_consumer_seq", "bigint", "Deliveries settled without a hole"),
        ("ack_floor_stream_seq", "bigint", "Every message up to here is settled"),
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
        ("interval_us", "bigint", "Pause the poller kept between polls"),
        ("elapsed_us", "bigint", "Time the poll took"),
        ("api_rtt_us", "bigint", "Round trip of one API request"),
        ("requests_count", "bigint", "Requests of the poll"),
        ("received_bytes", "bigint", "Bytes received"),
        ("backoff_reason", "string", "Why the pause was longer than asked for"),
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
    EVENT,
    CONFIGURATION,
    BENCH_INTERVAL,
    BENCH_LATENCY,
    BENCH_RESULT,
)
