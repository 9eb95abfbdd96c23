"""What breaks is named once, with one word, and stays named while it lasts."""

from __future__ import annotations

import pytest

from natstui.model.clients.watch import ClientsRead
from natstui.model.findings.catalogue.every import KINDS
from natstui.model.findings.catalogue.status import SOURCING
from natstui.model.findings.verdict import consumer_statuses, consumer_verdict
from natstui.model.records.record import Configured
from natstui.values import replace
from tests.model.builders import COST, snapshot
from tests.model.findings.life import START_S, Life, at_us
from tests.model.findings.test_causes import QUEUE, moving, storing
from tests.model.findings.test_stream_rules import account
from tests.session.scenario import consumer

INTEREST = {"retention": "interest", "subjects": ("i.>",)}


def changes_of(shown: list[bool]) -> int:
    """Return how often something came or went."""
    return sum(one is not other for one, other in zip([False, *shown], shown, strict=False))


def test_a_purge_is_named_also_where_the_server_writes_every_switch() -> None:
    life = Life({}, {"settings": {"allow_msg_ttl": False}})
    life.polls(3)
    life.polls(2, stream={"first_seq": 101, "last_seq": 100, "stored_msgs": 0})
    assert "purged" in life.words


def test_a_filter_that_matches_nothing_is_named_though_the_server_looks_further() -> None:
    life = Life({"filter_subjects": ("o.nwe", "o.dlo")}, {"subjects": ("o.>",)})
    for second in range(3):
        # The server passes what does not match: its delivered sequence of the stream rises.
        life.poll(stream=storing(second), waiting_pulls_count=1, delivered_stream_seq=90 + second)
    assert life.words == {"filter matches nothing"}


def test_what_an_interest_stream_drops_is_named_once_though_replies_are_apart() -> None:
    life, shown = Life({"filter_subjects": ("i.a",)}, INTEREST), []
    for second in range(60):
        # Half of what comes is wanted; the consumer is read up to a second earlier or later.
        shift = (second * 7) % 3 - 1
        wanted = 100 + 10 * max(0, second + shift)
        life.poll(stream={"last_seq": 100 + 20 * second, "stored_msgs": 5},
                  waiting_pulls_count=1, delivered_consumer_seq=wanted)  # fmt: skip
        shown.append("NT-S22" in life.open)
    assert changes_of(shown) == 1 and shown.index(True) <= 5
    assert "i.a" in life.open["NT-S22"].text
    life.configure({"filter_subjects": ("i.>",)}, INTEREST)
    life.poll()
    life.poll()
    assert life.open == {}


def test_an_interest_stream_of_which_all_that_comes_is_wanted_drops_nothing() -> None:
    life = Life({"filter_subjects": ("i.a",)}, INTEREST)
    for second in range(60):
        # The consumer is read up to a second earlier or later.
        wanted = 100 + 20 * max(0, second + (second * 7) % 3 - 1)
        life.poll(stream={"last_seq": 100 + 20 * second, "stored_msgs": 5},
                  waiting_pulls_count=1, delivered_consumer_seq=wanted)  # fmt: skip
        assert "NT-S22" not in life.open, second


def test_an_interest_stream_whose_consumers_want_every_subject_drops_nothing() -> None:
    for filters in ((), ("i.>",)):
        life = Life({"filter_subjects": filters}, INTEREST)
        for second in range(20):
            life.poll(stream={"last_seq": 100 + 20 * second, "stored_msgs": 0},
                      waiting_pulls_count=1, delivered_consumer_seq=100 + second)  # fmt: skip
            assert "NT-S22" not in life.open


def test_orphans_stay_named_while_some_polls_are_far_apart() -> None:
    life, shown = Life({"filter_subjects": ("wq.a",)}, QUEUE), []
    for second in range(60):
        # In two polls of eight the replies are so far apart that the balance says nothing.
        behind = 80 if second % 8 in (4, 5) else 0
        life.poll(stream={"stored_msgs": 50, "last_seq": 100 + 8 * second},
                  waiting_pulls_count=1, pending_msgs=behind,
                  **moving(second, 8))  # fmt: skip
        shown.append("NT-S21" in life.open)
    assert changes_of(shown) == 1
    life.polls(4, stream={"stored_msgs": 0}, pending_msgs=0)
    assert "NT-S21" not in life.open


