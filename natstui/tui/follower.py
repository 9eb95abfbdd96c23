"""What the app follows: a live engine or a replay, and the state its records fold into."""

from __future__ import annotations

from time import monotonic

from natstui.model.fold import folded
from natstui.model.past import PastPolls
from natstui.model.record import EngineStarted, Record
from natstui.model.recording import ReplayPosition, ReplayReset
from natstui.model.state import State
from natstui.tui.link import Link

_LATE_FROM_US = 2_000_000
_PARTS_COUNT = 500
"""Folded at once, while the rest of a moment is still coming."""


class Follower:
    """One link and the newest state that is whole: while a replay seeks, the one before stays."""

    def __init__(self, link: Link, started: EngineStarted) -> None:
        self.link = link
        self.left = False
        """Nobody wants to know why the link ends."""
        self.state = self._folded = State().after(started)
        self._whole = True
        self._parts: list[Record] = []
        self._heard_s = monotonic()

    def take(self, record: Record) -> bool:
        """Fold one record; tell whether there is a newer state to show."""
        if not self._whole or isinstance(record, ReplayReset):
            return self._build(record)
        before_us = self._folded.now_at_us
        self._folded = self._folded.after(record)
        # What a recorder or a form is told says nothing about the server.
        if self._folded.now_at_us != before_us:
            self._heard_s = monotonic()
        self.state = self._folded
        return True

    def _build(self, record: Record) -> bool:
        """Take a part of another moment; tell whether it is whole now."""
        self._whole = isinstance(record, ReplayPosition)
        self._parts.append(record)
        if self._whole or len(self._parts) >= _PARTS_COUNT or isinstance(record, PastPolls):
            self._folded = folded(self._folded, self._parts)
            self._parts.clear()
        if self._whole:
            self.state = self._folded
        return self._whole

    @property
    def late_us(self) -> int:
        """How long ago the newest record came, at the moment shown; 0 within the polls' rhythm.

        Within it nothing is late: ages are those of the poll itself.
        """
        state = self.state
        if state.replay is not None:
            newest_us = state.replay.newest_at_us
            late_us = 0 if newest_us is None else state.replay.at_us - newest_us
        else:
            late_us = round((monotonic() - self._heard_s) * 1e6)
        interval_us = state.costs[-1].cost.interval_us if state.costs else 0
        return late_us if late_us > max(_LATE_FROM_US, interval_us * 3 // 2) else 0
