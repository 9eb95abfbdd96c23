"""Every option of a consumer on servers 2.10 to 2.15, in the order of the form."""

from __future__ import annotations

from natstui.model.assets.fields import Field, monitoring_fields
from natstui.model.assets.monitor_keys import CONSUMER_KEYS

BASIC_FIELDS = (
    Field(
        "name", "Name", "text", "Consumer",
        "No spaces, dots, * > / or \\. An ephemeral consumer (Durable: no) needs none.",
        fixed_reason="a consumer cannot be renamed",
        absent_text="the server chooses",
    ),
    Field(
        "durable_name", "Durable", "text", "Consumer",
        "Stays until deleted. If no: deleted when unused for its inactive threshold (default 5s).",
        fixed_reason="a durable consumer stays durable",
    ),
    Field(
        "description", "Description", "text", "Consumer",
        "A note for people: who uses this consumer, and what for.", default="", flag="description",
        absent_text="none",
    ),
    Field(
        "filter_subjects", "Filters", "subjects", "Consumer",
        "Only messages of these subjects, separated by commas in a form; empty means all.",
        flag="filter",
        absent_text="everything",
    ),
    Field(
        "ack_policy", "Ack policy", "choice", "Consumer",
        "explicit: each message is acked; all: an ack covers all before it; none: no acks.",
        default="none", choices=("explicit", "all", "none", "flow_control"), flag="ack",
        choices_min_api_level=(("flow_control", 4),),
        flag_add_only=True, fixed_reason="the ack policy of a consumer cannot change",
    ),
    Field(
        "metadata", "Metadata", "metadata", "Consumer",
        "Your own key=value pairs; write double quotes around a value with a comma.",
        flag="metadata", absent_text="none",
    ),
)  # fmt: skip

START_FIELDS = (
    Field(
        "deliver_policy", "Deliver from", "choice", "Start",
        "Where delivery starts: all, new, last, last of each subject, a sequence or a time.",
        default="all",
        choices=("all", "new", "last", "last_per_subject", "by_start_sequence", "by_start_time"),
        flag="deliver", flag_add_only=True,
        fixed_reason="the deliver policy of a consumer cannot change",
    ),
    Field(
        "opt_start_seq", "Start sequence", "count", "Start",
        "Start sequence, for by_start_sequence.",
        fixed_reason="the start of a consumer cannot change; reset the consumer instead",
        absent_text="none",
    ),
    Field(
        "opt_start_time", "Start time", "time", "Start",
        "Start time, for by_start_time, as 2026-01-31T12:00:00Z.",
        fixed_reason="the start of a consumer cannot change; reset the consumer instead",
        absent_text="none",
    ),
    Field(
        "replay_policy", "Replay", "choice", "Start",
        "instant delivers as fast as possible; original keeps the pauses of the publishers.",
        default="instant", choices=("instant", "original"), flag="replay", flag_add_only=True,
        fixed_reason="the replay policy of a consumer cannot change",
    ),
)  # fmt: skip


DELIVERY_FIELDS = (
    Field(
        "ack_wait", "Ack wait", "duration", "Delivery",
        "A message not acknowledged within this time is delivered again; backoff overrides it.",
        default=30_000_000_000, flag="wait",
        absent_text="not used: the consumer needs no acks",
    ),
    Field(
        "max_deliver", "Maximum deliveries", "count", "Delivery",
        "After this many deliveries, a message is not delivered again.",
        default=-1, flag="max-deliver",
    ),
    Field(
        "backoff", "Backoff", "durations", "Delivery",
        "Pauses before redeliveries, as 1s, 10s, 1m; fewer pauses than maximum deliveries.",
        absent_text="the ack wait each time",
    ),
    Field(
        "max_ack_pending", "Maximum ack pending", "count", "Delivery",
        "Delivery stops while this many delivered messages are unacknowledged.",
        default=1000, flag="max-pending",
        absent_text="unlimited",
    ),
    Field(
        "headers_only", "Headers only", "switch", "Delivery",
        "Delivers only headers and the payload size, not the payload.",
        default=False, flag="headers-only",
    ),
    Field(
        "sample_freq", "Sample frequency", "text", "Delivery",
        "Percent of acknowledgements that the server samples, as 10 or 10%.", flag="sample",
        absent_text="none",
    ),
    Field(
        "pause_until", "Pause until", "time", "Delivery",
        "The consumer delivers nothing before this time.", needed_api_level=1, flag="pause",
        flag_add_only=True, fixed_reason="use the actions pause and resume",
        absent_text="not paused",
    ),
)  # fmt: skip

