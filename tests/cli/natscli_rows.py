"""The flags of the NATS CLI's `add` and `edit`, an example each, and what it does.

Typed from the NATS CLI of July 2026.
"""

from __future__ import annotations

from natstui.model.assets.differences import AssetKind

S = 1_000_000_000
MIB = 1 << 20
Row = tuple[str, dict[str, object] | str]
"""Words as typed, `|` between them, and the settings they make, or a part of the refusal."""

STREAM_BOTH: list[Row] = [
    ("--subjects|a,b|--subjects|c d", {"subjects": ["a", "b", "c", "d"]}),
    ("--description|what", {"description": "what"}),
    ("--compression|s2", {"compression": "s2"}),
    ("--replicas|1", {"num_replicas": 1}),
    ("--tag|ssd|--tag|eu", {"placement.tags": ["ssd", "eu"]}),
    ("--tags|ssd", {"placement.tags": ["ssd"]}),
    ("--tag|ssd,eu", "for several, repeat the option: --tag ssd --tag eu"),
    ("--tags|ssd eu", "for several, repeat the option: --tags ssd --tags eu"),
    ("--source|A;B", "for several, repeat the option: --source A --source B"),
    ("--cluster|east", {"placement.cluster": "east"}),
    ("--ack", {"no_ack": False}),
    ("--no-ack", {"no_ack": True}),
    ("--retention|interest", {"retention": "interest"}),
    ("--discard|new", {"discard": "new"}),
    (
        "--discard|new|--max-msgs-per-subject|5|--discard-per-subject",
        {"discard_new_per_subject": True},
    ),
    ("--no-discard-per-subject", {"discard_new_per_subject": False}),
    ("--max-age|1M", {"max_age": 30 * 86_400 * S}),
    ("--max-age|1d3h5m2s", {"max_age": 97_502 * S}),
    ("--max-age|1y1w", {"max_age": 372 * 86_400 * S}),
    ("--max-age|-1", {"max_age": 0}),
    ("--max-bytes|1GB", {"max_bytes": 1024 * MIB}),
    ("--max-bytes|10k", {"max_bytes": 10_240}),
    ("--max-bytes|-1", {"max_bytes": -1}),
    ("--max-consumers|3", {"max_consumers": 3}),
    ("--max-msg-size|1MiB", {"max_msg_size": MIB}),
    ("--max-msgs|1000", {"max_msgs": 1000}),
    ("--max-msgs|-1", {"max_msgs": -1}),
    ("--max-msgs-per-subject|7", {"max_msgs_per_subject": 7}),
    ("--dupe-window|30s", {"duplicate_window": 30 * S}),
    (
        '--source|{"name": "ORIGIN"}|--source|OTHER',
        {"sources": [{"name": "ORIGIN"}, {"name": "OTHER"}]},
    ),
    ("--allow-batch", {"allow_atomic": True}),
    ("--no-allow-batch", {"allow_atomic": False}),
    ("--allow-fast", {"allow_batched": True}),
    ("--no-allow-fast", {"allow_batched": False}),
    ("--allow-rollup", {"allow_rollup_hdrs": True}),
    ("--no-allow-rollup", {"allow_rollup_hdrs": False}),
    ("--deny-delete", {"deny_delete": True}),
    ("--no-deny-delete", {"deny_delete": False}),
    ("--deny-purge", {"deny_purge": True}),
    ("--no-deny-purge", {"deny_purge": False}),
    ("--allow-direct", {"allow_direct": True}),
    ("--no-allow-direct", {"allow_direct": False}),
    ("--allow-mirror-direct", "mirror direct works only for mirrors"),
    ("--no-allow-mirror-direct", {"mirror_direct": False}),
    ("--allow-msg-ttl", {"allow_msg_ttl": True}),
    ("--allow-schedules", {"allow_msg_schedules": True}),
    ("--no-allow-schedules", {"allow_msg_schedules": False}),
    ("--subject-del-markers-ttl|1h", {"subject_delete_marker_ttl": 3600 * S}),
    (
        "--transform-source|s.*|--transform-destination|t.$1",
        {"subject_transform": {"src": "s.*", "dest": "t.$1"}},
    ),
    ("--metadata|team=ops|--metadata|tier=1", {"metadata": {"team": "ops", "tier": "1"}}),
    ("--metadata|team:ops", "write 'team:ops' as key=value"),
    ("--metadata|a:b=c", "as JSON"),
    (
        "--republish-source|s.>|--republish-destination|r.>|--republish-headers",
        {"republish": {"src": "s.>", "dest": "r.>", "headers_only": True}},
    ),
    ("-j", {}),
]  # fmt: skip
STREAM_ADD: list[Row] = [
    ("--storage|f", {"storage": "file"}),
    ("--storage|m", {"storage": "memory"}),
    ("--storage|file", {"storage": "file"}),
    ("--storage|memory", {"storage": "memory"}),
    ("--retention|work", {"retention": "workqueue"}),
    ("--retention|workq", {"retention": "workqueue"}),
    ("--retention|limits", {"retention": "limits"}),
    ("--first-sequence|100", {"first_seq": 100}),
    ("--mirror|ORIGIN", {"mirror": {"name": "ORIGIN"}}),
    ('--mirror|{"name": "ORIGIN", "filter_subject": "o.a"}|--allow-mirror-direct', {
        "mirror": {"name": "ORIGIN", "filter_subject": "o.a"}, "mirror_direct": True,
    }),
    ("--allow-counter", {"allow_msg_counter": True}),
    ("--limit-consumer-inactive|1h", {"consumer_limits.inactive_threshold": 3600 * S}),
    ("--limit-consumer-max-pending|50", {"consumer_limits.max_ack_pending": 50}),
    ("--persist-mode|async", {"persist_mode": "async"}),
    ("--defaults", {"allow_direct": True, "retention": "limits", "discard": "old"}),
    ("--source|ORIGIN|--defaults", {"duplicate_window": 120 * S}),
    ("--source|ORIGIN|--max-age|10s|--defaults", {"duplicate_window": 10 * S}),
    ("--config|FILE", {"max_msgs": 42, "allow_direct": False}),
    ("--config|FILE|--replicas|1|--description|mine", {"max_msgs": 42, "description": "mine"}),
    ("--config|FILE|--subjects|a|--tag|ssd", {"subjects": ["a"], "placement.tags": ["ssd"]}),
    ("--config|FILE|--max-msgs|9", "the NATS CLI ignores --max-msgs when --config is given"),
    ("--config|FILE|--ack", "write it into the file, or use --file FILE --ack"),
    ("--config|FILE|--description|", "the NATS CLI ignores --description when --config is given"),
    ("--config|FILE|--replicas|0", "the NATS CLI ignores --replicas when --config is given"),
    ("--config|FILE|--subjects|a,b", "for several, repeat the option: --subjects a --subjects b"),
    ("--config|FILE|--monitor-msgs-warn|9", "the NATS CLI ignores --monitor-msgs-warn"),
    ("--max-consumers|-1", {"max_consumers": -1}),
    ("--validate", "--validate: use --dry-run"),
    ("--output|there.json", "--output: use --dry-run --json > FILE"),
]  # fmt: skip
STREAM_EDIT: list[Row] = [
    ("--no-mirror", {}),
    ("--no-transform", {"subject_transform": None}),
    ("--no-republish", {"republish": None}),
    ("--force", {}),
    ("-f", {}),
    ("--dry-run", {}),
    ("--config|FILE", {"max_msgs": 42, "republish": None, "description": ""}),
    ("--max-msgs|0", "--max-msgs 0 changes nothing in the NATS CLI"),
    ("--max-consumers|-1", "--max-consumers -1 changes nothing in the NATS CLI"),
    ("--max-consumers|unlimited", {"max_consumers": -1}),
    (
        "--config|FILE|--description|mine",
        "the NATS CLI ignores --description when --config is given",
    ),
    ("--config|FILE|--no-mirror", "write it into the file, or use --file FILE --no-mirror"),
    ("--config|FILE|--force|--dry-run", {"max_msgs": 42}),
    ("--interactive", "--interactive: use --file FILE"),
    ("-i", "--interactive: use --file FILE"),
    ("--mirror|ORIGIN", "the origin of a mirror cannot change"),
    ("--allow-counter", "counters cannot be switched on or off after the creation of the stream"),
]
CONSUMER_BOTH: list[Row] = [
    ("--backoff|linear", {"backoff": [(60 + 114 * step) * S for step in range(10)]}),
    (
        "--backoff|linear|--backoff-steps|4|--backoff-min|1s|--backoff-max|10s|--max-deliver|9",
        {"backoff": [1_000_000_000, 3_250_000_000, 5_500_000_000, 7_750_000_000]},
    ),
    (
        "--backoff|linear|--backoff-steps|3|--backoff-min|10s|--backoff-max|9s",
        {"backoff": [9_000_000_000, 9_333_000_000, 9_667_000_000]},
    ),
    ("--backoff|none", {"backoff": None}),
    ("--backoff-steps|4", "--backoff-steps needs --backoff linear"),
    ("--backoff|linear|--backoff-steps|0", "needs steps"),
    ("--description|what", {"description": "what"}),
    ("--filter|s.a", {"filter_subjects": ["s.a"]}),
    ("--filter|s.a|--filter|s.b", {"filter_subjects": ["s.a", "s.b"]}),
    ("--filter|s.a,s.b", "for several, repeat the option: --filter s.a --filter s.b"),
    ("--filter|s.a|--filter|s.b s.c", "for several, repeat the option: --filter s.b --filter s.c"),
    ("--headers-only", {"headers_only": True}),
    ("--no-headers-only", {"headers_only": False}),
    ("--max-deliver|5", {"max_deliver": 5}),
    ("--max-deliver|-1", {"max_deliver": -1}),
    ("--max-outstanding|77", {"max_ack_pending": 77}),
    ("--max-pending|77", {"max_ack_pending": 77}),
    ("--max-pending|-1", "use --max-ack-pending unlimited"),
    ("--max-pull-batch|10", {"max_batch": 10}),
    ("--max-pull-expire|10s", {"max_expires": 10 * S}),
    ("--max-pull-bytes|4096", {"max_bytes": 4096}),
    ("--sample|50", {"sample_freq": "50"}),
    ("--sample|0", {"sample_freq": None}),
    ("--wait|1m", {"ack_wait": 60 * S}),
    ("--inactive-threshold|1d", {"inactive_threshold": 86_400 * S}),
    ("--replicas|1", {"num_replicas": 1}),
    ("--metadata|team=ops", {"metadata": {"team": "ops"}}),
]
CONSUMER_ADD: list[Row] = [
    ("--ack|none", {"ack_policy": "none"}),
    ("--ack|all", {"ack_policy": "all"}),
    ("--ack|explicit", {"ack_policy": "explicit"}),
    ("--ack|flow_control|--target|in.box", {"ack_policy": "flow_control"}),
    ("--bps|1000|--target|in.box", {"rate_limit_bps": 1000}),
    ("--backoff|linear|--backoff-steps|4|--defaults", {"max_deliver": 5}),
    ("--deliver|all", {"deliver_policy": "all"}),
    ("--deliver|new", {"deliver_policy": "new"}),
    ("--deliver|next", {"deliver_policy": "new"}),
    ("--deliver|last", {"deliver_policy": "last"}),
    ("--deliver|subject", {"deliver_policy": "last_per_subject", "filter_subjects": [">"]}),
    (
        "--deliver|subject|--filter|s.a",
        {"deliver_policy": "last_per_subject", "filter_subjects": ["s.a"]},
    ),
    ("--deliver|42", {"deliver_policy": "by_start_sequence", "opt_start_seq": 42}),
    ("--deliver|1h", {"deliver_policy": "by_start_time"}),
    (
        "--deliver|2026-01-31T12:00:00Z",
        {"deliver_policy": "by_start_time", "opt_start_time": "2026-01-31T12:00:00Z"},
    ),
    ("--deliver|soon", "--deliver is all, new, last, subject, a sequence, a time or a duration"),
    ("--deliver-group|workers|--target|in.box", {"deliver_group": "workers"}),
    ("--ephemeral", {"durable_name": None}),
    (
        "--flow-control|--heartbeat|5s|--target|in.box",
        {"flow_control": True, "idle_heartbeat": 5 * S},
    ),
    ("--heartbeat|-1|--target|in.box", {"idle_heartbeat": None}),
    ("--max-waiting|9", {"max_waiting": 9}),
    ("--pull", {"deliver_subject": None}),
    ("--pull|--target|in.box", "--pull and another flag for deliver_subject contradict"),
    ("--replay|instant", {"replay_policy": "instant"}),
    ("--replay|original", {"replay_policy": "original"}),
    ("--target|in.box", {"deliver_subject": "in.box"}),
    ("--target|in.box|--defaults", {"deliver_subject": "in.box", "ack_policy": "none"}),
    ("--pull|--defaults", {"ack_policy": "explicit"}),
    ("--memory", {"mem_storage": True}),
    ("--pause|2030-01-31 12:00:00", "write 2030-01-31T12:00:00Z"),
    ("--pause|2030-01-31", "write 2030-01-31T00:00:00Z"),
    ("--pause|2030-01-31T12:00:00Z", {"pause_until": "2030-01-31T12:00:00Z"}),
    ("--pause|1h", {}),
    (
        "--pinned-groups|A|--pinned-ttl|1m",
        {"priority_policy": "pinned_client", "priority_groups": ["A"], "priority_timeout": 60 * S},
    ),
    ("--overflow-groups|A", {"priority_policy": "overflow", "priority_groups": ["A"]}),
    ("--prioritized-groups|A", {"priority_policy": "prioritized", "priority_groups": ["A"]}),
    ("--pinned-groups|A|--overflow-groups|A", "contradict each other"),
    ("--pinned-groups|A,B", "repeat the option: --pinned-groups A --pinned-groups B"),
    ("--overflow-groups|A B", "repeat the option: --overflow-groups A --overflow-groups B"),
    (
        "--prioritized-groups|A,B",
        "repeat the option: --prioritized-groups A --prioritized-groups B",
    ),
    ("--config|FILE|--max-deliver|9", "the NATS CLI ignores --max-deliver when --config is given"),
    ("--config|FILE|--target|in.box", "the NATS CLI ignores --target when --config is given"),
    ("--config|FILE|--ephemeral", "has a durable_name, which makes a durable consumer"),
    ("--sample|-1", {"sample_freq": None}),
    ("--config|FILE", {"max_deliver": 42, "durable_name": "N"}),
    ("--validate", "--validate: use --dry-run"),
    ("--output|there.json", "--output: use --dry-run --json > FILE"),
    ("--defaults", {"ack_policy": "explicit", "deliver_policy": "all"}),
]
CONSUMER_EDIT: list[Row] = [
    ("--target|in.box", "a pull consumer cannot become a push consumer"),
    ("--max-pull-expire|0s", "use --max-expires '' to take the limit away"),
    ("--inactive-threshold|0", "--inactive-threshold 0 changes nothing in the NATS CLI"),
    ("--max-pull-batch|-1", "--max-batch -1 changes nothing in the NATS CLI"),
    ("--max-pull-bytes|-1", "--max-bytes -1 changes nothing in the NATS CLI"),
    ("--sample|-1", "--sample -1 changes nothing in the NATS CLI"),
    (
        "--config|FILE|--description|mine",
        "the NATS CLI ignores --description when --config is given",
    ),
    ("--config|FILE|--backoff|linear", "or use --file FILE --backoff"),
    ("--replicas|0", "--replicas 0 changes nothing in the NATS CLI"),
    ("--replicas|-1", "--replicas -1 changes nothing in the NATS CLI"),
    ("--force", {}),
    ("-f", {}),
    ("--dry-run", {}),
    ("--config|FILE", {"max_deliver": 42, "description": ""}),
    ("--interactive", "--interactive: use --file FILE"),
]

