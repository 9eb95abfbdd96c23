"""The comparison of two moments, worked out by hand."""

from __future__ import annotations

from typing import Any

from natstui.model.live.compare import Difference, differences
from natstui.model.live.state import State
from natstui.model.records.record import Configured
from natstui.values import replace
from tests.model.builders import snapshot
from tests.session.scenario import consumer, stream

TEN_AM_US = 1_700_000_000_000_000

ORDERS: dict[str, Any] = {
    "name": "ORDERS",
    "stored_msgs": 100,
    "stored_bytes": 2_000,
    "first_seq": 1,
    "last_seq": 100,
    "consumers_count": 2,
}
BILLING: dict[str, Any] = {
    "stream": "ORDERS",
    "name": "billing",
    "delivered_consumer_seq": 90,
    "delivered_stream_seq": 90,
    "ack_floor_consumer_seq": 80,
    "ack_floor_stream_seq": 80,
    "pending_msgs": 10,
    "ack_pending_msgs": 10,
    "redelivered_msgs": 0,
}
AUDIT = BILLING | {"name": "audit"}


def configured(limits: str, ack_wait: str = "30") -> Configured:
    orders = replace(stream("ORDERS", 1), config_json=f'{{"name":"ORDERS",{limits}}}')
    billing = replace(consumer("ORDERS", "billing", 1), config_json=f'{{"ack_wait":{ack_wait}}}')
    return Configured(TEN_AM_US, (orders,), (billing,))


def before() -> State:
    told = configured('"max_msgs":-1,"subjects":["orders.>"]')
    return State().after(told).after(snapshot(0, [ORDERS], [BILLING, AUDIT]))


def later(
    streams: list[dict[str, Any]], consumers: list[dict[str, Any]], told: Configured | None = None
) -> list[Difference]:
    """Return what is another a minute later."""
    state = before()
    after = state if told is None else state.after(told)
    return differences(state, after.after(snapshot(60, streams, consumers)))


def test_counters_and_lag_by_hand() -> None:
    # 50 more were stored, 20 of the oldest deleted; billing took 30 of them, again 3, and
    # acknowledged 25: 10 + 50 - 30 wait, and 10 + 30 - 25 are on their way.
    orders = ORDERS | {"stored_msgs": 130, "stored_bytes": 2_600, "first_seq": 21, "last_seq": 150}
    billing = BILLING | {
        "delivered_consumer_seq": 123,
        "delivered_stream_seq": 120,
        "ack_floor_consumer_seq": 108,
        "ack_floor_stream_seq": 105,
        "pending_msgs": 30,
        "ack_pending_msgs": 15,
        "redelivered_msgs": 3,
    }
    assert later([orders], [billing, AUDIT]) == [
        Difference("ORDERS", None, "counter", "messages", "100", "130", 30),
        Difference("ORDERS", None, "counter", "bytes", "2000", "2600", 600),
        Difference("ORDERS", None, "counter", "first seq", "1", "21", 20),
        Difference("ORDERS", None, "counter", "last seq", "100", "150", 50),
        Difference("ORDERS", "billing", "lag", "pending", "10", "30", 20),
        Difference("ORDERS", "billing", "lag", "ack pending", "10", "15", 5),
        Difference("ORDERS", "billing", "counter", "delivered", "90", "123", 33),
        Difference("ORDERS", "billing", "counter", "ack floor", "80", "105", 25),
        Difference("ORDERS", "billing", "counter", "redelivered", "0", "3", 3),
    ]


def test_what_shrinks_is_told_with_a_minus() -> None:
    billing = BILLING | {"pending_msgs": 0}
    assert later([ORDERS | {"stored_msgs": 40, "first_seq": 61}], [billing, AUDIT]) == [
        Difference("ORDERS", None, "counter", "messages", "100", "40", -60),
        Difference("ORDERS", None, "counter", "first seq", "1", "61", 60),
        Difference("ORDERS", "billing", "lag", "pending", "10", "0", -10),
    ]


def test_configurations_of_stream_and_consumer_by_hand() -> None:
    told = configured('"max_msgs":5000,"subjects":["orders.>","returns.>"],"sealed":true', "60")
    assert later([ORDERS], [BILLING, AUDIT], told) == [
        Difference("ORDERS", None, "configuration", "max_msgs", "-1", "5000"),
        Difference("ORDERS", None, "configuration", "sealed", None, "true"),
        Difference(
            "ORDERS",
            None,
            "configuration",
            "subjects",
            '["orders.>"]',
            '["orders.>", "returns.>"]',
        ),
        Difference("ORDERS", "billing", "configuration", "ack_wait", "30", "60"),
    ]


def test_a_consumer_that_went_one_that_came_and_one_made_again() -> None:
    again, new = AUDIT | {"created_at_us": 7, "pending_msgs": 100}, BILLING | {"name": "new"}
    assert later([ORDERS], [again, new]) == [
        Difference(
            "ORDERS",
            "audit",
            "asset",
            "exists",
            "one",
            "another stream or consumer with this name",
        ),
        Difference("ORDERS", "billing", "asset", "exists", "exists", "deleted"),
        Difference("ORDERS", "new", "asset", "exists", "absent", "exists"),
    ]


def test_the_comparison_is_of_the_two_moments_whichever_is_earlier() -> None:
    state = before()
    after = state.after(snapshot(60, [ORDERS | {"last_seq": 150}], [BILLING, AUDIT]))
    (there,), (back,) = differences(state, after), differences(after, state)
    assert (there.before_text, there.after_text, there.change_count) == ("100", "150", 50)
    assert (back.before_text, back.after_text, back.change_count) == ("150", "100", -50)
