"""Every status of a consumer: its words and its thresholds, written once.

The live rule (`natstui.model.findings.consumer`) and the query over recordings
(`natstui.analysis.gold.stuck`) both name these. The module imports nothing of ours, because the
zip for spark-submit holds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "idle", "warn", "bad", "unknown"]

STUCK_AFTER_S = 30.0
"""A recorded ack floor that did not move for this long, with messages outstanding, is stuck."""
NO_PULLS_AFTER_S = 10.0
"""A consumer that fetches now and then has no open pull request in between: that is normal."""
MOST_SAMPLES_SHARE = 0.5
"""A recorded stretch has the condition that more than this share of its samples have."""


@dataclass(frozen=True, slots=True, eq=False)
class Status:
    """What a consumer does, or why it does not move."""

    severity_level: int
    """Where it sorts: the worst has the highest."""
    level: Level
    word: str
    sentence: str
    """What the word means."""


UNREACHABLE = Status(11, "bad", "unreachable", "its leader does not answer the server")
NO_LEADER = Status(10, "bad", "no leader", "the cluster has elected no leader for it")
ACK_LIMIT = Status(
    9, "bad", "ack limit", "nothing more is delivered until a message is acknowledged"
)
NO_SUBSCRIBER = Status(8, "bad", "no subscriber", "nobody subscribes to it")
NO_PULLS = Status(7, "bad", "no pulls", "no pull request is open")
FALLING_BEHIND = Status(6, "warn", "falling behind", "messages come faster than it takes them")
REDELIVERING = Status(5, "warn", "redelivering", "messages are delivered again")
PAUSED = Status(4, "warn", "paused", "delivery is paused until it is resumed or expires")
CATCHING_UP = Status(3, "ok", "catching up", "it takes messages faster than they come")
WORKING = Status(2, "ok", "working", "messages are delivered and acknowledged")
UP_TO_DATE = Status(1, "ok", "up to date", "nothing pending, nothing unacknowledged")
IDLE = Status(0, "idle", "idle", "nothing pending, nothing unacknowledged")

NOT_ACKNOWLEDGED = Status(
    2, "warn", "not acknowledged", "messages were delivered and not acknowledged"
)
UNEXPLAINED = Status(2, "unknown", "unknown", "nothing recorded explains it")

STUCK_CAUSES = (
    NO_LEADER,
    PAUSED,
    ACK_LIMIT,
    REDELIVERING,
    NO_SUBSCRIBER,
    NO_PULLS,
    NOT_ACKNOWLEDGED,
    UNEXPLAINED,
)
"""What explains a stuck stretch of a recording; the first that fits is its cause.

The last two come from a whole stretch only: at one moment such a consumer counts as working.
"""
