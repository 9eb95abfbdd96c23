from __future__ import annotations

from natstui.model.live.state import State
from natstui.model.records.messages import (
    ANSWERS_KEPT,
    ANSWERS_KEPT_BYTES,
    LARGE_ANSWERS_KEPT,
    Answered,
)


def answer(number: int, size: int = 0) -> Answered:
    return Answered(number, number, "done", "", "x" * size)


def test_many_small_answers_are_kept_for_the_screens_that_asked() -> None:
    state = State()
    for number in range(ANSWERS_KEPT + 5):
        state = state.after(answer(number))
    assert [one.command_id for one in state.answers] == list(range(5, ANSWERS_KEPT + 5))


def test_big_answers_push_older_ones_out_but_the_last_few_stay() -> None:
    state = State()
    for number in range(LARGE_ANSWERS_KEPT + 5):
        state = state.after(answer(number, 400 << 10))
    last = list(range(5, LARGE_ANSWERS_KEPT + 5))
    assert [one.command_id for one in state.answers] == last
    state = state.after(answer(99, 20 << 20))
    assert [one.command_id for one in state.answers] == [*last[1:], 99]


def test_a_large_answer_is_there_when_a_busy_screen_looks_after_others_came() -> None:
    state = State()
    state = state.after(answer(0, 3 * ANSWERS_KEPT_BYTES))
    for number in range(1, LARGE_ANSWERS_KEPT):
        state = state.after(answer(number))
    assert [one.command_id for one in state.answers] == list(range(LARGE_ANSWERS_KEPT))
    state = state.after(answer(99))
    assert state.answers[0].command_id == 1
