"""Every rule about streams, settings, the account and monitoring itself."""

from __future__ import annotations

from typing import Any

import pytest

from natstui.model.findings.verdict import consumer_findings, stream_findings
from natstui.model.live.snapshot import Account, DesiredPlacement, Peer, StoredReplica, Upstream
from natstui.model.records.record import Advisory, Configured, Restored, Unavailable
from natstui.model.records.recording import ClockStepped
from natstui.values import replace
from tests.model.builders import snapshot
from tests.model.findings.life import START_S, Life, at_us
from tests.session.scenario import consumer

NEW = {"discard": "new", "max_msgs": 100}


@pytest.mark.parametrize(
    ("stream", "config", "word"),
    [
        ({"leader": None}, {}, "no leader"),
        ({"lost_msgs": 3}, {}, "messages lost from the store"),
        ({"stored_msgs": 100}, NEW, "stream full"),
        ({"stored_msgs": 85}, NEW, "stream nearly full"),
        ({"consumers_count": 9}, {"max_consumers_count": 10}, "stream nearly full"),
        ({"stored_msgs": 5, "consumers_count": 0}, {"retention": "workqueue"},
         "orphaned messages"),
        ({"subjects_count": 1_000_001}, {}, "many subjects"),
        ({"deleted_msgs": 900_000, "last_seq": 1_000_000}, {}, "many holes"),
        ({"upstreams": (Upstream("O", 0, 16 * 10**9, None, True),)}, {}, "mirror not active"),
        ({"upstreams": (Upstream("O", 0, 10**9, "denied", True),)}, {}, "source error"),
        ({"upstreams": (Upstream("O", 5000, 10**9, None, True),)}, {}, "mirror lagging"),
        ({"peers": (Peer("n2", True, False, 10**8, 5000), Peer("n3", True, False, 10**8, 0))},
         {"replicas_count": 3}, "replica lagging"),
        ({"peers": (Peer("n2", True, False, 6 * 10**9, 0), Peer("n3", True, False, 10**8, 0))},
         {"replicas_count": 3}, "replica offline"),
        ({"peers": (Peer("n2", False, False, 0, 0), Peer("n3", True, False, 6 * 10**9, 0))},
         {"replicas_count": 3}, "no quorum"),
    ],
)  # fmt: skip
def test_what_a_stream_shows(stream: dict[str, Any], config: dict[str, Any], word: str) -> None:
    life = Life({}, config)
    well = {key: life.stream.get(key, ()) for key in stream}
    well |= {key: 0 for key in ("lost_msgs", "subjects_count", "deleted_msgs") if key in stream}
    if word in ("stream full", "stream nearly full", "orphaned messages"):
        well |= {"stored_msgs": 0, "consumers_count": 1}
    if "consumers_count" in stream:
        life.is_there = False
    life.polls(4, stream=stream)
    found = {one.kind.word for one in life.state.findings.list_open_findings()}
    assert found == {word}
    life.is_there = True
    life.polls(4, stream=well)
    assert life.open == {}


_PEERS = (Peer("n2", True, False, 10**8, 0), Peer("n3", True, False, 10**8, 0))


def _stored(last: int, n3: tuple[int, int, int]) -> dict[str, Any]:
    """Return a stream whose replica n2 has what the leader has, and n3 something else."""
    replicas = (StoredReplica("n2", 1, last, last), StoredReplica("n3", *n3))
    return {"last_seq": last, "stored_msgs": last, "peers": _PEERS, "replicas": replicas,
            "last_at_us": at_us(0)}  # fmt: skip


@pytest.mark.parametrize(
    ("per_s", "n3", "config", "differs"),
    [
        # It stands still: whatever differs in three polls is not repaired.
        (0, (1, 100, 60), {}, True),
        (0, (1, 90, 90), {}, True),
        (0, (1, 100, 60), {"max_age_ns": 10**9}, True),
        (0, (1, 100, 60), {"retention": "workqueue"}, True),
        (0, (1, 100, 100), {}, False),
        # It goes on: only a replica with the same last message can be compared,
        (5, (1, 0, -40), {}, True),
        (5, (1, -3, -3), {}, False),
        # and only where both remove the same messages at once.
        (5, (1, 0, -40), {"max_age_ns": 10**9}, False),
        (5, (1, 0, -40), {"retention": "workqueue"}, False),
        (5, (1, 0, -40), {"settings": {"allow_msg_ttl": True}}, False),
        (5, (1, 0, -40), {"settings": {"allow_msg_ttl": False}}, True),
    ],
)
def test_replicas_that_differ_though_no_lag_shows_it_are_named(
    per_s: int, n3: tuple[int, int, int], config: dict[str, Any], differs: bool
) -> None:
    life = Life({}, config | {"replicas_count": 3})
    for second in range(10):
        last = 100 + per_s * second
        own = (n3[0], last + n3[1], last + n3[2]) if per_s else n3
        # Lists, which come as well, do not have it.
        more = {"replicas": ()} if second == 4 else {}
        life.poll(stream=_stored(last, own) | more, waiting_pulls_count=1, pending_msgs=0)
        assert ("NT-S14" in life.open) is (differs and second > 2), second
    if differs:
        text = f"n3 has {own[2]} messages from {own[0]} to {own[1]}; the leader n1 {last}"
        assert life.open["NT-S14"].text == f"{text} from 1 to {last}"
    last = 100 + per_s * 10
    life.polls(3, stream=_stored(last, (1, last, last)))
    assert "NT-S14" not in life.open