def test_a_work_queue_whose_consumers_want_every_subject_has_no_orphans() -> None:
    life = Life({}, QUEUE)
    for second in range(8):
        life.poll(stream={"stored_msgs": 500, "last_seq": 600}, waiting_pulls_count=1,
                  delivered_at_us=at_us(second))  # fmt: skip
        assert "NT-S21" not in life.open


def test_a_full_queue_at_which_clients_work_stays_full() -> None:
    life, shown = Life({}, {"discard": "new", "max_msgs": 100, "retention": "workqueue"}), []
    for second in range(30):
        stored = 100 - second % 3
        life.poll(stream={"stored_msgs": stored}, pending_msgs=stored, waiting_pulls_count=0,
                  **moving(second))  # fmt: skip
        shown.append("NT-S05" in life.open)
    assert changes_of(shown) == 1
    life.polls(3, stream={"stored_msgs": 60}, pending_msgs=60)
    assert "NT-S05" not in life.open


def test_a_stream_that_is_absent_in_one_poll_and_another_one_then_was_recreated() -> None:
    life = Life()
    life.polls(3)
    life.add(snapshot(START_S + 4, [], []))
    assert life.words == {"stream deleted"}
    life.configure({}, {})
    life.add(snapshot(START_S + 5, [life.stream | {"created_at_us": at_us(4.5)}], []))
    life.add(snapshot(START_S + 6, [life.stream | {"created_at_us": at_us(4.5)}], []))
    assert life.words == {"stream recreated"}


def test_many_durables_that_are_gone_are_one_finding() -> None:
    life = Life()
    every = [life.consumer | {"name": f"pod-{number}"} for number in range(40)]
    for second, there in ((1, 40), (2, 38), (3, 20), (4, 10), (5, 10)):
        life.stream["consumers_count"] = there
        if second == 1:
            names = [one["name"] for one in every]
            life.add(*[configured_of(name) for name in names])
        life.add(snapshot(START_S + second, [life.stream], every[:there]))
        gone = [
            one for one in life.state.findings.list_open_findings() if one.kind.code == "NT-C38"
        ]
        assert len(gone) == (0 if second == 1 else 2 if second == 2 else 1), second
    assert gone[0].text.startswith("30 were there before: pod-")
    assert gone[0].entity.stream == "S" and gone[0].numbers["count"] == 30


def configured_of(name: str) -> Configured:
    return Configured(at_us(0), (), (replace(consumer("S", name, at_us(-600)), durable=True),))


def test_a_consumer_recreated_again_and_again_is_named_once_also_where_a_poll_misses_it() -> None:
    life, shown = Life(), []
    for second in range(30):
        life.is_there = second % 4 != 3
        life.poll(created_at_us=at_us(second - 0.5))
        shown.append("NT-C46" in life.open)
        assert "NT-C38" not in life.open or not shown[-1]
    assert changes_of(shown) == 1
    assert life.open["NT-C46"].entity.consumer == "C"


def test_a_priority_group_has_one_word_also_where_a_poll_falls_between_two_pulls() -> None:
    for policy, word in (
        ("overflow", "no eligible pull"),
        ("pinned_client", "pinned client idle"),
    ):
        config = {"priority_policy": policy, "settings": {"priority_groups": ["g"]}}
        life, words = Life(config), []
        for second in range(60):
            life.poll(pending_msgs=10, waiting_pulls_count=int(second % 5 != 4))
            words.append(life.words)
        assert {each for some in words for each in some} == {word}
        assert changes_of([bool(some) for some in words]) == 1


def test_naks_of_all_messages_are_named_also_where_polls_are_far_apart() -> None:
    life = Life({"ack_wait_ns": 30 * 10**9})
    for poll in range(4):
        columns = moving(0) | {"delivered_consumer_seq": 100 + 44 * poll,
                               "delivered_at_us": at_us(life.second + 22)}  # fmt: skip
        for second in range(22):
            life.second += 1
            life.advise("nak", 100 + second % 8, poll * 5 + 1, 2)
        life.second -= 22
        life.poll(step_s=22, redelivered_msgs=8, ack_pending_msgs=8, pending_msgs=40,
                  waiting_pulls_count=1, **columns)  # fmt: skip
    assert life.words == {"all messages nak'd"}


