"""Every threshold of judgement: its value, its unit, what it decides. Their only home.

Rules, screens and the queries over recordings name the numbers here. The module imports nothing
of ours, so that the smallest part of the analysis can have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Unit = Literal[
    "s", "share", "msgs", "msgs/s", "subjects", "times", "requests", "requests/s", "errors/s",
    "events", "bytes",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Threshold:
    """One number that decides, with its unit."""

    name: str
    value: float
    unit: Unit
    meaning: str

    @property
    def text(self) -> str:
        """The value with its unit: `10 s`, `80 %`."""
        if self.unit == "share":
            return f"{100 * self.value:g} %"
        return f"{self.value:,g} {self.unit}"


THRESHOLDS: dict[str, Threshold] = {}
"""Every threshold by its name."""


def _threshold(value: float, name: str, unit: Unit, meaning: str) -> float:
    THRESHOLDS[name] = Threshold(name, value, unit, meaning)
    return value


NEAR_SHARE = _threshold(
    0.8, "near", "share",
    "from this share of a limit on, a level is near it: worth a look before it is reached",
)  # fmt: skip
FULL_SHARE = _threshold(
    0.98, "full", "share",
    "from this share of a limit of bytes on, a stream that loses messages is held there by it",
)  # fmt: skip
FULL_LEAVE_SHARE = _threshold(
    0.95, "full, leaving", "share",
    "a stream that was full has room again below this share of its limit of messages",
)  # fmt: skip
STUCK_AFTER_S = _threshold(
    30.0, "stuck after", "s",
    "a recorded ack floor that did not move for this long, with messages outstanding, is stuck",
)  # fmt: skip
NO_PULLS_AFTER_S = _threshold(
    10.0, "no pulls after", "s",
    "a consumer that fetches now and then has no open pull request in between: that is normal",
)  # fmt: skip
MOST_SAMPLES_SHARE = _threshold(
    0.5, "most samples", "share",
    "a recorded period counts as paused, leaderless … if more than this share of its samples are",
)  # fmt: skip

RECENT_S = _threshold(
    10.0, "recent", "s", "naks and terms of the last so many seconds are held against deliveries"
)
NAKED_SHARE = _threshold(
    0.9, "naks", "share", "of the recent deliveries; from here on, all messages count as refused"
)
NAKED_LEAVE_SHARE = _threshold(
    0.5, "naks, leaving", "share", "below this share of naks, messages do not count as refused"
)
NAKS_FEWEST = int(
    _threshold(3, "naks, fewest", "times", "fewer recent naks than this say nothing yet")
)
TERMS_FEWEST = int(
    _threshold(3, "terms, fewest", "times", "fewer recent terms than this say nothing yet")
)
POISON_DELIVERIES = int(
    _threshold(5, "poison", "times", "a message delivered so often and not settled is in a loop")
)
FLOW_STALL_S = _threshold(
    3.0, "flow stall", "s",
    "a bound push consumer with messages to deliver, and none delivered for this long, stalls",
)  # fmt: skip
STALLED_S = _threshold(
    10.0, "stalled", "s",
    "pull requests are open and messages pending, but none was delivered for this long",
)  # fmt: skip
FALLING_WINDOW_S = _threshold(
    15.0, "falling behind, window", "s",
    "this time is cut into thirds whose lowest backlogs are compared; a third is never shorter "
    "than the client's pause between two fetches",
)  # fmt: skip
FALLING_PER_S = _threshold(
    1.0, "falling behind, rate", "msgs/s", "a backlog that grows more slowly is not falling behind"
)
FALLING_MSGS = int(
    _threshold(10, "falling behind, backlog", "msgs", "a smaller backlog is not falling behind")
)
FALLING_BEHIND_S = _threshold(
    10.0, "falling behind, time", "s",
    "a backlog that the present pace clears within this time is not falling behind",
)  # fmt: skip
ACKS_FEWEST = int(
    _threshold(
        10, "ack samples", "events", "with fewer sampled acks in five minutes nothing is concluded"
    )
)
ACKS_AGAIN_SHARE = _threshold(
    0.05, "acks of repeats", "share",
    "from this share on of sampled acknowledgements, without naks, messages come again too soon",
)  # fmt: skip
ACKS_LATE_SHARE = _threshold(
    0.25, "acks of repeats, late", "share",
    "of ack wait: only if p99 of the samples is above it, repeats are laid to ack wait",
)  # fmt: skip
GIVEN_UP_KEPT_S = _threshold(
    300.0, "given up", "s",
    "a message that was given up is told of for so long, where the server does not tell any more",
)  # fmt: skip
GONE_KEPT_S = _threshold(300.0, "gone", "s", "a consumer that is gone is told of for so long")
NEAR_LAG_S = _threshold(
    60.0, "lag, near", "s", "the age of the next message to deliver stands out from this on"
)
LAG_S = _threshold(3600.0, "lag", "s", "the next message to deliver is older than this")
SILENT_UPSTREAM_S = _threshold(
    15.0, "silent source", "s",
    "a mirror's origin or a source that was not heard of for this long; a living one answers in 1",
)  # fmt: skip
SETTLING_UPSTREAM_S = _threshold(
    60.0, "silent source, restart", "s", "the same, while a server has just come back"
)
UPSTREAM_LAG_MSGS = int(
    _threshold(1000, "source lag", "msgs", "a mirror or source further behind than this")
)
PEER_ACTIVE_S = _threshold(
    5.0, "replica contact", "s", "a replica that the leader has not heard of for this long is away"
)
PEER_LAG_MSGS = int(
    _threshold(1000, "replica lag", "msgs", "a replica further behind its leader than this")
)
FULL_SOON_S = _threshold(
    3600.0, "full soon", "s", "a stream whose limit is reached within this time at its trend"
)
TREND_LEAST_S = _threshold(
    10.0,
    "full soon, trend",
    "s",
    "a level that is known for less says not when a limit is reached",
)
FULL_SOON_HELD_S = _threshold(
    60.0, "full soon, held", "s",
    "a distant limit is reported once it was forecast for this long, or for a tenth of the time "
    "that is left",
)  # fmt: skip
FORECAST_LEAST_S = _threshold(
    60.0, "forecast, watched", "s",
    "a level that was recorded for less says not when a limit will be reached",
)  # fmt: skip
FORECAST_REACH = _threshold(
    100.0, "forecast, reach", "times",
    "a recording tells of no limit further ahead than so many times the time that it watched",
)  # fmt: skip
SUBJECTS_MOST = int(
    _threshold(
        1_000_000, "subjects", "subjects", "more subjects in one stream than this cost memory"
    )
)
SUBJECTS_OWN_SHARE = _threshold(
    0.9, "own subjects", "share", "of the messages have a subject of their own, or more than this"
)
SUBJECTS_OWN_FEWEST = int(
    _threshold(100_000, "own subjects, fewest", "subjects", "fewer subjects than this cost little")
)
SHORT_DUPLICATES_S = _threshold(
    10.0, "duplicate window", "s",
    "a publisher that gets no answer sends again after 5 s by default, and more than once",
)  # fmt: skip
LED_TOGETHER_SHARE = _threshold(
    0.5, "leaders together", "share",
    "more of a stream's consumers than this are led by the server that leads the stream",
)  # fmt: skip
LED_TOGETHER_FEWEST = int(
    _threshold(10, "leaders together, fewest", "times", "fewer consumers than this are no load")
)
HOLES_SHARE = _threshold(
    0.5, "holes", "share", "more of the sequences between first and last than this are deleted"
)
HOLES_FEWEST = int(
    _threshold(100_000, "holes, fewest", "msgs", "fewer deleted messages than this cost little")
)
LEADERS_FEWEST = int(
    _threshold(3, "leader changes", "times", "so many elections within five minutes are flapping")
)
LEADERS_WINDOW_S = _threshold(
    300.0, "leader changes, window", "s", "elections of the last so many seconds are counted"
)
UNUSED_S = _threshold(
    14 * 86_400.0, "unused", "s", "a durable that delivered nothing for this long is not used"
)
INACTIVE_S = _threshold(
    30 * 86_400.0, "inactive", "s", "a stream that stored nothing for this long is not used"
)
ACCOUNT_WARN_SHARE = _threshold(
    0.75, "account, near", "share", "of memory and storage: `nats server check jetstream` warns"
)
ACCOUNT_ALARM_SHARE = _threshold(
    0.9, "account, full", "share", "of memory and storage: `nats server check jetstream` alarms"
)
API_ERRORS_PER_S = _threshold(
    1.0, "API errors", "errors/s", "the API of the account answers with more errors than this"
)
API_REQUESTS_PER_S = _threshold(
    100.0, "API requests", "requests/s", "other clients send more requests to the API than this"
)
API_SLOW_S = _threshold(
    0.5, "API answers", "s", "the API takes longer than this to answer: it is slow"
)
API_INFLIGHT_MOST = int(
    _threshold(1000, "API backlog", "requests", "more requests than this wait at the API")
)
STALE_S = _threshold(
    30.0, "stale", "s", "rows that could not be refreshed for this long say little of the present"
)

NEW_CONSUMER_S = _threshold(
    120.0, "new consumer", "s", "a younger consumer is not reported for having no pulls"
)
UNKNOWN_PACE_S = _threshold(
    20.0, "unknown pace", "s",
    "messages wait for so long before it is reported, where the pace of the clients is not known",
)  # fmt: skip
PACE_KNOWN_S = _threshold(
    10.0, "known pace", "s", "the pace of clients that were seen for so long is known"
)
PACE_TIMES = _threshold(
    3.0, "pace", "times", "clients may pause for so many times the longest pause that ended"
)
PACE_FORGET_SHARE = _threshold(
    0.75, "pace, kept", "share", "of the longest pause is kept each time a shorter one ends"
)
LOST_KEPT_S = _threshold(
    300.0, "lost", "s", "messages that were lost or purged are reported for so long"
)
STEADY_GAP_S = _threshold(
    10.0, "steady publisher, gap", "s", "a publisher that pauses for longer is not a steady one"
)
STEADY_RUN_S = _threshold(
    60.0, "steady publisher", "s", "a publisher that published steadily for so long is expected"
)
STOPPED_LEAST_S = _threshold(
    30.0,
    "publisher stopped",
    "s",
    "a steady publisher may be silent for this long and for ten of its gaps",
)
STOPPED_GAPS = _threshold(
    10.0, "publisher stopped, gaps", "times",
    "a steady publisher may pause for so many of its longest gaps",
)  # fmt: skip
TIMES_KEPT_S = _threshold(
    60.0, "recreated", "s", "consumers that were recreated in the last so many seconds are counted"
)
RECREATED_FEWEST = int(
    _threshold(3, "recreated, fewest", "times", "fewer recreations of a consumer say nothing")
)
REPEATS_WINDOW_S = _threshold(
    30.0, "repeats", "s", "deliveries of the last so many seconds are compared with new messages"
)
REPEATS_SHARE = _threshold(
    0.1, "repeats, share", "share", "of deliveries that are repeats: acks come after ack wait"
)
REPEATS_FEWEST = int(
    _threshold(3, "repeats, fewest", "times", "fewer repeats, or polls with repeats, say nothing")
)
NEVER_ACKED_S = _threshold(
    10.0, "never acked", "s", "no ack for this long, and for longer than ack wait"
)
FLOOR_BLOCKED_S = _threshold(
    30.0, "ack floor blocked", "s", "an ack floor that stays while messages after it are acked"
)
FLOOR_BEHIND_MSGS = int(
    _threshold(
        10, "ack floor blocked, fewest", "msgs", "fewer acked messages behind it say little"
    )
)
NO_SUBSCRIBER_S = _threshold(
    6.0, "no subscriber", "s", "a subscriber that reconnects may be absent for this long"
)
ORPHANED_POLLS = int(
    _threshold(3, "orphaned", "times", "polls in which messages have no consumer, before a report")
)
DROPPED_WINDOW_S = _threshold(
    15.0, "dropped at once", "s",
    "what an interest stream stored in the last so many seconds is held against what was wanted",
)  # fmt: skip
DROPPED_SHARE = _threshold(
    0.1, "dropped at once, share", "share", "of the messages that no consumer wants: they are lost"
)
PILE_UP_S = _threshold(
    300.0,
    "piling up, window",
    "s",
    "unused consumers that were created in the last so many seconds",
)
PILE_UP_FEWEST = int(
    _threshold(30, "piling up", "times", "fewer unused new consumers are no leak")
)
UNMATCHED_FEWEST = int(
    _threshold(
        20, "unmatched", "msgs", "fewer messages that match no filter of a consumer say nothing"
    )
)
UNMATCHED_WINDOW_S = _threshold(
    300.0, "unmatched, window", "s",
    "messages of the last so many seconds are counted for a consumer that wants new ones only",
)  # fmt: skip
FETCH_LOOP_S = _threshold(
    3.0, "fetch loop", "s", "a client that fetches in a loop pulls again within this time"
)
REPEATS_MOST_SHARE = _threshold(
    0.5, "repeats, most", "share", "of deliveries that are repeats: something is wrong anyway"
)
ONE_MESSAGE_POLLS = int(
    _threshold(3, "poison, polls", "times", "polls in which one message alone was redelivered")
)
BACKOFF_WAITS_S = _threshold(
    30.0,
    "backoff",
    "s",
    "messages that wait longer than this for their backoff are reported",
)
INELIGIBLE_S = _threshold(
    5.0, "ineligible", "s", "open pulls of a priority group that receive nothing for this long"
)
ORIGIN_ACTIVE_S = _threshold(
    5.0, "origin contact", "s", "an origin without contact for this long may not exist"
)
STORE_NEAR_SHARE = _threshold(
    0.9, "server store, near", "share",
    "from this share of a server's limit on, what it holds comes near it",
)  # fmt: skip
STORE_FULL_SHARE = _threshold(
    0.99, "server store, full", "share",
    "from this share of a server's store on, it refuses what is published",
)  # fmt: skip
CERTIFICATE_S = _threshold(
    30 * 86_400.0, "certificate", "s", "a certificate that ends within so long must be renewed",
)  # fmt: skip
CERTIFICATE_SOON_S = _threshold(
    7 * 86_400.0, "certificate, soon", "s", "a certificate that ends within so long is an alarm",
)  # fmt: skip
RESTARTS_S = _threshold(
    300.0, "restarts within", "s", "for so long restarts of a server are counted together",
)  # fmt: skip
RESTARTS_FEWEST = int(
    _threshold(2, "restarts", "times", "one restart is mostly meant, so many are not")
)
SERVER_CPU_SHARE = _threshold(
    0.9, "server cpu", "share", "from this share of all its cores on, a server is busy",
)  # fmt: skip
CLIENT_CLOSES = _threshold(
    15, "closes", "times", "connections of one name that are closed within a minute",
)  # fmt: skip
REFUSED_FEWEST = int(
    _threshold(3, "connections refused", "times", "fewer refused clients in a minute say nothing")
)
CLIENT_SUBSCRIPTIONS = _threshold(
    5_000, "subscriptions", "times", "a connection with more subscriptions than this is "
                                     "probably leaking them",
)  # fmt: skip
UNBALANCED_SHARE = _threshold(
    2.0, "unbalanced", "times", "of the even share: a server that leads more leads too many",
)  # fmt: skip
UNBALANCED_FEWEST = int(
    _threshold(6, "unbalanced, fewest", "times", "fewer streams with replicas need not be even")
)
UNBALANCED_DEVIATIONS = _threshold(
    3.0, "unbalanced, by chance", "times",
    "the standard deviation of leaders that are elected by chance: less says nothing",
)  # fmt: skip
UNBALANCED_AFTER_S = _threshold(
    300.0, "unbalanced, restart", "s",
    "after a server came back, leaders may be uneven for this long",
)  # fmt: skip
REPLICAS_POLLS = int(
    _threshold(3, "replicas compared", "times", "polls in which a replica has other messages")
)
MOVE_HANGS_S = _threshold(
    30.0, "move hangs", "s", "a move or scale that waits for a server for so long hangs"
)
MEMORY_OUTLIER = _threshold(
    1.5, "memory outlier", "times", "of the mean of its cluster: a server uses far more memory"
)
MEMORY_OUTLIER_BYTES = int(
    _threshold(256 * 2**20, "memory outlier, least", "bytes", "above the mean: less is no matter")
)
UPLOAD_S = _threshold(
    30.0, "upload", "s", "an object store that stored nothing for this long has no upload running"
)
