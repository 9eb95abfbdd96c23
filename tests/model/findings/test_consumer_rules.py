"""Every rule about consumers: when it is raised, since when, why, and when it is over."""

from __future__ import annotations

import json
from typing import Any

import pytest

from natstui.model.findings.verdict import consumer_findings, consumer_verdict
from natstui.model.records.record import Advisory
from tests.model.findings.life import Life, at_us


def test_a_healthy_consumer_of_bursts_has_no_finding() -> None:
    life = Life()
    seq = 100
    for second in range(120):
        burst = 40 if second % 15 == 0 else 0
        pending = max(0, 30 - 10 * (second % 15)) if second > 14 else 0
        seq += burst
        life.poll(
            stream={"last_seq": seq, "stored_msgs": seq}, pending_msgs=pending,
            waiting_pulls_count=second % 2, ack_pending_msgs=min(5, pending),
            delivered_consumer_seq=seq - pending, delivered_stream_seq=seq - pending,
            ack_floor_consumer_seq=seq - pending, ack_floor_stream_seq=seq - pending,
            delivered_at_us=at_us(second - second % 15), acked_at_us=at_us(second - second % 15),
        )  # fmt: skip
        assert life.open == {}, (second, life.open)
    assert life.over == {}


def test_one_pending_message_after_a_long_rest_is_not_called_no_pulls() -> None:
    life = Life()
    life.polls(30, delivered_at_us=at_us(-500), delivered_consumer_seq=5, waiting_pulls_count=0)
    life.polls(19, pending_msgs=1)
    assert life.open == {}
    life.polls(5)
    (finding,) = life.open.values()
    assert (finding.kind.code, finding.since_us) == ("NT-C44", at_us(31))


def test_falling_behind_needs_a_trend_over_time_and_a_rate() -> None:
    life = Life()
    flow = {"waiting_pulls_count": 1}
    for second in range(30):
        life.poll(
            pending_msgs=second % 3,
            delivered_consumer_seq=second,
            delivered_at_us=at_us(second),
            **flow,
        )
    assert life.open == {}
    began = life.second
    for second in range(14):
        life.poll(
            pending_msgs=10 + 20 * second, delivered_consumer_seq=30 + second,
            delivered_at_us=at_us(life.second), **flow,
        )  # fmt: skip
    finding = life.open["NT-C23"]
    assert "+20.0/s" in finding.text
    assert at_us(began - 8) <= finding.since_us <= at_us(began + 2)
    for _ in range(20):
        life.poll(pending_msgs=280, delivered_at_us=at_us(life.second))
    assert life.open == {} and life.over["NT-C23"].until_us


def test_when_all_messages_are_refused_it_says_so_and_names_them() -> None:
    life = Life()
    life.polls(5, delivered_at_us=at_us(0), waiting_pulls_count=1)
    for second in range(4):
        for seq in range(1, 6):
            life.advise("nak", seq, second + 1)
        life.poll(
            pending_msgs=50, ack_pending_msgs=5, redelivered_msgs=5,
            delivered_consumer_seq=5 * (second + 1), delivered_stream_seq=5,
            delivered_at_us=at_us(life.second),
        )  # fmt: skip
    finding = life.open["NT-C04"]
    assert life.state.findings.list_open_findings()[0] is finding
    assert finding.kind.word == "all messages nak'd" and set(finding.sequences) == {1, 2, 3, 4, 5}
    assert abs(finding.since_us - at_us(5.5)) <= 2_000_000
    for _ in range(3):
        life.poll(
            pending_msgs=0, ack_pending_msgs=0, redelivered_msgs=0, ack_floor_stream_seq=50,
            delivered_stream_seq=50, delivered_consumer_seq=200, ack_floor_consumer_seq=200,
            delivered_at_us=at_us(life.second),
        )  # fmt: skip
    assert "NT-C04" not in life.open


def test_messages_are_refused_since_the_newest_run_of_naks() -> None:
    life = Life()
    life.polls(3, delivered_at_us=at_us(0), waiting_pulls_count=1)
    life.advise("nak", 1)
    life.polls(20)
    for second in range(4):
        for seq in range(1, 6):
            life.advise("nak", seq, second + 1)
        life.poll(
            pending_msgs=50, ack_pending_msgs=5, redelivered_msgs=5,
            delivered_consumer_seq=5 * (second + 1), delivered_stream_seq=5,
            delivered_at_us=at_us(life.second),
        )  # fmt: skip
    assert abs(life.open["NT-C04"].since_us - at_us(23.5)) <= 2_000_000


@pytest.mark.parametrize("behind_s", [0, 12, 40, 1800])
def test_naks_are_counted_whatever_the_clock_of_the_server_says(behind_s: int) -> None:
    life = Life()
    life.polls(5, delivered_at_us=at_us(0), waiting_pulls_count=1)
    for second in range(20):
        for seq in range(1, 6):
            body = json.dumps({"stream_seq": seq, "deliveries": second + 1})
            nak_us = at_us(life.second + 0.5 - behind_s)
            life.add(Advisory(nak_us, "nak", "S", "C", f"nak {seq}", body))
        life.poll(
            pending_msgs=50, ack_pending_msgs=5, redelivered_msgs=5,
            delivered_consumer_seq=5 * (second + 1), delivered_stream_seq=5,
            delivered_at_us=at_us(life.second),
        )  # fmt: skip
    assert life.words == {"all messages nak'd"}
    assert life.open["NT-C04"].numbers["naks_count"] == 50


def test_naks_before_the_clock_was_set_back_are_not_recent() -> None:
    life = Life()
    life.polls(2)
    life.advise("nak", 1, count=20)
    counts = life.state.evidence.entries["S", "C"].naks
    assert counts.recent_count(at_us(3), 10) == 20
    set_back_us = at_us(3) - 3_600_000_000
    assert counts.recent_count(set_back_us, 10) == 0
    assert counts.after(set_back_us, (), 3).recent_count(set_back_us, 10) == 3


