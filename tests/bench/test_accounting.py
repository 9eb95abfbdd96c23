"""The sums of a run, without a server: where each message is, and what does not close."""

import json
from typing import Any

import numpy as np

from natstui.bench.job.sequences import FOREIGN_PUBLISHER, ReceivedSequences
from natstui.bench.result.accounting import (
    ConsumerFigures,
    ConsumerSpan,
    WorkerCounts,
    compute_accounting,
    deliverable_msgs,
    has_shared_messages,
    make_figures,
    receiver_groups,
)
from natstui.jetstream.connection.decode.consumers import read_consumer
from natstui.model.bench.counts import Counts
from natstui.model.bench.plan import Payload, Role
from natstui.values import replace

CONSUME, SUBSCRIBE = Role("subs", "js-consume"), Role("subs", "subscribe")
ORDERED, QUEUE = Role("subs", "js-ordered"), Role("subs", "subscribe", queue="q")


def seen(publisher: int, *seqs: int) -> dict[str, dict[str, str]]:
    one = ReceivedSequences()
    if seqs:
        one.add(np.full(len(seqs), publisher), np.array(seqs))
    return one.dump()


def book(role: Role, worker_id: int = 0, *, publisher: int = 0, **counts: int) -> WorkerCounts:
    """Return a worker that reported what it counted."""
    told = Counts(**counts)
    return WorkerCounts(f"{role.name}/{worker_id}", role, worker_id, told, told, {}, publisher)


def sender(
    sent: int, *, pattern: str = "publish", publisher: int = 0, **others: int
) -> WorkerCounts:
    role = Role("pubs", pattern)  # type: ignore[arg-type]
    return book(role, publisher=publisher, sent_msgs=sent, **others)


def receiver(
    role: Role, seqs: range | tuple[int, ...], *, worker_id: int = 0, **counts: int
) -> WorkerCounts:
    one = book(role, worker_id, **{"received_msgs": len(seqs), **counts})
    return replace(one, received_sequences=seen(0, *seqs))


def figures(delivered: int = 0, pending: int = 0, ack_pending: int = 0, **others: Any) -> Any:
    return ConsumerFigures(delivered, pending, ack_pending, others.get("filtered", False))


def span(begin: ConsumerFigures, end: ConsumerFigures) -> dict[str, ConsumerSpan]:
    return {"subs": ConsumerSpan(begin, end)}


def test_figures_are_read_from_the_reply() -> None:
    info: dict[str, Any] = {"stream_name": "S", "name": "C", "created": "2026-01-01T00:00:00Z"}
    info |= {"delivered": {"consumer_seq": 7}, "ack_floor": {}, "config": {}}
    info |= {"num_pending": 5, "num_ack_pending": 3}
    assert figures_of(info) == ConsumerFigures(7, 5, 3, False)
    for config in ({"filter_subject": "a"}, {"filter_subjects": ["a", "b"]}):
        assert figures_of(info | {"config": config}).is_filtered


def figures_of(info: dict[str, Any]) -> ConsumerFigures:
    return make_figures(read_consumer(json.dumps(info).encode()))


def test_a_consumer_owes_what_it_had_and_what_was_stored_and_nobody_knows_behind_a_filter() -> (
    None
):
    assert deliverable_msgs(figures(9, 5, 3), 100) == 108
    assert deliverable_msgs(figures(9, 5, 3), None) is None
    assert deliverable_msgs(figures(9, 5, 3, filtered=True), 100) is None


def test_redeliveries_are_deliveries_less_first_ones_between_what_was_counted_and_unread() -> None:
    one = ConsumerSpan(figures(10, 4), figures(130, 2))
    # 120 deliveries; 4 + 100 - 2 messages had their first one.
    assert one.redelivered_msgs(100, 5, 110) == min(18, 5 + 10)
    assert one.redelivered_msgs(100, 17, 110) == 18
    assert one.redelivered_msgs(100, 19, 110) == 19
    assert one.redelivered_msgs(100, 5, 130) == 5
    assert one.redelivered_msgs(None, 5, 110) == 5
    filtered = ConsumerSpan(figures(10, 4, filtered=True), figures(130, 2))
    assert filtered.redelivered_msgs(100, 5, 110) == 5


