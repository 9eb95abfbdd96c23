"""Until when `natstui health` watches: counts of polls and seconds are values here."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from natstui.cli.health.reading import (
    MAX_WATCH_S,
    SamplesCounter,
    has_undecided_condition,
    has_watched_enough,
    progress_callback,
)
from natstui.cli.health.report import FindingSelection, create_report
from natstui.cli.health.stuck import consumer_lines
from natstui.model.findings.catalogue.every import KINDS
from natstui.model.findings.finding import Entity, Finding, Findings, WatchedCondition
from natstui.model.live.state import State
from natstui.values import replace
from tests.model.builders import snapshot


@pytest.mark.parametrize(
    ("waited_s", "for_s", "polls_count", "min_samples_count", "are_lists_refused", "is_over"),
    [
        # A partial list takes four seconds: one poll is not enough.
        (5.0, None, 1, 1, False, False),
        (9.0, None, 6, 2, False, False),
        (12.0, None, 9, 3, False, True),
        (MAX_WATCH_S, None, 2, 0, False, True),
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
    min_samples_count: int,
    are_lists_refused: bool,
    is_over: bool,
) -> None:
    enough = has_watched_enough(
        waited_s, for_s, polls_count, min_samples_count, are_lists_refused=are_lists_refused
    )
    assert enough is is_over


def test_it_watches_on_while_what_began_earlier_was_not_seen_for_long_enough() -> None:
    entity = Entity("S", "C", 1)

    def state(since_us: int, code: str = "NT-C07", **fields: Any) -> State:
        condition = WatchedCondition(
            Finding(KINDS[code], entity, since_us, "no open pulls"), 0, **fields
        )
        return replace(State(), findings=Findings({entity: (condition,)}))

    assert has_undecided_condition(state(99, is_raised=False), 100)
    assert not has_undecided_condition(state(99, is_raised=True), 100), "it is reported"
    assert not has_undecided_condition(state(99, is_raised=False, is_hidden=True), 100), (
        "another cause is reported"
    )
    assert not has_undecided_condition(state(101, is_raised=False), 100), "it has only begun"
    assert has_undecided_condition(state(101, "NT-C47", is_raised=False), 100), (
        "it is reported after 2 s"
    )
    assert not has_undecided_condition(state(99, is_raised=False, absent_mono_us=5), 100), (
        "it is over"
    )
    assert not has_watched_enough(2.0, None, 3, 3, are_lists_refused=False, is_undecided=True)
    assert has_watched_enough(
        MAX_WATCH_S, None, 15, 15, are_lists_refused=False, is_undecided=True
    )
    assert has_watched_enough(3.0, 3.0, 3, 3, are_lists_refused=False, is_undecided=True), (
        "as long as it was told"
    )


def test_what_does_not_answer_is_not_waited_for() -> None:
    state, samples = State(), SamplesCounter()
    streams = [{"name": "S", "created_at_us": 1}, {"name": "AWAY", "created_at_us": 1}]
    consumers = [{"stream": "S", "name": "c", "created_at_us": 1}]
    state = state.after(snapshot(1, streams, consumers))
    samples.add(state)
    for second in (2, 3):
        state = state.after(snapshot(second, [streams[0]], consumers, streams_complete=False))
        samples.add(state)
    assert samples.min_samples_count(state) == 1
    state = state.after(snapshot(4, None, None, unreachable_streams=("AWAY",)))
    samples.add(state)
    assert samples.min_samples_count(state) == 3
    assert SamplesCounter().min_samples_count(State()) == 3, (
        "an empty server has nothing to wait for"
    )


def test_a_terminal_shows_how_far_it_is_on_stderr_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    show = progress_callback(None)
    show(4.2, 1, False)
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.endswith("watching for 4 s, 15 s at most; 1 of 3 polls")
    show(12.0, 3, True)
    assert capsys.readouterr().err == "\r\x1b[K"
    progress_callback(30.0)(4.2, 1, False)
    assert "watching for 4 s, of 30 s; 1 of 3 polls" in capsys.readouterr().err


@pytest.mark.parametrize(("floor", "text"), [(0, "never moved"), (9, "moved at an unknown time")])
def test_an_ack_floor_moved_also_where_a_restarted_server_does_not_know_when(
    floor: int, text: str
) -> None:
    row = {"stream": "S", "name": "C", "delivered_consumer_seq": 12, "delivered_stream_seq": 12,
           "ack_floor_consumer_seq": floor, "ack_floor_stream_seq": floor}  # fmt: skip
    state = State().after(snapshot(1, [{"name": "S", "last_seq": 12}], [row]))
    lines = consumer_lines(state, "S", "C", create_report(state, FindingSelection()))
    assert any(line.endswith(f"sequence {floor}, {text}") for line in lines), lines