def test_a_message_that_comes_again_and_again_is_named() -> None:
    life = Life()
    life.polls(3, waiting_pulls_count=1)
    for delivery in range(1, 111):
        life.advise("nak", 7, delivery)
    life.poll(
        ack_pending_msgs=1, redelivered_msgs=1, delivered_consumer_seq=116,
        delivered_stream_seq=7, ack_floor_stream_seq=6, ack_floor_consumer_seq=6,
        delivered_at_us=at_us(4),
    )  # fmt: skip
    finding = life.open["NT-C05"]
    assert finding.sequences == (7,) and "110 times" in finding.text
    life.polls(2, ack_pending_msgs=0, redelivered_msgs=0, ack_floor_stream_seq=7)
    assert "NT-C05" not in life.open
    life.polls(40)
    assert life.open == {}


def test_without_naks_the_counters_tell_of_a_message_in_a_loop() -> None:
    life = Life()
    life.polls(
        3, ack_pending_msgs=1, redelivered_msgs=1, delivered_consumer_seq=26,
        delivered_stream_seq=7, ack_floor_stream_seq=6, ack_floor_consumer_seq=6,
        delivered_at_us=at_us(1), waiting_pulls_count=1,
    )  # fmt: skip
    finding = life.open["NT-C05"]
    assert finding.sequences == (7,) and "probably 7" in finding.text


def test_messages_given_up_are_counted_and_stay_until_they_are_gone() -> None:
    life = Life({"max_deliver_count": 3})
    for seq in range(1, 512):
        life.advise("max_deliver", seq, 3)
    life.polls(
        90, stream={"last_seq": 600}, redelivered_msgs=511, delivered_stream_seq=511,
        ack_floor_stream_seq=511,
        delivered_consumer_seq=1533, ack_floor_consumer_seq=1533, delivered_at_us=at_us(0),
    )  # fmt: skip
    finding = life.open["NT-C21"]
    assert finding.numbers["given_up_msgs"] == 511 and finding.text.startswith("511 messages")
    assert finding.since_us == at_us(0.5)
    life.polls(2, redelivered_msgs=0)
    assert life.open == {}


def test_messages_given_up_before_we_listened_are_told_from_the_counters() -> None:
    life = Life({"max_deliver_count": 3})
    life.polls(
        2, redelivered_msgs=4, delivered_stream_seq=50, ack_floor_stream_seq=50,
        delivered_consumer_seq=60, ack_floor_consumer_seq=60, delivered_at_us=at_us(-9),
    )  # fmt: skip
    assert life.open["NT-C21"].numbers["given_up_msgs"] == 4


def test_what_is_ack_pending_makes_the_number_of_dropped_messages_a_lower_bound() -> None:
    life = Life({"max_deliver_count": 2})
    life.polls(
        2, redelivered_msgs=10, ack_pending_msgs=5, delivered_stream_seq=15,
        ack_floor_stream_seq=0, delivered_consumer_seq=25, ack_floor_consumer_seq=0,
        delivered_at_us=at_us(-9),
    )  # fmt: skip
    finding = life.open["NT-C21"]
    assert finding.text.startswith("at least 5 messages dropped after 2 deliveries")
    for seq in range(1, 11):
        life.advise("max_deliver", seq, 2)
    life.polls(2)
    finding = life.open["NT-C21"]
    assert finding.text.startswith("10 messages dropped")
    assert finding.numbers["given_up_msgs"] == 10


def test_a_recreated_consumer_did_not_drop_the_messages_of_the_deleted_one() -> None:
    life = Life({"max_deliver_count": 5})
    life.polls(2, waiting_pulls_count=1)
    for seq in range(33, 73):
        life.advise("max_deliver", seq, 5)
    life.second += 20
    life.poll(created_at_us=at_us(15))
    life.advise("nak", 101)
    life.polls(2, redelivered_msgs=1, ack_pending_msgs=1)
    assert "NT-C21" not in life.open
    # The advisories about the consumer itself were received.
    life.add(Advisory(at_us(life.second), "consumer_action", "S", "C", "", '{"action":"create"}'))
    life.advise("max_deliver", 102, 5)
    life.polls(2, created_at_us=at_us(life.second))
    assert life.open["NT-C21"].numbers["given_up_msgs"] == 1


STALL = {"pending_msgs": 500, "push_bound": True, "delivered_at_us": at_us(0)}
PUSH = {"pull": False, "deliver_subject": "d"}


def test_a_subscriber_that_does_not_answer_flow_control_stalls_it() -> None:
    life = Life(PUSH | {"settings": {"flow_control": True}})
    life.polls(8, **STALL)
    finding = life.open["NT-C06"]
    assert finding.kind.word == "flow control not answered"
    assert abs(finding.since_us - at_us(0)) <= 2_000_000
    life.poll(delivered_at_us=at_us(life.second + 1), delivered_consumer_seq=50)
    life.poll(delivered_at_us=at_us(life.second + 1), delivered_consumer_seq=90)
    assert life.open == {}


def test_a_bound_subscriber_that_gets_nothing_is_stalled_unless_a_limit_explains_it() -> None:
    life = Life(PUSH)
    life.polls(14, **STALL)
    assert life.words == {"push consumer stalled"}
    life = Life(PUSH | {"settings": {"rate_limit_bps": 800}})
    life.polls(14, **STALL)
    assert life.words == {"rate limit reached"}


def test_pulls_that_are_larger_than_allowed_are_told() -> None:
    life = Life({"settings": {"max_batch": 5}})
    life.polls(14, pending_msgs=20)
    assert life.words == {"pulls refused"}
    assert "more than 5 messages" in life.open["NT-C39"].text


def test_the_limit_of_unacknowledged_messages_is_told_when_it_holds() -> None:
    life = Life({"max_ack_pending_msgs": 5})
    life.polls(3, pending_msgs=9, waiting_pulls_count=1, delivered_at_us=at_us(0))
    working = {"pending_msgs": 9, "ack_pending_msgs": 5}
    for second in range(20):
        life.poll(
            **working, delivered_at_us=at_us(life.second), acked_at_us=at_us(life.second),
            ack_floor_consumer_seq=second * 5, ack_floor_stream_seq=second * 5,
            delivered_stream_seq=second * 5 + 5, delivered_consumer_seq=second * 5 + 5,
        )  # fmt: skip
        assert life.open == {}, second
    began_us = at_us(life.second - 1)
    life.polls(4)
    finding = life.open["NT-C09"]
    assert abs(finding.since_us - began_us) <= 1_000_000 and finding.sequences == (96,)
    life.polls(2, ack_pending_msgs=2)
    assert life.open == {}