def test_one_message_that_waits_for_its_ack_wait_after_a_burst_blocks_nothing() -> None:
    life = Life({"ack_wait_ns": 30 * 10**9})
    # A client died with message 61, and another one works off what came meanwhile.
    life.polls(
        40,
        ack_pending_msgs=1,
        pending_msgs=800,
        **moving(0)
        | {
            "delivered_stream_seq": 61,
            "delivered_consumer_seq": 61,
            "ack_floor_stream_seq": 60,
            "ack_floor_consumer_seq": 60,
            "delivered_at_us": at_us(-5),
            "acked_at_us": at_us(-5),
        },
    )
    for second in range(25):
        columns = moving(second, 4) | {"ack_floor_consumer_seq": 60, "ack_floor_stream_seq": 60,
                                       "delivered_at_us": at_us(40 + second),
                                       "acked_at_us": at_us(40 + second)}  # fmt: skip
        columns["delivered_stream_seq"] = columns["delivered_consumer_seq"] = 860 + 4 * second
        life.poll(ack_pending_msgs=1, pending_msgs=0, waiting_pulls_count=1, **columns)
        assert "NT-C43" not in life.open, second


def test_repeats_of_messages_that_were_acked_since_make_no_poison() -> None:
    life = Life({"ack_wait_ns": 30 * 10**9})
    for second in range(70):
        columns = moving(second)
        columns["delivered_consumer_seq"] += 20 * second
        life.poll(redelivered_msgs=4, ack_pending_msgs=4, waiting_pulls_count=1, **columns)
    floor = {"ack_floor_stream_seq": 800, "ack_floor_consumer_seq": 900}
    life.polls(4, redelivered_msgs=1, ack_pending_msgs=1, **floor)
    assert "NT-C05" not in life.open


def test_errors_of_the_api_stay_named_while_polls_are_far_apart() -> None:
    life, shown = Life(), []
    for poll in range(8):
        # A busy machine polls every second at first, and every 25 s then.
        second = poll if poll < 5 else 25 * (poll - 3)
        life.add(snapshot(START_S + second, account=account(api_errors_count=20 * second)))
        shown.append("NT-A25" in life.open)
    assert changes_of(shown) == 1


def test_errors_of_our_own_requests_are_no_errors_of_clients() -> None:
    # Two consumers of a server that is down are asked for with every poll.
    own = replace(COST, errors_count=2)
    for clients_per_s, is_named in ((0, False), (3, True)):
        life = Life()
        for second in range(20):
            used = account(api_errors_count=(2 + clients_per_s) * second)
            life.add(replace(snapshot(START_S + second, account=used), cost=own))
        assert ("NT-A25" in life.open) is is_named
    assert life.open["NT-A25"].text == "3.0 errors a second"


def test_a_client_that_floods_the_api_is_named_and_our_own_requests_are_none() -> None:
    for per_s, words in ((400, {"many API requests"}), (COST.requests_count, set[str]())):
        life = Life()
        for second in range(15):
            used = account(api_requests_count=per_s * second)
            life.add(snapshot(START_S + second, account=used))
        assert life.words == words


def test_two_clients_without_a_queue_group_process_each_message_twice() -> None:
    config = {"pull": False, "deliver_subject": "deliver.s", "durable": True}
    life = Life(config)
    life.polls(3, push_bound=True)
    life.add(ClientsRead(at_us(3), 2, (), (), (), None, {"deliver.s": {"": 2}}))
    life.polls(2)
    assert life.words == {"each message processed twice"}
    assert "2 clients subscribe to deliver.s" in life.open["NT-C49"].text
    life.add(ClientsRead(at_us(6), 1, (), (), ()))
    life.polls(3)
    assert life.open == {}
    life = Life(config | {"deliver_group": "g"})
    life.add(ClientsRead(at_us(3), 2, (), (), (), None, {"deliver.s": {"": 2}}))
    life.polls(3, push_bound=True)
    assert life.open == {}


@pytest.mark.parametrize(
    ("groups", "code", "text"),
    [
        (None, "NT-C08", "5 pending, no client subscribes to deliver.s in queue group g"),
        ({}, "NT-C08", "5 pending, no client subscribes to deliver.s in queue group g"),
        (
            {"h": 2}, "NT-C16",
            "5 pending; subscribed to deliver.s in queue group h: 2 clients; the deliver group "
            "is g",
        ),
        (
            {"": 1}, "NT-C17",
            "5 pending; subscribed to deliver.s without a queue group: 1 client; the deliver "
            "group is g",
        ),
        ({"h": 1, "": 1}, "NT-C16", "in queue group h: 1 client"),
        # Connections are read now and then: the right client has just gone.
        ({"g": 1, "h": 1}, "NT-C08", "no client subscribes"),
    ],
)  # fmt: skip
def test_a_client_in_the_wrong_queue_group_is_another_cause_than_no_client(
    groups: dict[str, int] | None, code: str, text: str
) -> None:
    life = Life({"pull": False, "deliver_subject": "deliver.s", "deliver_group": "g"})
    life.poll()
    counts = None if groups is None else {"deliver.s": groups}
    life.add(ClientsRead(at_us(1), 2, (), (), (), None, counts))
    life.polls(8, pending_msgs=5)
    assert life.open.keys() == {code} and text in life.open[code].text
    life.polls(2, push_bound=True, pending_msgs=0)
    assert life.open == {}


