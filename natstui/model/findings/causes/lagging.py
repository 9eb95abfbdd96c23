"""The cause of a growing backlog, over a window that is longer than the effect of bursts."""

from __future__ import annotations

from itertools import pairwise

from natstui.model.findings.facts.consumer import ConsumerFacts
from natstui.model.findings.finding import Symptom
from natstui.model.findings.thresholds import (
    FALLING_BEHIND_S,
    FALLING_MSGS,
    FALLING_PER_S,
    FALLING_WINDOW_S,
)

_PAUSE_MOST_S = 15.0
"""Maximum pause of a client: a longer one is reported as missing pulls."""
_POLLS_FEWEST = 6
"""Minimum polls in the window, two for each third."""
_PAUSES_OF_S = 45.0
"""Time span in which the longest pause is searched."""

Values = list[tuple[int, int]]
"""(sampled, value), newest first."""


def lagging(f: ConsumerFacts, is_open: bool) -> Symptom | None:
    """Return the evidence of a backlog whose minimum grows in each third of a window.

    Each third is longer than the pause of a client between two fetches, so that it includes a time
    right after a fetch, at which a client that keeps up has no backlog. A single burst raises only
    one third. The finding ends when the newest third is not above the previous one.
    """
    if f.pending < FALLING_MSGS or f.columns.paused[f.row]:
        return None
    # Most backlogs neither grow nor take long, and the rest of this looks at a minute of polls.
    if not is_open and not (_grows_now(f) and _takes_long(f)):
        return None
    if not _is_received(f):
        return None
    thirds = _thirds(f, is_open)
    if thirds is None:
        return None
    lows = [min((value, -us) for us, value in third) for third in thirds]
    (latest, latest_us), (middle, middle_us), (earliest, earliest_us) = lows
    per_s = (latest - middle) / (middle_us - latest_us) * 1e6
    steps = (per_s, (middle - earliest) / (earliest_us - middle_us) * 1e6)
    behind_s = _behind_s(f, -earliest_us)
    if is_open:
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
    return Symptom(text, since_us, (), {"pending_msgs": f.pending, "per_s": per_s})


def _is_received(f: ConsumerFacts) -> bool:
    """Return whether clients receive messages; otherwise that is the cause."""
    return f.served is not False or bool(f.past.grown("delivered_consumer_seq", _PAUSE_MOST_S))


def _thirds(f: ConsumerFacts, is_open: bool) -> list[Values] | None:
    """Return the newest values of the backlog in three thirds, the newest first."""
    third_s = max(FALLING_WINDOW_S / 3, min(_longest_pause_s(f, is_open), _PAUSE_MOST_S))
    values = f.past.values("pending_msgs", 3 * third_s, fewest_count=_POLLS_FEWEST)
    newest_us, span_us = values[0][0], 3 * third_s * 1e6
    if len(values) < _POLLS_FEWEST or newest_us - values[-1][0] < 0.8 * span_us:
        return None
    span_us = newest_us - values[-1][0]
    # Where polls were held up, so were clients perhaps, and what was between them nobody knows.
    longest_gap_us = max(later_us - us for (later_us, _), (us, _) in pairwise(values))
    if not is_open and 3 * longest_gap_us > span_us:
        return None
    thirds: list[Values] = [[], [], []]
    for us, value in values:
        thirds[min(2, int(3 * (newest_us - us) / span_us))].append((us, value))
    return thirds if all(thirds) else None


def _longest_pause_s(f: ConsumerFacts, is_open: bool) -> float:
    """Return the longest time in which messages waited and none was delivered.

    The current pause counts until a finding is open, as it may be the first one of a client.
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
    longest_us = longest_us if is_open else max(longest_us, pause_us)
    # It began up to one poll earlier, and ended up to one later.
    return (longest_us + 2 * gap_us) / 1e6 if longest_us else 0.0


def _behind_s(f: ConsumerFacts, from_us: int) -> float:
    """Return the time to deliver the backlog at the rate of the window."""
    values = f.past.values("delivered_consumer_seq", (f.mono_us - from_us) / 1e6)
    grown, span_us = values[0][1] - values[-1][1], values[0][0] - values[-1][0]
    return f.pending * span_us / grown / 1e6 if grown > 0 else float("inf")


def _largest_rise(thirds: list[Values]) -> int:
    """Return the largest rise between two polls, which is the accuracy of the minimum."""
    values = [value for third in thirds for _, value in third]
    return max(later - earlier for later, earlier in pairwise(values))


def _grows_now(f: ConsumerFacts) -> bool:
    """Return whether the backlog has grown since the previous poll."""
    values = f.past.values("pending_msgs", FALLING_WINDOW_S / 3)
    from_us = values[0][0] - FALLING_WINDOW_S / 3 * 1e6
    inside = [value for us, value in values if us >= from_us]
    return len(inside) < 2 or inside[0] > inside[-1]


def _takes_long(f: ConsumerFacts) -> bool:
    """Return whether it may take long to deliver the backlog; the window decides later."""
    from_us = f.mono_us - round(FALLING_WINDOW_S * 1e6)
    return 2 * _behind_s(f, from_us) >= FALLING_BEHIND_S
