"""One situation, one cause: what was named wrong, not at all, or although nothing was wrong."""

from __future__ import annotations

from typing import Any

import pytest

from natstui.model.clients.watch import ClientsRead, ClosedClient
from natstui.model.findings.catalogue.every import KINDS
from natstui.model.findings.facts.consumer import ConsumerFacts
from natstui.model.findings.facts.fact import CONSUMER_FACTS, STREAM_FACTS, fact_values
from natstui.model.findings.facts.stream import StreamFacts
from natstui.model.findings.verdict import consumer_statuses, consumer_verdict
from natstui.model.live.snapshot import Peer, Upstream
from natstui.model.records.evidence import SubjectsCounted
from tests.model.builders import snapshot
from tests.model.findings.life import START_S, Life, at_us


def above_info(life: Life) -> set[str]:
    return {
        one.kind.word
        for one in life.state.findings.list_open_findings()
        if one.kind.severity != "info"
    }


def moving(second: int, per_s: int = 10) -> dict[str, Any]:
    """Return the columns of a consumer that receives and acks everything."""
    seq = 100 + per_s * second
    return {
        "delivered_consumer_seq": seq, "delivered_stream_seq": seq, "ack_floor_consumer_seq": seq,
        "ack_floor_stream_seq": seq, "delivered_at_us": at_us(second),
        "acked_at_us": at_us(second),
    }  # fmt: skip


def storing(second: int, per_s: int = 10) -> dict[str, Any]:
    last = 100 + per_s * second
    return {"last_seq": last, "stored_msgs": last, "last_at_us": at_us(second)}


def test_every_fact_has_a_value_or_is_unknown() -> None:
    life = Life()
    life.polls(3, pending_msgs=5)
    of_consumer = fact_values(ConsumerFacts(life.state, 0), tuple(CONSUMER_FACTS))
    of_stream = fact_values(StreamFacts(life.state, 0), tuple(STREAM_FACTS))
    assert of_consumer["pending_msgs"] == 5 and of_stream["stored_msgs"] == 100
    assert of_consumer.keys() <= CONSUMER_FACTS.keys() and "quiet_s" not in of_consumer
    assert all(fact.meaning for fact in (*CONSUMER_FACTS.values(), *STREAM_FACTS.values()))


def test_naks_of_one_message_in_five_once_are_no_poison() -> None:
    life = Life({"ack_wait_ns": 30 * 10**9})
    for second in range(60):
        life.advise("nak", 100 + 10 * second, 1, 2)
        columns = moving(second)
        columns["delivered_consumer_seq"] += 2 * second
        life.poll(stream=storing(second), redelivered_msgs=second % 2, ack_pending_msgs=1,
                  waiting_pulls_count=1, **columns)  # fmt: skip
        assert above_info(life) == set(), second
    assert life.words == {"redelivery by nak"}


def test_poison_is_one_message_in_every_poll() -> None:
    life = Life({"ack_wait_ns": 10**9})
    for second in range(12):
        seq = 100 + 10 * second
        life.poll(
            stream=storing(second), redelivered_msgs=1, ack_pending_msgs=1,
            delivered_consumer_seq=seq + second, delivered_stream_seq=seq,
            ack_floor_consumer_seq=50, ack_floor_stream_seq=50, waiting_pulls_count=1,
            delivered_at_us=at_us(second), acked_at_us=at_us(second),
        )  # fmt: skip
    assert life.words == {"poison message"}
    finding = life.open["NT-C05"]
    assert finding.sequences == (51,) and finding.numbers["one_message_repeats"] >= 5


def test_acks_after_ack_wait_are_named_without_samples() -> None:
    life = Life({"ack_wait_ns": 10**9})
    for second in range(15):
        columns = moving(second)
        columns["delivered_consumer_seq"] += 5 * second
        columns["ack_floor_consumer_seq"] += 5 * second
        life.poll(stream=storing(second), redelivered_msgs=4, ack_pending_msgs=4,
                  waiting_pulls_count=1, **columns)  # fmt: skip
    assert life.words == {"acked after ack wait"}
    assert life.open["NT-C29"].numbers["repeat_share"] == pytest.approx(1 / 3, abs=0.02)


def test_messages_that_are_never_acked_are_named_also_by_a_new_process() -> None:
    life = Life({"ack_wait_ns": 2 * 10**9})
    for second in range(3):
        life.poll(redelivered_msgs=8, ack_pending_msgs=8, delivered_consumer_seq=90 + 4 * second,
                  delivered_stream_seq=8, delivered_at_us=at_us(second), waiting_pulls_count=1,
                  acked_at_us=None)  # fmt: skip
    assert life.words == {"never acked"}


def test_one_message_that_blocks_the_ack_floor_is_named() -> None:
    life = Life({"ack_wait_ns": 3600 * 10**9})
    for second in range(35):
        columns = moving(second) | {"ack_floor_consumer_seq": 60, "ack_floor_stream_seq": 60}
        life.poll(stream=storing(second), ack_pending_msgs=1, waiting_pulls_count=1, **columns)
    finding = life.open["NT-C43"]
    assert finding.sequences == (61,) and life.words == {"ack floor blocked by one message"}
    assert finding.numbers["acked_behind_floor_msgs"] >= 300