def test_a_replica_that_catches_up_is_compared_with_nothing() -> None:
    life = Life({}, {"replicas_count": 3})
    behind = (_PEERS[0], Peer("n3", False, False, 10**8, 400))
    life.polls(6, stream=_stored(500, (1, 100, 100)) | {"peers": behind})
    assert "NT-S14" not in life.open
    # Its leader calls it current, and it is on its way.
    for last in range(100, 500, 100):
        life.poll(stream=_stored(500, (1, last, last)))
        assert "NT-S14" not in life.open


@pytest.mark.parametrize(("status", "hangs"), [("quorum", True), ("", True), ("catchup", False)])
def test_a_move_that_waits_for_a_server_hangs_and_one_that_copies_does_not(
    status: Any, hangs: bool
) -> None:
    life = Life()
    life.poll()
    desired = DesiredPlacement(at_us(1), ("n3",), status, "waiting for quorum to add peer")
    life.polls(28, stream={"desired": desired}, waiting_pulls_count=1)
    assert life.open == {}
    life.polls(6)
    assert life.words == ({"move or scale hangs"} if hangs else set())
    if hangs:
        text = "to n3 since 34s: waiting for quorum to add peer"
        assert life.open["NT-S41"].text == text and life.open["NT-S41"].since_us == at_us(1)
    life.polls(2, stream={"desired": None})
    assert life.open == {}


def test_a_mirror_whose_origin_is_gone_is_told_since_it_was_heard_of_last() -> None:
    life = Life()
    for active_s in range(13, 19):
        life.poll(stream={"upstreams": (Upstream("O", 0, active_s * 10**9, None, True),)})
    finding = life.open["NT-S06"]
    assert abs(finding.since_us - at_us(-12)) <= 1_000_000 and "its lag says 0" in finding.text


@pytest.mark.parametrize(
    ("source", "last_seq", "origin_msgs", "words"),
    [
        ({"filter_subject": "o.nwe"}, 0, 500, {"filter of source matches nothing"}),
        (
            {"subject_transforms": [{"src": "o.nwe", "dest": "o.new"}]}, 0, 500,
            {"filter of source matches nothing"},
        ),
        # Something came, there is nothing to match, nothing is left out.
        ({"filter_subject": "o.nwe"}, 3, 500, set()),
        ({"filter_subject": "o.nwe"}, 0, 0, set()),
        ({}, 0, 500, set()),
    ],
)  # fmt: skip
def test_the_filter_of_a_source_that_matches_nothing_is_named(
    source: dict[str, Any], last_seq: int, origin_msgs: int, words: set[str]
) -> None:
    life = Life({}, {"settings": {"sources": [{"name": "O", **source}]}})
    origin = {"name": "O", "created_at_us": at_us(-900), "leader": "n1", "first_seq": 1,
              "last_seq": origin_msgs, "stored_msgs": origin_msgs}  # fmt: skip
    copy = life.stream | {"first_seq": min(1, last_seq), "last_seq": last_seq,
                          "stored_msgs": last_seq, "consumers_count": 0,
                          "upstreams": (Upstream("O", 0, 10**8, None, False),)}  # fmt: skip
    for second in range(5):
        life.add(snapshot(START_S + second, [copy, origin], []))
    assert life.words == words


def test_abandoned_batches_are_told_with_their_reason_for_five_minutes() -> None:
    life = Life()
    life.polls(2)
    for _ in range(2):
        life.add(Advisory(at_us(2.5), "stream_batch_abandoned", "S", None, "",
                          '{"reason": "timeout"}'))  # fmt: skip
    life.poll()
    assert life.words == {"atomic batch abandoned"}
    assert life.open["NT-S39"].text == "2 of its batches abandoned: timeout"
    life.poll(step_s=290)
    assert life.words == {"atomic batch abandoned"}
    life.polls(3, step_s=10)
    assert life.open == {}


def test_a_store_that_was_rolled_back_is_told() -> None:
    life = Life()
    life.polls(2)
    text = "stream S went back from sequence 100 to 60"
    life.add(Advisory(at_us(2.5), "stream_rolled_back", "S", None, text, "{}"))
    life.polls(2, stream={"last_seq": 60, "stored_msgs": 60})
    assert (life.words, life.open["NT-S30"].text) == ({"store rolled back"}, text)


