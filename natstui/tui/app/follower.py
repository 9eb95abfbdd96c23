"""One engine's link, and the state its records fold into."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

from natstui.model.findings.attention import preferred
from natstui.model.findings.evaluate import JUDGED_AFTER, judged, judging
from natstui.model.live.age import since_poll_us
from natstui.model.live.past_polls import PastPolls
from natstui.model.live.snapshot import Snapshot
from natstui.model.live.state import State, folded
from natstui.model.records.record import EngineStarted, Prefer, Record
from natstui.model.records.recording import ReplayPosition, ReplayReset
from natstui.tui.app.link import Link

_LATE_FROM_US = 1_500_000
_SECOND_US = 1_000_000
_TOGETHER_COUNT = 500
"""Number of records of the same moment that are folded at once."""
_MANY_COUNT, _PREFERRED_FOR_S = 1_000, 5.0
"""Where so much is wrong, the worst of it is chosen anew so seldom."""

_VERY_MANY_ROWS, _JUDGED_EVERY_S = 65_000, 2.9
"""Findings have to hold for longer; to look for them takes as long as all the rest."""


class Follower:
    """A link and its newest complete state: during a seek of a replay the previous state stays."""

    def __init__(self, link: Link, engine_started: EngineStarted) -> None:
        self.link = link
        self.closed = False
        """The app closed the link itself: its end is no trouble."""
        self.state = self._folded = State().after(engine_started)
        self._whole = True
        self._unjudged = False
        self._waiting: list[Record] = []
        self._polled_s = monotonic()
        self._preferred: frozenset[tuple[str, str]] = frozenset()
        self._preferred_s = 0.0
        self._judged_s = float("-inf")

    def fold(self, record: Record) -> bool:
        """Fold a record into the state; return whether there is a newer complete state."""
        newer = self.take(record)
        self.judge()
        return newer

    def take(self, record: Record) -> bool:
        """Fold a record without its findings, which `judge` adds; returns the same as `fold`.

        Until then the previous state stays.
        """
        if not self._whole or isinstance(record, ReplayReset):
            return self._build(record)
        self._folded = self._folded.after(record)
        self._unjudged = self._unjudged or isinstance(record, JUDGED_AFTER)
        # Other records do not make the rows newer.
        if isinstance(record, Snapshot):
            self._polled_s = monotonic()
        if not self._unjudged:
            self.state = self._folded
        return True

    def judge(self) -> None:
        """Evaluate the findings of the folded records, and publish the state."""
        for _ in self.judging():
            pass

    def judging(self) -> Iterator[None]:
        """Do the same as `judge` in steps of some milliseconds.

        No record may be folded before the last step. With very many rows, findings are evaluated
        less often.
        """
        if not self._unjudged or not self._whole:
            return
        may_wait = self.state.replay is None and self._rows_count > _VERY_MANY_ROWS
        if may_wait and monotonic() < self._judged_s + _JUDGED_EVERY_S:
            self.state = self._folded
            return
        self._unjudged, self._judged_s = False, monotonic()
        self._folded = yield from judging(self._folded)
        self.state = self._folded

    @property
    def _rows_count(self) -> int:
        """Return the number of streams and consumers."""
        return len(self._folded.streams.roster.keys) + len(self._folded.consumers.roster.keys)

    def prefer(self, record: Record) -> None:
        """Request that the engine polls rows with findings in every poll; a new engine has no such
        rows.
        """
        if isinstance(record, EngineStarted):
            self._preferred, self._preferred_s = frozenset(), 0.0
        if not isinstance(record, Snapshot) or self.state.replay is not None:
            return
        findings, now_s = self.state.findings, monotonic()
        if len(findings.watched) > _MANY_COUNT and now_s < self._preferred_s + _PREFERRED_FOR_S:
            return
        self._preferred_s = now_s
        consumers = preferred(findings)
        if self._preferred != frozenset(consumers):
            self._preferred = frozenset(consumers)
            self.link.send(Prefer(0, consumers))

    def _build(self, record: Record) -> bool:
        """Add a record of the moment that a replay seeks to; return whether the moment is
        complete.
        """
        self._whole = isinstance(record, ReplayPosition)
        self._waiting.append(record)
        is_poll = isinstance(record, PastPolls | Snapshot)
        if self._whole or is_poll or len(self._waiting) >= _TOGETHER_COUNT:
            self._folded = folded(self._folded, self._waiting)
            self._waiting.clear()
        if isinstance(record, Snapshot) or self._whole:
            # Poll by poll, as it was live: what is wrong must hold for a while.
            self._folded = judged(self._folded)
        if self._whole:
            self.state = self._folded
        return self._whole

    @property
    def late_us(self) -> int:
        """Return the age of the newest poll at the shown moment, in whole seconds as µs.

        0 right after it: a screen need not be drawn again between quick polls.
        """
        state = self.state
        if state.replay is not None:
            newest_us = state.replay.newest_at_us
            late_us = 0 if newest_us is None else state.replay.at_us - newest_us
            late_us += since_poll_us(state)
        else:
            late_us = round((monotonic() - self._polled_s) * 1e6)
        return late_us // _SECOND_US * _SECOND_US if late_us > _LATE_FROM_US else 0