def test_unacked_messages_of_a_dead_client_wait_for_a_pull() -> None:
    life = Life({"ack_wait_ns": 2 * 10**9})
    life.polls(5, ack_pending_msgs=5, delivered_consumer_seq=5, delivered_stream_seq=5,
               delivered_at_us=at_us(-8))  # fmt: skip
    assert life.words == {"unacked messages wait for a pull"}


HOUR = {"ack_wait_ns": 3600 * 10**9, "durable": True}


def ended(life: Life, active_s: float, stopped_s: float, started_s: float = -60.0) -> ClientsRead:
    """Return that the connection of a client ended."""
    closed = ClosedClient("billing-7", at_us(started_s), at_us(active_s), at_us(stopped_s))
    return ClientsRead(at_us(life.second), 3, (), (), (), ended=(closed,))


def received_five(life: Life) -> None:
    """Let a client work for half a minute, and receive five messages that it does not ack."""
    for second in range(30):
        life.poll(stream=storing(second), waiting_pulls_count=second % 2, **moving(second))
    delivered = moving(30) | {"ack_floor_stream_seq": 395, "ack_floor_consumer_seq": 395}
    life.poll(stream=storing(30), ack_pending_msgs=5, waiting_pulls_count=0, **delivered)


def test_messages_of_a_client_that_died_are_named_until_they_are_redelivered() -> None:
    life, shown = Life(HOUR), []
    received_five(life)
    life.polls(5)
    life.add(ended(life, 30, 33))
    for _ in range(60):
        life.poll()
        shown.append("NT-C50" in life.open)
    assert shown.index(True) <= 10 and False not in shown[10:]
    finding = life.open["NT-C50"]
    assert finding.sequences == (396,) and life.words == {"client closed with unacked messages"}
    assert finding.text.startswith("5 ack pending, unchanged for ")
    assert "connection of client billing-7 ended" in finding.text
    # Another client comes: the five are delivered again only after ack wait.
    life.add(ClientsRead(at_us(life.second), 3, (), (), ()))
    life.polls(5, waiting_pulls_count=1)
    assert life.words == {"client closed with unacked messages"}
    life.polls(3, waiting_pulls_count=1, redelivered_msgs=5, delivered_consumer_seq=405,
               delivered_at_us=at_us(life.second))  # fmt: skip
    assert "NT-C50" not in life.open


def test_a_subscriber_that_ended_with_unacked_messages_is_named() -> None:
    config = HOUR | {"pull": False, "deliver_subject": "deliver.s"}
    life = Life(config)
    for second in range(20):
        life.poll(stream=storing(second), push_bound=True, **moving(second))
    life.polls(4, push_bound=False, ack_pending_msgs=5)
    # It reconnects.
    life.polls(4, push_bound=True, ack_pending_msgs=5)
    assert life.open == {}
    life.polls(20, push_bound=False)
    assert life.words == {"client closed with unacked messages"}


def test_clients_that_work_on_what_they_received_did_not_die() -> None:
    # A batch of many minutes, while other clients come and go.
    life = Life(HOUR)
    received_five(life)
    life.add(ended(life, 10, 12))
    for _ in range(300):
        life.poll()
        assert life.open == {}
    # One that acks as it goes, and a connection that ended meanwhile.
    life = Life(HOUR)
    received_five(life)
    life.add(ended(life, 31, 32))
    for second in range(60):
        life.poll(acked_at_us=at_us(life.second))
        assert life.open == {}, second
    # Others that pull, while one of them is restarted.
    life = Life(HOUR)
    received_five(life)
    life.add(ended(life, 31, 32))
    for second in range(20):
        life.poll(waiting_pulls_count=2)
        assert life.open == {}, second
    # A connection that began after the delivery and ended, beside a client that is busy.
    life = Life(HOUR)
    received_five(life)
    life.polls(2)
    life.add(ended(life, 32, 33, started_s=31))
    for _ in range(60):
        life.poll()
        assert "NT-C50" not in life.open
    # One that nobody keeps: the server removes it.
    life = Life(HOUR | {"durable": False})
    received_five(life)
    life.add(ended(life, 31, 32))
    for _ in range(60):
        life.poll()
        assert "NT-C50" not in life.open


LIMITED = {"max_msgs": 100}


def test_lost_messages_are_added_up_and_held_with_the_total() -> None:
    life = Life({"deliver_policy": "new"}, LIMITED)
    changes, before = 0, False
    for second in range(60):
        # 50 come each second, 20 are received; the stream keeps 100.
        last, delivered = 1000 + 50 * second, 900 + 20 * second
        first = last - 99
        passed = max(delivered, first + 5 * (second % 3))
        life.poll(
            stream={"first_seq": first, "last_seq": last, "stored_msgs": 100,
                    "last_at_us": at_us(second), "first_at_us": at_us(second - 2)},
            pending_msgs=last - passed, waiting_pulls_count=1, delivered_at_us=at_us(second),
            acked_at_us=at_us(second), delivered_consumer_seq=delivered,
            delivered_stream_seq=passed, ack_floor_consumer_seq=delivered,
            ack_floor_stream_seq=passed,
        )  # fmt: skip
        now = "NT-C12" in life.open
        changes, before = changes + (now is not before), now
    finding = life.open["NT-C12"]
    assert changes == 1 and finding.numbers["lost_msgs"] > 500
    # 30 a second are not received.
    assert finding.numbers["lost_per_min"] == pytest.approx(1800, rel=0.2)
    assert "a minute; max messages is 100, it keeps the last 3s" in finding.text


