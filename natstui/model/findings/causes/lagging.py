"""The cause of a growing backlog, over a window that is longer than the effect of bursts."""

from __future__ import annotations

from itertools import pairwise

from natstui.model.findings.facts.consumer import ConsumerFacts
from natstui.model.findings.finding import Symptom
from natstui.model.findings.thresholds import (
    LAGGING_WINDOW_S,
    MIN_BACKLOG_GROWTH_PER_S,
    MIN_BACKLOG_MSGS,
    MIN_TIME_TO_DRAIN_S,
)

_MAX_CLIENT_PAUSE_S = 15.0
"""Maximum pause of a client in seconds: a longer one is reported as missing pulls."""
_MIN_POLLS = 6
"""Minimum polls in the window, two for each third."""
_PAUSE_SEARCH_S = 45.0
"""Time span in which the longest pause is searched."""

UsAndValuePairs = list[tuple[int, int]]
"""Pairs of sample time (µs of the steady clock) and value, newest first."""


def find_growing_backlog(f: ConsumerFacts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence of a backlog whose minimum grows in each third of a window.

    Each third is longer than the pause of a client between two fetches, so that it includes a
    moment after a fetch, when a client that keeps up has no backlog. A single burst raises only
    one third. The finding ends when the newest third is not above the previous one.
    """
    if f.pending < MIN_BACKLOG_MSGS or f.columns.paused[f.row]:
        return None
    # Most backlogs neither grow nor take long; the checks below read a minute of polls.
    if not is_finding_open and not (_has_backlog_grown(f) and _takes_long_to_deliver(f)):
        return None
    if not _receives_messages(f):
        return None
    thirds = _split_into_thirds(f, is_finding_open)
    if thirds is None:
        return None
    third_minima = [min((value, -us) for us, value in third) for third in thirds]
    (latest_msgs, latest_us), (middle_msgs, middle_us), (earliest_msgs, earliest_us) = third_minima
    newest_growth_per_s = (latest_msgs - middle_msgs) / (middle_us - latest_us) * 1e6
    growths_per_s = (
        newest_growth_per_s,
        (middle_msgs - earliest_msgs) / (earliest_us - middle_us) * 1e6,
    )
    delivery_s = _estimate_delivery_s(f, -earliest_us)
    if is_finding_open:
        is_growing = newest_growth_per_s > 0 and delivery_s >= MIN_TIME_TO_DRAIN_S / 2
    else:
        is_growing = (
            min(growths_per_s) >= MIN_BACKLOG_GROWTH_PER_S / 2
            and sum(growths_per_s) / 2 >= MIN_BACKLOG_GROWTH_PER_S
            and delivery_s >= MIN_TIME_TO_DRAIN_S
            and latest_msgs - earliest_msgs > _largest_backlog_rise_msgs(thirds)
        )
    if not is_growing:
        return None
    since_us = f.at_us - (f.mono_us + earliest_us)
    text = f"{f.pending} pending, {newest_growth_per_s:+.1f}/s"
    return Symptom(text, since_us, (), {"pending_msgs": f.pending, "per_s": newest_growth_per_s})


def _receives_messages(f: ConsumerFacts) -> bool:
    """Return whether clients receive messages; if not, another cause explains the backlog."""
    return f.has_client is not False or bool(
        f.history.growth("delivered_consumer_seq", _MAX_CLIENT_PAUSE_S)
    )


def _split_into_thirds(f: ConsumerFacts, is_finding_open: bool) -> list[UsAndValuePairs] | None:
    """Return the backlog in three thirds of the window, newest first; None with too few polls."""
    third_s = max(
        LAGGING_WINDOW_S / 3,
        min(_longest_delivery_pause_s(f, is_finding_open), _MAX_CLIENT_PAUSE_S),
    )
    values = f.history.values("pending_msgs", 3 * third_s, min_count=_MIN_POLLS)
    newest_us, span_us = values[0][0], 3 * third_s * 1e6
    if len(values) < _MIN_POLLS or newest_us - values[-1][0] < 0.8 * span_us:
        return None
    span_us = newest_us - values[-1][0]
    # Delayed polls do not show the backlog between them, and clients may be delayed too.
    longest_gap_us = max(later_us - us for (later_us, _), (us, _) in pairwise(values))
    if not is_finding_open and 3 * longest_gap_us > span_us:
        return None
    thirds: list[UsAndValuePairs] = [[], [], []]
    for us, value in values:
        thirds[min(2, int(3 * (newest_us - us) / span_us))].append((us, value))
    return thirds if all(thirds) else None


def _longest_delivery_pause_s(f: ConsumerFacts, is_finding_open: bool) -> float:
    """Return the longest time (s) in which messages were pending and none was delivered.

    The current pause counts only before the finding is open: it may be a client's first pause.
    """
    delivered_seq_values = f.history.values("delivered_consumer_seq", _PAUSE_SEARCH_S)
    pending_values = f.history.values("pending_msgs", _PAUSE_SEARCH_S)
    polls = [
        (us, seq, pending_msgs)
        for (us, seq), (_, pending_msgs) in zip(delivered_seq_values, pending_values, strict=True)
    ]
    longest_pause_us, pause_us, longest_gap_us = 0, 0, 0
    for (us, seq, pending_msgs), (later_us, later_seq, _) in pairwise(reversed(polls)):
        longest_gap_us = max(longest_gap_us, later_us - us)
        if later_seq == seq and pending_msgs:
            pause_us += later_us - us
        else:
            longest_pause_us, pause_us = max(longest_pause_us, pause_us), 0
    longest_pause_us = longest_pause_us if is_finding_open else max(longest_pause_us, pause_us)
    # The pause may have begun one poll earlier, and ended one poll later.
    return (longest_pause_us + 2 * longest_gap_us) / 1e6 if longest_pause_us else 0.0


def _estimate_delivery_s(f: ConsumerFacts, from_us: int) -> float:
    """Return the seconds to deliver the backlog at the rate since `from_us`; inf at rate 0."""
    values = f.history.values("delivered_consumer_seq", (f.mono_us - from_us) / 1e6)
    delivered_msgs, span_us = values[0][1] - values[-1][1], values[0][0] - values[-1][0]
    return f.pending * span_us / delivered_msgs / 1e6 if delivered_msgs > 0 else float("inf")


def _largest_backlog_rise_msgs(thirds: list[UsAndValuePairs]) -> int:
    """Return the largest rise of the backlog between two polls: the error of its minimum."""
    backlogs = [value for third in thirds for _, value in third]
    return max(later_msgs - earlier_msgs for later_msgs, earlier_msgs in pairwise(backlogs))


def _has_backlog_grown(f: ConsumerFacts) -> bool:
    """Return whether the backlog has grown since the previous poll."""
    values = f.history.values("pending_msgs", LAGGING_WINDOW_S / 3)
    min_sampled_us = values[0][0] - LAGGING_WINDOW_S / 3 * 1e6
    recent_msgs = [value for us, value in values if us >= min_sampled_us]
    return len(recent_msgs) < 2 or recent_msgs[0] > recent_msgs[-1]


def _takes_long_to_deliver(f: ConsumerFacts) -> bool:
    """Return whether delivering the backlog may take at least half of `MIN_TIME_TO_DRAIN_S`."""
    window_start_us = f.mono_us - round(LAGGING_WINDOW_S * 1e6)
    return 2 * _estimate_delivery_s(f, window_start_us) >= MIN_TIME_TO_DRAIN_S