def test_messages_of_a_client_that_is_gone_are_named_with_how_long_they_are_held() -> None:
    life = Life()
    life.polls(
        2, ack_pending_msgs=5, delivered_stream_seq=9, delivered_consumer_seq=9,
        ack_floor_stream_seq=4, ack_floor_consumer_seq=4, delivered_at_us=at_us(-40),
    )  # fmt: skip
    finding = life.open["NT-C45"]
    assert "5 messages not acked for 42s" in finding.text and finding.sequences == (5,)
    assert "messages are redelivered only to a pull" in finding.text
    assert finding.since_us == at_us(-40)


def test_deliveries_that_are_repeats_only_are_reported() -> None:
    life = Life()
    life.polls(2, pending_msgs=40, waiting_pulls_count=1, delivered_at_us=at_us(1))
    for second in range(6):
        life.poll(
            redelivered_msgs=3, ack_pending_msgs=3, delivered_consumer_seq=10 + second,
            delivered_stream_seq=3, delivered_at_us=at_us(life.second),
            acked_at_us=at_us(life.second),
        )  # fmt: skip
    assert life.words == {"redelivered again and again"}
    life.polls(32, delivered_stream_seq=30, delivered_consumer_seq=45, pending_msgs=0,
               redelivered_msgs=0, ack_pending_msgs=0)  # fmt: skip
    assert life.open == {}


def test_messages_that_the_stream_removed_before_delivery_are_counted() -> None:
    life = Life({}, {"max_msgs": 100})
    life.polls(
        2, stream={"first_seq": 61, "last_seq": 160}, pending_msgs=100, waiting_pulls_count=1,
        delivered_stream_seq=40, delivered_consumer_seq=40, delivered_at_us=at_us(1),
    )  # fmt: skip
    finding = life.open["NT-C12"]
    text = "20 messages removed before delivery, from 41 to 60; max messages is 100"
    assert finding.text == text
    advice = "raise max messages: `e` on the stream, or `nats stream edit S --max-msgs NUMBER`"
    assert finding.act.startswith(advice)


def test_messages_removed_before_anybody_watched_need_a_limit_that_is_reached() -> None:
    life = Life({}, {"max_msgs": 10**6})
    life.polls(3, stream={"first_seq": 61, "last_seq": 160}, pending_msgs=100,
               waiting_pulls_count=1, delivered_stream_seq=40, delivered_consumer_seq=40,
               delivered_at_us=at_us(1))  # fmt: skip
    assert life.open == {}


@pytest.mark.parametrize("ahead_s", [-10, 0, 4, 40])
def test_messages_that_expire_are_not_purged_by_a_user_whatever_the_clocks_say(
    ahead_s: int,
) -> None:
    life = Life({}, {"max_age_ns": 60 * 10**9})
    for second in range(1, 8):
        last_seq = 10_000 + 10 * second
        life.poll(
            stream={"last_seq": last_seq, "first_seq": last_seq - 599, "stored_msgs": 600,
                    "last_at_us": at_us(second + ahead_s),
                    "first_at_us": at_us(second + ahead_s - 60)},
            pending_msgs=600, waiting_pulls_count=1, delivered_stream_seq=9000,
            delivered_consumer_seq=50, delivered_at_us=at_us(second),
        )  # fmt: skip
        assert "NT-S51" not in life.open
    assert "NT-C12" in life.open


@pytest.mark.parametrize(("oldest_age_s", "is_purge"), [(61, False), (20, True)])
def test_the_first_message_of_a_silent_stream_expired_unless_it_is_young(
    oldest_age_s: int, is_purge: bool
) -> None:
    ahead_s = 10
    life = Life({}, {"max_age_ns": 60 * 10**9})
    life.polls(2, stream={"first_at_us": at_us(ahead_s + 3 - oldest_age_s),
                          "last_at_us": at_us(ahead_s + 2 - oldest_age_s / 2)})  # fmt: skip
    life.poll(stream={"first_seq": 51, "stored_msgs": 50})
    assert ("NT-S51" in life.open) == is_purge


def test_lost_messages_are_told_for_five_minutes_after_the_last_one() -> None:
    life = Life({}, {"max_msgs": 100})
    row = {"delivered_stream_seq": 40, "delivered_consumer_seq": 40, "waiting_pulls_count": 1}
    life.polls(2, stream={"first_seq": 1, "last_seq": 100}, pending_msgs=60,
               delivered_at_us=at_us(1), **row)  # fmt: skip
    life.poll(stream={"first_seq": 61, "last_seq": 160}, pending_msgs=100, **row)
    for _ in range(29):
        # It received all there is: nothing but the memory of the loss shows it.
        life.poll(
            step_s=10.0, pending_msgs=0, delivered_stream_seq=160, delivered_consumer_seq=140
        )
        assert life.open["NT-C12"].numbers["lost_msgs"] == 20
    life.polls(4, step_s=10.0)
    assert "NT-C12" not in life.open


def test_of_a_consumer_with_filters_its_pending_messages_count_and_no_sequences() -> None:
    life = Life({"filter_subjects": ("s.a",)}, {"max_msgs": 100, "subjects": ("s.>",)})
    for second in range(20):
        # Others' messages push others' out: what it wants stays as it is.
        life.poll(stream={"first_seq": 1 + 50 * second, "last_seq": 100 + 50 * second},
                  pending_msgs=8, waiting_pulls_count=1, delivered_consumer_seq=10 + second,
                  delivered_stream_seq=10 + second, delivered_at_us=at_us(second))  # fmt: skip
        assert "NT-C12" not in life.open, second
    life.polls(2, stream={"first_seq": 2_000, "last_seq": 2_099}, pending_msgs=3)
    finding = life.open["NT-C12"]
    assert finding.numbers["lost_msgs"] == 5
    assert finding.text.startswith("at least 5 messages removed before delivery")