def test_consumers_that_pile_up_are_one_finding_of_their_stream() -> None:
    life = Life()
    every = [
        life.consumer | {"name": f"pod-{number}", "created_at_us": at_us(-150), "pending_msgs": 9}
        for number in range(40)
    ]
    life.stream["consumers_count"] = 40
    life.add(*[configured_of(one["name"]) for one in every])
    for second in range(1, 40):
        life.add(snapshot(START_S + second, [life.stream], every))
    assert [one.kind.word for one in life.state.findings.list_open_findings()] == [
        "consumers piling up"
    ]


def test_what_needs_to_be_watched_says_for_how_long() -> None:
    for code, least_s in (("NT-C23", 10), ("NT-S34", 90), ("NT-C37", 60), ("NT-C07", 10)):
        assert KINDS[code].needs_s >= least_s
    assert KINDS["NT-M31"].word == "alert not delivered"


def test_the_durable_that_keeps_everything_in_an_interest_stream_says_how_much() -> None:
    life = Life({}, {"retention": "interest"})
    life.stream |= {"stored_msgs": 90, "consumers_count": 2}
    life.add(configured_of("D"))
    busy = life.consumer | {"name": "D", "pending_msgs": 20, "waiting_pulls_count": 1}
    idle = life.consumer | {"pending_msgs": 90, "delivered_at_us": at_us(-60)}
    for second in range(30):
        busy |= {"delivered_at_us": at_us(second), "delivered_consumer_seq": 100 + second}
        life.add(snapshot(START_S + second, [life.stream], [idle, busy]))
    (finding,) = (
        one for one in life.state.findings.list_open_findings() if one.entity.consumer == "C"
    )
    assert finding.kind.word == "no open pulls"
    assert finding.text.endswith("; only this consumer keeps 70 of 90 messages")
    assert finding.numbers["kept_alone_msgs"] == 70


def test_a_consumer_that_the_server_made_for_sourcing_says_whom_it_feeds() -> None:
    metadata = {"_nats.src.stream": "ALL", "_nats.src.acc": "APP"}
    config = {"pull": False, "deliver_subject": "$JS.S.x",
              "settings": {"sourcing": True, "metadata": metadata}}  # fmt: skip
    life = Life(config)
    life.polls(3, pending_msgs=5)
    verdict = consumer_verdict(life.state, 0)
    assert (verdict.word, verdict.evidence) == ("sourcing", "feeds ALL, 5 pending")
    assert consumer_statuses(life.state) == [SOURCING]


def test_an_interest_stream_without_a_consumer_is_named_when_something_is_published() -> None:
    life = Life({}, INTEREST)
    life.polls(3, stream={"last_seq": 120, "stored_msgs": 0})
    # All was consumed, its consumer is deleted, and nothing comes: nothing is lost.
    life.is_there = False
    life.polls(20, stream={"consumers_count": 0})
    assert "NT-S22" not in life.open
    life.poll(stream={"last_seq": 123})
    finding = life.open["NT-S22"]
    assert finding.kind.word == "no consumer for subject"
    assert finding.text == "no consumer: 3 messages published and not kept"
    assert finding.numbers["published_alone_msgs"] == 3
    # It lasts while there is no consumer, however rarely something is published.
    life.polls(40)
    assert life.open["NT-S22"].since_us == finding.since_us
    life.is_there = True
    life.polls(2, stream={"consumers_count": 1})
    assert "NT-S22" not in life.open


def test_an_interest_stream_that_is_idle_or_new_or_was_changed_drops_nothing() -> None:
    for config in (INTEREST, INTEREST | {"mirror": "O"}, INTEREST | {"sealed": True}):
        life = Life({}, config)
        life.is_there = False
        life.polls(30, stream={"consumers_count": 0, "stored_msgs": 100})
        assert "NT-S22" not in life.open