def test_who_shares_messages_is_one_group() -> None:
    assert [has_shared_messages(role) for role in (CONSUME, SUBSCRIBE, ORDERED, QUEUE)] == [
        True,
        False,
        False,
        True,
    ]
    assert has_shared_messages(Role("subs", "js-push"))
    books = [receiver(CONSUME, range(3)), receiver(CONSUME, range(3, 5), worker_id=1)]
    alone = Role("others", "subscribe")
    groups = receiver_groups([sender(5), receiver(alone, (1,)), *books, receiver(alone, (2,))])
    assert [(one.role.name, len(one.workers)) for one in groups] == [
        ("subs", 2),
        ("others", 1),
        ("others", 1),
    ]
    assert (groups[0].received_msgs, groups[0].distinct_msgs()) == (5, 5)


def test_who_ended_without_its_last_word_leaves_the_different_messages_unknown() -> None:
    silent = replace(book(CONSUME, received_msgs=2), received_sequences=None)
    (group,) = receiver_groups([receiver(CONSUME, range(3)), silent])
    assert group.has_missing_report
    assert group.distinct_msgs() is None
    (unstamped,) = receiver_groups([book(CONSUME, received_msgs=2)])
    assert unstamped.distinct_msgs() is None
    (nothing,) = receiver_groups([book(CONSUME)])
    assert nothing.distinct_msgs() == 0
    books = compute_accounting([sender(5), silent], None, None)
    assert (books.lost_msgs, books.distinct_msgs, books.duplicate_msgs) == (None, None, 0)


def test_a_stored_run_closes_and_says_where_everything_is() -> None:
    pubs = sender(
        110, pattern="js-publish-async", acked_msgs=100, duplicate_acked_msgs=4, refused_msgs=3,
        unanswered_msgs=3, missed_msgs=2, retried_msgs=6, steady_sent_msgs=1,
    )  # fmt: skip
    subs = receiver(CONSUME, range(101), redelivered_msgs=1, out_of_order_msgs=2)
    ends = span(figures(0, 0, 0), figures(102, 0, 0))
    books = compute_accounting([pubs, subs], 101, 0, ends)
    assert books.closes
    assert books.missing == ()
    sums = (books.sent_msgs, books.acked_msgs, books.duplicate_acked_msgs, books.refused_msgs)
    assert sums == (110, 100, 4, 3)
    assert (books.unanswered_msgs, books.missed_msgs, books.retried_msgs) == (3, 2, 6)
    assert (books.stored_msgs, books.expected_msgs, books.received_msgs) == (101, 101, 101)
    assert (books.distinct_msgs, books.lost_msgs, books.duplicate_msgs) == (101, 0, 0)
    assert (books.delivered_msgs, books.unread_msgs, books.unsettled_msgs) == (102, 1, 0)
    assert (books.redelivered_msgs, books.out_of_order_msgs, books.measures) == (1, 2, True)


def test_what_the_server_still_holds_is_not_lost_and_the_rest_is() -> None:
    ends = span(figures(), figures(92, 3, 2))
    books = compute_accounting([receiver(CONSUME, range(90))], 100, 0, ends)
    assert (books.expected_msgs, books.lost_msgs) == (100, 5)
    assert (books.unread_msgs, books.unsettled_msgs) == (2, 2)
    late = compute_accounting(
        [receiver(CONSUME, range(99))], 100, 0, span(figures(), figures(99, 3, 2))
    )
    assert late.lost_msgs == 0


def test_more_received_than_delivered_or_sent_does_not_close() -> None:
    ends = span(figures(10, 0, 0), figures(15, 0, 0))
    books = compute_accounting([receiver(CONSUME, range(7))], 6, 0, ends)
    assert not books.closes
    assert books.missing == (
        "role subs received 7 deliveries, but the server counts 5",
        "role subs received 7 different messages, and only 6 were sent to it",
    )
    assert books.unread_msgs == 0
    equal = compute_accounting([receiver(CONSUME, range(5))], 5, 0, ends)
    assert equal.closes