@pytest.mark.parametrize("delivered_seq", [20, 500])
@pytest.mark.parametrize("is_reset", [False, True])
def test_another_filter_or_a_reset_loses_no_messages(delivered_seq: int, is_reset: bool) -> None:
    config, stream_config = {"filter_subjects": ("s.>",)}, {"max_msgs": 1000, "subjects": ("s.>",)}
    life = Life(config, stream_config)
    row = {"pending_msgs": 900, "waiting_pulls_count": 1, "delivered_stream_seq": delivered_seq,
           "delivered_consumer_seq": 15, "delivered_at_us": at_us(0)}  # fmt: skip
    for second in range(10):
        if second == 5:
            row |= {"pending_msgs": 40}
        if second == 5 and is_reset:
            row |= {"delivered_stream_seq": 960, "delivered_consumer_seq": 0}
        elif second == 5:
            life.configure(config | {"filter_subjects": ("s.eu.>",)}, stream_config)
        first_seq = 1 + 10 * second
        life.poll(stream={"first_seq": first_seq, "last_seq": first_seq + 999,
                          "stored_msgs": 1000}, **row)  # fmt: skip
        assert "NT-C12" not in life.open, second


def test_no_more_messages_are_lost_than_were_removed_after_the_last_delivered_one() -> None:
    # The new filter is known only after its first poll.
    life = Life({"filter_subjects": ("s.>",)}, {"max_msgs": 1000, "subjects": ("s.>",)})
    for second in range(10):
        first_seq = 1 + 10 * second
        life.poll(stream={"first_seq": first_seq, "last_seq": first_seq + 999,
                          "stored_msgs": 1000}, pending_msgs=900 if second < 5 else 40,
                  waiting_pulls_count=1, delivered_stream_seq=1100, delivered_consumer_seq=15,
                  delivered_at_us=at_us(0))  # fmt: skip
        assert "NT-C12" not in life.open, second


def test_a_consumer_past_the_end_of_its_stream_shows_that_the_store_was_rolled_back() -> None:
    ahead = {"delivered_stream_seq": 90, "delivered_consumer_seq": 90, "waiting_pulls_count": 1}
    life = Life()
    life.polls(5, stream={"last_seq": 60, "stored_msgs": 60}, delivered_at_us=at_us(-100), **ahead)
    assert life.words == {"ahead of its stream"}
    assert life.open["NT-C47"].text == "delivered up to sequence 90, the stream ends at 60"
    life.polls(2, stream={"last_seq": 95, "stored_msgs": 95})
    assert life.open == {}
    # It was reset beyond the end, and has received nothing since.
    life = Life()
    life.polls(5, stream={"last_seq": 60}, **ahead | {"delivered_consumer_seq": 0})
    assert life.open["NT-C47"].text == "delivery begins at sequence 91, the stream ends at 60"
    # Its row is newer than that of the stream, which stored these meanwhile.
    life = Life()
    for second in range(1, 9):
        life.poll(stream={"last_seq": 60 + 10 * second}, pending_msgs=1,
                  **ahead | {"delivered_stream_seq": 65 + 10 * second,
                             "delivered_at_us": at_us(second - 4)})  # fmt: skip
        assert life.open == {}
    # It has received nothing: it starts at a sequence that is still to come.
    start = {"deliver_policy": "by_start_sequence", "settings": {"opt_start_seq": 91}}
    life = Life(start)
    life.polls(5, stream={"last_seq": 60}, delivered_stream_seq=90, waiting_pulls_count=1)
    assert life.open.keys() == {"NT-C33"}


@pytest.mark.parametrize(("wait_s", "acked_s"), [(2, 8), (60, 40)])
def test_acks_that_came_a_moment_ago_are_not_called_missing(wait_s: int, acked_s: int) -> None:
    life = Life({"ack_wait_ns": wait_s * 10**9})
    for second in range(12):
        life.poll(redelivered_msgs=8, ack_pending_msgs=8, delivered_consumer_seq=90,
                  delivered_stream_seq=80, ack_floor_stream_seq=40, waiting_pulls_count=1,
                  delivered_at_us=at_us(second), acked_at_us=at_us(second - acked_s))  # fmt: skip
        assert "NT-C42" not in life.open, second
    life.polls(3 + max(10, wait_s) - acked_s, acked_at_us=at_us(11 - acked_s),
               delivered_at_us=at_us(12))  # fmt: skip
    assert "NT-C42" in life.open


def test_one_repeat_in_twenty_deliveries_is_no_short_ack_wait() -> None:
    life = Life({"ack_wait_ns": 10**9})
    for second in range(60):
        seq = 100 + 19 * second
        life.poll(stream={"last_seq": seq, "stored_msgs": seq}, redelivered_msgs=1,
                  ack_pending_msgs=2, waiting_pulls_count=1, delivered_consumer_seq=seq + second,
                  delivered_stream_seq=seq, ack_floor_consumer_seq=seq + second - 2,
                  ack_floor_stream_seq=seq - 2, delivered_at_us=at_us(second),
                  acked_at_us=at_us(second))  # fmt: skip
        assert life.open == {}, second


def test_a_message_of_which_a_nak_counts_few_deliveries_is_no_poison() -> None:
    life = Life({"ack_wait_ns": 10**9})
    for second in range(12):
        seq = 100 + 10 * second
        # The counters alone would say it: its naks tell that it was delivered twice.
        life.advise("nak", 51, 2)
        life.poll(
            stream={"last_seq": seq, "stored_msgs": seq}, redelivered_msgs=1, ack_pending_msgs=1,
            delivered_consumer_seq=seq + 2 * second, delivered_stream_seq=seq,
            ack_floor_consumer_seq=50, ack_floor_stream_seq=50, waiting_pulls_count=1,
            delivered_at_us=at_us(second), acked_at_us=at_us(second),
        )  # fmt: skip
        assert "NT-C05" not in life.open, second


