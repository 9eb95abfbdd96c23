"""The link to one engine, and the state that its records are folded into."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from natstui.clock import steady_s
from natstui.model.findings.attention import find_preferred_consumers
from natstui.model.findings.evaluate import (
    RECORDS_THAT_CHANGE_FINDINGS,
    evaluate_findings,
    evaluate_in_steps,
)
from natstui.model.live.age import time_since_poll_us
from natstui.model.live.past_polls import PastPolls
from natstui.model.live.snapshot import Snapshot
from natstui.model.live.state import State, apply_records
from natstui.model.records.record import EngineStarted, Record, SetPriorityConsumers
from natstui.model.records.recording import ReplayPosition, ReplayReset
from natstui.tui.app.link import Link

if TYPE_CHECKING:
    from natstui.tui.analysis.run import AnalysisRun

_MIN_SHOWN_POLL_AGE_US = 1_500_000
_SECOND_US = 1_000_000
_MAX_BATCH_RECORDS = 500
"""Maximum number of records of the same moment that are folded at once."""
_THROTTLED_ABOVE_FINDINGS, _PREFERRED_CONSUMERS_INTERVAL_S = 1_000, 5.0
"""Above this many findings, the rows to poll always are chosen only at this interval."""

_THROTTLED_ABOVE_ROWS, _FINDINGS_INTERVAL_S = 65_000, 2.9
"""Above this many rows, findings are evaluated only at this interval: the evaluation is slow."""


class Follower:
    """The link to an engine, and its newest complete state; while a replay seeks, the state before
    the seek is kept.
    """

    def __init__(self, link: Link, engine_started: EngineStarted) -> None:
        self.link = link
        self.was_closed_by_app = False
        """Whether the app closed the link itself: then its end is no error."""
        self.analysis: AnalysisRun | None = None
        """The running or last analysis of the engine; None before the first."""
        self.state = self._folded_state = State().after(engine_started)
        self._is_state_complete = True
        self._needs_findings_update = False
        self._pending_records: list[Record] = []
        self._polled_at_s = steady_s()
        self._preferred_consumers: frozenset[tuple[str, str]] = frozenset()
        self._consumers_preferred_at_s = 0.0
        self._findings_updated_at_s = float("-inf")

    def end_reason(self) -> str | None:
        """Return why the engine ended, after waiting for its end; None if the app closed it."""
        return None if self.was_closed_by_app else self.link.engine.end_reason()

    def fold(self, record: Record) -> bool:
        """Update the state and its findings with a record; return whether a newer complete state
        exists.
        """
        has_newer_state = self.fold_without_findings(record)
        self.update_findings()
        return has_newer_state

    def fold_without_findings(self, record: Record) -> bool:
        """Update the state with a record, without its findings; return whether a newer complete
        state exists.

        If findings must be evaluated, the new state is shown only after `update_findings`.
        """
        if not self._is_state_complete or isinstance(record, ReplayReset):
            return self._fold_seek_record(record)
        self._folded_state = self._folded_state.after(record)
        self._needs_findings_update = self._needs_findings_update or isinstance(
            record, RECORDS_THAT_CHANGE_FINDINGS
        )
        # Other records do not make the rows newer.
        if isinstance(record, Snapshot):
            self._polled_at_s = steady_s()
        if not self._needs_findings_update:
            self.state = self._folded_state
        return True

    def update_findings(self) -> None:
        """Evaluate the findings after the last records, and show the new state."""
        for _ in self.update_findings_in_steps():
            pass

    def update_findings_in_steps(self) -> Iterator[None]:
        """Evaluate the findings as `update_findings` does, and yield after every few milliseconds.

        No record may be added to the state before the last step. Findings are evaluated less often
        above `_THROTTLED_ABOVE_ROWS` rows.
        """
        if not self._needs_findings_update or not self._is_state_complete:
            return
        is_throttled = self.state.replay is None and self._row_count > _THROTTLED_ABOVE_ROWS
        if is_throttled and steady_s() < self._findings_updated_at_s + _FINDINGS_INTERVAL_S:
            self.state = self._folded_state
            return
        self._needs_findings_update, self._findings_updated_at_s = False, steady_s()
        self._folded_state = yield from evaluate_in_steps(self._folded_state)
        self.state = self._folded_state

    @property
    def _row_count(self) -> int:
        """Return the number of streams and consumers."""
        return len(self._folded_state.streams.roster.keys) + len(
            self._folded_state.consumers.roster.keys
        )

    def request_preferred_consumers(self, record: Record) -> None:
        """Request that the engine polls consumers with findings in every poll.

        `record` is the last record: after `EngineStarted` the request is repeated, because a new
        engine has not received it.
        """
        if isinstance(record, EngineStarted):
            self._preferred_consumers, self._consumers_preferred_at_s = frozenset(), 0.0
        if not isinstance(record, Snapshot) or self.state.replay is not None:
            return
        findings, now_s = self.state.findings, steady_s()
        if (
            len(findings.conditions) > _THROTTLED_ABOVE_FINDINGS
            and now_s < self._consumers_preferred_at_s + _PREFERRED_CONSUMERS_INTERVAL_S
        ):
            return
        self._consumers_preferred_at_s = now_s
        consumers = find_preferred_consumers(findings)
        if self._preferred_consumers != frozenset(consumers):
            self._preferred_consumers = frozenset(consumers)
            self.link.send(SetPriorityConsumers(0, consumers))

    def _fold_seek_record(self, record: Record) -> bool:
        """Add a record to the state of the moment that a replay seeks to; return whether that
        state is complete.
        """
        self._is_state_complete = isinstance(record, ReplayPosition)
        self._pending_records.append(record)
        is_poll = isinstance(record, PastPolls | Snapshot)
        if self._is_state_complete or is_poll or len(self._pending_records) >= _MAX_BATCH_RECORDS:
            self._folded_state = apply_records(self._folded_state, self._pending_records)
            self._pending_records.clear()
        if isinstance(record, Snapshot) or self._is_state_complete:
            # Poll by poll, as live: a finding opens only after its condition lasted for a while.
            self._folded_state = evaluate_findings(self._folded_state)
        if self._is_state_complete:
            self.state = self._folded_state
        return self._is_state_complete

    @property
    def poll_age_us(self) -> int:
        """Return the age in µs of the newest poll at the shown moment, cut to full seconds.

        0 up to 1.5 s, so that a screen is not drawn again between polls.
        """
        state = self.state
        if state.replay is not None:
            newest_poll_us = state.replay.newest_at_us
            poll_age_us = 0 if newest_poll_us is None else state.replay.at_us - newest_poll_us
            poll_age_us += time_since_poll_us(state)
        else:
            poll_age_us = round((steady_s() - self._polled_at_s) * 1e6)
        return (
            poll_age_us // _SECOND_US * _SECOND_US if poll_age_us > _MIN_SHOWN_POLL_AGE_US else 0
        )