def test_sums_of_several_consumers_add_up() -> None:
    other = Role("more", "js-consume")
    ends = {
        "subs": ConsumerSpan(figures(), figures(12, 0, 1)),
        "more": ConsumerSpan(figures(), figures(11, 0, 2)),
    }
    got = [
        receiver(CONSUME, range(10), redelivered_msgs=1),
        receiver(other, range(9), redelivered_msgs=1),
    ]
    books = compute_accounting(got, 10, 0, ends)
    assert (books.delivered_msgs, books.unread_msgs, books.unsettled_msgs) == (23, 4, 3)
    assert (books.expected_msgs, books.distinct_msgs, books.received_msgs) == (20, 19, 19)
    assert (books.redelivered_msgs, books.lost_msgs) == (3, 0)
    one_known = compute_accounting(
        [*got, receiver(Role("alone", "subscribe"), range(4))], 10, 0, ends
    )
    assert (one_known.expected_msgs, one_known.lost_msgs, one_known.delivered_msgs) == (
        None,
        None,
        23,
    )


def test_without_a_consumer_the_workers_counts_are_all_there_is() -> None:
    got = [receiver(ORDERED, range(4), redelivered_msgs=2) for _ in range(2)]
    books = compute_accounting(got, 4, 0)
    assert (books.delivered_msgs, books.unread_msgs, books.unsettled_msgs) == (None, None, None)
    assert (books.redelivered_msgs, books.expected_msgs) == (4, 8)


def test_repeats_are_received_and_not_different() -> None:
    books = compute_accounting([sender(4), receiver(SUBSCRIBE, (0, 1, 1, 2, 3))], None, None)
    assert (books.received_msgs, books.distinct_msgs, books.duplicate_msgs) == (5, 4, 1)
    assert (books.expected_msgs, books.lost_msgs) == (4, 0)


def test_an_ordered_receiver_is_owed_the_whole_stream_but_what_was_gone_before_it() -> None:
    one = replace(receiver(ORDERED, range(6)), removed_before_start_msgs=5)
    assert compute_accounting([one], 10, 3).expected_msgs == 8
    assert compute_accounting([one], 10, None).expected_msgs == 6
    assert (
        compute_accounting([replace(one, removed_before_start_msgs=12)], 10, 3).expected_msgs == 6
    )
    assert (
        compute_accounting([replace(one, removed_before_start_msgs=0)], 10, 3).expected_msgs == 13
    )
    more = receiver(ORDERED, range(20))
    assert compute_accounting([more], 10, 3).expected_msgs == 13
    assert compute_accounting([one], None, 3).expected_msgs is None
    nothing = replace(receiver(ORDERED, ()), removed_before_start_msgs=13)
    assert compute_accounting([nothing], 10, 3).expected_msgs == 0


def test_a_shared_consumer_owes_what_its_readers_should_get_and_not_the_stream() -> None:
    ends = span(figures(0, 4, 2), figures(8, 0, 0))
    books = compute_accounting([receiver(CONSUME, range(8))], 10, 3, ends)
    assert (books.expected_msgs, books.lost_msgs) == (16, 8)


def test_a_subscriber_is_owed_what_every_sender_sent_from_its_first_message_on() -> None:
    other = sender(5, publisher=1)
    heard = replace(receiver(SUBSCRIBE, range(10)), sent_before_subscribing_by_publisher={0: 0})
    books = compute_accounting([sender(10), other, heard], None, None)
    assert (books.expected_msgs, books.lost_msgs) == (15, 5)
    late = replace(receiver(SUBSCRIBE, range(1, 10)), sent_before_subscribing_by_publisher={0: 0})
    assert compute_accounting([sender(10), late], None, None).lost_msgs == 1
    without_word = replace(late, sent_before_subscribing_by_publisher={})
    assert compute_accounting([sender(10), without_word], None, None).lost_msgs == 1


