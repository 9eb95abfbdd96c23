"""The cause of a growing backlog, over a window that is longer than the effect of bursts."""

from __future__ import annotations

from itertools import pairwise

from natstui.model.findings.facts.consumer import ConsumerFacts
from natstui.model.findings.finding import Symptom
from natstui.model.findings.thresholds import (
    LAGGING_WINDOW_S,
    MIN_LAGGING_MSGS,
    MIN_LAGGING_PER_S,
    MIN_LAGGING_S,
)

_MAX_PAUSE_S = 15.0
"""Maximum pause of a client in seconds: a longer one is reported as missing pulls."""
_MIN_POLLS = 6
"""Minimum polls in the window, two for each third."""
_PAUSE_SEARCH_S = 45.0
"""Time span in which the longest pause is searched."""

Values = list[tuple[int, int]]
"""Pairs of sample time (µs of the steady clock) and value, newest first."""


def find_growing_backlog(f: ConsumerFacts, is_open: bool) -> Symptom | None:
    """Return the evidence of a backlog whose minimum grows in each third of a window.

    Each third is longer than the pause of a client between two fetches, so that it includes a
    moment after a fetch, when a client that keeps up has no backlog. A single burst raises only
    one third. The finding ends when the newest third is not above the previous one.
    """
    if f.pending < MIN_LAGGING_MSGS or f.columns.paused[f.row]:
        return None
    # Most backlogs neither grow nor take long; the checks below read a minute of polls.
    if not is_open and not (_grows_now(f) and _takes_long(f)):
        return None
    if not _receives_messages(f):
        return None
    thirds = _split_into_thirds(f, is_open)
    if thirds is None:
        return None
    lows = [min((value, -us) for us, value in third) for third in thirds]
    (latest, latest_us), (middle, middle_us), (earliest, earliest_us) = lows
    per_s = (latest - middle) / (middle_us - latest_us) * 1e6
    steps = (per_s, (middle - earliest) / (earliest_us - middle_us) * 1e6)
    behind_s = _estimate_delivery_s(f, -earliest_us)
    if is_open:
        grows = per_s > 0 and behind_s >= MIN_LAGGING_S / 2
    else:
        grows = (
            min(steps) >= MIN_LAGGING_PER_S / 2
            and sum(steps) / 2 >= MIN_LAGGING_PER_S
            and behind_s >= MIN_LAGGING_S
            and latest - earliest > _largest_rise(thirds)
        )
    if not grows:
        return None
    since_us = f.at_us - (f.mono_us + earliest_us)
    text = f"{f.pending} pending, {per_s:+.1f}/s"
    return Symptom(text, since_us, (), {"pending_msgs": f.pending, "per_s": per_s})


def _receives_messages(f: ConsumerFacts) -> bool:
    """Return whether clients receive messages; if not, another cause explains the backlog."""
    return f.has_client is not False or bool(
        f.history.growth("delivered_consumer_seq", _MAX_PAUSE_S)
    )


def _split_into_thirds(f: ConsumerFacts, is_open: bool) -> list[Values] | None:
    """Return the backlog in three thirds of the window, newest first; None with too few polls."""
    third_s = max(LAGGING_WINDOW_S / 3, min(_longest_pause_s(f, is_open), _MAX_PAUSE_S))
    values = f.history.values("pending_msgs", 3 * third_s, min_count=_MIN_POLLS)
    newest_us, span_us = values[0][0], 3 * third_s * 1e6
    if len(values) < _MIN_POLLS or newest_us - values[-1][0] < 0.8 * span_us:
        return None
    span_us = newest_us - values[-1][0]
    # Delayed polls do not show the backlog between them, and clients may be delayed too.
    longest_gap_us = max(later_us - us for (later_us, _), (us, _) in pairwise(values))
    if not is_open and 3 * longest_gap_us > span_us:
        return None
    thirds: list[Values] = [[], [], []]
    for us, value in values:
        thirds[min(2, int(3 * (newest_us - us) / span_us))].append((us, value))
    return thirds if all(thirds) else None


def _longest_pause_s(f: ConsumerFacts, is_open: bool) -> float:
    """Return the longest time (s) in which messages were pending and none was delivered.

    The current pause counts only before the finding is open: it may be a client's first pause.
    """
    delivered = f.history.values("delivered_consumer_seq", _PAUSE_SEARCH_S)
    pending = f.history.values("pending_msgs", _PAUSE_SEARCH_S)
    polls = [
        (us, seq, pending_msgs)
        for (us, seq), (_, pending_msgs) in zip(delivered, pending, strict=True)
    ]
    longest_us, pause_us, gap_us = 0, 0, 0
    for (us, seq, pending_msgs), (later_us, later_seq, _) in pairwise(reversed(polls)):
        gap_us = max(gap_us, later_us - us)
        if later_seq == seq and pending_msgs:
            pause_us += later_us - us
        else:
            longest_us, pause_us = max(longest_us, pause_us), 0
    longest_us = longest_us if is_open else max(longest_us, pause_us)
    # The pause may have begun one poll earlier, and ended one poll later.
    return (longest_us + 2 * gap_us) / 1e6 if longest_us else 0.0


def _estimate_delivery_s(f: ConsumerFacts, from_us: int) -> float:
    """Return the seconds to deliver the backlog at the rate since `from_us`; inf if at rest."""
    values = f.history.values("delivered_consumer_seq", (f.mono_us - from_us) / 1e6)
    grown, span_us = values[0][1] - values[-1][1], values[0][0] - values[-1][0]
    return f.pending * span_us / grown / 1e6 if grown > 0 else float("inf")


def _largest_rise(thirds: list[Values]) -> int:
    """Return the largest rise of the backlog between two polls: the accuracy of its minimum."""
    values = [value for third in thirds for _, value in third]
    return max(later - earlier for later, earlier in pairwise(values))


def _grows_now(f: ConsumerFacts) -> bool:
    """Return whether the backlog has grown since the previous poll."""
    values = f.history.values("pending_msgs", LAGGING_WINDOW_S / 3)
    from_us = values[0][0] - LAGGING_WINDOW_S / 3 * 1e6
    inside = [value for us, value in values if us >= from_us]
    return len(inside) < 2 or inside[0] > inside[-1]


def _takes_long(f: ConsumerFacts) -> bool:
    """Return whether delivering the backlog may take long; a first, rough check."""
    from_us = f.mono_us - round(LAGGING_WINDOW_S * 1e6)
    return 2 * _estimate_delivery_s(f, from_us) >= MIN_LAGGING_S