def test_a_sealed_stream_is_the_reason_why_its_publisher_stores_nothing() -> None:
    life = Life()
    for second in range(70):
        last = 100 + 10 * second
        life.poll(stream={"last_seq": last, "stored_msgs": last, "last_at_us": at_us(second)},
                  waiting_pulls_count=1)  # fmt: skip
    life.configure({}, {"sealed": True})
    life.polls(60)
    assert life.words == {"stream sealed"}


def test_subjects_of_a_work_queue_that_no_consumer_takes_are_named() -> None:
    life = Life(
        {"filter_subjects": ("q.a",)}, {"retention": "workqueue", "subjects": ("q.a", "q.b")}
    )
    life.polls(3)
    text = "100 messages that no consumer filter matches; no consumer filter matches q.b"
    assert life.open["NT-S21"].text == text
    assert life.open["NT-S21"].numbers["orphaned_msgs"] == 100


def test_how_long_a_stream_that_refuses_will_last_is_told() -> None:
    life = Life({}, {"discard": "new", "max_msgs": 10_000})
    for second in range(22):
        life.poll(stream={"stored_msgs": 1000 + 100 * second, "last_seq": 1000 + 100 * second})
    assert life.open.keys() == {"NT-S42"}
    assert life.open["NT-S42"].text == "3100 of 10000 messages, full in 1m09s"
    for second in range(22, 74):
        life.poll(stream={"stored_msgs": 1000 + 100 * second, "last_seq": 1000 + 100 * second})
    assert life.open.keys() == {"NT-S26"}
    assert life.open["NT-S26"].text == "8300 of 10000 messages, full in 17s"


def test_two_polls_of_a_level_near_its_limit_do_not_say_when_it_is_reached() -> None:
    life = Life({}, {"discard": "new", "max_msgs": 10_000})
    for second in range(4):
        life.poll(stream={"stored_msgs": 8_000 + 400 * second, "last_seq": 8_000 + 400 * second})
    assert life.open["NT-S26"].text == "9200 of 10000 messages"


def test_what_is_risky_in_settings_is_found_when_asked_for() -> None:
    life = Life(
        {"max_ack_pending_msgs": 1, "inactive_threshold_ns": 5 * 10**9},
        {"max_age_ns": 10**9, "storage": "memory", "allow_direct": False},
    )
    life.poll()
    assert [one.kind.code for one in consumer_findings(life.state, 0)] == [
        "NT-K01", "NT-K02", "NT-K03", "NT-K05",
    ]  # fmt: skip
    assert [one.kind.code for one in stream_findings(life.state, 0)] == ["NT-K22", "NT-K25"]
    assert life.open == {}


def test_a_durable_with_fewer_replicas_than_its_stream_is_found_when_asked_for() -> None:
    for replicas_count, durable in ((1, True), (1, False), (3, True)):
        config = {"durable": durable, "replicas_count": replicas_count, "max_deliver_count": 5}
        life = Life(config, {"replicas_count": 3})
        life.poll()
        texts = [one.text for one in consumer_findings(life.state, 0)]
        is_named = durable and replicas_count == 1
        assert texts == ["1 of the stream's 3 replicas"] * is_named


def test_a_subject_for_each_message_is_told_unless_it_is_a_bucket() -> None:
    many = {"stored_msgs": 200_000, "last_seq": 200_000, "subjects_count": 195_000}
    life = Life()
    life.polls(4, stream=many)
    assert life.open["NT-S33"].text == "195,000 subjects for 200,000 messages"
    life.polls(8, stream=many | {"subjects_count": 1_000})
    assert life.open == {}
    life = Life({}, {"max_msgs_per_subject": 5})
    life.polls(4, stream=many)
    assert life.open == {}


def test_a_short_duplicate_window_and_leaders_together_are_found_on_request() -> None:
    life = Life({}, {"duplicate_window_ns": 2 * 10**9})
    life.poll()
    assert "NT-K27" in {one.kind.code for one in stream_findings(life.state, 0)}
    rows = [
        {"stream": "S", "name": f"c{n}", "created_at_us": at_us(-n * 80.0), "leader": "n1"}
        for n in range(1, 45)
    ]
    consumers = {"consumers_count": len(rows), "peers": (Peer("n2", True, False, 0, 1),)}
    life.add(snapshot(START_S + 5, [life.stream | consumers], rows))
    found = {one.kind.code: one.text for one in stream_findings(life.state, 0)}
    assert found["NT-K28"] == "n1 leads 44 of 44 consumers"


