"""Messages in flight: each is answered once, and what was given up may be answered late."""

import numpy as np
import pytest

from natstui.bench.job.tally import Tally
from natstui.bench.wire.frames import ProtocolError
from natstui.bench.wire.window import Window


def opened(tally: Tally, count: int) -> tuple[Window, np.ndarray]:
    window = Window(tally, 8)
    return window, window.open(np.full(count, 5), 7)


def test_an_answer_to_a_message_that_does_not_wait_is_a_broken_protocol() -> None:
    window, numbers = opened(Tally(), 3)
    window.close_acked(numbers[:2], 9)
    for wrong in (numbers[:1], numbers[2:] + 1, numbers[[2, 2]]):
        with pytest.raises(ProtocolError):
            window.close_acked(wrong, 9)
    assert window.open_count == 1


def test_an_answer_to_what_was_given_up_is_late_and_counts_for_nothing() -> None:
    tally = Tally()
    window, late = opened(tally, 3)
    window.drop_unanswered()
    fresh = window.open(np.full(2, 5), 7)
    window.close_acked(np.concatenate([late[1:], fresh[:1]]), 9)
    assert window.open_count == 1
    counted = (tally.count("acked_msgs"), tally.count("unanswered_msgs"))
    assert counted == (1, 3)
    window.close_acked(late[:1], 9, duplicate=True)
    assert tally.count("duplicate_acked_msgs") == 0
