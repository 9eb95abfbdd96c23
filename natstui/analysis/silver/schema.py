"""The lines of a recording as Spark types; a test holds them to the dataclasses of the model.

A type ending in `?` may be null (unknown). Everything else must be there: Spark does not notice
a renamed field, so `natstui.analysis.silver.bronze` checks each one while reading.
"""

from __future__ import annotations

SCHEMA_VERSIONS = (1, 2)
"""The versions of a recording that can be read."""

Fields = dict[str, str]

PEERS = "array<struct<current:boolean,offline:boolean,active_ns:bigint,lag_msgs:bigint>>"
UPSTREAMS = "array<struct<name:string,lag_msgs:bigint,active_ns:bigint,error:string>>"

STREAM_COLUMNS: Fields = {
    "name": "string",
    "created_at_us": "bigint",
    "sampled_mono_us": "bigint",
    "stored_msgs": "bigint",
    "stored_bytes": "bigint",
    "first_seq": "bigint",
    "last_seq": "bigint",
    "first_at_us": "bigint?",
    "last_at_us": "bigint?",
    "deleted_msgs": "bigint",
    "lost_msgs": "bigint",
    "subjects_count": "bigint",
    "consumers_count": "bigint",
    "leader": "string?",
    "peers": PEERS,
    "upstreams": UPSTREAMS,
}

CONSUMER_COLUMNS: Fields = {
    "stream": "string",
    "name": "string",
    "created_at_us": "bigint",
    "sampled_mono_us": "bigint",
    "delivered_consumer_seq": "bigint",
    "delivered_stream_seq": "bigint",
    "ack_floor_consumer_seq": "bigint",
    "ack_floor_stream_seq": "bigint",
    "delivered_at_us": "bigint?",
    "acked_at_us": "bigint?",
    "pending_msgs": "bigint",
    "ack_pending_msgs": "bigint",
    "redelivered_msgs": "bigint",
    "waiting_pulls_count": "bigint",
    "push_bound": "boolean",
    "paused": "boolean",
    "pinned_client": "string?",
    "next_at_us": "bigint?",
    "leader": "string?",
    "peers": PEERS,
}

PACKED_CONSUMER_COLUMNS: Fields = {
    "delivered_stream_ahead_seq": "bigint?",
    "ack_floor_consumer_behind_seq": "bigint?",
    "ack_floor_stream_behind_seq": "bigint?",
    "delivered_near_us": "bigint?",
    "acked_near_us": "bigint?",
}
"""Differences, in version 2, that stand in the place of `PACKED_AS`."""

PACKED_AS = {
    "delivered_stream_seq": "delivered_stream_ahead_seq",
    "ack_floor_consumer_seq": "ack_floor_consumer_behind_seq",
    "ack_floor_stream_seq": "ack_floor_stream_behind_seq",
    "delivered_at_us": "delivered_near_us",
    "acked_at_us": "acked_near_us",
}

ACCOUNT: Fields = {
    "memory_bytes": "bigint",
    "storage_bytes": "bigint",
    "streams_count": "bigint",
    "consumers_count": "bigint",
    "max_memory_bytes": "bigint?",
    "max_storage_bytes": "bigint?",
    "api_requests_count": "bigint",
    "api_errors_count": "bigint",
    "api_inflight_count": "bigint?",
}

COST: Fields = {
    "requests_count": "bigint",
    "received_bytes": "bigint",
    "elapsed_us": "bigint",
    "api_rtt_us": "bigint?",
    "interval_us": "bigint",
    "backoff_reason": "string?",
}

STREAM_CONFIGURATION: Fields = {
    "name": "string",
    "created_at_us": "bigint",
    "kind": "string",
    "retention": "string",
    "discard": "string",
    "storage": "string",
    "max_msgs": "bigint?",
    "max_bytes": "bigint?",
    "max_age_ns": "bigint?",
    "replicas_count": "bigint",
    "config_json": "string",
}

CONSUMER_CONFIGURATION: Fields = {
    "stream": "string",
    "name": "string",
    "created_at_us": "bigint",
    "pull": "boolean",
    "ack_policy": "string",
    "ack_wait_ns": "bigint?",
    "max_deliver_count": "bigint?",
    "max_ack_pending_msgs": "bigint?",
    "filter_subjects": "array<string>",
    "replicas_count": "bigint",
    "config_json": "string",
}

ADVISORY: Fields = {
    "at_us": "bigint",
    "type": "string",
    "stream": "string?",
    "consumer": "string?",
    "text": "string",
    "body_json": "string",
}

ACK_SAMPLE: Fields = {
    "at_us": "bigint",
    "stream": "string",
    "consumer": "string",
    "stream_seq": "bigint",
    "consumer_seq": "bigint",
    "deliveries_count": "bigint",
    "ack_ns": "bigint",
}