@pytest.mark.parametrize(
    ("config", "advice"),
    [
        ({"max_msgs": 100, "max_bytes": 10**9}, "--max-msgs NUMBER`; ack"),
        ({"max_msgs": 10**6, "max_bytes": 1000}, "--max-bytes SIZE`; ack"),
        ({"max_msgs": 10**6, "max_age_ns": 10**9}, "--max-age DURATION`; ack"),
    ],
)
def test_advice_about_messages_lost_before_ack_names_the_limit_that_is_reached(
    config: dict[str, Any], advice: str
) -> None:
    life = Life({}, config)
    life.polls(2, stream={"first_seq": 6, "last_seq": 105}, waiting_pulls_count=1,
               pending_msgs=100, delivered_at_us=at_us(1))  # fmt: skip
    for seq in range(5):
        life.advise("terminated", seq, reason="Unacknowledged message was deleted")
    life.polls(2)
    assert advice in life.open["NT-C48"].act


@pytest.mark.parametrize(
    ("config", "first_seq"),
    [
        # A limit removes the first messages, and this one is behind others.
        ({"max_msgs": 100}, 1),
        ({"retention": "workqueue", "max_age_ns": 10**9}, 1),
        # No limit is reached.
        ({"max_msgs": 10**6}, 60),
    ],
)
def test_unacked_messages_that_a_user_deletes_are_not_lost_by_a_limit(
    config: dict[str, Any], first_seq: int
) -> None:
    life = Life({}, config)
    stream = {"first_seq": first_seq, "last_seq": first_seq + 99}
    life.polls(2, stream=stream, waiting_pulls_count=1, ack_pending_msgs=5,
               delivered_at_us=at_us(1))  # fmt: skip
    life.advise("terminated", 50, reason="Unacknowledged message was deleted")
    for _ in range(5):
        life.poll(stream={"deleted_msgs": 1, "stored_msgs": 99}, ack_pending_msgs=4)
        assert life.open == {}


def test_after_a_purge_only_messages_that_a_limit_removed_are_lost() -> None:
    life = Life({}, {"max_age_ns": 3600 * 10**9})
    reason = "Unacknowledged message was deleted"
    life.polls(2, stream={"first_at_us": at_us(0)}, pending_msgs=60, waiting_pulls_count=1,
               delivered_stream_seq=40, delivered_consumer_seq=40,
               delivered_at_us=at_us(1))  # fmt: skip
    life.advise("terminated", 39, reason=reason)
    life.polls(2, stream={"first_seq": 51, "stored_msgs": 50}, pending_msgs=50)
    assert "NT-S51" in life.open and "NT-C12" not in life.open and "NT-C48" not in life.open
    life.second += 3600
    for seq in range(51, 56):
        life.advise("terminated", seq, reason=reason)
    life.polls(2, stream={"first_seq": 61, "stored_msgs": 40, "first_at_us": at_us(3500)},
               pending_msgs=40)  # fmt: skip
    lost = life.open["NT-C48"]
    assert lost.text.startswith("5 messages removed before their ack: 51, 52,")
    assert lost.numbers["lost_msgs"] == 5
    assert lost.since_us is not None and lost.since_us >= at_us(3600)
    lost_text = "10 messages removed before delivery, from 51 to 60"
    assert life.open["NT-C12"].text.startswith(lost_text)
    # Those removed an hour ago are still missing, those that the user purged are not.
    life.polls(2, step_s=400)
    assert life.open["NT-C12"].text.startswith(lost_text) and "NT-C48" not in life.open


def test_many_purged_messages_do_not_change_the_number_of_those_that_a_limit_removes() -> None:
    life = Life({}, {"max_age_ns": 3600 * 10**9})
    reason = "Unacknowledged message was deleted"
    life.polls(2, stream={"first_at_us": at_us(0)}, pending_msgs=0, waiting_pulls_count=1,
               delivered_stream_seq=100, delivered_consumer_seq=100, ack_pending_msgs=100,
               delivered_at_us=at_us(1))  # fmt: skip
    for seq in range(1, 51):
        life.advise("terminated", seq, reason=reason)
    life.polls(2, stream={"first_seq": 51, "stored_msgs": 50}, ack_pending_msgs=50)
    assert "NT-C48" not in life.open
    life.second += 3600
    for seq in range(51, 96):
        life.advise("terminated", seq, reason=reason)
    life.polls(2, stream={"first_seq": 96, "stored_msgs": 5, "first_at_us": at_us(3500)},
               ack_pending_msgs=5)  # fmt: skip
    assert life.open["NT-C48"].numbers["lost_msgs"] == 45


def test_purged_messages_are_not_added_to_those_that_a_limit_removes_soon_after() -> None:
    life = Life({}, {"max_age_ns": 3600 * 10**9})
    life.polls(2, stream={"first_at_us": at_us(0)}, pending_msgs=60, waiting_pulls_count=1,
               delivered_stream_seq=40, delivered_consumer_seq=40,
               delivered_at_us=at_us(1))  # fmt: skip
    life.second += 3480
    life.polls(2, stream={"first_seq": 51, "stored_msgs": 50}, pending_msgs=50)
    life.second += 120
    life.polls(2, stream={"first_seq": 61, "stored_msgs": 40, "first_at_us": at_us(3500)},
               pending_msgs=40)  # fmt: skip
    text = "10 messages removed before delivery, from 51 to 60"
    assert life.open["NT-C12"].text.startswith(text)
    # A further purge by the user does not end it.
    life.polls(2, stream={"first_seq": 71, "stored_msgs": 30}, pending_msgs=30)
    assert life.open["NT-C12"].text.startswith(text)


@pytest.mark.parametrize(
    ("config", "advice"),
    [
        ({"max_msgs": 100, "max_bytes": 10**9}, "raise max messages or set discard old"),
        ({"max_msgs": 10**6, "max_bytes": 1000}, "raise max bytes or set discard old"),
    ],
)
def test_advice_about_a_full_stream_names_the_limit_that_is_reached(
    config: dict[str, Any], advice: str
) -> None:
    life = Life({}, {"discard": "new", **config})
    life.polls(2)
    assert advice in life.open["NT-S05"].act