def overflowing(retention: str, per_s: int, received_per_s: int) -> Life:
    """Return a stream that acks and a limit of 100 messages empty, for half a minute."""
    life = Life({}, {"retention": retention, "max_msgs": 100})
    for second in range(30):
        last, received = 1000 + per_s * second, 800 + received_per_s * second
        pending = min(100, 40 + max(0, per_s - received_per_s) * second)
        life.poll(
            stream={"first_seq": last - pending + 1, "last_seq": last, "stored_msgs": pending,
                    "last_at_us": at_us(second), "first_at_us": at_us(second - 2)},
            pending_msgs=pending, waiting_pulls_count=0, delivered_at_us=at_us(second),
            acked_at_us=at_us(second), delivered_consumer_seq=received,
            delivered_stream_seq=last - pending, ack_floor_consumer_seq=received,
            ack_floor_stream_seq=last - pending,
        )  # fmt: skip
    return life


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_a_limit_that_removes_pending_messages_of_a_queue_is_named(retention: str) -> None:
    finding = overflowing(retention, 50, 20).open["NT-C12"]
    assert finding.entity.consumer == "C"
    # 30 a second are removed unread; what may lie between two replies is taken off.
    assert finding.numbers["lost_per_min"] == pytest.approx(1680, rel=0.1)
    assert finding.text.startswith("at least ") and "max messages is 100" in finding.text


def test_queues_near_their_limit_that_are_worked_off_lose_nothing() -> None:
    for retention in ("workqueue", "interest"):
        for per_s in (0, 20, 5000):
            assert "NT-C12" not in overflowing(retention, per_s, per_s).open
    # Bursts that are worked off, with messages of former consumers missing in between.
    life = Life({}, {"retention": "workqueue", "max_msgs": 100})
    received = 0
    for second in range(60):
        pending = 95 - 19 * (second % 6)
        received += 95 if second % 6 == 0 else 19
        last = 1000 + 95 * (second // 6)
        life.poll(
            stream={"first_seq": last - 5 * pending, "last_seq": last, "stored_msgs": pending + 5},
            pending_msgs=pending, waiting_pulls_count=1, delivered_consumer_seq=received,
            delivered_stream_seq=last - 5 * pending - 1, delivered_at_us=at_us(second),
            acked_at_us=at_us(second),
        )  # fmt: skip
        assert "NT-C12" not in life.open, second


def test_last_values_mirrors_and_consumers_that_want_nothing_lose_nothing_by_limits() -> None:
    kinds: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
        ({}, {"max_msgs": 100, "max_msgs_per_subject": 1}),
        ({"filter_subjects": ("quiet.>",)}, {"max_msgs": 100, "mirror": "O"}),
        ({"deliver_policy": "new"}, {"max_age_ns": 10**9}),
    )
    for config, stream in kinds:
        life = Life(config, stream)
        for second in range(30):
            last = 1000 + 50 * second
            at_end = "filter_subjects" not in config and "max_msgs" not in stream
            life.poll(
                stream={"first_seq": last - 99, "last_seq": last, "stored_msgs": 100,
                        "last_at_us": at_us(second), "first_at_us": at_us(second - 2)},
                waiting_pulls_count=1, pending_msgs=100 if "filter_subjects" not in config and
                not at_end else 0, delivered_at_us=at_us(second),
                delivered_consumer_seq=10 + (50 * second if at_end else second),
                delivered_stream_seq=last if at_end else 500 + second,
            )  # fmt: skip
            assert "NT-C12" not in life.open, (config, second)


def test_a_purge_is_named_and_is_no_loss() -> None:
    life = Life()
    delivered = moving(0) | {"delivered_stream_seq": 40, "delivered_consumer_seq": 40,
                             "ack_floor_consumer_seq": 40, "ack_floor_stream_seq": 40}  # fmt: skip
    life.polls(3, pending_msgs=60, waiting_pulls_count=1, **delivered)
    life.polls(3, stream={"first_seq": 101, "last_seq": 100, "stored_msgs": 0}, pending_msgs=0,
               **delivered)  # fmt: skip
    assert "messages lost before delivery" not in life.words and "purged" in life.words
    assert life.open["NT-S51"].numbers["purged_msgs"] == 100


