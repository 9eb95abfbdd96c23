"""All thresholds of findings: value, unit and meaning.

Rules, screens and the queries over recordings use these numbers. The module imports nothing else
of natstui, so that the smallest part of the analysis can import it.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from natstui.units import bytes_text, seconds_text

Unit = Literal[
    "s", "share", "msgs", "msgs/s", "subjects", "times", "requests", "requests/s", "errors/s",
    "events", "bytes",
]  # fmt: skip


class Threshold(Struct, frozen=True):
    """A threshold of findings: name, value, unit and meaning."""

    name: str
    value: float
    unit: Unit
    meaning: str

    @property
    def text(self) -> str:
        """Return the value with its unit: `10 s`, `14d0h`, `80 %`."""
        if self.unit == "share":
            return f"{100 * self.value:g} %"
        if self.unit == "s":
            return seconds_text(self.value)
        if self.unit == "bytes":
            return bytes_text(round(self.value))
        return f"{self.value:,.10g} {self.unit}"


THRESHOLDS: dict[str, Threshold] = {}
"""Name → threshold."""


def _threshold(value: float, name: str, unit: Unit, meaning: str) -> float:
    THRESHOLDS[name] = Threshold(name, value, unit, meaning)
    return value


NEAR_LIMIT_SHARE = _threshold(
    0.8, "near", "share",
    "above this share of a limit, a value is reported as near the limit",
)  # fmt: skip
MAX_BYTES_REACHED_SHARE = _threshold(
    0.98, "full", "share",
    "above this share of max bytes, lost messages are explained by that limit",
)  # fmt: skip
STREAM_FULL_END_SHARE = _threshold(
    0.95, "full, leaving", "share",
    "a full stream has room again below this share of its message limit",
)  # fmt: skip
STUCK_AFTER_SAME_ACK_FLOOR_S = _threshold(
    30.0, "stuck after", "s",
    "in a recording, a consumer is stuck when its ack floor stayed for this long with messages "
    "outstanding",
)  # fmt: skip
NO_PULLS_AFTER_S = _threshold(
    10.0, "no pulls after", "s",
    "a consumer may have no open pull for this long: clients fetch now and then",
)  # fmt: skip
NO_ACKS_AFTER_S = _threshold(
    30.0, "no acks after", "s",
    "with acks pending and no ack for this long, a consumer is waiting for acks",
)  # fmt: skip
MOST_SAMPLES_OF_PERIOD_SHARE = _threshold(
    0.5, "most samples", "share",
    "a recorded period counts as paused, leaderless … if more than this share of its samples were",
)  # fmt: skip

NAKS_WINDOW_S = _threshold(
    10.0, "recent", "s", "naks and terms of this period are compared with its deliveries"
)
ALL_NAKD_SHARE = _threshold(
    0.9,
    "naks",
    "share",
    "share of recent deliveries; above this share of naks, all messages count as nak'd",
)
ALL_NAKD_END_SHARE = _threshold(
    0.5, "naks, leaving", "share", "below this share of naks, the finding ends"
)
MIN_NAKS = int(_threshold(3, "naks, fewest", "times", "fewer recent naks than this are ignored"))
MIN_TERMS = int(
    _threshold(3, "terms, fewest", "times", "fewer recent terms than this are ignored")
)
RECURRENCE_S = _threshold(
    120.0, "recurring", "s",
    "a lag, naks or terms that come again within this time end only when absent for as long",
)  # fmt: skip
POISON_DELIVERIES = int(
    _threshold(
        5, "poison", "times", "a message delivered this often and not acked is a poison message"
    )
)
REPORTED_REDELIVERY_SHARE = _threshold(
    0.05, "redelivered", "share", "above this share of deliveries, an analysis reports repeats"
)
PUSH_STALLED_S = _threshold(
    3.0, "flow stall", "s",
    "a push consumer with a subscriber and pending messages stalls after this time without a "
    "delivery",
)  # fmt: skip
PULLS_STALLED_S = _threshold(
    10.0, "stalled", "s",
    "time without a delivery, although pull requests are open and messages pending",
)  # fmt: skip
LAGGING_WINDOW_S = _threshold(
    15.0, "falling behind, window", "s",
    "a backlog grows if its lowest value rises from third to third of this period; a third is "
    "never shorter than the client's pause between two fetches",
)  # fmt: skip
MIN_BACKLOG_GROWTH_PER_S = _threshold(
    1.0,
    "falling behind, rate",
    "msgs/s",
    "a backlog that grows more slowly than this is not reported",
)
MIN_BACKLOG_MSGS = int(
    _threshold(
        10,
        "falling behind, backlog",
        "msgs",
        "a backlog of fewer messages than this is not reported",
    )
)
MIN_TIME_TO_DRAIN_S = _threshold(
    10.0, "falling behind, time", "s",
    "a backlog that is cleared within this time at the present rate is not reported",
)  # fmt: skip
MIN_ACK_SAMPLES = int(
    _threshold(
        10, "ack samples", "events", "fewer sampled acks than this in five minutes are ignored"
    )
)
REDELIVERED_ACKS_SHARE = _threshold(
    0.05, "acks of repeats", "share",
    "above this share of acks for redelivered messages, and without naks, ack wait is too short",
)  # fmt: skip
LATE_ACK_WAIT_SHARE = _threshold(
    0.25, "late acks of redeliveries", "share",
    "share of ack wait; redeliveries are due to ack wait only if the p99 ack time is above it",
)  # fmt: skip
DROPPED_MSGS_REPORTED_S = _threshold(
    300.0, "dropped after max deliver", "s",
    "messages dropped after max deliver are reported for this long",
)  # fmt: skip
DELETION_REPORTED_S = _threshold(
    300.0, "deletions", "s", "a deleted consumer is reported for this long"
)
LAG_WARNING_S = _threshold(
    60.0, "lag, near", "s", "the age of the next message to deliver is highlighted above this"
)
MAX_LAG_S = _threshold(3600.0, "lag", "s", "greatest normal age of the next message to deliver")
SILENT_UPSTREAM_S = _threshold(
    15.0, "silent source", "s",
    "time without contact to the origin of a mirror or source; normal is 1 s",
)  # fmt: skip
SILENT_AFTER_RESTART_S = _threshold(
    60.0,
    "silent source, restart",
    "s",
    "time without contact to the origin, shortly after a server has restarted",
)
UPSTREAM_LAG_MSGS = int(
    _threshold(
        1000, "source lag", "msgs", "a mirror or source more messages behind than this is reported"
    )
)
PEER_OFFLINE_AFTER_S = _threshold(
    5.0, "replica contact", "s", "a replica without contact to the leader for this long is offline"
)
PEER_LAG_MSGS = int(
    _threshold(
        1000,
        "replica lag",
        "msgs",
        "a replica more messages behind its leader than this is reported",
    )
)
FULL_SOON_S = _threshold(
    3600.0,
    "full soon",
    "s",
    "a stream that reaches a limit within this time, by its trend, is reported",
)
MIN_FILL_TREND_S = _threshold(
    10.0,
    "full soon, trend",
    "s",
    "a limit is forecast only from a trend of at least this length",
)
MIN_FULL_FORECAST_HOLD_S = _threshold(
    60.0, "full soon, held", "s",
    "a limit is reported when the forecast has held for this long, or for a tenth of the "
    "remaining time",
)  # fmt: skip
MIN_FORECAST_RECORDING_S = _threshold(
    60.0, "forecast, watched", "s",
    "a limit is forecast only from a recording of at least this length",
)  # fmt: skip
MAX_FORECAST_MULTIPLE = _threshold(
    100.0, "forecast, reach", "times",
    "a forecast covers at most this many times the length of the recording",
)  # fmt: skip
MAX_SUBJECTS = int(
    _threshold(
        1_000_000, "subjects", "subjects", "more subjects than this in one stream need much memory"
    )
)
UNIQUE_SUBJECTS_SHARE = _threshold(
    0.9,
    "own subjects",
    "share",
    "share of messages with a subject of their own; more than this is reported",
)
MIN_UNIQUE_SUBJECTS = int(
    _threshold(
        100_000, "own subjects, fewest", "subjects", "fewer subjects than this need little memory"
    )
)
MIN_DUPLICATE_WINDOW_S = _threshold(
    10.0, "duplicate window", "s",
    "a shorter duplicate window is reported: a publisher without a reply retries after 5 s by "
    "default, and more than once",
)  # fmt: skip
SAME_LEADER_SHARE = _threshold(
    0.5, "leaders together", "share",
    "share of a stream's consumers led by the stream's own leader; a larger share is reported",
)  # fmt: skip
MIN_SAME_LEADER_CONSUMERS = int(
    _threshold(
        10,
        "leaders together, fewest",
        "times",
        "fewer consumers than this are ignored: their load is small",
    )
)
DELETED_SEQUENCES_SHARE = _threshold(
    0.5,
    "holes",
    "share",
    "share of sequences between first and last that are deleted; a larger share is reported",
)
MIN_DELETED_SEQUENCES = int(
    _threshold(
        100_000,
        "holes, fewest",
        "msgs",
        "fewer deleted messages than this are ignored: they cost little",
    )
)
MIN_LEADER_CHANGES = int(
    _threshold(
        3, "leader changes", "times", "this many elections within five minutes are reported"
    )
)
LEADER_CHANGES_WINDOW_S = _threshold(
    300.0, "leader changes, window", "s", "elections are counted over this period"
)
CONSUMER_UNUSED_AFTER_S = _threshold(
    14 * 86_400.0, "unused", "s", "a durable consumer without a delivery for this long is unused"
)
STREAM_INACTIVE_AFTER_S = _threshold(
    30 * 86_400.0, "inactive", "s", "a stream without a new message for this long is inactive"
)
ACCOUNT_WARN_SHARE = _threshold(
    0.75,
    "account, near",
    "share",
    "share of memory or storage; `nats server check jetstream` warns at the same value",
)
ACCOUNT_ALARM_SHARE = _threshold(
    0.9,
    "account, full",
    "share",
    "share of memory or storage; `nats server check jetstream` is critical at the same value",
)
API_ERRORS_PER_S = _threshold(
    1.0, "API errors", "errors/s", "more errors than this from the API of the account are reported"
)
API_REQUESTS_PER_S = _threshold(
    100.0, "API requests", "requests/s", "more requests than this by other clients are reported"
)
API_SLOW_REPLY_S = _threshold(
    0.5, "API reply time", "s", "an API that replies more slowly than this is reported"
)
MAX_API_INFLIGHT = int(
    _threshold(
        1000,
        "API backlog",
        "requests",
        "more requests than this in the queue of the API are reported",
    )
)
STALE_ROWS_AFTER_S = _threshold(
    30.0, "stale", "s", "rows not refreshed for this long are reported"
)

NEW_CONSUMER_MAX_AGE_S = _threshold(
    120.0, "new consumer", "s", "a consumer younger than this is not reported for having no pulls"
)
MAX_PULL_GAP_IF_UNKNOWN_S = _threshold(
    20.0, "unknown pace", "s",
    "while the clients' pace is unknown, messages must wait this long before a report",
)  # fmt: skip
PULL_GAPS_KNOWN_AFTER_S = _threshold(
    10.0, "known pace", "s", "the pace of clients is known after watching them for this long"
)
ALLOWED_PULL_GAP_FACTOR = _threshold(
    3.0, "pace", "times", "clients may pause for their longest pause so far, multiplied by this"
)
LONGEST_PULL_GAP_DECAY_SHARE = _threshold(
    0.75,
    "pace, kept",
    "share",
    "after each shorter pause, the remembered longest pause is multiplied by this",
)
LOST_MSGS_REPORTED_S = _threshold(
    300.0, "lost", "s", "lost or purged messages are reported for this long"
)
STEADY_PUBLISHER_GAP_S = _threshold(
    10.0,
    "steady publisher, gap",
    "s",
    "a publisher that pauses for longer than this is not steady",
)
STEADY_PUBLISHER_AFTER_S = _threshold(
    60.0, "steady publisher", "s", "a publisher is steady after publishing for this long"
)
MIN_PUBLISHER_SILENCE_S = _threshold(
    30.0,
    "publisher stopped",
    "s",
    "a steady publisher is silent for longer than this, and than ten times its longest gap",
)
PUBLISHER_SILENCE_GAPS_FACTOR = _threshold(
    10.0, "publisher stopped, gaps", "times",
    "silence is normal up to a steady publisher's longest gap, times this",
)  # fmt: skip
RECREATIONS_WINDOW_S = _threshold(
    60.0, "recreated", "s", "recreations of a consumer are counted over this period"
)
MIN_RECREATIONS = int(
    _threshold(
        3, "recreated, fewest", "times", "fewer recreations of a consumer than this are ignored"
    )
)
REDELIVERIES_WINDOW_S = _threshold(
    30.0, "repeats", "s", "deliveries and new messages are compared over this period"
)
REDELIVERIES_SHARE = _threshold(
    0.1, "repeats, share", "share", "share of redeliveries; above this, acks come after ack wait"
)
MIN_REDELIVERIES = int(
    _threshold(
        3,
        "repeats, fewest",
        "times",
        "redeliveries are ignored until there are this many, in this many polls",
    )
)
NEVER_ACKED_AFTER_S = _threshold(
    10.0, "never acked", "s", "no ack for this long, and for longer than ack wait, is reported"
)
ACK_FLOOR_BLOCKED_S = _threshold(
    30.0,
    "ack floor blocked",
    "s",
    "an ack floor that stays for this long while later messages are acked is reported",
)
MIN_ACKED_BEHIND_FLOOR = int(
    _threshold(
        10,
        "ack floor blocked, fewest",
        "msgs",
        "fewer acked messages after the ack floor than this are ignored",
    )
)
NO_SUBSCRIBER_S = _threshold(
    6.0, "no subscriber", "s", "a subscriber that reconnects may be absent for this long"
)
MIN_ORPHANED_POLLS = int(
    _threshold(
        3,
        "orphaned",
        "times",
        "messages that match no consumer in this many polls are reported",
    )
)
NO_INTEREST_WINDOW_S = _threshold(
    15.0, "dropped at once", "s",
    "published and matched messages of an interest stream are compared over this period",
)  # fmt: skip
NO_INTEREST_SHARE = _threshold(
    0.1,
    "dropped at once, share",
    "share",
    "share of published messages that match no consumer; a larger share is reported",
)
PILE_UP_WINDOW_S = _threshold(
    300.0,
    "piling up, window",
    "s",
    "unused consumers that were created in this period are counted",
)
MIN_PILED_UP_CONSUMERS = int(
    _threshold(30, "piling up", "times", "fewer unused new consumers than this are ignored")
)
MIN_UNMATCHED_MSGS = int(
    _threshold(
        20,
        "unmatched",
        "msgs",
        "fewer messages that do not match the filter than this are ignored",
    )
)
UNMATCHED_MSGS_WINDOW_S = _threshold(
    300.0, "unmatched, window", "s",
    "with deliver policy new, the filter is compared only with messages of this period",
)  # fmt: skip
MAX_FETCH_LOOP_PAUSE_S = _threshold(
    3.0, "fetch loop", "s", "a client that fetches in a loop pulls again within this time"
)
MOSTLY_REDELIVERIES_SHARE = _threshold(
    0.5,
    "repeats, most",
    "share",
    "share of redeliveries; above this, they are reported whatever the cause",
)
MIN_POISON_POLLS = int(
    _threshold(
        3,
        "poison, polls",
        "times",
        "a message that alone is redelivered in this many consecutive polls is reported",
    )
)
MIN_REPORTED_BACKOFF_WAIT_S = _threshold(
    30.0,
    "backoff",
    "s",
    "messages that wait longer than this for their backoff are reported",
)
INELIGIBLE_PULLS_S = _threshold(
    5.0,
    "ineligible",
    "s",
    "open pulls of a priority group that receive nothing for this long are reported",
)
ORIGIN_CHECKED_AFTER_SILENCE_S = _threshold(
    5.0,
    "origin contact",
    "s",
    "an origin without contact for this long is checked: it may not exist",
)
STORAGE_NEARLY_FULL_SHARE = _threshold(
    0.9, "server store, near", "share",
    "share of a limit of the server; above this, it is reported as nearly full",
)  # fmt: skip
STORAGE_FULL_SHARE = _threshold(
    0.99, "server store, full", "share",
    "share of a server's store; above this, the server refuses publishes",
)  # fmt: skip
CERTIFICATE_WARNING_S = _threshold(
    30 * 86_400.0, "certificate", "s", "a certificate that expires within this time is a warning",
)  # fmt: skip
CERTIFICATE_CRITICAL_S = _threshold(
    7 * 86_400.0, "certificate, soon", "s",
        "a certificate that expires within this time is critical",
)  # fmt: skip
RESTARTS_WINDOW_S = _threshold(
    300.0, "restarts within", "s", "restarts of a server are counted over this period",
)  # fmt: skip
MIN_RESTARTS = int(
    _threshold(
        2,
        "restarts",
        "times",
        "this many restarts are reported; a single restart is usually intended",
    )
)
SERVER_CPU_SHARE = _threshold(
    0.9, "server cpu", "share", "share of all CPU cores; above this, a server is busy",
)  # fmt: skip
MIN_CLOSED_CONNECTIONS = _threshold(
    15, "closes", "times", "this many closed connections of one name within a minute are reported",
)  # fmt: skip
MIN_REFUSED_CLIENTS = int(
    _threshold(
        3,
        "connections refused",
        "times",
        "fewer refused clients than this in a minute are ignored",
    )
)
MAX_CONNECTION_SUBSCRIPTIONS = _threshold(
    5_000, "subscriptions", "times", "a connection with more subscriptions than this is "
                                     "probably leaking them",
)  # fmt: skip
UNBALANCED_LEADERS_FACTOR = _threshold(
    2.0, "unbalanced", "times",
        "leaders of a server, compared with an even share; a larger share is reported",
)  # fmt: skip
MIN_UNBALANCED_STREAMS = int(
    _threshold(
        6,
        "unbalanced, fewest",
        "times",
        "with fewer replicated streams than this, uneven leaders are not reported",
    )
)
MIN_UNBALANCED_DEVIATIONS = _threshold(
    3.0, "unbalanced, by chance", "times",
    "a deviation of fewer standard deviations than this is chance",
)  # fmt: skip
UNBALANCED_AFTER_RESTART_S = _threshold(
    300.0, "unbalanced, restart", "s",
    "after a server came back, leaders may be uneven for this long",
)  # fmt: skip
MIN_DIFFERING_POLLS = int(
    _threshold(
        3,
        "replicas compared",
        "times",
        "a replica whose messages differ from the others' in this many polls is reported",
    )
)
STREAM_MOVE_HANGS_AFTER_S = _threshold(
    30.0, "move hangs", "s", "a move or scale that waits this long for a server hangs"
)
MEMORY_OUTLIER_FACTOR = _threshold(
    1.5,
    "memory outlier",
    "times",
    "memory of a server, compared with the mean of its cluster; more than this is reported",
)
MEMORY_OUTLIER_BYTES = int(
    _threshold(
        256 * 2**20,
        "memory outlier, least",
        "bytes",
        "a smaller difference from the mean is ignored",
    )
)
OBJECT_UPLOAD_PAUSE_S = _threshold(
    30.0,
    "upload",
    "s",
    "uploads to an object store that stored nothing for this long are interrupted, or pause",
)
OBJECT_UPLOAD_ENDED_AFTER_S = _threshold(
    3600.0,
    "upload, ended",
    "s",
    "an upload that stored no chunk for this long has ended: its chunks may be removed",
)
