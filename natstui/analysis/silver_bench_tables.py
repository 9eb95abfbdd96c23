"""The silver tables of benchmarks."""

from __future__ import annotations

from natstui.analysis.tables import Table, columns

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
    "dropped_msgs": "Lost in the client because it could not keep up",
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
        ("metric", "string", "ack, e2e, store or rtt"),
        ("corrected", "boolean", "Counted from when the message was due, not from when it went"),
        ("bucket_id", "bigint", "Number of the bucket, 128 per power of two"),
        ("latency_ns", "bigint", "Middle of the bucket, within 0.4 %"),
        ("latencies_count", "bigint", "Latencies in the bucket"),
    ),
)


BENCH_RESULT = Table(
    "bench_result",
    "What a benchmark said about itself when it was over.",
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