@pytest.mark.parametrize(
    "settings", [{}, {"max_msgs_per_subject": 5}], ids=["none", "per subject"]
)
def test_a_purge_of_some_subjects_is_named_and_is_no_loss(settings: dict[str, int]) -> None:
    life = Life({}, settings)
    delivered = moving(0) | {"delivered_stream_seq": 40, "delivered_consumer_seq": 40,
                             "ack_floor_consumer_seq": 40, "ack_floor_stream_seq": 40}  # fmt: skip
    life.polls(3, pending_msgs=60, waiting_pulls_count=1, **delivered)
    # What a new message pushes out of its subject is one, and the stream has no fewer then.
    life.polls(3, stream={"first_seq": 61, "last_seq": 102, "stored_msgs": 30}, pending_msgs=30,
               waiting_pulls_count=1, **delivered)  # fmt: skip
    assert "messages lost before delivery" not in life.words and "purged" in life.words
    assert life.open["NT-S51"].numbers["purged_msgs"] == 72


@pytest.mark.parametrize(
    ("settings", "is_purge"), [({"max_bytes": 1000}, False), ({"max_bytes": 10**6}, True)]
)
def test_what_a_full_stream_pushes_out_is_no_purge(
    settings: dict[str, int], is_purge: bool
) -> None:
    life = Life({}, settings)
    delivered = moving(0) | {"delivered_stream_seq": 40, "delivered_consumer_seq": 40,
                             "ack_floor_consumer_seq": 40, "ack_floor_stream_seq": 40}  # fmt: skip
    life.polls(3, pending_msgs=60, waiting_pulls_count=1, **delivered)
    # A few large messages take the place of many small ones.
    life.polls(3, stream={"first_seq": 61, "last_seq": 102, "stored_msgs": 30}, pending_msgs=30,
               waiting_pulls_count=1, **delivered)  # fmt: skip
    assert ("purged" in life.words) is is_purge
    assert ("messages lost before delivery" in life.words) is not is_purge


QUEUE = {"retention": "workqueue", "subjects": ("wq.>",)}


def test_orphaned_messages_of_a_work_queue_are_counted() -> None:
    life = Life({"filter_subjects": ("wq.a",)}, QUEUE)
    for second in range(5):
        life.poll(stream={"stored_msgs": 12 + second, "last_seq": 112 + second}, pending_msgs=1,
                  waiting_pulls_count=1, delivered_at_us=at_us(second))  # fmt: skip
        assert ("NT-S21" in life.open) is (second >= 2), "three polls"
    finding = life.open["NT-S21"]
    assert finding.kind.word == "orphaned messages" and finding.numbers["orphaned_msgs"] >= 9
    assert "wq.a" in finding.text


def test_a_busy_work_queue_has_no_orphans_though_replies_are_not_of_one_moment() -> None:
    life = Life({"filter_subjects": ("wq.a",)}, QUEUE)
    for second in range(40):
        # The consumer is read a tenth of a second later, and has acked 500 more meanwhile.
        life.poll(stream={"stored_msgs": 600, "last_seq": 5000 * second + 200},
                  sampled_mono_us=(START_S + second + 1) * 1_000_000 + 100_000,
                  pending_msgs=100, ack_pending_msgs=0, waiting_pulls_count=1,
                  **moving(second, 5000))  # fmt: skip
        assert "NT-S21" not in life.open, second


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_messages_that_were_dropped_after_max_deliver_are_no_orphans(retention: str) -> None:
    config = {"max_deliver_count": 3, "filter_subjects": ("wq.a",)}
    life = Life(config, QUEUE | {"retention": retention})
    life.polls(5, stream={"stored_msgs": 3, "last_seq": 3}, redelivered_msgs=3,
               delivered_consumer_seq=9, delivered_stream_seq=3, ack_floor_consumer_seq=0,
               ack_floor_stream_seq=0, delivered_at_us=at_us(-60))  # fmt: skip
    assert life.words == {"max deliver reached"}
    assert "stay in the stream" in life.open["NT-C21"].text


def test_a_filter_that_matches_nothing_that_was_stored_is_named() -> None:
    life = Life({"filter_subjects": ("orders.nwe",)}, {"subjects": ("orders.>",)})
    life.polls(3, stream={"last_at_us": at_us(0), "stored_msgs": 500}, waiting_pulls_count=1)
    assert life.words == {"filter matches nothing"}
    assert "none of 500 messages" in life.open["NT-C32"].text


@pytest.mark.parametrize(
    ("stream", "columns"),
    [
        # What a consumer of these wanted may have been acked and removed.
        ({"retention": "interest"}, {}),
        ({"retention": "workqueue"}, {}),
        ({}, {"delivered_consumer_seq": 1}),
        ({}, {"created_at_us": at_us(0.5)}),
    ],
)
def test_a_filter_that_may_have_matched_something_is_not_called_wrong(
    stream: dict[str, Any], columns: dict[str, Any]
) -> None:
    life = Life({"filter_subjects": ("orders.nwe",)}, {"subjects": ("orders.>",)} | stream)
    life.polls(3, stream={"last_at_us": at_us(1), "stored_msgs": 500}, waiting_pulls_count=1,
               **columns)  # fmt: skip
    assert "NT-C32" not in life.open


