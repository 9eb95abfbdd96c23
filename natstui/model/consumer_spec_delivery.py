"""Options of a consumer: when it delivers again, when it stops, where its state lies."""

from __future__ import annotations

from natstui.model.config_field import Field

DELIVERY = (
    Field(
        "ack_wait", "Ack wait", "duration", "Delivery",
        "A message not acknowledged within this is delivered again; backoff takes its place.",
        default=30_000_000_000, flag="wait",
    ),
    Field(
        "max_deliver", "Maximum deliveries", "count", "Delivery",
        "After so many deliveries a message is given up.", default=-1, flag="max-deliver",
    ),
    Field(
        "backoff", "Backoff", "durations", "Delivery",
        "Pauses before the next deliveries, as 1s, 10s, 1m; fewer than the maximum deliveries.",
    ),
    Field(
        "max_ack_pending", "Maximum ack pending", "count", "Delivery",
        "With so many delivered and unacknowledged messages it delivers no more.",
        default=1000, flag="max-pending",
    ),
    Field(
        "headers_only", "Headers only", "switch", "Delivery",
        "Delivers headers and the size instead of payloads.", default=False, flag="headers-only",
    ),
    Field(
        "sample_freq", "Sample frequency", "text", "Delivery",
        "Percent of acknowledgements the server reports, as 10 or 10%.", flag="sample",
    ),
    Field(
        "pause_until", "Pause until", "time", "Delivery",
        "It delivers nothing before this moment.", api_level_count=1, flag="pause",
        flag_add_only=True, fixed="pause and resume it with their own actions",
    ),
)  # fmt: skip

STORAGE = (
    Field(
        "inactive_threshold", "Inactive threshold", "duration", "Storage",
        "Nobody pulls or listens for this long: it is deleted. Ephemeral ones have 5s.",
        flag="inactive-threshold",
    ),
    Field(
        "num_replicas", "Replicas", "count", "Storage",
        "Copies of its state; 0 takes the number of the stream.", default=0, flag="replicas",
    ),
    Field(
        "mem_storage", "Memory storage", "switch", "Storage",
        "Its state is kept in memory even when the stream is on disk.", default=False,
        flag="memory", flag_add_only=True, fixed="the storage of a consumer cannot change",
    ),
)  # fmt: skip
