"""Cases that the live rules and the queries of the analysis must answer alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from natstui.model.findings.catalogue.consumers import (
    MAX_ACK_PENDING_REACHED,
    NEVER_ACKED,
    NO_LEADER,
    NO_PULLS,
    NO_PULLS_PACE_UNKNOWN,
    NO_SUBSCRIBER,
    NOT_ACKED_WITHIN_ACK_WAIT,
    PAUSED,
    POISON,
    PULL_STALLED,
    PUSH_STALLED,
    REDELIVERING,
)
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.catalogue.status import UNEXPLAINED, WORKING, Status
from natstui.model.findings.thresholds import MAX_PULL_GAP_IF_UNKNOWN_S, NO_PULLS_AFTER_S
from natstui.model.live.limits import StreamFill

SECONDS = range(61)
"""One sample a second."""
START_S = 100
EPOCH_US = 1_700_000_000_000_000
"""What `tests.model.builders.snapshot` adds to a time in seconds."""


def at_us(second: int) -> int:
    """Return the moment of a sample."""
    return EPOCH_US + (START_S + second) * 1_000_000


class StuckCase(Struct, frozen=True):
    """A consumer whose ack floor does not move, and what both rules call it."""

    name: str
    live: Kind | Status
    recorded: Kind | Status
    sample: Callable[[int], dict[str, Any]]
    config: dict[str, Any] = field(default_factory=dict)

    def columns(self, second: int) -> dict[str, Any]:
        """Return the columns of its sample: messages are pending and nobody pulls."""
        quiet = {
            "stream": "S", "name": self.name, "created_at_us": 1, "leader": "n1",
            "pending_msgs": 50, "ack_pending_msgs": 0, "redelivered_msgs": 0,
            "waiting_pulls_count": 0, "push_bound": False, "paused": False,
            "delivered_consumer_seq": 100, "delivered_stream_seq": 100,
            "ack_floor_consumer_seq": 100, "ack_floor_stream_seq": 100,
            "delivered_at_us": at_us(-600),
        }  # fmt: skip
        return quiet | self.sample(second)


def _always(**columns: Any) -> Callable[[int], dict[str, Any]]:
    return lambda _: columns


def _delivered_ago(seconds: float) -> Callable[[int], dict[str, Any]]:
    return lambda second: {"delivered_at_us": at_us(second) - round(seconds * 1e6)}


PUSH = {"pull": False, "deliver_subject": "to.me"}
STUCK_CASES = (
    StuckCase("no-leader", NO_LEADER, NO_LEADER, _always(leader=None)),
    StuckCase("no-leader-and-paused", NO_LEADER, NO_LEADER, _always(leader=None, paused=True)),
    StuckCase("paused", PAUSED, PAUSED, _always(paused=True)),
    StuckCase(
        "paused-at-its-limit", PAUSED, PAUSED, _always(paused=True, ack_pending_msgs=1000)
    ),
    StuckCase("at-its-limit", MAX_ACK_PENDING_REACHED, MAX_ACK_PENDING_REACHED,
              _always(ack_pending_msgs=1000)),
    StuckCase(
        "below-its-limit", PULL_STALLED, NOT_ACKED_WITHIN_ACK_WAIT,
        _always(ack_pending_msgs=999, waiting_pulls_count=1),
    ),
    StuckCase(
        "no-acks-at-all", NO_PULLS_PACE_UNKNOWN, NO_PULLS, _always(ack_pending_msgs=1000),
        {"ack_policy": "none"},
    ),
    StuckCase(
        "unlimited", PULL_STALLED, NOT_ACKED_WITHIN_ACK_WAIT,
        _always(ack_pending_msgs=5000, waiting_pulls_count=1), {"max_ack_pending_msgs": None},
    ),
    StuckCase("nobody-subscribes", NO_SUBSCRIBER, NO_SUBSCRIBER, _always(), PUSH),
    StuckCase(
        "nobody-subscribes-just-now", NO_SUBSCRIBER, NO_SUBSCRIBER, _delivered_ago(1), PUSH
    ),
    StuckCase("bound", PUSH_STALLED, UNEXPLAINED, _always(push_bound=True), PUSH),
    StuckCase(
        "nothing-to-push", NOT_ACKED_WITHIN_ACK_WAIT, NOT_ACKED_WITHIN_ACK_WAIT,
        _always(pending_msgs=0, ack_pending_msgs=5), PUSH,
    ),
    StuckCase("nobody-pulls", NO_PULLS_PACE_UNKNOWN, NO_PULLS, _always()),
    StuckCase("nobody-ever-pulled", NO_PULLS_PACE_UNKNOWN, NO_PULLS,
              _always(delivered_at_us=None)),
    StuckCase("pulled-now-and-then", WORKING, UNEXPLAINED, _delivered_ago(NO_PULLS_AFTER_S)),
    StuckCase("pulled-long-ago", NO_PULLS_PACE_UNKNOWN, NO_PULLS,
              _delivered_ago(MAX_PULL_GAP_IF_UNKNOWN_S + 1)),
    StuckCase(
        "the-same-again-and-nothing-else-may-be-delivered", POISON, POISON,
        lambda second: {
            "ack_pending_msgs": 1, "waiting_pulls_count": 1, "redelivered_msgs": 1,
            "delivered_consumer_seq": 100 + second // 10, "delivered_at_us": at_us(second),
        },
        {"max_ack_pending_msgs": 1},
    ),
    StuckCase(
        "the-same-again", NEVER_ACKED, REDELIVERING,
        lambda second: {
            "ack_pending_msgs": 1, "waiting_pulls_count": 1, "redelivered_msgs": 1 + second // 10,
            "delivered_consumer_seq": 100 + second, "delivered_at_us": at_us(second),
        },
    ),
)  # fmt: skip

DRAIN_CASES: tuple[tuple[int, float | None, float | None], ...] = (
    (0, None, 0.0), (0, 5.0, 0.0), (80, -10.0, 8.0), (80, 10.0, None), (80, 0.0, None),
    (80, None, None),
)  # fmt: skip
"""(messages pending, their trend a second, seconds until none is)."""

FULL_CASES: tuple[tuple[int, int | None, float | None, float | None], ...] = (
    (100, 150, 10.0, 5.0), (100, 150, 0.0, None), (100, 150, -1.0, None), (100, 150, None, None),
    (100, None, 10.0, None), (150, 150, None, 0.0), (151, 150, -1.0, 0.0),
)  # fmt: skip
"""(level, limit, trend a second, seconds until the limit is reached); of the live rule alone."""

BYTES_CASES: tuple[tuple[StreamFill, bool, bool], ...] = (
    (StreamFill(100, 9_950, None, 10_000), False, True),
    (StreamFill(100, 9_900, None, 10_000), False, False),
    (StreamFill(100, 9_950, None, 20_000), False, False),
    (StreamFill(100, 9_950, None, 20_000), True, False),
    (StreamFill(1_000, 9_800, None, 10_000), True, True),
    (StreamFill(1_000, 9_800, None, 10_000), False, False),
    (StreamFill(1_000, 9_799, None, 10_000), True, False),
    (StreamFill(0, 0, None, 10_000), True, False),
    (StreamFill(100, 9_950, 100, None), True, False),
)
"""(what a stream keeps, whether old messages leave it, whether its bytes are full)."""