def test_a_subscriber_is_owed_what_was_sent_since_it_heard_and_what_it_got_before() -> None:
    heard = replace(
        receiver(SUBSCRIBE, (3, *range(5, 10))), sent_before_subscribing_by_publisher={0: 5}
    )
    books = compute_accounting([sender(10), heard], None, None)
    assert (books.expected_msgs, books.lost_msgs) == (6, 0)
    gap = replace(receiver(SUBSCRIBE, (5, 7, 8, 9)), sent_before_subscribing_by_publisher={0: 5})
    assert compute_accounting([sender(10), gap], None, None).lost_msgs == 1
    later = replace(gap, sent_before_subscribing_by_publisher={0: 50})
    assert compute_accounting([sender(10), later], None, None).expected_msgs == 4
    elsewhere = replace(sender(7), role=Role("pubs", "publish", subject="elsewhere"))
    assert compute_accounting([sender(10), elsewhere, heard], None, None).expected_msgs == 6
    assert compute_accounting([elsewhere, heard], None, None).expected_msgs is None


def test_a_queue_group_is_owed_what_was_sent_since_the_first_of_it_heard() -> None:
    first = replace(receiver(QUEUE, (2, 4)), sent_before_subscribing_by_publisher={0: 2})
    second = replace(
        receiver(QUEUE, (3,), worker_id=1), sent_before_subscribing_by_publisher={0: 4}
    )
    books = compute_accounting([sender(6), first, second], None, None)
    assert (books.expected_msgs, books.distinct_msgs, books.lost_msgs) == (4, 3, 1)


def test_unstamped_messages_are_counted_by_number() -> None:
    got = replace(book(SUBSCRIBE, received_msgs=3), sent_before_subscribing_by_publisher={0: 4})
    assert compute_accounting([sender(10), got], None, None).expected_msgs == 6
    many = replace(book(SUBSCRIBE, received_msgs=8), sent_before_subscribing_by_publisher={0: 4})
    assert compute_accounting([sender(10), many], None, None).expected_msgs == 8
    too_many = replace(
        book(SUBSCRIBE, received_msgs=12), sent_before_subscribing_by_publisher={0: 4}
    )
    assert compute_accounting([sender(10), too_many], None, None).expected_msgs == 10


def test_a_message_sent_twice_on_purpose_is_owed_once() -> None:
    payload = Payload(msg_ids=True, duplicate_ratio=0.5)
    role = Role("pubs", "publish", payload=payload)
    pubs = book(role, sent_msgs=9)
    books = compute_accounting([pubs, receiver(SUBSCRIBE, range(6))], None, None)
    assert (books.expected_msgs, books.lost_msgs) == (6, 0)
    nothing = compute_accounting([book(role), receiver(SUBSCRIBE, ())], None, None)
    assert nothing.expected_msgs == 0


def test_publish_acknowledgements_that_do_not_add_up_are_named() -> None:
    pubs = sender(10, pattern="js-publish-sync", acked_msgs=8, refused_msgs=1)
    assert compute_accounting([pubs], 8, None).missing == (
        "10 messages sent, but 9 replies and 0 without a reply",
    )
    put = sender(10, pattern="kv-put", acked_msgs=8, unanswered_msgs=2)
    assert compute_accounting([put], 8, None).closes
    assert compute_accounting([put], 10, None).closes
    assert compute_accounting([put], 7, None).missing == ("8 acknowledged, but 7 stored",)
    assert compute_accounting([put], 11, None).missing == ("8 acknowledged, but 11 stored",)
    assert compute_accounting([put], None, None).closes
    assert compute_accounting([sender(10)], 7, None).closes


def test_reports_that_do_not_add_up_are_named() -> None:
    one = sender(5)
    silent, wrong = replace(one, totals=None), replace(one, totals=Counts(sent_msgs=6))
    assert compute_accounting([silent, wrong, one], None, None).missing == (
        "worker pubs/0 sent no final report",
        "the reports of worker pubs/0 do not add up to its totals",
    )