def test_a_new_filter_is_compared_only_with_messages_stored_since_its_creation() -> None:
    stream_config = {"subjects": ("s.>",)}
    life = Life({}, stream_config)
    life.is_there = False
    for second in range(1, 226):
        if second == 201:
            life.is_there = True
            life.configure({"filter_subjects": ("s.a",), "deliver_policy": "new"}, stream_config)
        life.poll(stream={"last_seq": 100 + second, "stored_msgs": 100 + second,
                          "last_at_us": at_us(second), "consumers_count": int(life.is_there)},
                  created_at_us=at_us(200), waiting_pulls_count=1)  # fmt: skip
        assert ("NT-C32" in life.open) == (second >= 221), second
    text = "s.a matches none of 24 messages stored since it was created"
    assert life.open["NT-C32"].text == text


def test_what_an_interest_stream_drops_at_once_is_named() -> None:
    life = Life({"filter_subjects": ("i.a",)}, {"retention": "interest", "subjects": ("i.>",)})
    for second in range(8):
        life.poll(stream={"last_seq": 100 + 10 * second, "stored_msgs": 0},
                  waiting_pulls_count=1)  # fmt: skip
    assert "no consumer for subject" in life.words


def test_a_mirror_that_is_ahead_of_its_recreated_origin_is_named() -> None:
    life = Life({}, {"mirror": "O"})
    origin = {"name": "O", "created_at_us": at_us(-5), "leader": "n1", "last_seq": 3,
              "stored_msgs": 3}  # fmt: skip
    mirror = life.stream | {"upstreams": (Upstream("O", 0, 10**8, None, True),)}
    for second in range(6):
        life.add(snapshot(START_S + second, [mirror, origin], []))
    assert "mirror ahead of its origin" in life.words


@pytest.mark.parametrize("origin_created_s", [-700, -5])
@pytest.mark.parametrize("later_s", [0.06, 0.9])
def test_a_mirror_that_is_read_later_than_its_busy_origin_is_not_ahead_of_it(
    origin_created_s: int, later_s: float
) -> None:
    life = Life({}, {"mirror": "O"})
    for second in range(20):
        # It stores 500 messages a second, and the mirror has each 4 ms later.
        origin = {"name": "O", "created_at_us": at_us(origin_created_s), "leader": "n1",
                  "last_seq": 10_000 + 500 * second,
                  "sampled_mono_us": round((START_S + second) * 1e6)}  # fmt: skip
        mirror = life.stream | {
            "last_seq": 10_000 + round(500 * (second + later_s)) - 2,
            "sampled_mono_us": round((START_S + second + later_s) * 1e6),
            "upstreams": (Upstream("O", 0, 10**8, None, True),),
        }
        life.add(snapshot(START_S + second + later_s, [mirror, origin], []))
        assert life.open == {}, (second, life.open)


def test_a_mirror_is_ahead_of_a_recreated_origin_that_is_busy_and_read_earlier() -> None:
    life = Life({}, {"mirror": "O"})
    for second in range(8):
        origin = {"name": "O", "created_at_us": at_us(-5), "leader": "n1",
                  "last_seq": 50 * second,
                  "sampled_mono_us": round((START_S + second) * 1e6)}  # fmt: skip
        mirror = life.stream | {
            "last_seq": 10_000, "sampled_mono_us": round((START_S + second + 0.2) * 1e6),
            "upstreams": (Upstream("O", 0, 10**8, None, True),),
        }  # fmt: skip
        life.add(snapshot(START_S + second + 0.2, [mirror, origin], []))
    assert life.words == {"mirror ahead of its origin"}
    assert "is 10000, in O only 350" in life.open["NT-S12"].text


@pytest.mark.parametrize(("leader", "peers"), [("n1", ("n2", "n3")), (None, ("n1", "n2", "n3"))])
def test_without_a_leader_the_peers_are_all_replicas(
    leader: str | None, peers: tuple[str, ...]
) -> None:
    rows = tuple(
        Peer(name, current=name == "n1", offline=name != "n1", lag_msgs=0, active_ns=10**8)
        for name in peers
    )
    life = Life()
    life.polls(4, stream={"leader": leader, "peers": rows}, leader=leader, peers=rows)
    for code in ("NT-C03", "NT-S03"):
        assert life.open[code].text == "2 of 3 replicas away: n2, n3"


PINNED = {"priority_policy": "pinned_client", "settings": {"priority_groups": ["g"]}}
OVERFLOW = {"priority_policy": "overflow", "settings": {"priority_groups": ["g"]}}


@pytest.mark.parametrize(
    ("config", "pulls", "word"),
    [
        (PINNED, 1, "pinned client idle"),
        (OVERFLOW, 1, "no eligible pull"),
        (OVERFLOW, 0, "pulls refused"),
        ({"settings": {"max_batch": 100}}, 0, "pulls refused"),
        ({"settings": {"max_expires": 10**9}}, 0, "pulls refused"),
        ({}, 1, "pull max bytes too small"),
    ],
)
def test_four_reasons_why_an_open_pull_receives_nothing_have_four_words(
    config: dict[str, Any], pulls: int, word: str
) -> None:
    life = Life(config)
    words = set()
    for second in range(90):
        # A pull that is refused at once is open in some polls only.
        is_open = pulls and (config or second % 3)
        life.poll(pending_msgs=10, waiting_pulls_count=int(bool(is_open)))
        words |= life.words
    assert words == {word}