def test_a_filter_matches_stored_messages_though_the_stream_has_other_subjects_now() -> None:
    life = Life({"filter_subjects": ("s.v1.*",)}, {"subjects": ("s.v2.*",)})
    for second in range(5):
        life.poll(pending_msgs=5 - second, ack_pending_msgs=1, waiting_pulls_count=1,
                  delivered_consumer_seq=second + 1, delivered_stream_seq=second + 1,
                  ack_floor_consumer_seq=second, ack_floor_stream_seq=second,
                  delivered_at_us=at_us(second))  # fmt: skip
        assert "NT-C32" not in life.open, second
    life.poll(pending_msgs=0, ack_pending_msgs=0)
    assert life.words == {"filter matches nothing"}


def test_a_filter_that_matches_nothing_is_told_though_nothing_is_pending() -> None:
    life = Life({"filter_subjects": ("other.>",)}, {"subjects": ("s.>",)})
    life.poll()
    finding = life.open["NT-C32"]
    assert finding.text == "other.> matches nothing; the stream has s.>"
    life.configure({"filter_subjects": ("s.a",)}, {"subjects": ("s.>",)})
    life.polls(2)
    assert life.open == {}


def test_a_start_beyond_the_end_is_told_until_the_stream_gets_there() -> None:
    life = Life({"deliver_policy": "by_start_sequence", "settings": {"opt_start_seq": 900}})
    life.poll()
    assert life.open["NT-C33"].sequences == (900,)
    life.polls(2, stream={"last_seq": 899})
    assert life.open == {}


@pytest.mark.parametrize(
    ("start", "said"),
    [
        ("2100-01-01T00:00:00Z", "at 2100-01-01T00:00:00Z"),
        ("2001-01-01T00:00:00Z", ""),
        ("soon", ""),
        (None, ""),
    ],
)
def test_a_start_at_a_time_to_come_is_told(start: str | None, said: str) -> None:
    life = Life({"deliver_policy": "by_start_time", "settings": {"opt_start_time": start}})
    life.poll()
    if said:
        text = life.open["NT-C33"].text
        assert text.startswith("the consumer starts in ") and text.endswith(said)
    assert bool(said) is ("NT-C33" in life.open)


def test_a_consumer_that_is_nearly_removed_is_told() -> None:
    life = Life({"inactive_threshold_ns": 20_000_000_000})
    life.polls(3, delivered_at_us=at_us(0), waiting_pulls_count=1)
    life.polls(18, waiting_pulls_count=0)
    assert "expires soon" in life.words
    life.polls(2, waiting_pulls_count=1)
    assert life.open == {}


@pytest.mark.parametrize(
    ("config", "client"),
    [
        ({}, {"waiting_pulls_count": 1}),
        ({"pull": False, "deliver_subject": "d"}, {"push_bound": True}),
    ],
)
def test_an_idle_consumer_whose_clients_come_and_go_does_not_expire(
    config: dict[str, Any], client: dict[str, Any]
) -> None:
    life = Life({"inactive_threshold_ns": 60 * 10**9, **config})
    life.consumer |= {"delivered_consumer_seq": 9, "delivered_at_us": at_us(-3 * 3600),
                      "created_at_us": at_us(-30 * 86_400)}  # fmt: skip
    absent = dict.fromkeys(client, 0)
    for second in range(60):
        life.poll(**(client if second % 6 == 5 else absent))
        assert life.open == {}, (second, life.open)
    # Nobody comes any more.
    life.polls(49, **absent)
    assert life.open == {}
    life.polls(3)
    assert life.words == {"expires soon"} and life.open["NT-C35"].text.startswith("unused for 5")


def test_a_durable_that_is_pulled_from_and_receives_nothing_for_weeks_is_used() -> None:
    life = Life()
    life.consumer |= {"delivered_consumer_seq": 9, "delivered_at_us": at_us(-15 * 86_400),
                      "created_at_us": at_us(-30 * 86_400)}  # fmt: skip
    life.poll(waiting_pulls_count=0)
    assert "unused" in {finding.kind.word for finding in consumer_findings(life.state, 0)}
    life.poll(waiting_pulls_count=1)
    life.poll(waiting_pulls_count=0)
    assert "unused" not in {finding.kind.word for finding in consumer_findings(life.state, 0)}


def test_a_consumer_whose_last_activity_the_server_forgot_is_not_called_unused() -> None:
    # The server deletes what nobody uses for longer.
    threshold_ns = 33 * 86_400 * 10**9

    def words_of(delivered_count: int) -> set[str]:
        life = Life({"durable": True, "inactive_threshold_ns": threshold_ns})
        old = {"created_at_us": at_us(-30 * 86_400), "delivered_consumer_seq": delivered_count}
        life.consumer |= old
        life.configure({"durable": True, "inactive_threshold_ns": threshold_ns}, {})
        life.polls(5, waiting_pulls_count=0, delivered_at_us=None, acked_at_us=None)
        kinds = consumer_findings(life.state, 0)
        return life.words | {finding.kind.word for finding in kinds}

    assert {"unused", "expires soon"} <= words_of(0)
    assert not {"unused", "expires soon"} & words_of(7)


FORGOTTEN = {"delivered_at_us": None, "acked_at_us": None}
"""What a server that was restarted knows of the last activity."""
LEFT = {
    "ack_pending_msgs": 5, "redelivered_msgs": 5, "delivered_consumer_seq": 1010,
    "delivered_stream_seq": 1005, "ack_floor_consumer_seq": 1000, "ack_floor_stream_seq": 1000,
    "created_at_us": at_us(-30 * 86_400),
}  # fmt: skip
"""What a client that died left behind: it acked a thousand messages before."""


def test_messages_that_a_dead_client_left_wait_for_a_pull_also_after_a_restart() -> None:
    life = Life({"ack_wait_ns": 30 * 10**9})
    life.stream |= {"last_seq": 1005, "stored_msgs": 1005}
    life.polls(5, delivered_at_us=at_us(-3600), acked_at_us=at_us(-3600), **LEFT)
    assert life.open.keys() == {"NT-C45"}
    for _ in range(60):
        life.poll(**FORGOTTEN)
        assert life.open.keys() == {"NT-C45"}, (life.second, life.open)
    assert "not acked for at least 1m" in life.open["NT-C45"].text
    assert life.open["NT-C45"].since_us == at_us(-3600) and life.over == {}
    # A process that was started after the restart counts from its first poll.
    life = Life({"ack_wait_ns": 30 * 10**9})
    life.stream |= {"last_seq": 1005, "stored_msgs": 1005}
    for _ in range(31):
        life.poll(**LEFT, **FORGOTTEN)
        assert life.open == {}, (life.second, life.open)
    life.polls(3)
    assert life.open.keys() == {"NT-C45"} and life.open["NT-C45"].since_us == at_us(1)


