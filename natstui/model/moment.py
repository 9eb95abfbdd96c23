"""The moment of a record: on a live screen and on the timeline of a recording by the same rule."""

from __future__ import annotations

from natstui.model.record import AckSample, Advisory, Record
from natstui.model.snapshot import Snapshot

_SET_BACK_US = 2_000_000
"""What an engine made so much earlier than the record before it, it made on another clock."""


def moment_us(latest_us: int, at_us: int) -> int:
    """Return the moment of a record made at `at_us` that came after one at `latest_us`.

    What was made earlier and came later, like an announcement that was still on its way when a
    poll was over, has a moment of its own right after: up to a moment it is there, or it is not.
    """
    return at_us if at_us >= latest_us else latest_us + 1


def now_us(before_us: int, record: Record) -> int:
    """Return the moment it is after a record. Time goes back when the engine's clock was set."""
    at_us = record.taken_at_us if isinstance(record, Snapshot) else record.at_us
    # Announcements bear the server's clock, which may be another one.
    of_engine = not isinstance(record, Advisory | AckSample)
    if of_engine and at_us < before_us - _SET_BACK_US:
        return at_us
    return moment_us(before_us, at_us)