def test_each_reason_why_an_open_pull_receives_nothing_has_its_own_advice() -> None:
    kinds = [KINDS[code] for code in ("NT-C41", "NT-C40", "NT-C39", "NT-C11", "NT-C44")]
    assert len({kind.act for kind in kinds}) == len({kind.word for kind in kinds}) == len(kinds)


def test_a_new_consumer_gets_its_time() -> None:
    life = Life()
    life.consumer["created_at_us"] = at_us(-7)
    life.polls(8, pending_msgs=100)
    assert above_info(life) == set()
    life.polls(150)
    assert above_info(life) == {"no open pulls"}
    assert life.state.findings.list_open_findings()[0].kind.severity == "warning"


def test_a_consumer_that_nobody_ever_pulled_does_not_work() -> None:
    life = Life()
    life.consumer["created_at_us"] = at_us(-1)
    for pending in (100, 110, 40):
        life.poll(pending_msgs=pending, delivered_consumer_seq=0, delivered_stream_seq=0)
        verdict = consumer_verdict(life.state, 0)
        assert (verdict.word, verdict.level) == ("no delivery yet", "idle"), pending
        assert consumer_statuses(life.state)[0].word == verdict.word
        assert verdict.evidence == f"{pending} pending, none was delivered yet"
    life.poll(pending_msgs=39, ack_pending_msgs=1, delivered_consumer_seq=1, waiting_pulls_count=1)
    assert (
        consumer_verdict(life.state, 0).word
        == consumer_statuses(life.state)[0].word
        != verdict.word
    )


def test_a_consumer_whose_next_message_waits_for_its_time_is_not_idle() -> None:
    config = {"settings": {"replay_policy": "original"}}
    for changed, deleted, first_seq, word in (
        ({}, 0, 1, "replaying"),
        # What was deleted behind it, or has expired, is not delivered any more.
        ({}, 1, 1, "idle"),
        ({}, 0, 102, "idle"),
        ({"filter_subjects": ("s.>",)}, 0, 1, "idle"),
        ({"settings": {}}, 0, 1, "idle"),
    ):
        life = Life(config | changed, {"subjects": ("s.>",)})
        stream = {"last_seq": 101, "first_seq": first_seq, "deleted_msgs": deleted}
        life.polls(3, stream=stream, delivered_stream_seq=100, delivered_consumer_seq=100,
                   ack_floor_stream_seq=100, ack_floor_consumer_seq=100,
                   waiting_pulls_count=1)  # fmt: skip
        assert (
            consumer_verdict(life.state, 0).word == consumer_statuses(life.state)[0].word == word
        )


@pytest.mark.slow
@pytest.mark.parametrize("every_s", [12, pytest.param(60, marks=pytest.mark.long)])
def test_a_client_that_comes_at_its_own_pace_is_healthy(every_s: int) -> None:
    life, delivered, pending, delivered_s = Life(), 100, 0, -1
    life.stream |= {"last_seq": 10_000, "stored_msgs": 10_000}
    for second in range(600):
        pending += second % 5 == 0
        comes = second % every_s == 0
        if comes:
            delivered, pending, delivered_s = delivered + pending, 0, second
        life.poll(
            pending_msgs=pending, delivered_consumer_seq=delivered, waiting_pulls_count=int(comes),
            delivered_stream_seq=delivered, ack_floor_consumer_seq=delivered,
            ack_floor_stream_seq=delivered, delivered_at_us=at_us(delivered_s),
        )  # fmt: skip
        assert above_info(life) == set() or second < 3 * every_s, second