def test_consumers_that_are_created_and_never_used_are_one_finding_of_their_stream() -> None:
    life = Life()
    for second in range(60):
        rows = [
            {"stream": "S", "name": f"c{n}", "created_at_us": at_us(n), "leader": "n1",
             "pending_msgs": 100}
            for n in range(second + 1)
        ]  # fmt: skip
        life.add(snapshot(START_S + second, [life.stream | {"consumers_count": len(rows)}], rows))
    (finding,) = (
        one for one in life.state.findings.list_open_findings() if one.kind.severity != "info"
    )
    assert finding.kind.word == "consumers piling up" and finding.entity.text == "S"
    assert finding.numbers["unused_new_consumers_count"] >= 30


@pytest.mark.parametrize(
    ("count", "created_s", "columns"),
    [
        (29, -60.0, {}),
        # They are no news,
        (40, -400.0, {}),
        # or clients use them.
        (40, -60.0, {"waiting_pulls_count": 1}),
    ],
)
def test_few_old_or_used_consumers_do_not_pile_up(
    count: int, created_s: float, columns: dict[str, Any]
) -> None:
    life = Life()
    rows = [
        {"stream": "S", "name": f"c{n}", "created_at_us": at_us(created_s), "leader": "n1"}
        | columns
        for n in range(count)
    ]
    for second in range(20):
        life.add(snapshot(START_S + second, [life.stream | {"consumers_count": count}], rows))
        assert "NT-S36" not in life.open


def test_many_ephemerals_that_clients_left_are_one_info_of_their_stream() -> None:
    life = Life()
    config = replace(consumer("S", "C", at_us(-600)), durable=False, inactive_threshold_ns=10**12)
    names = [f"pod-{number}" for number in range(12)]
    life.add(Configured(at_us(0), (), tuple(replace(config, name=name) for name in names)))
    rows = [
        {"stream": "S", "name": name, "created_at_us": at_us(-600), "leader": "n1",
         "pending_msgs": 100}
        for name in names
    ]  # fmt: skip
    for second in range(60):
        life.add(snapshot(START_S + second, [life.stream | {"consumers_count": 12}], rows))
    (finding,) = life.state.findings.list_open_findings()
    assert (finding.kind.severity, finding.kind.word) == ("info", "consumers left behind")
    assert finding.text == "no client uses 12 of 12 consumers"


def account(**changes: Any) -> Account:
    values: dict[str, Any] = {
        "memory_bytes": 0, "storage_bytes": 100, "streams_count": 1, "consumers_count": 1,
        "max_memory_bytes": 100, "max_storage_bytes": 1000, "max_streams_count": 10,
        "max_consumers_count": None, "api_requests_count": 0, "api_errors_count": 0,
        "api_inflight_count": 0, "api_level": 5, "domain": None,
    }  # fmt: skip
    return Account(**values | changes)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"storage_bytes": 950}, "storage full"),
        ({"storage_bytes": 800}, "storage near limit"),
        ({"memory_bytes": 95}, "memory full"),
        ({"memory_bytes": 80}, "memory near limit"),
        ({"streams_count": 9}, "streams near limit"),
        ({"max_consumers_count": 10, "consumers_count": 9}, "consumers near limit"),
        ({"api_inflight_count": 2000}, "API backlog"),
        ({"max_memory_bytes": None, "max_storage_bytes": None}, "account unlimited"),
    ],
)
def test_what_the_account_shows(changes: dict[str, Any], word: str) -> None:
    life = Life()
    life.add(snapshot(START_S, account=account(**changes)))
    assert life.words == {word}
    for second in range(1, 5):
        life.add(snapshot(START_S + second, account=account()))
    assert life.open == {}


def test_errors_of_the_api_are_a_rate_with_when_it_began() -> None:
    life = Life()
    for second in range(40):
        errors_count = 7 + 50 * max(0, second - 30)
        life.add(snapshot(START_S + second, account=account(api_errors_count=errors_count)))
    assert life.words == {"API errors"}
    assert abs(life.open["NT-A25"].since_us - at_us(31)) <= 1_000_000
    assert "errors a second" in life.open["NT-A25"].text


def test_what_cannot_be_read_and_a_lost_connection_are_findings_too() -> None:
    life = Life()
    life.poll()
    life.add(Unavailable(at_us(2), "STREAM.LIST", "denied", "$JS.API.STREAM.LIST"))
    life.link("reconnecting", "server gone")
    assert life.words == {"not permitted", "not connected"}
    life.link("connected")
    life.add(Restored(at_us(5), "STREAM.LIST"))
    assert life.words == set()
    life.add(ClockStepped(at_us(6), 5_000_000))
    life.poll()
    assert life.words == {"clock set"}


def test_rows_that_cannot_be_refreshed_are_told() -> None:
    life = Life()
    life.poll()
    life.add(snapshot(START_S + 40))
    assert life.words == {"stale"}
    life.poll(step_s=41)
    assert life.words == set()