def test_a_message_in_process_at_a_restart_is_not_late_before_its_ack_wait_is_over() -> None:
    for watched_s in (0, 20):
        life = Life({"ack_wait_ns": 60 * 10**9})
        life.stream |= {"last_seq": 2000, "stored_msgs": 2000}
        life.consumer["created_at_us"] = at_us(-30 * 86_400)
        for second in range(watched_s):
            seq = 1000 + second
            life.poll(
                waiting_pulls_count=1, delivered_consumer_seq=seq, delivered_stream_seq=seq,
                ack_floor_consumer_seq=seq, ack_floor_stream_seq=seq,
                delivered_at_us=at_us(second), acked_at_us=at_us(second),
            )  # fmt: skip
        seq = 1000 + watched_s
        for _ in range(20):
            life.poll(
                ack_pending_msgs=1, waiting_pulls_count=0, delivered_consumer_seq=seq,
                delivered_stream_seq=seq, ack_floor_consumer_seq=seq - 1,
                ack_floor_stream_seq=seq - 1, **FORGOTTEN,
            )  # fmt: skip
            assert life.open == {}, (life.second, life.open)
        # Its client does not come back.
        life.polls(43)
        assert life.open.keys() == {"NT-C45"}


def test_a_slow_client_at_max_ack_pending_is_the_same_after_a_restart() -> None:
    life = Life({"max_ack_pending_msgs": 1, "ack_wait_ns": 3600 * 10**9})
    life.stream |= {"last_seq": 2000, "stored_msgs": 2000}
    life.consumer |= {"created_at_us": at_us(-30 * 86_400), "waiting_pulls_count": 1}
    life.polls(2, delivered_consumer_seq=1000, ack_floor_consumer_seq=1000,
               delivered_at_us=at_us(0), acked_at_us=at_us(0))  # fmt: skip
    for second in range(2, 45):
        done = second // 10
        times = {"delivered_at_us": at_us(10.0 * done), "acked_at_us": at_us(10.0 * done)}
        life.poll(
            pending_msgs=500 - done, ack_pending_msgs=1, delivered_consumer_seq=1001 + done,
            delivered_stream_seq=1001 + done, ack_floor_consumer_seq=1000 + done,
            ack_floor_stream_seq=1000 + done, **(times if second < 43 else FORGOTTEN),
        )  # fmt: skip
        # Until it has acked twice, nobody knows how slow it is.
        assert second < 20 or life.open == {}, (second, life.open)
    # The client hangs from now on.
    life.polls(40)
    assert life.open.keys() == {"NT-C09"}


def test_a_client_that_never_acks_is_named_after_a_restart_though_others_acked_before() -> None:
    life = Life({"ack_wait_ns": 2 * 10**9})
    life.stream |= {"last_seq": 1005, "stored_msgs": 1005}
    for second in range(11):
        life.poll(
            **LEFT | {"delivered_consumer_seq": 1010 + 2 * second}, waiting_pulls_count=1,
            delivered_at_us=at_us(second), acked_at_us=None,
        )  # fmt: skip
        assert "NT-C42" not in life.open, second
    for second in range(11, 14):
        life.poll(delivered_consumer_seq=1010 + 2 * second, delivered_at_us=at_us(second))
    assert life.open.keys() == {"NT-C42"}
    assert life.open["NT-C42"].text == "5 redelivered, 5 ack pending, last ack unknown"


def test_the_last_ack_is_unknown_and_not_never_after_a_restart() -> None:
    for floor, text in ((0, "never"), (1000, "unknown")):
        life = Life({"ack_wait_ns": 3600 * 10**9})
        life.stream |= {"last_seq": 1005, "stored_msgs": 1005}
        life.poll(ack_pending_msgs=1005 - floor, waiting_pulls_count=1, **FORGOTTEN,
                  delivered_consumer_seq=1005, delivered_stream_seq=1005,
                  ack_floor_consumer_seq=floor, ack_floor_stream_seq=floor)  # fmt: skip
        assert consumer_verdict(life.state, 0).evidence.endswith(f"last ack {text}")


def test_the_first_long_job_of_a_client_is_not_one_that_stopped_at_a_restart() -> None:
    life = Life({"ack_wait_ns": 30 * 10**9})
    life.stream |= {"last_seq": 10_000, "stored_msgs": 10_000}
    for second in range(30):
        life.poll(pending_msgs=0, waiting_pulls_count=1, delivered_consumer_seq=100 + second,
                  delivered_stream_seq=100 + second, ack_floor_consumer_seq=100 + second,
                  ack_floor_stream_seq=100 + second, delivered_at_us=at_us(second),
                  acked_at_us=at_us(second))  # fmt: skip
    job = {"ack_pending_msgs": 1, "waiting_pulls_count": 0, "delivered_consumer_seq": 130,
           "delivered_stream_seq": 130}  # fmt: skip
    life.poll(delivered_at_us=at_us(30), **job)
    for second in range(18):
        life.poll(pending_msgs=second, **FORGOTTEN)
        assert life.open == {}, (second, life.open)
    life.polls(8)
    assert life.open.keys() == {"NT-C44"}
    assert "a client may still process 1 message" in life.open["NT-C44"].text
    life.polls(10)
    assert life.open.keys() == {"NT-C07"}


