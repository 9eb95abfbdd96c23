from __future__ import annotations

from natstui.model.live.state import State
from natstui.model.records.messages import ANSWERS_KEPT, Answered


def answer(number: int, size: int = 0) -> Answered:
    return Answered(number, number, "done", "", "x" * size)


def test_many_small_answers_are_kept_for_the_screens_that_asked() -> None:
    state = State()
    for number in range(ANSWERS_KEPT + 5):
        state = state.after(answer(number))
    assert [one.command_id for one in state.answers] == list(range(5, ANSWERS_KEPT + 5))


def test_big_answers_push_older_ones_out_but_the_last_stays() -> None:
    state = State()
    for number in range(5):
        state = state.after(answer(number, 400 << 10))
    assert [one.command_id for one in state.answers] == [3, 4]
    state = state.after(answer(9, 20 << 20))
    assert [one.command_id for one in state.answers] == [9]
