"""What a message, an ack or an edit removes beside what it names is said before, and asked for."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from natstui.errors import ActionRefusal, NotFound
from natstui.jetstream.connection.storing import count_not_kept
from natstui.jetstream.messages.publish import publish
from natstui.jetstream.messages.pull import describe_receiving_loss, pull_identified, pull_next
from natstui.model.assets.limits_loss import rolled_up_filters, stored_filters
from natstui.model.records.managing import Action
from natstui.model.records.messages import PublishMessage, PullNext
from tests.accounts import Account
from tests.cli.test_manage import Shell
from tests.jetstream.admin_session import AdminSession, admin_session
from tests.jetstream.pending import until_pending

X = base64.b64encode(b"x").decode()
SCHEDULED = (("Nats-Schedule", "@at 2099-01-01T00:00:00Z"), ("Nats-Schedule-Target", "s.t"))


@pytest.mark.parametrize(
    ("headers", "filters"),
    [
        ((), []),
        ((("nats-rollup", "sub"),), ["s.a"]),
        ((("Nats-Rollup", "ALL"),), [">"]),
        (SCHEDULED, ["s.a"]),
        ((*SCHEDULED, ("Nats-Schedule-Rollup", "sub")), ["s.a", "s.t"]),
        ((("Nats-Schedule-Next", "purge"), ("Nats-Scheduler", "s.b")), ["s.b"]),
        ((("Nats-Schedule-Next", "purge"),), [">"]),
    ],
)
def test_the_messages_that_another_one_removes(
    headers: tuple[tuple[str, str], ...], filters: list[str]
) -> None:
    assert rolled_up_filters("s.a", headers) == filters


@pytest.mark.parametrize(
    ("source", "destination", "sent", "stored"),
    [
        ("", "", "s.a", "s.a"),
        ("s.*", "x.$1", "s.a", "x.a"),
        ("s.*", "x.{{wildcard(1)}}", "s.*", "x.*"),
        ("s.>", "x.>", "s.a.b", "x.a.b"),
        ("", "x.>", "s.a", "x.s.a"),
        ("s.*", "x.{{partition(3,1)}}.$1", "s.a", "x.*.*"),
        ("s.*", "x.{{split(1,-)}}", "s.a-b", "x.>"),
        ("s.*", "x.$1", "other.a", "other.a"),
        ("s.a.*", "x.$1", "s.*.b", ">"),
    ],
)
def test_what_a_stream_stores_a_subject_under(
    source: str, destination: str, sent: str, stored: str
) -> None:
    config = {"subject_transform": {"src": source, "dest": destination}}
    assert stored_filters(config, [sent]) == [stored]


def create(session: AdminSession, name: str, **config: Any) -> dict[str, Any]:
    config = {"name": name, "subjects": [f"{name.lower()}.>"]} | config
    session.request(f"STREAM.CREATE.{name}", config)
    return session.config(name)


def store(session: AdminSession, *subjects: str, headers: dict[str, str] | None = None) -> None:
    for subject in subjects:
        reply = session.run(session.writer.client.request_subject(subject, b"x", headers=headers))
        assert b"error" not in reply.data, reply.data


def held_msgs(session: AdminSession, stream: str) -> int:
    count: int = session.request(f"STREAM.INFO.{stream}")["state"]["messages"]
    return count


async def until_held(session: AdminSession, stream: str, count: int) -> None:
    async with asyncio.timeout(30):
        while True:
            info = json.loads(await session.writer.client.request(f"STREAM.INFO.{stream}"))
            if info["state"]["messages"] == count:
                return
            await asyncio.sleep(0.05)


async def until_bound(session: AdminSession, stream: str, consumer: str) -> None:
    """Wait until a stream copies by this consumer: the server begins after its reply."""
    async with asyncio.timeout(30):
        while True:
            reply = await session.writer.client.request(f"CONSUMER.INFO.{stream}.{consumer}")
            if json.loads(reply).get("push_bound"):
                return
            await asyncio.sleep(0.05)


def refused_text(session: AdminSession, headers: Sequence[tuple[str, str]], subject: str) -> str:
    command = PublishMessage(1, subject, X, tuple(headers))
    with pytest.raises(ActionRefusal) as refused:
        session.run(publish(session.writer, command))
    return str(refused.value)


@pytest.mark.server
def test_a_schedule_removes_what_its_subjects_have_and_says_so(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        create(session, "S", allow_msg_schedules=True)
        store(session, "s.a", "s.a", "s.t", "s.t", "s.t", "s.b")
        text = refused_text(session, SCHEDULED, "s.a")
        assert "the roll-up removes 2 of 6 messages of S for good" in text
        rolled = (*SCHEDULED, ("Nats-Schedule-Rollup", "sub"))
        assert "removes 5 of 6 messages" in refused_text(session, rolled, "s.a")
        ending = (("Nats-Schedule-Next", "purge"), ("Nats-Scheduler", "s.b"))
        assert "removes 1 of 6 messages" in refused_text(session, ending, "s.a")
        assert held_msgs(session, "S") == 6
        command = PublishMessage(1, "s.a", X, SCHEDULED, confirmed="s.a")
        session.run(publish(session.writer, command))
        assert held_msgs(session, "S") == 5


@pytest.mark.server
def test_a_roll_up_counts_what_a_transform_renamed(account: Account, tmp_path: Path) -> None:
    with admin_session(account.url, tmp_path) as session:
        transform = {"src": "s.*", "dest": "x.$1"}
        create(session, "S", allow_rollup_hdrs=True, subject_transform=transform)
        store(session, "s.a", "s.a", "s.b")
        text = refused_text(session, [("Nats-Rollup", "sub")], "s.a")
        assert "the roll-up removes 2 of 3 messages of S for good" in text


@pytest.mark.server
def test_what_a_stream_without_interest_does_not_keep_is_counted_beside_what_it_has(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        create(session, "S", retention="interest")
        session.request(
            "CONSUMER.CREATE.S.C",
            {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit",
                                            "filter_subject": "s.a"}},
        )  # fmt: skip
        store(session, "s.a", "s.a", "s.b")
        client = session.writer.client
        missing = session.run(
            count_not_kept(client, "S", [(1, 3)], sent_msgs={"s.a": 2, "s.b": 1})
        )
        assert missing == (1, "S: interest retention, and no consumer of s.b")
        assert session.run(count_not_kept(client, "S", [(1, 2)], sent_msgs={"s.a": 2})) is None


@pytest.mark.server
@pytest.mark.parametrize(("stored", "is_kept"), [("x.a", True), ("s.a", False)])
def test_what_a_transform_renames_is_kept_where_a_consumer_wants_its_new_subject(
    account: Account, tmp_path: Path, stored: str, is_kept: bool
) -> None:
    with admin_session(account.url, tmp_path) as session:
        transform = {"src": "s.>", "dest": "x.>"}
        create(session, "S", retention="interest", subject_transform=transform)
        consumer_info(session, filter_subject=stored)
        store(session, "s.a")
        missing = session.run(count_not_kept(session.writer.client, "S", [(1, 1)], "s.a"))
        assert (missing is None) is is_kept
        assert held_msgs(session, "S") == is_kept


@pytest.mark.server
@pytest.mark.parametrize("has_consumer", [True, False])
@pytest.mark.parametrize("limit", ["max_msgs", "max_msgs_per_subject"])
def test_what_a_limit_of_a_work_queue_removed_is_not_called_stored(
    account: Account, tmp_path: Path, limit: str, has_consumer: bool
) -> None:
    shell = Shell(account.url, tmp_path)
    with admin_session(account.url, tmp_path) as session:
        create(session, "S", retention="workqueue", **{limit: 5})
        if has_consumer:
            consumer_info(session)
        done = shell.run("pub", "-J", "s.a", "hello", "--count", "20")
        assert "15 messages acknowledged and not kept by S: max" in done.stdout, done
        assert held_msgs(session, "S") == 5


@pytest.mark.server
def test_a_message_is_not_stored_where_nobody_wants_it_though_others_are(
    account: Account, tmp_path: Path
) -> None:
    shell = Shell(account.url, tmp_path)
    with admin_session(account.url, tmp_path) as session:
        create(session, "S", retention="interest")
        consumer_info(session, filter_subject="s.a")
        store(session, "s.a", "s.a")
        done = shell.run("pub", "-J", "s.b", "hello")
        assert done.returncode == 4 and "no consumer of s.b" in done.stderr
        session.request("CONSUMER.DELETE.S.C")
        done = shell.run("pub", "-J", "s.a", "hello")
        assert done.returncode == 4 and "not kept" in done.stderr


@pytest.mark.server
def test_an_edit_says_which_messages_have_a_ttl_that_begins_to_count(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        create(session, "A", allow_msg_ttl=True)
        store(session, "a.x", "a.x", headers={"Nats-TTL": "1h"})
        store(session, "a.x", headers={"Nats-TTL": "never"})
        store(session, "a.x")
        create(session, "B", sources=[{"name": "A"}])
        settled(session, "B", 4)
        config = session.config("B")
        with pytest.raises(ActionRefusal) as refused:
            session.apply("edit_stream", "B", config | {"allow_msg_ttl": True})
        assert "2 messages with a TTL are removed for good when the TTL ends" in str(refused.value)
        create(session, "C")
        store(session, "c.x")
        session.apply("edit_stream", "C", session.config("C") | {"allow_msg_ttl": True})


def settled(session: AdminSession, stream: str, count: int) -> None:
    async def wait() -> None:
        async with asyncio.timeout(30):
            while True:
                reply = await session.writer.client.request(f"STREAM.INFO.{stream}")
                if json.loads(reply)["state"]["messages"] == count:
                    return
                await asyncio.sleep(0.05)

    session.run(wait())


@pytest.mark.server
def test_a_new_source_says_what_its_roll_ups_or_the_limits_remove(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        create(session, "A", allow_rollup_hdrs=True)
        store(session, "a.x", "a.x", "a.y")
        config = create(session, "B", allow_rollup_hdrs=True)
        store(session, "b.x", "b.y")
        with pytest.raises(ActionRefusal, match="roll-ups of A remove up to 2 messages of it"):
            session.apply("edit_stream", "B", config | {"sources": [{"name": "A"}]})
        config = create(session, "C", max_msgs=4)
        store(session, "c.x", "c.x")
        with pytest.raises(ActionRefusal, match="its limits remove up to 1 message of it"):
            session.apply("edit_stream", "C", config | {"sources": [{"name": "A"}]})
        narrow = {"name": "A", "filter_subject": "a.y"}
        session.apply("edit_stream", "C", config | {"sources": [narrow]})
        config = create(session, "D", max_msgs=4, sources=[{"name": "A"}])
        session.run(until_held(session, "D", 3))
        mapped = {"name": "A", "subject_transforms": [{"src": "a.*", "dest": "m.$1"}]}
        with pytest.raises(ActionRefusal, match="its limits remove up to 2 messages of it"):
            session.apply("edit_stream", "D", config | {"sources": [mapped]})
        assert held_msgs(session, "B") == 2


@pytest.mark.server
def test_a_source_taken_away_says_what_waits_for_it_in_an_interest_stream(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        create(session, "A", retention="interest")
        config = create(session, "B", max_msgs=1, discard="new", sources=[{"name": "A"}])
        deadline_s = time.monotonic() + 30
        # What comes before the source has begun is dropped.
        while held_msgs(session, "A") < 2 and time.monotonic() < deadline_s:
            store(session, "a.x")
        text = "of A that only this stream still copies"
        for sources in ([], [{"name": "A", "filter_subject": "a.y"}]):
            with pytest.raises(ActionRefusal, match=text):
                session.apply("edit_stream", "B", config | {"sources": sources})
        with pytest.raises(ActionRefusal, match=text):
            session.apply("delete_stream", "B")
        assert held_msgs(session, "A") > 0


@pytest.mark.server
@pytest.mark.parametrize(
    ("action", "config"),
    [
        ("delete_consumer", {}),
        ("edit_consumer", {"filter_subject": "s.other"}),
        ("edit_consumer", {"inactive_threshold": 300 * 10**9}),
    ],
)
def test_what_nobody_waits_for_goes_with_a_consumer_of_a_stream_that_became_interest(
    account: Account, tmp_path: Path, action: Action, config: dict[str, Any]
) -> None:
    with admin_session(account.url, tmp_path) as session:
        stream = create(session, "S")
        consumer = consumer_info(session, filter_subject="s.a")["config"]
        store(session, "s.b", "s.b")
        session.request("STREAM.UPDATE.S", stream | {"retention": "interest"})
        assert held_msgs(session, "S") == 2
        wanted = consumer | config if action == "edit_consumer" else config
        with pytest.raises(ActionRefusal, match="at most 2 messages"):
            session.apply(action, "S", wanted, consumer="C")


@pytest.mark.server
@pytest.mark.parametrize(
    ("action", "config"),
    [
        ("delete_consumer", None),
        ("edit_consumer", {"filter_subject": "s.other"}),
        ("reset_consumer", {"seq": 9}),
    ],
)
def test_what_a_consumer_gave_up_is_counted_where_it_is_removed(
    account: Account, tmp_path: Path, action: Action, config: dict[str, Any] | None
) -> None:
    def given_up(session: AdminSession) -> bool:
        info = session.request("CONSUMER.INFO.S.C")
        waits = info["num_pending"] or info["num_ack_pending"]
        return info["delivered"]["stream_seq"] == 3 and not waits

    with admin_session(account.url, tmp_path) as session:
        create(session, "S", retention="interest")
        info = consumer_info(session, max_deliver=1, ack_wait=10**8)
        store(session, "s.a", "s.a", "s.a")
        deadline_s = time.monotonic() + 30
        while not given_up(session) and time.monotonic() < deadline_s:
            with suppress(NotFound):
                session.run(pull_next(session.writer, PullNext(1, "S", "C", wait_s=0.1)))
        assert given_up(session)
        assert held_msgs(session, "S") == 3
        wanted = (info["config"] | config) if action == "edit_consumer" else config
        for _ in range(2):
            with pytest.raises(ActionRefusal, match="at most 3 messages"):
                session.apply(action, "S", wanted or {}, consumer="C")
            # They stay also when the limit is lifted.
            session.apply("edit_consumer", "S", info["config"] | {"max_deliver": -1}, consumer="C")
            wanted = wanted and wanted | {"max_deliver": -1}


@pytest.mark.server
@pytest.mark.needs_server("2.15")
@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_a_source_by_a_consumer_takes_what_waits_for_it_and_asks(
    account: Account, tmp_path: Path, retention: str
) -> None:
    by_consumer = {"name": "S", "consumer": {"name": "C", "deliver_subject": "to.b"}}
    with admin_session(account.url, tmp_path) as session:
        create(session, "S", retention=retention)
        consumer_info(
            session, ack_policy="flow_control", deliver_subject="to.b", flow_control=True,
            idle_heartbeat=10**9,
        )  # fmt: skip
        store(session, "s.a", "s.a", "s.a")
        session.run(until_pending(session.writer.client.nc.jetstream(), "S", 3, "C"))
        text = "up to 3 messages waiting for C are moved out of S for good"
        for config in ({"sources": [by_consumer]}, {"mirror": by_consumer}):
            with pytest.raises(ActionRefusal, match=text):
                session.apply("create_stream", "B", {"name": "B"} | config)
        config = create(session, "B")
        with pytest.raises(ActionRefusal, match=text):
            session.apply("edit_stream", "B", config | {"sources": [by_consumer]})
        assert held_msgs(session, "S") == 3


@pytest.mark.server
@pytest.mark.needs_server("2.15")
def test_what_brings_a_source_by_a_consumer_back_asks_again(
    account: Account, tmp_path: Path
) -> None:
    shell = Shell(account.url, tmp_path)
    by_consumer = {"name": "S", "consumer": {"name": "C", "deliver_subject": "to.b"}}
    with admin_session(account.url, tmp_path) as session:
        create(session, "S", retention="workqueue")
        consumer_info(
            session, ack_policy="flow_control", deliver_subject="to.b", flow_control=True,
            idle_heartbeat=10**9,
        )  # fmt: skip
        create(session, "B", sources=[by_consumer])
        session.run(until_bound(session, "S", "C"))
        shell.ok("stream", "backup", "B", str(tmp_path / "kept"))
        copied = shell.run("stream", "copy", "B", "D", "--subjects", "d")
        assert copied.returncode == 5 and "C of S is in use" in copied.stderr, copied
        shell.ok("stream", "rm", "B", "--yes")
        store(session, "s.a", "s.a", "s.a")
        session.run(until_pending(session.writer.client.nc.jetstream(), "S", 3, "C"))
        text = "up to 3 messages waiting for C are moved out of S for good"
        for words in (("undo",), ("stream", "restore", str(tmp_path / "kept"))):
            refused = shell.run(*words)
            assert refused.returncode == 5 and text in refused.stderr, refused
        assert held_msgs(session, "S") == 3


@pytest.mark.server
@pytest.mark.parametrize(
    ("limits", "edit"),
    [
        ({"max_msgs": 2, "discard": "new"}, {"discard": "old"}),
        ({"max_msg_size": 3}, {"max_msg_size": -1, "max_msgs": 2}),
    ],
)
def test_an_edit_that_lets_a_source_go_on_says_what_its_messages_remove(
    account: Account, tmp_path: Path, limits: dict[str, Any], edit: dict[str, Any]
) -> None:
    with admin_session(account.url, tmp_path) as session:
        create(session, "A", retention="interest")
        config = create(session, "B", sources=[{"name": "A"}], **limits)
        store(session, "b.x", "b.x")
        deadline_s = time.monotonic() + 30
        # What comes before the source has begun is dropped.
        while held_msgs(session, "A") < 4 and time.monotonic() < deadline_s:
            session.run(session.writer.client.request_subject("a.x", b"too big for it"))
        text = r"limits remove up to 2 messages; up to \d messages of A may move to it"
        with pytest.raises(ActionRefusal, match=text):
            session.apply("edit_stream", "B", config | edit)
        assert held_msgs(session, "B") == 2


@pytest.mark.server
def test_a_header_that_makes_the_server_publish_is_asked_for(
    account: Account, tmp_path: Path
) -> None:
    shell = Shell(account.url, tmp_path)
    traced = ("-H", "Nats-Trace-Dest:$KV.B.k")
    with admin_session(account.url, tmp_path) as session:
        create(session, "KV_B", subjects=["$KV.B.>"])
        create(session, "S")
        store(session, "$KV.B.k")
        for words in (
            ("pub", "s.a", "x"), ("pub", "s.a", "x", "-J"), ("request", "s.a", "x"),
            ("bench", "pub", "s.a", "--msgs", "1", "--no-save"),
        ):  # fmt: skip
            refused = shell.run(*words, *traced)
            assert refused.returncode == 5, refused
            assert "it changes or deletes key k of bucket B" in refused.stderr
        refused = shell.run("reply", "q", "x", *traced)
        assert "a reply cannot have the header Nats-Trace-Dest" in refused.stderr
        row = {
            "stream_seq": 1,
            "subject": "s.a",
            "stored_at_us": 1,
            "payload_base64": "",
            "payload_bytes": 0,
            "headers": [traced[1].split(":")],
        }
        (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
        words = ("messages", "copy", "--from-file", str(tmp_path / "rows.jsonl"))
        shell.ok(*words, "--to-stream", "S", "--yes")
        assert (held_msgs(session, "S"), held_msgs(session, "KV_B")) == (1, 1)


@pytest.mark.server
def test_a_stream_with_sources_is_copied_without_the_header_of_its_sources(
    account: Account, tmp_path: Path
) -> None:
    shell = Shell(account.url, tmp_path)
    with admin_session(account.url, tmp_path) as session:
        create(session, "A")
        create(session, "B", sources=[{"name": "A"}])
        create(session, "T")
        store(session, "a.x", "a.x")
        session.run(until_held(session, "B", 2))
        shell.ok("messages", "copy", "B", "--map", "a.>:t.>", "--to-stream", "T", "--yes")
        assert held_msgs(session, "T") == 2


@pytest.mark.server
def test_a_wider_filter_on_a_work_queue_says_what_is_not_delivered(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        create(session, "S", retention="workqueue")
        config = consumer_info(session, filter_subject="s.b")["config"]
        store(session, "s.a", "s.b")
        session.run(pull_next(session.writer, PullNext(1, "S", "C")))
        with pytest.raises(
            ActionRefusal, match=r"messages of s\.> up to sequence 2 are not delivered"
        ):
            session.apply("edit_consumer", "S", config | {"filter_subject": "s.>"}, consumer="C")
        session.apply("edit_consumer", "S", config | {"filter_subject": "s.b"}, consumer="C")


@pytest.mark.server
def test_what_goes_on_into_a_bucket_or_to_the_api_is_said_before(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        create(session, "KV_B", subjects=["$KV.B.>"])
        config = create(session, "S")
        for destination, text in (
            ("$KV.B.>", "it changes or deletes keys of bucket B"),
            ("$JS.API.STREAM.PURGE.KV_B", "it is a request to the server itself"),
        ):
            source = ">" if destination.endswith(">") else "s.x"
            republish = {"republish": {"src": source, "dest": destination}}
            with pytest.raises(ActionRefusal, match=f"each message that it republishes: {text}"):
                session.apply("edit_stream", "S", config | republish)
            with pytest.raises(ActionRefusal, match=text):
                session.apply("create_stream", "T", {"name": "T", "subjects": ["t"]} | republish)
        push = {"durable_name": "P", "deliver_subject": "$KV.B.k", "ack_policy": "none"}
        with pytest.raises(
            ActionRefusal, match="each message that it delivers: it changes or deletes key k"
        ):
            session.apply("create_consumer", "S", push, consumer="P")
        session.apply("create_consumer", "S", push | {"deliver_subject": "d"}, consumer="P")
        session.apply(
            "edit_stream", "S", config | {"republish": {"src": ">", "dest": "elsewhere.>"}}
        )


def consumer_info(session: AdminSession, **config: Any) -> dict[str, Any]:
    config = {"durable_name": "C", "ack_policy": "explicit"} | config
    session.request("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})
    return session.request("CONSUMER.INFO.S.C")


@pytest.mark.server
@pytest.mark.parametrize(
    ("stream", "consumer", "acks", "text"),
    [
        ({}, {}, False, None),
        ({}, {}, True, None),
        ({}, {"ack_policy": "all"}, True, "clients of C have 2 messages to ack"),
        ({}, {"ack_policy": "all"}, False, None),
        ({}, {"ack_policy": "none"}, False, None),
        ({"retention": "interest"}, {"ack_policy": "none"}, False, "is removed when it is"),
        ({}, {"max_deliver": 1}, False, "one message is not delivered again: C has max deliver 1"),
        ({}, {"max_deliver": 1}, True, None),
        ({}, {"max_deliver": 2}, False, "2 messages of C may reach max deliver 2"),
        ({}, {"max_deliver": 3}, False, None),
    ],
)
def test_what_receiving_takes_from_the_other_clients_of_a_consumer(
    account: Account, tmp_path: Path, stream: dict[str, Any], consumer: dict[str, Any],
    acks: bool, text: str | None,
) -> None:  # fmt: skip
    with admin_session(account.url, tmp_path) as session:
        create(session, "S", **stream)
        consumer_info(session, **consumer)
        store(session, "s.a", "s.a", "s.a")
        for _ in range(2):
            session.run(pull_next(session.writer, PullNext(1, "S", "C")))
        client = session.writer.client
        info = session.run(client.consumer_info("S", "C"))
        loss = session.run(describe_receiving_loss(client, "S", info, 1, acks=acks))
        assert loss is None if text is None else text in (loss or "")


@pytest.mark.server
def test_next_asks_before_it_acknowledges_what_others_hold(
    account: Account, tmp_path: Path
) -> None:
    shell = Shell(account.url, tmp_path)
    with admin_session(account.url, tmp_path) as session:
        create(session, "S")
        consumer_info(session, ack_policy="all")
        store(session, "s.a", "s.a", "s.a")
        session.run(pull_next(session.writer, PullNext(1, "S", "C")))
        with pytest.raises(ActionRefusal, match="an ack acknowledges all earlier ones"):
            session.run(pull_identified(session.writer, PullNext(1, "S", "C", wait_s=1)))
    asked = shell.run("consumer", "next", "S", "C", "--ack")
    assert (asked.returncode, asked.stdout) == (5, "")
    assert "clients of C have 1 message to ack" in asked.stderr
    done = shell.run("consumer", "next", "S", "C", "--ack", "--yes")
    assert done.returncode == 0, done.stderr
    with admin_session(account.url, tmp_path) as session:
        session.request("CONSUMER.DELETE.S.C")
        consumer_info(session, ack_policy="none")
    kept = shell.run("consumer", "next", "S", "C", "--no-ack")
    assert kept.returncode == 2 and "never redelivers a message: use --ack" in kept.stderr
    taken = shell.run("consumer", "next", "S", "C", "--ack")
    assert taken.returncode == 0, taken.stderr


@pytest.mark.server
def test_listening_to_where_a_push_consumer_delivers_is_asked_for(
    account: Account, tmp_path: Path
) -> None:
    shell = Shell(account.url, tmp_path)
    with admin_session(account.url, tmp_path) as session:
        create(session, "S", retention="interest")
        consumer_info(session, ack_policy="none", deliver_subject="for.app")
        group = {"deliver_subject": "for.group", "deliver_group": "workers", "max_deliver": 1}
        config = {"durable_name": "G", "ack_policy": "explicit"} | group
        session.request("CONSUMER.CREATE.S.G", {"stream_name": "S", "config": config})
        store(session, "s.a", "s.a")
    for words in (("sub", "for.app"), ("reply", "for.app", "x")):
        asked = shell.run(*words, "--count", "1")
        assert asked.returncode == 5, asked.stderr
        assert "C of S delivers to for.app, which has no subscriber" in asked.stderr
    asked = shell.run("sub", "for.group", "--queue", "workers", "--count", "1")
    assert asked.returncode == 5 and "each message is not delivered again" in asked.stderr
    # Neither a wildcard nor another group starts a consumer.
    for quiet_words in (("for.>",), ("for.group",), ("for.group", "--queue", "others")):
        done = shell.run("sub", *quiet_words, "--wait", "500ms")
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
    with admin_session(account.url, tmp_path) as session:
        assert held_msgs(session, "S") == 2
    done = shell.run("sub", "for.app", "--count", "2", "--yes", "--raw")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 2, done.stderr


@pytest.mark.server
def test_a_reply_has_no_header_that_removes_messages(account: Account, tmp_path: Path) -> None:
    shell = Shell(account.url, tmp_path)
    refused = shell.run("reply", "q", "x", "-H", "Nats-Rollup:sub")
    assert (
        refused.returncode == 2 and "a reply cannot have the header Nats-Rollup" in refused.stderr
    )


@pytest.mark.server
@pytest.mark.parametrize(
    ("subject", "text"),
    [
        ("$JS.ACK.S.C.1.1.1.1.1", "it is the acknowledgement of a message"),
        ("$JS.hub.API.STREAM.DELETE.S", "it is a request to the server itself"),
        ("$SYS.REQ.SERVER.N.KICK", "which changes it or disconnects clients"),
        ("$JS.API.CONSUMER.MSG.NEXT.S.C", "receive the next message"),
        ("$JS.hub.API.CONSUMER.DURABLE.CREATE.S.C", "which may change something"),
        ("$JS.API.ACCOUNT.PURGE.A", "which may change something"),
        ("$JS.API.STREAM.SNAPSHOT.S", "which may change something"),
        ("of.others.API.STREAM.PURGE.S", "the form of a request to a server"),
        ("of.others.API.STREAM.SNAPSHOT.S", "the form of a request to a server"),
    ],
)
def test_a_message_that_the_server_obeys_is_asked_for(
    account: Account, tmp_path: Path, subject: str, text: str
) -> None:
    with admin_session(account.url, tmp_path) as session:
        assert text in refused_text(session, (), subject)


@pytest.mark.server
def test_a_request_that_reads_is_not_asked_for(account: Account, tmp_path: Path) -> None:
    shell = Shell(account.url, tmp_path)
    with admin_session(account.url, tmp_path) as session:
        create(session, "S")
    for verb in ("INFO", "STREAM.INFO.S", "STREAM.NAMES", "CONSUMER.LIST.S"):
        done = shell.run("request", f"$JS.API.{verb}", "")
        assert done.returncode == 0, done.stderr


@pytest.mark.server
def test_a_lower_limit_of_deliveries_gives_up_what_clients_hold(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        create(session, "S")
        config = consumer_info(session)["config"]
        session.apply("edit_consumer", "S", config | {"max_deliver": 9}, consumer="C")
        store(session, "s.a")
        session.run(pull_next(session.writer, PullNext(1, "S", "C")))
        with pytest.raises(
            ActionRefusal, match=r"1 message waiting for an ack, .* delivered 2 times"
        ):
            session.apply("edit_consumer", "S", config | {"max_deliver": 2}, consumer="C")


@pytest.mark.server
def test_a_bucket_that_makes_room_for_new_values_says_so(account: Account, tmp_path: Path) -> None:
    shell = Shell(account.url, tmp_path)
    with admin_session(account.url, tmp_path) as session:
        create(session, "KV_B", subjects=["$KV.B.>"], max_msgs=2, allow_rollup_hdrs=True)
        subjects = ["$O.O.C.>", "$O.O.M.>"]
        create(session, "OBJ_O", subjects=subjects, max_bytes=4500, allow_rollup_hdrs=True)
        shell.ok("kv", "put", "B", "a", "1")
        shell.ok("kv", "put", "B", "b", "1")
        refused = shell.run("kv", "put", "B", "c", "1")
        assert "up to 1 of 2 messages of KV_B are removed by its limits" in refused.stderr
        (tmp_path / "file").write_bytes(b"x" * 2000)
        shell.ok("object", "put", "O", str(tmp_path / "file"), "--name", "one")
        refused = shell.run("object", "put", "O", str(tmp_path / "file"), "--name", "two")
        assert "of OBJ_O are removed by its limits to make room" in refused.stderr
        assert (held_msgs(session, "KV_B"), held_msgs(session, "OBJ_O")) == (2, 2)


@pytest.mark.server
def test_a_copied_schedule_replaces_nothing_at_its_target(
    account: Account, tmp_path: Path
) -> None:
    shell = Shell(account.url, tmp_path)
    with admin_session(account.url, tmp_path) as session:
        create(session, "S", allow_msg_schedules=True)
        create(session, "T", allow_msg_schedules=True)
        store(session, "s.a", headers=dict(SCHEDULED))
        store(session, "t.a", "t.a")
        words = ("messages", "copy", "S", "--map", "s.>:t.>", "--to-stream", "T", "--yes")
        done = shell.run(*words)
        assert done.returncode == 0, done.stderr
        assert "1 sent without their headers of a roll-up or schedule" in done.stdout
        assert held_msgs(session, "T") == 3


@pytest.mark.server
def test_a_benchmark_with_a_schedule_says_what_that_removes(
    account: Account, tmp_path: Path
) -> None:
    shell = Shell(account.url, tmp_path)
    with admin_session(account.url, tmp_path) as session:
        create(session, "S", allow_msg_schedules=True)
        store(session, "s.a", "s.a", "s.b")
        headers = [word for name, text in SCHEDULED for word in ("-H", f"{name}:{text}")]
        refused = shell.run(
            "bench", "js", "pub", "sync", "s.a", "--stream", "S", "--msgs", "1", *headers
        )
        assert "up to 2 messages of S are removed" in refused.stderr, refused
        assert held_msgs(session, "S") == 3


@pytest.mark.server
def test_who_may_not_read_the_stream_still_receives_from_its_consumer(
    nats_server_factory: Any, tmp_path: Path
) -> None:
    broker = nats_server_factory(
        """
        accounts { A { jetstream: enabled, users: [
          { user: all, password: p },
          { user: few, password: p, permissions: { publish: { deny: "$JS.API.STREAM.INFO.>" } } }
        ] } }
        """
    )
    urls = {user: broker.url.replace("://", f"://{user}:p@") for user in ("all", "few")}
    with admin_session(urls["all"], tmp_path) as session:
        create(session, "S")
        consumer_info(session, ack_policy="none")
        store(session, "s.a", "s.a")
    shell = Shell(urls["few"], tmp_path)
    for words in (("sub", "S", "C", "--count", "1"), ("next", "S", "C", "--ack")):
        done = shell.run("consumer", *words, "--raw")
        assert (done.returncode, done.stdout) == (0, "x\n"), done.stderr
    assert (
        "not known what other clients will not receive: you may not read S"
        in shell.run("consumer", "sub", "S", "C", "--duration", "100ms").stderr
    )


@pytest.mark.server
def test_a_bucket_that_keeps_nothing_stores_no_value_and_no_object(
    account: Account, tmp_path: Path
) -> None:
    shell = Shell(account.url, tmp_path)
    (tmp_path / "empty").write_bytes(b"")
    with admin_session(account.url, tmp_path) as session:
        rolled = {"retention": "interest", "allow_rollup_hdrs": True}
        create(session, "KV_B", subjects=["$KV.B.>"], **rolled)
        create(session, "OBJ_O", subjects=["$O.O.C.>", "$O.O.M.>"], **rolled)
        for words, stream in (
            (("kv", "put", "B", "k", "v"), "KV_B"),
            (("object", "put", "O", str(tmp_path / "empty")), "OBJ_O"),
        ):
            done = shell.run(*words)
            text = f"acknowledged, and not kept by {stream}: interest retention"
            assert done.returncode == 4 and text in done.stderr, done
