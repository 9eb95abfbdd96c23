"""What is healthy is not accused: an hour of bursts, batches and waves raises nothing."""

from __future__ import annotations

import pytest

from natstui.model.findings.evaluate import apply_and_evaluate
from natstui.model.findings.finding import Finding
from natstui.model.live.state import State
from tests.model.findings.healthy_shop import HealthyShop, pauses
from tests.model.findings.life import Life, at_us

_HOUR_S = 3600.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of_s", "for_s"),
    [
        pytest.param((1.0, 1.0), 0.15 * _HOUR_S, marks=pytest.mark.long),
        pytest.param((1.0, 1.0), _HOUR_S, marks=pytest.mark.long),
        pytest.param((0.3, 4.0), _HOUR_S, marks=pytest.mark.long),
        pytest.param((5.0, 5.0), _HOUR_S, marks=pytest.mark.long),
        ((1.0, 20.0), _HOUR_S),
    ],
    ids=["nine minutes", "each second", "unsteady", "each 5 s", "late by up to 20 s"],
)
def test_an_hour_of_the_healthy_half_of_the_demo_raises_nothing(
    of_s: tuple[float, float], for_s: float
) -> None:
    shop, state = HealthyShop(), State()
    state = apply_and_evaluate(state, shop.configured())
    told: dict[tuple[str, str], Finding] = {}
    for poll in shop.polls(pauses(of_s, for_s)):
        state = apply_and_evaluate(state, poll)
        told |= {
            (one.kind.code, one.entity.text): one for one in state.findings.list_open_findings()
        }
    assert not told, [(key, one.text) for key, one in told.items()]


def test_one_burst_that_is_worked_off_slowly_is_not_falling_behind() -> None:
    life, pending, delivered = Life(), 0, 0
    for second in range(120):
        pending = 50_000 if second == 30 else max(0, pending - (400 + 350 * (second % 2)))
        delivered += 500
        life.poll(
            pending_msgs=pending, delivered_consumer_seq=delivered, waiting_pulls_count=1,
            delivered_at_us=at_us(life.second),
        )  # fmt: skip
        assert "NT-C23" not in life.open, (second, life.open["NT-C23"].text)


@pytest.mark.parametrize(
    "late",
    [
        ((19.0, 44), (20.0, 98), (1.2, 99), (1.5, 79), (2.0, 65)),
        ((8.0, 30), (2.0, 30), (2.0, 31), (12.0, 98), (1.5, 99)),
        ((1.0, 5), (1.0, 6), (19.0, 44), (1.0, 46), (20.0, 98), (1.2, 99), (1.5, 99), (2.0, 98)),
    ],
)
def test_a_poll_that_came_late_shows_no_backlog_that_grows(
    late: tuple[tuple[float, int], ...],
) -> None:
    life, delivered = Life(), 0
    for step_s, pending in (*((1.0, 0),) * 40, *late):
        delivered += round(6 * step_s) if pending < 50 else round(3 * step_s)
        life.poll(
            step_s=step_s, pending_msgs=pending, delivered_consumer_seq=delivered,
            delivered_at_us=at_us(life.second), waiting_pulls_count=int(not pending),
        )  # fmt: skip
        assert "NT-C23" not in life.open, (life.second, life.open["NT-C23"].text)


def test_what_takes_nothing_has_another_name_than_falling_behind() -> None:
    life = Life({"max_ack_pending_msgs": 100})
    for second in range(40):
        life.poll(pending_msgs=50 * second, paused=True)
    assert life.words == {"paused"}
    life = Life({"pull": False})
    for second in range(40):
        life.poll(pending_msgs=50 * second, push_bound=False)
    assert life.words == {"no subscriber"}


def test_falling_behind_goes_on_while_the_backlog_grows_in_steps() -> None:
    life, pending = Life(), 0
    for second in range(200):
        # Fetched every six seconds, and less than what came.
        pending += 20 - (60 if second % 6 == 5 else 0)
        life.poll(
            pending_msgs=pending, delivered_consumer_seq=10 * (second // 6 * 6),
            waiting_pulls_count=int(second % 6 == 5), delivered_at_us=at_us(second - second % 6),
        )  # fmt: skip
    finding = life.open["NT-C23"]
    assert "NT-C23" not in life.over and finding.since_us <= at_us(30)


def test_a_new_stream_is_not_called_nearly_full_by_its_first_messages() -> None:
    life = Life(stream_config={"discard": "new", "max_bytes": 16 * 2**20})
    for second in range(90):
        # A dozen messages of 40 kB replace each other from then on.
        size = 40_000 * min(12, second // 2)
        life.poll(stream={"stored_bytes": size, "stored_msgs": size // 40_000})
        assert life.open == {}, (second, life.open)


def test_what_was_given_up_before_we_listened_stays_while_new_messages_come() -> None:
    life = Life({"max_deliver_count": 4})
    life.polls(3, redelivered_msgs=6)
    assert life.words == {"max deliver reached"}
    for second in range(20):
        life.poll(ack_pending_msgs=second % 2, delivered_stream_seq=100 + second,
                  delivered_at_us=at_us(life.second),
                  ack_floor_stream_seq=100 + second - second % 2)  # fmt: skip
    assert "max deliver reached" in life.words and "NT-C21" not in life.over
    life.polls(2, redelivered_msgs=0)
    assert "NT-C21" not in life.open