def test_a_client_that_stops_is_missed_after_three_of_its_pauses() -> None:
    life = Life()
    life.stream |= {"last_seq": 10_000, "stored_msgs": 10_000}
    for second in range(60):
        comes = second % 5 == 0
        life.poll(pending_msgs=0, waiting_pulls_count=int(comes), **moving(second // 5 * 5))
    life.polls(12, pending_msgs=7, waiting_pulls_count=0)
    assert life.open == {}
    life.polls(6)
    assert life.words == {"no open pulls"} and life.open["NT-C07"].kind.severity == "critical"
    assert life.open["NT-C07"].numbers["longest_pull_gap_s"] <= 5


def test_the_first_long_job_of_a_client_is_not_one_that_stopped() -> None:
    life = Life({"ack_wait_ns": 30 * 10**9})
    life.stream |= {"last_seq": 10_000, "stored_msgs": 10_000}
    for second in range(30):
        life.poll(pending_msgs=0, waiting_pulls_count=1, **moving(second))
    delivered = moving(29)
    for second in range(19):
        life.poll(
            pending_msgs=second, ack_pending_msgs=1, waiting_pulls_count=0,
            **delivered | {"ack_floor_consumer_seq": delivered["delivered_consumer_seq"] - 1,
                           "ack_floor_stream_seq": delivered["delivered_stream_seq"] - 1},
        )  # fmt: skip
        assert life.open == {}, second
    life.polls(6, pending_msgs=30)
    assert life.open.keys() == {"NT-C44"}
    assert "a client may still process 1 message" in life.open["NT-C44"].text
    # Ack wait is over: nobody processes it any more.
    life.polls(10, pending_msgs=40)
    assert life.words == {"no open pulls"} and "NT-C07" in life.open


def test_a_client_that_acks_a_large_batch_message_by_message_did_not_stop() -> None:
    life = Life({"ack_wait_ns": 30 * 10**9})
    life.stream |= {"last_seq": 10_000, "stored_msgs": 10_000}
    for second in range(30):
        life.poll(pending_msgs=0, waiting_pulls_count=1, **moving(second))
    seq = moving(29)["delivered_consumer_seq"]
    for second in range(40):
        life.poll(
            pending_msgs=500, ack_pending_msgs=50 - second, waiting_pulls_count=0,
            delivered_consumer_seq=seq + 50, delivered_stream_seq=seq + 50,
            delivered_at_us=at_us(30), ack_floor_consumer_seq=seq + second,
            ack_floor_stream_seq=seq + second, acked_at_us=at_us(30 + second),
        )  # fmt: skip
        assert life.open == {}, second


def test_a_publisher_that_stopped_is_named_and_a_batch_is_not() -> None:
    life = Life()
    for second in range(70):
        life.poll(stream=storing(second), waiting_pulls_count=1)
    life.polls(28)
    assert life.open == {}
    life.polls(8)
    assert life.words == {"publisher stopped"}
    life.polls(2, stream={"last_seq": 5000, "last_at_us": at_us(107)})
    assert life.open == {}
    life = Life()
    for second in range(200):
        batch = second // 60
        life.poll(stream={"last_seq": 100 + 200 * batch, "last_at_us": at_us(60.0 * batch)},
                  waiting_pulls_count=1)  # fmt: skip
        assert life.open == {}, second


@pytest.mark.parametrize("behind_s", [0, 35, 120])
def test_a_publisher_that_continues_did_not_stop_whatever_the_clocks_say(behind_s: int) -> None:
    life = Life()
    for second in range(130):
        life.poll(stream=storing(second) | {"last_at_us": at_us(second - behind_s)},
                  waiting_pulls_count=1)  # fmt: skip
        assert life.open == {}, second
    life.polls(28)
    assert life.open == {}
    life.polls(8)
    assert life.words == {"publisher stopped"}


def test_a_consumer_that_is_recreated_again_and_again_is_named() -> None:
    life = Life()
    for second in range(12):
        life.poll(created_at_us=at_us(second - 0.5))
    assert "consumer recreated again and again" in life.words


EPHEMERAL = {"durable": False, "inactive_threshold_ns": 300 * 10**9}


@pytest.mark.parametrize(
    ("config", "columns"),
    [
        ({"pull": False, "deliver_subject": "to.me"}, {"pending_msgs": 100}),
        ({}, {"pending_msgs": 100}),
        ({"ack_wait_ns": 5 * 10**9}, {"ack_pending_msgs": 5, "delivered_consumer_seq": 5}),
        (
            {"max_ack_pending_msgs": 5, "pull": False, "deliver_subject": "to.me"},
            {"ack_pending_msgs": 5, "pending_msgs": 9},
        ),
        ({"settings": {"max_batch": 9}}, {"pending_msgs": 9, "delivered_at_us": None}),
    ],
)
def test_what_clients_leave_behind_is_one_info_of_the_stream(
    config: dict[str, Any], columns: dict[str, Any]
) -> None:
    life = Life(EPHEMERAL | config, LIMITED)
    life.polls(3, waiting_pulls_count=1, push_bound=not config.get("pull", True))
    for second in range(60):
        # Its stream goes on, and removes what nobody receives any more.
        stream = storing(second, 50) | {"first_seq": 1 + 50 * second, "consumers_count": 1}
        left = {"waiting_pulls_count": 0, "push_bound": False, "delivered_at_us": at_us(2)}
        life.poll(stream=stream, **(left | columns))
        assert above_info(life) == set(), (second, life.words)
    assert life.words == {"consumers left behind"}
    assert life.open["NT-S53"].text == "no client uses 1 of 1 consumer"
    assert (
        consumer_verdict(life.state, 0).word == consumer_statuses(life.state)[0].word == "unused"
    )
    life.polls(3, waiting_pulls_count=1, push_bound=True, pending_msgs=0, ack_pending_msgs=0)
    assert "NT-S53" not in life.open


def test_a_consumer_that_nothing_was_delivered_of_does_not_work_before_a_cause_is_known() -> None:
    life = Life({"durable": True})
    life.poll(pending_msgs=7, delivered_consumer_seq=0, waiting_pulls_count=0)
    verdict = consumer_verdict(life.state, 0)
    assert (verdict.level, verdict.word) == ("idle", "no delivery yet")
    assert verdict.evidence == "7 pending, none was delivered yet"
    assert consumer_statuses(life.state)[0].word == verdict.word
    life.poll(pending_msgs=6, delivered_consumer_seq=1, ack_pending_msgs=0, waiting_pulls_count=1)
    assert consumer_verdict(life.state, 0).word == "catching up"


def test_a_consumer_whose_client_acks_nothing_does_not_work() -> None:
    """Its limits are not reached, and no message comes back for a day: nothing else tells it."""
    life = Life({"max_ack_pending_msgs": 256, "ack_wait_ns": 86_400 * 10**9})
    for second in range(40):
        life.poll(
            pending_msgs=0, delivered_consumer_seq=100 + second, ack_pending_msgs=60 + second,
            waiting_pulls_count=1, delivered_at_us=at_us(second), acked_at_us=at_us(0),
        )  # fmt: skip
        word = "working" if life.second <= 30 else "waiting for acks"
        assert (
            consumer_verdict(life.state, 0).word == consumer_statuses(life.state)[0].word == word
        ), second
    assert consumer_verdict(life.state, 0).evidence == "99 waiting for their ack, last ack 40s ago"
    life.poll(
        pending_msgs=0, delivered_consumer_seq=140, ack_pending_msgs=99, waiting_pulls_count=1,
        delivered_at_us=at_us(40), acked_at_us=at_us(40),
    )  # fmt: skip
    assert consumer_verdict(life.state, 0).word == "working"


def test_a_consumer_that_is_not_durable_and_in_use_is_judged_as_any_other() -> None:
    life = Life(EPHEMERAL | {"max_ack_pending_msgs": 10})
    life.polls(20, ack_pending_msgs=10, pending_msgs=5, waiting_pulls_count=1,
               delivered_at_us=at_us(-20), acked_at_us=at_us(-20))  # fmt: skip
    assert life.words == {"max ack pending reached"}


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        ({"max_msgs": 100}, {"messages lost before ack"}),
        ({"retention": "workqueue", "max_age_ns": 10**9}, {"messages lost before ack"}),
        # A newer value of a subject replaces the older one, whatever else limits the stream.
        ({"max_msgs_per_subject": 1}, set()),
        ({"max_msgs_per_subject": 1, "max_age_ns": 3600 * 10**9}, set()),
        # Nothing but a user removes messages here.
        ({}, set()),
    ],
)
def test_what_a_newer_value_replaces_is_not_lost(stream: dict[str, Any], words: set[str]) -> None:
    life = Life({}, stream)
    life.polls(2, stream={"first_seq": 6, "last_seq": 105}, waiting_pulls_count=1,
               pending_msgs=100, delivered_at_us=at_us(4))  # fmt: skip
    for seq in range(5):
        life.advise("terminated", seq, reason="Unacknowledged message was deleted")
    life.polls(2)
    assert above_info(life) == words


