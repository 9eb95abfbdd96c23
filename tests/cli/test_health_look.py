"""Until when `natstui health` watches: counts of polls and seconds are values here."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest

from natstui.cli.health.look import (
    LONGEST_WATCH_S,
    SampleCounts,
    is_enough,
    is_undecided,
    show_progress,
)
from natstui.model.findings.catalogue.every import KINDS
from natstui.model.findings.finding import Entity, Finding, Findings, Watched
from natstui.model.live.state import State
from tests.model.builders import snapshot


@pytest.mark.parametrize(
    ("waited_s", "for_s", "polls_count", "fewest_count", "is_refused", "is_over"),
    [
        # A partial list takes four seconds: one poll is not enough.
        (5.0, None, 1, 1, False, False),
        (9.0, None, 6, 2, False, False),
        (12.0, None, 9, 3, False, True),
        (LONGEST_WATCH_S, None, 2, 0, False, True),
        (3.0, None, 3, 0, True, True),
        # A time that was named is kept, and longer where nothing was complete yet.
        (5.0, 30.0, 9, 9, False, False),
        (30.0, 30.0, 9, 9, False, True),
        (1.0, 1.0, 1, 1, False, False),
        (3.0, 1.0, 3, 1, False, True),
        (16.0, 1.0, 9, 0, False, False),
        (31.0, 1.0, 9, 0, False, True),
    ],
)
def test_it_watches_until_three_polls_of_all_that_answers_or_as_long_as_it_was_told(
    waited_s: float,
    for_s: float | None,
    polls_count: int,
    fewest_count: int,
    is_refused: bool,
    is_over: bool,
) -> None:
    enough = is_enough(waited_s, for_s, polls_count, fewest_count, is_refused=is_refused)
    assert enough is is_over


def test_it_watches_on_while_what_began_earlier_was_not_seen_for_long_enough() -> None:
    entity = Entity("S", "C", 1)

    def state(since_us: int, code: str = "NT-C07", **fields: Any) -> State:
        condition = Watched(Finding(KINDS[code], entity, since_us, "no open pulls"), 0, **fields)
        return replace(State(), findings=Findings({entity: (condition,)}))

    assert is_undecided(state(99, raised=False), 100)
    assert not is_undecided(state(99, raised=True), 100), "it is reported"
    assert not is_undecided(state(99, raised=False, hidden=True), 100), "another cause is reported"
    assert not is_undecided(state(101, raised=False), 100), "it has only begun"
    assert is_undecided(state(101, "NT-C47", raised=False), 100), "it is reported after 2 s"
    assert not is_undecided(state(99, raised=False, missed_mono_us=5), 100), "it is over"
    assert not is_enough(2.0, None, 3, 3, is_refused=False, is_undecided=True)
    assert is_enough(LONGEST_WATCH_S, None, 15, 15, is_refused=False, is_undecided=True)
    assert is_enough(3.0, 3.0, 3, 3, is_refused=False, is_undecided=True), "as long as it was told"


def test_what_does_not_answer_is_not_waited_for() -> None:
    state, samples = State(), SampleCounts()
    streams = [{"name": "S", "created_at_us": 1}, {"name": "AWAY", "created_at_us": 1}]
    consumers = [{"stream": "S", "name": "c", "created_at_us": 1}]
    state = state.after(snapshot(1, streams, consumers))
    samples.add(state)
    for second in (2, 3):
        state = state.after(snapshot(second, [streams[0]], consumers, streams_complete=False))
        samples.add(state)
    assert samples.fewest_count(state) == 1
    state = state.after(snapshot(4, None, None, unreachable_streams=("AWAY",)))
    samples.add(state)
    assert samples.fewest_count(state) == 3
    assert SampleCounts().fewest_count(State()) == 3, "an empty server has nothing to wait for"


def test_a_terminal_shows_how_far_it_is_on_stderr_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    show = show_progress(None)
    show(4.2, 1, False)
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.endswith("watching for 4 s, 15 s at most; 1 of 3 polls")
    show(12.0, 3, True)
    assert capsys.readouterr().err == "\r\x1b[K"
    show_progress(30.0)(4.2, 1, False)
    assert "watching for 4 s, of 30 s; 1 of 3 polls" in capsys.readouterr().err
