"""The cause of a backlog that grows: over a time that covers what bursts do to it."""

from __future__ import annotations

from itertools import pairwise

from natstui.model.findings.facts.consumer import ConsumerFacts
from natstui.model.findings.finding import Seen
from natstui.model.findings.thresholds import (
    FALLING_BEHIND_S,
    FALLING_MSGS,
    FALLING_PER_S,
    FALLING_WINDOW_S,
)

_PAUSE_MOST_S = 15.0
"""A client that rests for longer has no open pull meanwhile, which is told anyway."""
_POLLS_FEWEST = 6
"""Two for each third."""
_PAUSES_OF_S = 45.0
"""In so much time its longest pause is looked for."""

Values = list[tuple[int, int]]
"""(sampled, value), newest first."""


def lagging(f: ConsumerFacts, known: bool) -> Seen | None:
    """Tell of a backlog whose lowest value grows from third to third of a window.

    Each third is longer than the client rests between two fetches, so that it holds a moment
    right after one: a client that takes all there is comes back to nothing. One burst lifts one
    third only. It is over when the newest third is not above the one before.
    """
    if f.pending < FALLING_MSGS or f.columns.paused[f.row]:
        return None
    # Most backlogs neither grow nor take long, and the rest of this looks at a minute of polls.
    if not known and not (_grows_now(f) and _takes_long(f)):
        return None
    if not _is_received(f):
        return None
    thirds = _thirds(f, known)
    if thirds is None:
        return None
    lows = [min((value, -us) for us, value in third) for third in thirds]
    (latest, latest_us), (middle, middle_us), (earliest, earliest_us) = lows
    per_s = (latest - middle) / (middle_us - latest_us) * 1e6
    steps = (per_s, (middle - earliest) / (earliest_us - middle_us) * 1e6)
    behind_s = _behind_s(f, -earliest_us)
    if known:
        grows = per_s > 0 and behind_s >= FALLING_BEHIND_S / 2
    else:
        grows = (
            min(steps) >= FALLING_PER_S / 2
            and sum(steps) / 2 >= FALLING_PER_S
            and behind_s >= FALLING_BEHIND_S
            and latest - earliest > _largest_rise(thirds)
        )
    if not grows:
        return None
    since_us = f.at_us - (f.mono_us + earliest_us)
    text = f"{f.pending} pending, {per_s:+.1f}/s"
    return Seen(text, since_us, (), {"pending_msgs": f.pending, "per_s": per_s})


def _is_received(f: ConsumerFacts) -> bool:
    """Return whether somebody receives messages; where nobody does, that is what is wrong."""
    return f.served is not False or bool(f.past.grown("delivered_consumer_seq", _PAUSE_MOST_S))


def _thirds(f: ConsumerFacts, known: bool) -> list[Values] | None:
    """Return the newest values of the backlog in three parts, the newest part first."""
    third_s = max(FALLING_WINDOW_S / 3, min(_longest_pause_s(f, known), _PAUSE_MOST_S))
    values = f.past.values("pending_msgs", 3 * third_s, fewest=_POLLS_FEWEST)
    newest_us, span_us = values[0][0], 3 * third_s * 1e6
    if len(values) < _POLLS_FEWEST or newest_us - values[-1][0] < 0.8 * span_us:
        return None
    span_us = newest_us - values[-1][0]
    # Where polls were held up, so were clients perhaps, and what was between them nobody knows.
    longest_gap_us = max(later_us - us for (later_us, _), (us, _) in pairwise(values))
    if not known and 3 * longest_gap_us > span_us:
        return None
    thirds: list[Values] = [[], [], []]
    for us, value in values:
        thirds[min(2, int(3 * (newest_us - us) / span_us))].append((us, value))
    return thirds if all(thirds) else None


def _longest_pause_s(f: ConsumerFacts, known: bool) -> float:
    """Return the longest time in which messages waited and none was delivered.

    The present pause counts while nothing is told: it may be the first one of a client that rests.
    """
    delivered = f.past.values("delivered_consumer_seq", _PAUSES_OF_S)
    pending = f.past.values("pending_msgs", _PAUSES_OF_S)
    polls = [(us, seq, waits) for (us, seq), (_, waits) in zip(delivered, pending, strict=True)]
    longest_us, pause_us, gap_us = 0, 0, 0
    for (us, seq, waits), (later_us, later_seq, _) in pairwise(reversed(polls)):
        gap_us = max(gap_us, later_us - us)
        if later_seq == seq and waits:
            pause_us += later_us - us
        else:
            longest_us, pause_us = max(longest_us, pause_us), 0
    longest_us = longest_us if known else max(longest_us, pause_us)
    # It began up to one poll earlier, and ended up to one later.
    return (longest_us + 2 * gap_us) / 1e6 if longest_us else 0.0


def _behind_s(f: ConsumerFacts, from_us: int) -> float:
    """Return how long the backlog would take at the pace of the window."""
    values = f.past.values("delivered_consumer_seq", (f.mono_us - from_us) / 1e6)
    grown, span_us = values[0][1] - values[-1][1], values[0][0] - values[-1][0]
    return f.pending * span_us / grown / 1e6 if grown > 0 else float("inf")


def _largest_rise(thirds: list[Values]) -> int:
    """Return how much came between two polls at most: the lowest value is known to that."""
    values = [value for third in thirds for _, value in third]
    return max(later - earlier for later, earlier in pairwise(values))


def _grows_now(f: ConsumerFacts) -> bool:
    """Return whether the backlog is larger than a moment ago."""
    values = f.past.values("pending_msgs", FALLING_WINDOW_S / 3)
    from_us = values[0][0] - FALLING_WINDOW_S / 3 * 1e6
    inside = [value for us, value in values if us >= from_us]
    return len(inside) < 2 or inside[0] > inside[-1]


def _takes_long(f: ConsumerFacts) -> bool:
    """Return whether it may take long to deliver the backlog; the window decides later."""
    from_us = f.mono_us - round(FALLING_WINDOW_S * 1e6)
    return 2 * _behind_s(f, from_us) >= FALLING_BEHIND_S
