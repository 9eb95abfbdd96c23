"""Replies of the JetStream API that are not as documented become one sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from natstui.errors import OutcomeUnknown, RequestFailed
from natstui.jetstream.connection.replies import check_reply
from natstui.jetstream.connection.shapes import check_shape

STATE = {
    "messages": 1,
    "bytes": 9,
    "first_seq": 1,
    "last_seq": 2**64 - 1,
    "first_ts": "2026-01-01T00:00:00.123456789Z",
    "last_ts": "0001-01-01T00:00:00Z",
    "consumer_count": 0,
}
STREAM: dict[str, Any] = {
    "config": {
        "name": "S",
        "subjects": None,
        "max_age": 0,
        "mirror": {"name": "M", "external": {"api": "$JS.x.API"}},
        "placement": {"cluster": "c", "tags": None},
        "metadata": {"_nats.ver": "2.14.0"},
        "of_a_newer_server": [{"x": 1.5}],
    },
    "created": "2026-01-01T00:00:00+02:00",
    "state": STATE,
    "cluster": {"leader": "n1", "replicas": [{"name": "n2", "current": True, "lag": 3}]},
}
PLACE = {"consumer_seq": 1, "stream_seq": 1}
CONSUMER: dict[str, Any] = {
    "config": {"durable_name": "C", "backoff": [1, 2], "opt_start_seq": 2**64 - 1},
    "name": "C",
    "stream_name": "S",
    "created": "2026-01-01T00:00:00Z",
    "delivered": PLACE,
    "ack_floor": {**PLACE, "last_active": "2026-01-01T00:00:00Z"},
    "num_pending": 2**64 - 1,
    "num_ack_pending": 0,
    "num_redelivered": 0,
    "num_waiting": 0,
}
MESSAGE = {"message": {"subject": "s", "seq": 1, "time": "2026-01-01T00:00:00Z", "hdrs": "eA=="}}


def check(verb: str, reply: Any) -> None:
    check_shape(verb, reply if isinstance(reply, bytes) else json.dumps(reply).encode())


@pytest.mark.parametrize(
    ("verb", "reply"),
    [
        ("STREAM.INFO.S", STREAM),
        ("STREAM.LIST", {"streams": [STREAM], "total": 1}),
        ("STREAM.LIST", {"streams": None, "missing": ["S"], "offline": {"T": "too new"}}),
        ("STREAM.INFO.S", {**STREAM, "total": 3, "offset": 0, "limit": 100_000}),
        ("CONSUMER.INFO.S.C", CONSUMER),
        ("CONSUMER.LIST.S", {"consumers": [CONSUMER, CONSUMER]}),
        ("CONSUMER.CREATE.S.C.s.a", CONSUMER),
        ("STREAM.NAMES", {"streams": ["S"]}),
        ("STREAM.MSG.GET.S", MESSAGE),
        ("STREAM.PURGE.S", {"success": True, "purged": 7}),
        ("META.LEADER.STEPDOWN", {"success": True}),
    ],
)
def test_what_servers_reply_passes(verb: str, reply: Any) -> None:
    check(verb, reply)


@pytest.mark.parametrize(
    ("verb", "reply"),
    [
        ("STREAM.INFO.S", {**STREAM, "total": "3"}),
        ("STREAM.LIST", {"streams": None, "missing": [{"name": "S"}]}),
        ("CONSUMER.LIST.S", {"consumers": None, "missing": "C"}),
        ("STREAM.LIST", {"streams": None, "offline": ["S"]}),
        ("STREAM.INFO.S", b"{"),
        ("STREAM.INFO.S", b"\xff"),
        ("STREAM.INFO.S", b"[" * 100_000),
        ("STREAM.INFO.S", []),
        ("STREAM.INFO.S", {}),
        ("STREAM.INFO.S", STREAM | {"config": None}),
        ("STREAM.INFO.S", STREAM | {"config": {"name": 7}}),
        ("STREAM.INFO.S", STREAM | {"config": {"name": "S", "subjects": "s.>"}}),
        ("STREAM.INFO.S", STREAM | {"config": {"name": "S", "placement": {"tags": [1]}}}),
        ("STREAM.INFO.S", STREAM | {"config": {"name": "S", "max_age": 2**80}}),
        ("STREAM.INFO.S", STREAM | {"created": "yesterday"}),
        ("STREAM.INFO.S", STREAM | {"state": STATE | {"messages": -1}}),
        ("STREAM.INFO.S", STREAM | {"state": STATE | {"messages": 1.5}}),
        ("STREAM.INFO.S", STREAM | {"state": STATE | {"subjects": {"s": "1"}}}),
        ("STREAM.INFO.S", STREAM | {"cluster": {"replicas": [{"current": True}]}}),
        ("STREAM.INFO.S", STREAM | {"config": {"name": "S", "mirror": {}}}),
        ("STREAM.INFO.S", STREAM | {"mirror": {"name": "M", "lag": "3"}}),
        ("STREAM.LIST", {"streams": [STREAM, 7]}),
        ("CONSUMER.INFO.S.C", CONSUMER | {"ack_floor": None}),
        ("CONSUMER.INFO.S.C", CONSUMER | {"num_pending": "7"}),
        ("CONSUMER.INFO.S.C", CONSUMER | {"paused": "no"}),
        ("CONSUMER.INFO.S.C", CONSUMER | {"config": {"filter_subject": ["s"]}}),
        ("CONSUMER.NAMES.S", {"consumers": [{"name": "C"}]}),
        ("STREAM.MSG.GET.S", {"message": None}),
        ("STREAM.MSG.GET.S", {"message": MESSAGE["message"] | {"data": "no base64!"}}),
        ("META.LEADER.STEPDOWN", 7),
        ("META.LEADER.STEPDOWN", b'{"x":' + b"[" * 100_000),
    ],
)
def test_what_no_server_replies_is_refused_by_a_sentence(verb: str, reply: Any) -> None:
    with pytest.raises(RequestFailed, match="the server's reply cannot be read"):
        check(verb, reply)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"seq": 1}, ""),
        ({"seq": 2}, "replied with message 1, not with 2"),
        ({"seq": 1, "next_by_subj": ">"}, ""),
        ({"seq": 2, "next_by_subj": ">"}, "replied with message 1, not with 2"),
        ({"seq": 1, "next_by_subj": "t"}, "replied with a message of another subject"),
        ({"last_by_subj": "*"}, ""),
        ({"last_by_subj": "s.>"}, "replied with a message of another subject"),
    ],
)
def test_another_message_than_the_one_that_was_requested_is_refused(
    asked: dict[str, Any], said: str
) -> None:
    reply = json.dumps(MESSAGE).encode()
    if not said:
        check_shape("STREAM.MSG.GET.S", reply, asked)
        return
    with pytest.raises(RequestFailed, match=said):
        check_shape("STREAM.MSG.GET.S", reply, asked)


@pytest.mark.parametrize(
    ("verb", "reply", "name"),
    [
        ("STREAM.INFO.T", STREAM, "S"),
        ("CONSUMER.INFO.T.C", CONSUMER, "S.C"),
        ("CONSUMER.INFO.S.D", CONSUMER, "S.C"),
    ],
)
def test_what_is_read_of_another_is_refused(verb: str, reply: dict[str, Any], name: str) -> None:
    with pytest.raises(RequestFailed, match=f"{verb}: the server's reply is about '{name}'"):
        check(verb, reply)


@pytest.mark.parametrize(
    "verb",
    [
        "STREAM.DELETE.S", "STREAM.PURGE.S", "STREAM.MSG.DELETE.S", "STREAM.LEADER.STEPDOWN.S",
        "STREAM.PEER.REMOVE.S", "CONSUMER.DELETE.S.C", "CONSUMER.LEADER.STEPDOWN.S.C",
        "META.LEADER.STEPDOWN", "SERVER.REMOVE",
    ],
)  # fmt: skip
def test_a_reply_without_success_is_a_failure(verb: str) -> None:
    check_shape(verb, b'{"success": true, "purged": 0}')
    with pytest.raises(RequestFailed, match="the server did not do it"):
        check_shape(verb, b'{"success": false}')
    with pytest.raises(
        OutcomeUnknown, match="the server's reply does not say whether it was done"
    ):
        check_shape(verb, b"{}")


def test_a_purge_that_does_not_say_what_it_removed_may_have_been_done() -> None:
    with pytest.raises(OutcomeUnknown, match="does not say whether it was done"):
        check_shape("STREAM.PURGE.S", b'{"success": true}')


@pytest.mark.parametrize(
    ("verb", "reply", "name"),
    [
        *(("STREAM.INFO.S", STREAM, name) for name in ("config", "created", "state")),
        *(("STREAM.INFO.S", STREAM, f"state.{name}") for name in STATE if name[-3:] != "_ts"),
        *(("CONSUMER.INFO.S.C", CONSUMER, name) for name in CONSUMER),
    ],
)
def test_a_reply_without_what_every_server_sends_is_unreadable(
    verb: str, reply: dict[str, Any], name: str
) -> None:
    outer, _, inner = name.partition(".")
    without = {key: value for key, value in reply.items() if key != outer}
    if inner:
        parts = {key: value for key, value in reply[outer].items() if key != inner}
        without = {**without, outer: parts}
    with pytest.raises(RequestFailed, match="the server's reply cannot be read"):
        check(verb, without)


@pytest.mark.parametrize(
    ("verb", "asked", "reply"),
    [
        ("STREAM.CREATE.S", {"name": "S"}, STREAM),
        ("STREAM.UPDATE.S", {"name": "S"}, STREAM),
        ("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"name": "C"}}, CONSUMER),
        ("CONSUMER.CREATE.S", {"stream_name": "S", "config": {}}, CONSUMER),
        (
            "CONSUMER.DURABLE.CREATE.S.C",
            {"stream_name": "S", "config": {"durable_name": "C"}},
            CONSUMER,
        ),
    ],
)
def test_a_reply_about_another_asset_does_not_say_that_this_one_was_created(
    verb: str, asked: dict[str, Any], reply: dict[str, Any]
) -> None:
    check_shape(verb, json.dumps(reply).encode(), asked)
    others = [{"config": {"name": "zz"}}] if verb[0] == "S" else [{"stream_name": "zz"}]
    if verb[0] == "C" and asked["config"]:
        others.append({"name": "zz"})
    for other in others:
        with pytest.raises(OutcomeUnknown, match="reply is about 'zz', not about"):
            check_shape(verb, json.dumps(reply | other).encode(), asked)


@pytest.mark.parametrize("number", [10002, 10028, 10047])
def test_a_lack_of_storage_is_said_with_what_counts_as_used(number: int) -> None:
    error = {"code": 500, "err_code": number, "description": "insufficient storage"}
    body: dict[str, object] = {"type": "x", "error": error}
    reply = json.dumps(body).encode()
    expected = (
        rf"STREAM.CREATE.S: insufficient storage \(error {number}\): max bytes counts as used"
    )
    with pytest.raises(RequestFailed, match=f"{expected} .* has less left: lower max bytes"):
        check_reply("STREAM.CREATE.S", reply)