STREAM_FLAGS = """
subjects description compression replicas tag tags cluster ack retention discard
discard-per-subject max-age max-bytes max-consumers max-msg-size max-msgs max-msgs-per-subject
dupe-window mirror source allow-batch allow-fast allow-counter allow-rollup deny-delete deny-purge
allow-direct allow-mirror-direct allow-msg-ttl allow-schedules subject-del-markers-ttl
transform-source transform-destination metadata republish-source republish-destination
republish-headers config
"""
CONSUMER_FLAGS = """
backoff backoff-steps backoff-min backoff-max description filter headers-only max-deliver
max-outstanding max-pending max-pull-batch max-pull-expire max-pull-bytes sample target wait
inactive-threshold replicas metadata config
"""
ADD_ONLY = "validate output defaults"
EDIT_ONLY = "force interactive dry-run"
FLAGS = {
    ("stream", "add"): f"{STREAM_FLAGS} storage first-sequence limit-consumer-inactive "
    f"limit-consumer-max-pending persist-mode {ADD_ONLY}",
    ("stream", "edit"): f"{STREAM_FLAGS} no-mirror no-transform no-republish {EDIT_ONLY}",
    ("consumer", "add"): f"{CONSUMER_FLAGS} ack bps deliver deliver-group ephemeral flow-control "
    "heartbeat max-waiting pull replay memory pause pinned-groups pinned-ttl overflow-groups "
    f"prioritized-groups {ADD_ONLY}",
    ("consumer", "edit"): f"{CONSUMER_FLAGS} {EDIT_ONLY}",
}
ROWS = {
    ("stream", "add"): STREAM_BOTH + STREAM_ADD,
    ("stream", "edit"): STREAM_BOTH + STREAM_EDIT,
    ("consumer", "add"): CONSUMER_BOTH + CONSUMER_ADD,
    ("consumer", "edit"): CONSUMER_BOTH + CONSUMER_EDIT,
}
"""Documented flags by command."""

EMPTIED: dict[AssetKind, tuple[str, ...]] = {
    "stream": (
        "--description", "--max-age", "--max-bytes", "--max-msg-size", "--dupe-window", "--mirror",
        "--transform-source", "--transform-destination",
        "--republish-source", "--republish-destination",
    ),
    "consumer": ("--description", "--target"),
}  # fmt: skip
"""Flags of which an edit with an empty value does nothing there, and takes away here: it says so.

The NATS CLI refuses an empty value of most others; of --filter, --tag and --cluster it takes away.
"""