def test_a_condition_at_the_edge_does_not_blink() -> None:
    life = Life({"max_ack_pending_msgs": 10})
    opened, before = 0, False
    for second in range(120):
        life.poll(ack_pending_msgs=10 - second % 2, pending_msgs=5, waiting_pulls_count=1,
                  delivered_at_us=at_us(-20), acked_at_us=at_us(-20))  # fmt: skip
        now = "NT-C09" in life.open
        opened, before = opened + (now and not before), now
    assert opened <= 1


def test_consumers_that_the_server_makes_for_sourcing_have_no_finding() -> None:
    life = Life({"settings": {"sourcing": True}})
    life.polls(40, pending_msgs=100)
    assert life.open == {}


def by_subject(
    life: Life, scheduled: tuple[str, ...] = (), matching: str = ">", **msgs: int
) -> SubjectsCounted:
    names = {name.replace("_", "."): count for name, count in msgs.items()}
    return SubjectsCounted(
        at_us(life.second), "S", at_us(-600), matching, names, len(names), sum(msgs.values()),
        scheduled,
    )  # fmt: skip


def test_counted_subjects_name_orphans_and_leave_schedules_alone() -> None:
    config = QUEUE | {"settings": {"allow_msg_schedules": True}}
    for scheduled, words in ((("wq.b",), set()), ((), {"orphaned messages"})):
        life = Life({"filter_subjects": ("wq.a",)}, config)
        life.polls(4, stream={"stored_msgs": 9}, pending_msgs=1, waiting_pulls_count=1,
                   next_at_us=at_us(0))  # fmt: skip
        assert life.open == {}
        life.add(by_subject(life, scheduled, wq_a=1, wq_b=8))
        life.polls(3)
        assert life.words == words
    assert life.open["NT-S21"].text == "8 messages that no consumer filter matches, on wq.b"


def test_a_subject_that_is_full_is_named() -> None:
    config = {"discard": "new", "max_msgs_per_subject": 5,
              "settings": {"discard_new_per_subject": True}}  # fmt: skip
    life = Life({}, config)
    life.poll()
    life.add(by_subject(life, s_a=5, s_b=2))
    life.polls(2)
    assert life.words == {"full per subject"} and life.open["NT-S13"].text.startswith(
        "s.a: 5 of 5"
    )


def test_chunks_of_an_interrupted_upload_are_named() -> None:
    life = Life({}, {"kind": "object"})
    life.poll(stream={"last_at_us": at_us(0)})
    # As the poller counts it of an object store.
    life.add(by_subject(life, (), "$O.S.>", O_S_C_one=40, O_S_C_two=3, O_S_M_two=1))
    life.polls(20)
    assert life.open == {}
    life.polls(15)
    assert life.words == {"object chunks without meta entry"}
