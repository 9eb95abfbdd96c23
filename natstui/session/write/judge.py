"""Judges what is recorded, by the rules of the screen, so that a recording holds its findings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from natstui.model.findings.evaluate import JUDGED_AFTER, judged
from natstui.model.findings.recorded import Teller
from natstui.model.findings.rules.account import LOOKED_AT_COUNT
from natstui.model.live.history import CONSUMER_COLUMNS, STREAM_COLUMNS, WINDOWS_S, History, Tier
from natstui.model.live.state import State, folded
from natstui.model.records.findings import FindingsChanged
from natstui.model.records.record import Record

MOST_ROWS = 60
"""Consumers that are looked at after one poll; more take turns. A look costs as much as recording
ten samples, and recording shall stay cheap where thousands have a backlog."""
_TOGETHER_COUNT = 500
"""This many announcements are folded at once while no poll comes: it costs a tenth."""


class Judge:
    """Takes every record, and tells which findings changed."""

    def __init__(self, known: Iterable[Record]) -> None:
        """`known` is what was known before the first record."""
        # Rules look back some minutes; longer histories are for charts.
        recent = tuple(map(Tier, WINDOWS_S[:2]))
        state = State(
            stream_history=History(STREAM_COLUMNS, recent),
            consumer_history=History(CONSUMER_COLUMNS, recent),
        )
        state = folded(state, known)
        # What it begins with goes on to be judged.
        findings = replace(state.findings, recorded=False)
        self._state = replace(state, findings=findings)
        self._waiting: list[Record] = []
        self._is_due = False
        self._teller = Teller()
        self._teller.know(findings, state.now_at_us)

    def add(self, record: Record) -> None:
        """Take one more record."""
        self._waiting.append(record)
        self._is_due = self._is_due or isinstance(record, JUDGED_AFTER)
        if len(self._waiting) >= _TOGETHER_COUNT:
            self._fold()

    def changes(self) -> FindingsChanged | None:
        """Judge the present moment; return which findings changed since the last one.

        Where polls come faster than they can be judged, some are not: nothing waits for findings.
        """
        if not self._is_due:
            return None
        self._fold()
        self._is_due = False
        self._state = judged(self._state, MOST_ROWS)
        return self._teller.changes(self._state.findings, self._state.now_at_us)

    def _fold(self) -> None:
        state = folded(self._state, self._waiting)
        self._waiting = []
        # What a screen would list is on the disk: in memory thousands would pile up over days.
        newest = state.happenings[-LOOKED_AT_COUNT:]
        self._state = replace(state, happenings=newest, ack_samples=())