def test_pulls_are_not_called_refused_where_something_was_delivered_before_a_restart() -> None:
    columns = {"pending_msgs": 500, "created_at_us": at_us(-30 * 86_400), **FORGOTTEN}
    for delivered_count, word in ((0, "pulls refused"), (1_000_000, "no open pulls")):
        life = Life({"settings": {"max_batch": 100}})
        life.polls(4, delivered_consumer_seq=delivered_count, **columns)
        assert life.words == {word}
    assert "the server does not know when the last delivery was" in life.open["NT-C44"].text
    # One that is a minute old is not new either.
    life = Life()
    life.polls(15, **columns | {"created_at_us": at_us(-60)}, delivered_consumer_seq=5)
    assert life.open.keys() == {"NT-C44"}
    # An ack came since, and still no delivery.
    life = Life()
    life.polls(25, **columns | {"acked_at_us": at_us(0)}, delivered_consumer_seq=5)
    assert "the server does not know when" in life.open["NT-C44"].text


PUSHED = PUSH | {"settings": {"flow_control": True}}


@pytest.mark.parametrize(
    ("config", "client", "code"),
    [
        (PUSHED, {"push_bound": True}, "NT-C06"),
        (PUSH, {"push_bound": True}, "NT-C15"),
        ({}, {"waiting_pulls_count": 1}, "NT-C11"),
    ],
)
@pytest.mark.parametrize("ahead_s", [0, 4, 20])
def test_what_is_delivered_from_poll_to_poll_is_not_stalled_whatever_the_clocks_say(
    config: dict[str, Any], client: dict[str, Any], code: str, ahead_s: int
) -> None:
    life = Life(config)
    life.stream |= {"last_seq": 900_000, "stored_msgs": 900_000}
    for second in range(20):
        seq = 20_000 * second
        life.poll(pending_msgs=900_000 - seq, delivered_consumer_seq=seq, delivered_stream_seq=seq,
                  ack_floor_consumer_seq=seq, ack_floor_stream_seq=seq,
                  delivered_at_us=at_us(second - ahead_s), **client)  # fmt: skip
        assert life.open == {}, (second, life.open)
    life.polls(14)
    assert life.open.keys() == {code}


@pytest.mark.parametrize("ahead_s", [0, 4, 20])
def test_a_busy_client_at_max_ack_pending_delivers_whatever_the_clocks_say(ahead_s: int) -> None:
    life = Life({"max_ack_pending_msgs": 5, "ack_wait_ns": 10 * 10**9})
    life.stream |= {"last_seq": 900_000, "stored_msgs": 900_000}
    for second in range(20):
        life.poll(
            pending_msgs=9000 - 50 * second, ack_pending_msgs=5, waiting_pulls_count=1,
            redelivered_msgs=1, ack_floor_consumer_seq=second * 50,
            ack_floor_stream_seq=second * 50, delivered_stream_seq=second * 50 + 5,
            delivered_consumer_seq=second * 50 + 5, delivered_at_us=at_us(second - ahead_s),
            acked_at_us=at_us(second - ahead_s),
        )  # fmt: skip
        assert life.open == {}, (second, life.open)
    life.polls(6)
    assert "NT-C09" in life.open


def test_a_pinned_consumer_without_its_client_is_told() -> None:
    life = Life({"priority_policy": "pinned_client"})
    life.polls(8, pending_msgs=5, waiting_pulls_count=1, delivered_at_us=at_us(0),
               pinned_client="abc")  # fmt: skip
    assert life.words == {"pinned client idle"}
    for _ in range(2):
        life.poll(delivered_at_us=at_us(life.second + 1))
    assert life.open == {}


def test_a_durable_that_is_gone_is_told_until_it_is_back() -> None:
    life = Life()
    life.poll()
    life.is_there = False
    life.polls(2)
    assert life.open["NT-C38"].entity.text == "S > C"
    life.is_there = True
    life.poll(created_at_us=at_us(9))
    assert life.open == {}


@pytest.mark.parametrize(
    ("columns", "config", "word"),
    [
        ({"paused": True}, {}, "paused"),
        ({"leader": None}, {}, "no leader"),
        ({"waiting_pulls_count": 512}, {}, "max waiting reached"),
        ({"ack_pending_msgs": 900, "delivered_at_us": at_us(0)}, {}, "near max ack pending"),
        ({"pending_msgs": 5, "next_at_us": at_us(-9_000), "waiting_pulls_count": 1,
          "delivered_at_us": at_us(0)}, {}, "next message is old"),
        ({"pending_msgs": 5, "waiting_pulls_count": 1},
         {"settings": {"replay_policy": "original"}}, "replays at original pace"),
    ],
)  # fmt: skip
def test_what_one_look_shows(columns: dict, config: dict, word: str) -> None:  # type: ignore[type-arg]
    life = Life(config)
    life.polls(4, **columns)
    assert life.words == {word}
    life.polls(
        8, **dict.fromkeys(columns, 0) | {"leader": "n1", "paused": False, "next_at_us": None}
    )
    assert life.open == {}


def test_what_is_terminated_is_counted() -> None:
    life = Life()
    for seq in (4, 5, 6):
        life.advise("terminated", seq)
    life.poll()
    finding = life.open["NT-C22"]
    assert "3 messages terminated" in finding.text and set(finding.sequences) == {4, 5, 6}
    life.polls(15)
    assert life.open == {}


def test_what_is_terminated_now_and_then_is_not_reported_each_time() -> None:
    life = Life()
    seq = 0
    for _ in range(20):
        for _ in range(3):
            seq += 1
            life.advise("terminated", seq)
        life.polls(40)
    # The second came soon after the end of the first, and has not ended since.
    assert len([one for one in life.state.findings.resolved if one.kind.code == "NT-C22"]) == 1
    finding = life.open["NT-C22"]
    assert finding.text.endswith("; not in the newest poll")
    life.polls(100)
    assert life.open == {}
    assert not life.over["NT-C22"].text.endswith("newest poll")
    # Long after that it is a finding of its own, which ends as soon as the first.
    life.polls(130)
    for seq in (901, 902, 903):
        life.advise("terminated", seq)
    life.poll()
    assert "NT-C22" in life.open
    life.polls(15)
    assert life.open == {}


def test_a_leader_that_changes_again_and_again_is_told() -> None:
    life = Life()
    for _ in range(3):
        life.poll()
        life.advise("consumer_leader_elected", 0)
    life.poll()
    assert life.words == {"leader changes often"}