EVENTS: dict[str, Fields] = {
    "engine_started": {"at_us": "bigint", "natstui_version": "string", "target": "string"},
    "link_changed": {"at_us": "bigint", "state": "string", "reason": "string?",
                     "server_name": "string?", "server_version": "string?"},
    "unavailable": {"at_us": "bigint", "what": "string", "reason": "string"},
    "restored": {"at_us": "bigint", "what": "string"},
    "gap": {"at_us": "bigint", "from_at_us": "bigint", "reason": "string"},
    "clock_stepped": {"at_us": "bigint", "step_us": "bigint"},
    "noted": {"at_us": "bigint", "text": "string"},
    "outcome": {"at_us": "bigint", "status": "string", "text": "string"},
}  # fmt: skip
"""Kinds that become rows of the table `event`, with the fields taken from each."""

COUNTS: Fields = dict.fromkeys(
    (
        "sent_msgs",
        "sent_bytes",
        "acked_msgs",
        "duplicate_acked_msgs",
        "refused_msgs",
        "unanswered_msgs",
        "missed_msgs",
        "received_msgs",
        "received_bytes",
        "redelivered_msgs",
        "duplicate_msgs",
        "out_of_order_msgs",
        "acks_sent_msgs",
        "acks_confirmed_msgs",
        "naks_sent_msgs",
        "terms_sent_msgs",
        "never_acked_msgs",
        "dropped_msgs",
    ),
    "bigint",
)

LATENCIES = ("ack", "e2e", "store", "rtt", "ack_uncorrected", "e2e_uncorrected", "rtt_uncorrected")
HISTOGRAM: Fields = {"buckets": "array<bigint>", "counts": "array<bigint>"}

BENCHMARK_REPORT: Fields = {
    "at_us": "bigint",
    "run_id": "string",
    "role": "string",
    "worker_id": "bigint",
    "interval_s": "double",
    "counts": "struct<" + ",".join(f"{name}:bigint" for name in COUNTS) + ">",
    "latencies": "struct<"
    + ",".join(f"{name}:struct<buckets:array<bigint>,counts:array<bigint>>" for name in LATENCIES)
    + ">",
    "cpu_ratio": "double",
}

BENCHMARK_PHASE: Fields = {"at_us": "bigint", "run_id": "string", "phase": "string"}

ACCOUNTING: Fields = {
    "sent_msgs": "bigint",
    "acked_msgs": "bigint",
    "duplicate_acked_msgs": "bigint",
    "refused_msgs": "bigint",
    "unanswered_msgs": "bigint",
    "missed_msgs": "bigint",
    "stored_msgs": "bigint?",
    "expected_msgs": "bigint?",
    "received_msgs": "bigint",
    "distinct_msgs": "bigint?",
    "redelivered_msgs": "bigint",
    "duplicate_msgs": "bigint",
    "lost_msgs": "bigint?",
    "out_of_order_msgs": "bigint",
    "closes": "boolean",
}

BENCHMARK_RESULT: Fields = {
    "title": "string",
    "started_at_us": "bigint",
    "duration_s": "double",
    "verdict": "string",
    "partial": "boolean",
    "publish_per_s": "double?",
    "receive_per_s": "double?",
    "fan_out_ratio": "double?",
    "fairness_ratio": "double?",
}

KINDS = (
    *EVENTS,
    "snapshot",
    "configured",
    "advisory",
    "ack_sample",
    "benchmark_report",
    "benchmark_finished",
    "benchmark_planned",
    "benchmark_phase",
    "benchmark_progress",
    "benchmark_log",
    "benchmark_summed",
    "permitted",
    "tailed",
    "answered",
    "keyframe",
)
"""Every kind a line may have; lines of other kinds are counted and left out.

A keyframe repeats what was known when a segment began: it is no news. Only the configurations
in that of the first segment are read.
"""


def spark_type(type_text: str) -> str:
    """Return the Spark type without the mark for "may be null"."""
    return type_text.removesuffix("?")


def required(fields: Fields) -> tuple[str, ...]:
    """Return the names of the fields that are never null."""
    return tuple(name for name, type_text in fields.items() if not type_text.endswith("?"))


def struct(fields: Fields) -> str:
    """Return one value of each field as DDL."""
    return "struct<" + ",".join(f"`{n}`:{spark_type(t)}" for n, t in fields.items()) + ">"


def columns(fields: Fields) -> str:
    """Return one array per field as DDL: how a snapshot keeps its rows."""
    return "struct<" + ",".join(f"`{n}`:array<{spark_type(t)}>" for n, t in fields.items()) + ">"