STORAGE_FIELDS = (
    Field(
        "inactive_threshold", "Inactive threshold", "duration", "Storage",
        "The consumer is deleted after this time without a client. Default of ephemeral ones: 5s.",
        flag="inactive-threshold",
        absent_text="it stays",
    ),
    Field(
        "num_replicas", "Replicas", "count", "Storage",
        "Copies of the consumer's state; 0: as many as the stream has.",
        default=0, flag="replicas",
        absent_text="as many as the stream",
    ),
    Field(
        "mem_storage", "Memory storage", "switch", "Storage",
        "Keeps the consumer's state in memory, even if the stream is on disk.", default=False,
        flag="memory", flag_add_only=True, fixed_reason="the storage of a consumer cannot change",
    ),
)  # fmt: skip


PULL_FIELDS = (
    Field(
        "max_waiting", "Maximum waiting", "count", "Pull",
        "How many pull requests may be open at once.", default=512, flag="max-waiting",
        flag_add_only=True, fixed_reason="the maximum of waiting pulls cannot change",
        absent_text="none",
    ),
    Field(
        "max_batch", "Maximum batch", "count", "Pull",
        "The most messages that one pull request may request.", flag="max-pull-batch",
        absent_text="unlimited",
    ),
    Field(
        "max_expires", "Maximum expires", "duration", "Pull",
        "The longest time that a pull request may stay open; at least 1ms.",
        flag="max-pull-expire",
        absent_text="unlimited",
    ),
    Field(
        "max_bytes", "Maximum bytes", "bytes", "Pull",
        "The most bytes that one pull may request.", flag="max-pull-bytes",
        absent_text="unlimited",
    ),
    Field(
        "priority_policy", "Priority policy", "choice", "Pull",
        "pinned_client: one client at a time; overflow: only when behind; prioritized: lowest "
        "first.",
        default="none", choices=("none", "overflow", "pinned_client", "prioritized"),
        needed_api_level=1, choices_min_api_level=(("prioritized", 2),),
    ),
    Field(
        "priority_groups", "Priority groups", "words", "Pull",
        "Groups that pull requests name; up to 16 characters of A-Z a-z 0-9 - _ / =.",
        needed_api_level=1,
        absent_text="none",
    ),
    Field(
        "priority_timeout", "Pin timeout", "duration", "Pull",
        "A pinned client that does not pull for this long loses the pin.",
        needed_api_level=1, flag="pinned-ttl", flag_add_only=True,
        absent_text="none",
    ),
)  # fmt: skip

PUSH_FIELDS = (
    Field(
        "deliver_subject", "Deliver subject", "text", "Push",
        "The server sends messages here; empty makes it a pull consumer.", flag="target",
        absent_text="none: a pull consumer",
    ),
    Field(
        "deliver_group", "Deliver group", "text", "Push",
        "Subscribers of this queue group share the messages.", flag="deliver-group",
        flag_add_only=True,
        absent_text="none",
    ),
    Field(
        "flow_control", "Flow control", "switch", "Push",
        "The server waits for a slow subscriber; needs a heartbeat.", default=False,
        flag="flow-control", flag_add_only=True,
        fixed_reason="flow control of a consumer cannot change",
    ),
    Field(
        "idle_heartbeat", "Idle heartbeat", "duration", "Push",
        "Interval of heartbeats while nothing is delivered; at least 100ms.", flag="heartbeat",
        flag_add_only=True, fixed_reason="the heartbeat of a consumer cannot change",
        absent_text="none",
    ),
    Field(
        "rate_limit_bps", "Rate limit", "count", "Push",
        "The most bits that are delivered per second.", flag="bps", flag_add_only=True,
        absent_text="unlimited",
    ),
)  # fmt: skip


MONITORING_FIELDS = monitoring_fields(CONSUMER_KEYS)

CONSUMER_FIELDS: tuple[Field, ...] = (
    BASIC_FIELDS
    + START_FIELDS
    + DELIVERY_FIELDS
    + PULL_FIELDS
    + PUSH_FIELDS
    + STORAGE_FIELDS
    + MONITORING_FIELDS
)

CONSUMER_FIELD_BY_PATH = {field.path: field for field in CONSUMER_FIELDS}

NEW_CONSUMER_CONFIG: dict[str, object] = {"name": "", "durable_name": "", "ack_policy": "explicit"}
"""Initial values of an empty creation form."""