def test_replies_and_gets_count_as_received_where_nobody_else_receives() -> None:
    asks = book(Role("asks", "request"), sent_msgs=5, received_msgs=4)
    gets = book(Role("gets", "js-get"), received_msgs=3)
    serves = book(Role("service", "serve"), received_msgs=5, sent_msgs=5)
    books = compute_accounting([asks, gets, serves], None, None)
    assert (books.sent_msgs, books.received_msgs) == (5, 7)
    assert (books.expected_msgs, books.lost_msgs) == (None, None)
    both = compute_accounting([gets, receiver(SUBSCRIBE, range(2))], None, None)
    assert both.received_msgs == 2


def test_a_run_measures_when_something_was_sent_or_received_in_its_measured_part() -> None:
    assert not compute_accounting([sender(5)], None, None).measures
    assert compute_accounting([sender(5, steady_sent_msgs=1)], None, None).measures
    got = receiver(SUBSCRIBE, (0,), steady_received_msgs=1)
    assert compute_accounting([got], None, None).measures


def foreign(one: WorkerCounts, stream_seqs: tuple[int, ...], received: int) -> WorkerCounts:
    """Return a receiver that got messages of others, too."""
    counts = replace(one.reported_counts, foreign_msgs=received)
    dump = {**(one.received_sequences or {}), **seen(FOREIGN_PUBLISHER, *stream_seqs)}
    return replace(
        one, reported_counts=counts, totals=counts, received_sequences=dump, has_stamps=True
    )


def test_what_others_sent_is_neither_lost_nor_twice_nor_stored_by_this_run() -> None:
    pubs = sender(10, pattern="js-publish-async", acked_msgs=10)
    subs = foreign(receiver(CONSUME, range(10)), (3, 5, 9, 12), 6)
    # Fourteen stored; sixteen deliveries, two of them of foreign messages once more.
    ends = span(figures(), figures(16))
    books = compute_accounting([pubs, subs], 14, 0, ends)
    assert books.closes, books.missing
    assert (books.stored_msgs, books.received_msgs, books.foreign_msgs) == (10, 10, 6)
    assert (books.expected_msgs, books.distinct_msgs) == (10, 10)
    assert (books.lost_msgs, books.duplicate_msgs, books.unread_msgs) == (0, 0, 0)
    # Of the foreign ones one is missing, and nobody knows that it was none of ours.
    less = foreign(receiver(CONSUME, range(10)), (3, 5, 9), 3)
    assert compute_accounting([pubs, less], 14, 0, span(figures(), figures(13))).lost_msgs == 1
    ordered = foreign(receiver(ORDERED, range(10)), (3, 5, 9, 12), 4)
    books = compute_accounting([pubs, ordered], 14, 0)
    assert (books.closes, books.expected_msgs, books.lost_msgs) == (True, 10, 0)
    # What others stored after it ended is nothing that it should have got.
    books = compute_accounting([pubs, ordered], 20, 0, is_stream_shared=True)
    assert (books.closes, books.stored_msgs, books.lost_msgs) == (True, 10, 0)


def test_core_messages_of_others_are_only_counted() -> None:
    subs = foreign(receiver(SUBSCRIBE, range(9)), (), 50)
    books = compute_accounting([sender(10), subs], None, None)
    assert (books.expected_msgs, books.lost_msgs, books.foreign_msgs) == (10, 1, 50)
    assert books.closes


def test_in_a_stream_of_others_a_publisher_stored_what_it_has_answers_for() -> None:
    pubs = sender(10, pattern="js-publish-async", acked_msgs=8, unanswered_msgs=2)
    assert compute_accounting([pubs], 30, 0).missing == ("8 acknowledged, but 30 stored",)
    books = compute_accounting([pubs], 30, 0, is_stream_shared=True)
    assert (books.closes, books.stored_msgs) == (True, 10)
    assert compute_accounting([pubs], 9, 0, is_stream_shared=True).stored_msgs == 9
    assert compute_accounting([pubs], 7, 0, is_stream_shared=True).missing == (
        "8 acknowledged, but 7 stored",
    )


def test_of_a_consumer_that_cannot_be_asked_nobody_knows_what_is_lost() -> None:
    books = compute_accounting([receiver(CONSUME, range(3))], 20, 0)
    assert (books.expected_msgs, books.lost_msgs, books.closes) == (None, None, True)
