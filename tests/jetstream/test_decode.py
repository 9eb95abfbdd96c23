"""The server's JSON → model, by values."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from natstui.errors import RequestFailed
from natstui.jetstream.connection.decode.account import read_account, read_asset_counts
from natstui.jetstream.connection.decode.consumers import (
    consumer_columns,
    consumer_configuration,
    read_consumer,
    read_consumers,
)
from natstui.jetstream.connection.decode.streams import (
    read_state,
    read_stream,
    read_streams,
    state_fields,
    stream_columns,
    stream_configuration,
)
from natstui.jetstream.connection.times import time_or_never_us, time_us
from natstui.jetstream.connection.writer import describe_use_by_others
from natstui.jetstream.events.advisories import read_ack_sample, read_advisory
from natstui.jetstream.polling.lag import first_or_last_stored_us
from natstui.jetstream.polling.snapshot import PolledConsumers, PolledStreams, make_snapshot
from natstui.lines import complete_snapshot
from natstui.model.live.snapshot import DesiredPlacement, Peer, PollCost, UnlistedConsumers
from natstui.values import replace

HUGE = 2**64 - 1
CREATED = "2026-11-20T20:56:56.25480919Z"
RECENT = (datetime.now(UTC) - timedelta(minutes=1)).isoformat().replace("+00:00", "Z")


@pytest.mark.parametrize(
    ("text", "expected_us"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-11-20T12:00:00.123456789Z", 1795176000123456),
        ("2026-11-20T12:00:00.5-05:00", 1795194000500000),
        ("2026-11-20T12:00:00+14:00", 1795125600000000),
        ("1969-12-31T23:59:59.999999999Z", -1),
        ("2026-11-20 12:00:00Z", 1795176000000000),
        ("2026-11-20T07:00:00-0500", 1795176000000000),
    ],
)
def test_times_of_any_offset_and_precision_become_microseconds(
    text: str, expected_us: int
) -> None:
    assert time_us(text) == expected_us


def test_a_time_that_is_none_is_refused_and_a_zero_time_is_never() -> None:
    with pytest.raises(ValueError, match="is not a time"):
        time_us("yesterday")
    assert time_or_never_us("0001-01-01T00:00:00Z") is None


def _stream(name: str, **words: Any) -> dict[str, Any]:
    config = {"name": name, "retention": "limits", "storage": "file", "max_age": 5_000_000_001}
    state = {"messages": 1, "bytes": 2, "first_seq": 1, "last_seq": HUGE, "consumer_count": 0}
    return {"config": config | words.pop("config", {}), "created": CREATED, "state": state} | words


def _streams(*rows: dict[str, Any], **words: Any) -> bytes:
    return json.dumps({"total": len(rows), "limit": 256, "streams": rows} | words).encode()


def test_sequences_of_64_bits_and_nanoseconds_survive() -> None:
    (row,) = read_streams(_streams(_stream("S")), 7).rows
    columns = stream_columns([row], "n1")
    assert columns.last_seq == (HUGE,) and columns.sampled_mono_us == (7,)
    assert columns.leader == ("n1",)
    assert stream_configuration(row).max_age_ns == 5_000_000_001


def test_unlimited_is_none_and_kinds_are_known_by_name() -> None:
    rows = [_stream("KV_a", config={"max_msgs": -1, "max_bytes": 0}), _stream("OBJ_b")]
    configurations = [stream_configuration(row) for row in read_streams(_streams(*rows), 0).rows]
    assert [c.kind for c in configurations] == ["kv", "object"]
    assert configurations[0].max_msgs is None and configurations[0].max_bytes is None


def test_the_configuration_is_kept_as_the_server_wrote_it() -> None:
    text = '{"name":"S",  "unknown":[1, 2.50]}'
    body = b'{"total":1,"streams":[{"config":%s,"created":"%s","state":{}}]}'
    (row,) = read_streams(body % (text.encode(), CREATED.encode()), 0).rows
    assert stream_configuration(row).config_json == text


def test_rows_of_unreachable_streams_are_separate() -> None:
    page = read_streams(_streams(_stream("A"), _stream("B"), missing=["B"]), 0)
    assert [row.name for row in page.rows] == ["A"] and page.missing == ("B",)
    assert [row.name for row in page.all_rows] == ["A", "B"]
    assert page.unreachable_rows[0].read_config()["retention"] == "limits"
    page = read_streams(_streams(_stream("A"), offline={"C": "unsupported"}), 0)
    assert page.missing == ("C",) and page.offline == {"C": "unsupported"}


def test_replicas_upstreams_and_losses_are_read() -> None:
    replicas = [
        {"name": "n2", "current": True, "active": 5},
        {"name": "n3", "current": False, "active": 0, "lag": 9, "offline": True},
    ]
    row = _stream(
        "S",
        cluster={"name": "LAB", "replicas": replicas},
        mirror={"name": "M", "lag": 3, "active": -1, "error": {"description": "no"}},
        sources=[{"name": "X", "lag": 0, "active": 8}],
    )
    row["state"]["lost"] = {"msgs": [1, 2], "bytes": 9}
    columns = stream_columns(read_streams(_streams(row), 0).rows, "n1")
    assert columns.leader == (None,) and columns.lost_msgs == (2,)
    assert columns.peers[0] == (
        Peer("n2", True, False, 5, 0),
        Peer("n3", False, True, None, 9),
    )
    mirror, source = columns.upstreams[0]
    assert (mirror.active_ns, mirror.error, mirror.mirror) == (None, "no", True)
    assert (source.active_ns, source.error, source.mirror) == (8, None, False)


def test_a_move_that_is_going_on_is_read_and_its_new_replica_is_none_yet() -> None:
    cluster = {
        "name": "LAB", "leader": "n1",
        "replicas": [{"name": "n3", "current": False, "active": 0, "pending": True}],
        "desired": {
            "created": CREATED, "name": "LAB", "replicas": [{"name": "n3", "peer": "BXScrY9i"}],
            "origin": {"replicas": 1}, "status": {
                "description": "waiting for quorum to add peer", "type": "quorum"},
        },
    }  # fmt: skip
    rows = read_streams(_streams(_stream("S", cluster=cluster), _stream("T")), 0).rows
    columns = stream_columns(rows, "n1")
    assert columns.peers == ((), ())
    why = "waiting for quorum to add peer"
    at_us = columns.created_at_us[0]
    assert columns.desired == (DesiredPlacement(at_us, ("n3",), "quorum", why), None)
    cluster["desired"]["status"] = {"type": "new in 2.16", "err": "no"}  # type: ignore[index]
    columns = stream_columns(read_streams(_streams(_stream("S", cluster=cluster)), 0).rows, "n1")
    assert columns.desired == (DesiredPlacement(at_us, ("n3",), "", "no"),)


def _consumer(name: str, **words: Any) -> dict[str, Any]:
    config = {"durable_name": name, "ack_policy": "explicit", "num_replicas": 0}
    place = {"consumer_seq": 1, "stream_seq": HUGE, "last_active": CREATED}
    return {
        "stream_name": "S",
        "name": name,
        "created": CREATED,
        "config": config | words.pop("config", {}),
        "delivered": place,
        "ack_floor": {"consumer_seq": 0, "stream_seq": 0},
    } | words


def _consumers(*rows: dict[str, Any], **words: Any) -> bytes:
    return json.dumps({"total": len(rows), "limit": 256, "consumers": rows} | words).encode()


@pytest.mark.parametrize("name_field", ["name", "durable_name"])
def test_placeholders_of_unreachable_consumers_are_separate(name_field: str) -> None:
    nameless = _consumer("") | {"stream_name": "", "config": {name_field: "B", "max_deliver": 7}}
    page = read_consumers(_consumers(_consumer("A"), nameless, missing=["B"]), 0)
    assert [row.name for row in page.rows] == ["A"] and page.missing == ("B",)
    (placeholder,) = page.unreachable_rows
    assert placeholder.name == "B" and placeholder.read_config()["max_deliver"] == 7


def test_a_consumer_is_pull_durable_and_pinned_as_configured() -> None:
    pinned = [{"group": "A"}, {"group": "B", "pinned_client_id": "x"}]
    rows = [
        _consumer("A", priority_groups=pinned),
        _consumer("B", config={"durable_name": "", "deliver_subject": "d", "filter_subject": "f"}),
    ]
    page = read_consumers(_consumers(*rows), 0)
    columns = consumer_columns(page.rows, "n1")
    assert columns.pinned_client == ("x", None)
    assert columns.delivered_stream_seq == (HUGE, HUGE)
    assert columns.delivered_at_us == (time_us(CREATED),) * 2 and columns.acked_at_us[0] is None
    pull, push = (consumer_configuration(row, 3) for row in page.rows)
    assert (pull.pull, pull.durable, pull.replicas_count, pull.filter_subjects) == (
        True,
        True,
        3,
        (),
    )
    assert (push.pull, push.durable, push.filter_subjects) == (False, False, ("f",))


def test_the_row_of_a_request_has_its_name_configuration_and_times() -> None:
    state = {"messages": 1, "first_ts": CREATED, "last_ts": "0001-01-01T00:00:00Z"}
    stream = read_stream(json.dumps(_stream("S", ts=RECENT) | {"state": state}).encode())
    assert (stream.name, stream.created_at_us) == ("S", time_us(CREATED))
    assert stream.read_config()["max_age"] == 5_000_000_001
    assert (stream.state.first_at_us, stream.state.last_at_us) == (time_us(CREATED), None)
    consumer = read_consumer(json.dumps(_consumer("C", ts=RECENT)).encode())
    assert consumer.read_config()["durable_name"] == "C"
    assert stream.server_at_us == consumer.server_at_us == time_us(RECENT)


def test_what_is_not_a_reply_is_refused_with_the_verb() -> None:
    for data in (b"", b"[]", b'{"streams":[{"config":{}}]}', b'{"total":"x"}'):
        with pytest.raises(RequestFailed, match=r"STREAM\.LIST"):
            read_streams(data, 0)


def _account(**words: Any) -> bytes:
    limits = {"max_memory": -1, "max_storage": 10, "max_streams": -1, "max_consumers": 5}
    told = {"memory": 1, "storage": 2, "streams": 3, "consumers": 4, "limits": limits}
    return json.dumps(told | {"api": {"level": 5, "total": 9, "errors": 1}} | words).encode()


def test_account_limits_may_be_unlimited_and_may_come_in_tiers() -> None:
    plain = read_account(_account())
    assert (plain.max_memory_bytes, plain.max_storage_bytes) == (None, 10)
    assert (plain.api_level, plain.api_inflight_count) == (5, 0)
    tier = {"limits": {"max_memory": 0, "max_storage": 7, "max_streams": 1, "max_consumers": -1}}
    tiered = read_account(_account(tiers={"R1": tier, "R3": tier}))
    assert (tiered.max_storage_bytes, tiered.max_streams_count) == (14, 2)
    assert tiered.max_consumers_count is None
    old = read_account(_account(api={"total": 1, "errors": 0}))
    assert (old.api_level, old.api_inflight_count) == (0, None)


def _event(kind: str, **words: Any) -> bytes:
    head = {"type": f"io.nats.jetstream.advisory.v1.{kind}", "timestamp": RECENT, "stream": "S"}
    return json.dumps(head | words).encode()


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (_event("stream_action", action="delete"), "stream S was deleted"),
        (
            _event("max_deliver", consumer="C", stream_seq=7, deliveries=3),
            "message 7 of consumer C on S was dropped after 3 deliveries",
        ),
        (
            _event("terminated", consumer="C", stream_seq=7, deliveries=1, reason="bad"),
            "message 7 of consumer C on S was terminated at delivery 1 (bad)",
        ),
        (_event("stream_leader_elected", leader="n2"), "stream S is now led by n2"),
        (
            _event("consumer_leader_elected", consumer="C", leader="n2"),
            "consumer C on S is now led by n2",
        ),
        (
            _event("stream_quorum_lost"),
            "stream S has lost its quorum: it stores no messages until its servers are back",
        ),
        (
            _event("consumer_quorum_lost", consumer="C"),
            "consumer C on S has lost its quorum: it delivers nothing",
        ),
        (_event("consumer_pause", consumer="C", paused=False), "consumer C on S is resumed"),
        (_event("something_new"), "something new S"),
    ],
    # The time of day in a body would give each worker another name of the test.
    ids=lambda value: value if isinstance(value, str) else "body",
)
def test_an_advisory_is_one_sentence(body: bytes, sentence: str) -> None:
    advisory = read_advisory(body)
    assert advisory.text == sentence and advisory.stream == "S"
    assert advisory.at_us == time_us(RECENT)


def test_an_ack_sample_keeps_its_nanoseconds() -> None:
    body = _event("consumer_ack", consumer="C", ack_time=200737051, stream_seq=2, deliveries=1)
    assert read_ack_sample(body).ack_ns == 200737051


@pytest.mark.parametrize("absurd", [10**30, 2**64, -1])
def test_a_row_with_an_absurd_number_or_time_is_left_out_of_a_poll_and_named(absurd: int) -> None:
    good, bad = _stream("GOOD"), _stream("BAD")
    bad["state"]["messages"] = absurd
    untimely = _stream("UNTIMELY") | {"created": "9999999-01-01"}
    streams = PolledStreams(list(read_streams(_streams(good, bad, untimely), 0).rows))
    few, many = _consumer("FEW"), _consumer("MANY", num_pending=absurd)
    rows = read_consumers(_consumers(few, many), 0).rows
    consumers = PolledConsumers(
        {(row.stream_name, row.name): row for row in rows}, unlisted={"GOOD": 2}
    )
    poll = make_snapshot(None, streams, consumers, PollCost(0, 0, 0, None, 0, None), "n1")
    assert poll.streams.name == ("GOOD",)
    assert poll.unreachable_streams == ("BAD", "UNTIMELY")
    assert poll.consumers.name == ("FEW",)
    assert [name for _, name in poll.unreachable_consumers] == ["MANY"]
    assert poll.unlisted == (UnlistedConsumers("GOOD", 2),)
    complete_snapshot(poll, "poll")


def test_absurd_numbers_of_a_replica_and_of_an_account_are_bounded() -> None:
    far = {"leader": "n1", "replicas": [{"name": "n2", "lag": 10**30, "active": -(10**30)}]}
    row = read_streams(_streams(_stream("S") | {"cluster": far}), 0).rows[0]
    (peer,) = stream_columns([row], "n1").peers[0]
    assert (peer.lag_msgs, peer.active_ns) == (2**63 - 1, None)
    with pytest.raises(RequestFailed, match="INFO cannot be read"):
        read_account(_account(storage=10**30))


def test_consumers_that_differ_by_name_only_are_read_as_if_each_was_the_only_one() -> None:
    others = (
        {"description": "A", "filter_subject": "B", "max_deliver": 3},
        {"description": "B", "filter_subject": "B", "max_deliver": 3},
        {"num_replicas": 3, "deliver_subject": "A"},
        {},
    )
    names = ("A", "B", 'say "A"', "ü", "A\\B")
    for words, name, durable in product(others, names, (True, False)):
        config = {"durable_name": name} if durable else {}
        config |= {"name": name, "deliver_policy": "all", **words}
        found = []
        # Only the first is written as servers do.
        for spaces in ((",", ":"), (", ", ": ")):
            body = {"stream_name": "S", "name": name, "created": "2026-11-20T12:00:00Z"}
            body |= {"config": config, "delivered": {}, "ack_floor": {}}
            text = json.dumps(body, separators=spaces, ensure_ascii=False).encode()
            found.append(consumer_configuration(read_consumer(text, 0), 1))
        quick, slow = found
        assert replace(quick, config_json="") == replace(slow, config_json="")
        assert (quick.name, quick.durable) == (name, durable)
        assert json.loads(quick.config_json) == config


def test_a_configuration_that_is_no_utf_8_is_refused_with_the_verb() -> None:
    text = _streams(_stream("S", config={"metadata": {"k": "v?"}})).replace(b"v?", b"v\xff")
    (stream,) = read_streams(text, 0).rows
    with pytest.raises(RequestFailed, match=r"STREAM\.LIST"):
        stream_configuration(stream)
    text = _consumers(_consumer("C", config={"metadata": {"k": "v?"}})).replace(b"v?", b"v\xff")
    (consumer,) = read_consumers(text, 0).rows
    with pytest.raises(RequestFailed, match=r"CONSUMER\.LIST"):
        consumer_configuration(consumer, 1)


@pytest.mark.parametrize(("field", "seq"), [("first_ts", 2), ("last_ts", 3)])
def test_an_unreadable_time_of_a_stream_is_no_lag_and_the_stream_is_named(
    field: str, seq: int
) -> None:
    listed = _stream("S")
    listed["state"] |= {"messages": 1, "first_seq": 3, "last_seq": 4, field: "soon"}
    (stream,) = read_streams(_streams(listed), 0).rows
    place = {"consumer_seq": 1, "stream_seq": seq}
    (row,) = read_consumers(_consumers(_consumer("C", delivered=place)), 0).rows
    assert first_or_last_stored_us(row, stream) is None
    poll = make_snapshot(
        None, PolledStreams([stream]), PolledConsumers(), PollCost(0, 0, 0, None, 0, None), "n1"
    )
    assert poll.unreachable_streams == ("S",)


def test_the_state_of_a_stream_is_printed_as_the_server_sends_it() -> None:
    state = {
        "messages": 3, "bytes": 9, "first_seq": 1, "first_ts": CREATED, "last_seq": 5,
        "last_ts": CREATED, "consumer_count": 0, "lost": {"msgs": [2], "bytes": 7},
    }  # fmt: skip
    assert state_fields(read_state(state)) == state
    assert state_fields(read_state(state | {"num_deleted": 1, "deleted": [4]})) == state | {
        "num_deleted": 1
    }


def test_the_numbers_of_streams_and_consumers_are_read_whatever_the_use_of_the_account_is() -> (
    None
):
    # The use of an account can fall below 0, which a server writes as an unsigned number.
    info = {"memory": HUGE, "storage": HUGE - 1, "streams": 2, "consumers": 3}
    assert read_asset_counts(json.dumps(info).encode()) == (2, 3)
    with pytest.raises(RequestFailed, match="INFO cannot be read"):
        read_asset_counts(b'{"streams": 2}')


def test_an_invalid_time_in_info_is_an_error_of_the_reply() -> None:
    row = read_stream(json.dumps(_stream("S") | {"created": "yesterday"}).encode())
    with pytest.raises(RequestFailed, match="is not a time"):
        _ = row.created_at_us


def test_what_a_new_stream_has_already_is_unknown_if_the_reply_cannot_be_read() -> None:
    new = _stream("S") | {"state": {"messages": 0}}
    assert describe_use_by_others("create_stream", new) is None
    text = describe_use_by_others("create_stream", _stream("S"))
    assert text is not None and text.startswith("it has 1 message already")
    text = describe_use_by_others("create_stream", new | {"ts": "now"})
    assert text is not None and "unknown" in text and "'now' is not a time" in text
