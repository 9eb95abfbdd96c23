from __future__ import annotations

import asyncio
import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest
from nats.aio.msg import Msg

from natstui.errors import ActionRefusal, Conflict, NotFound, OutcomeUnknown, RequestFailed
from natstui.jetstream.connection.client import Client
from natstui.jetstream.messages.publish import publish, request_reply
from natstui.jetstream.messages.pull import pull_identified, pull_next, send_ack
from natstui.jetstream.testbed.broker import Broker
from natstui.model.records.journal import entry_text
from natstui.model.records.messages import (
    Answer,
    AnswerMessage,
    PublishMessage,
    PulledMessage,
    PullNext,
    RequestReply,
)
from tests.accounts import Account
from tests.jetstream.admin_session import AdminSession, admin_session

pytestmark = pytest.mark.server

HELLO = base64.b64encode(b"hello").decode()


def made(session: AdminSession, **config: Any) -> None:
    session.apply("create_stream", "W", {"name": "W", "subjects": ["w.>"], **config})
    consumer = {"durable_name": "C", "ack_policy": "explicit"}
    session.apply("create_consumer", "W", consumer, consumer="C")


def pulled(session: AdminSession) -> PulledMessage:
    return session.run(pull_next(session.writer, PullNext(1, "W", "C", wait_s=1)))


def answered(session: AdminSession, message: PulledMessage, how: Answer, **words: Any) -> str:
    return session.run(
        send_ack(session.writer, AnswerMessage(1, "C", message.reply, how, **words))
    )


def messages(session: AdminSession) -> int:
    stored: int = session.request("STREAM.INFO.W")["state"]["messages"]
    return stored


def test_a_second_message_with_the_same_id_is_a_duplicate_and_not_stored(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        made(session)
        asked = PublishMessage(1, "w.a", HELLO, message_id="one")
        first = session.run(publish(session.writer, asked))
        second = session.run(publish(session.writer, asked))
        assert (first.stored_seq, first.duplicate) == (1, False)
        assert (second.stored_seq, second.duplicate) == (1, True)
        assert messages(session) == 1


def test_an_expected_sequence_that_is_not_so_refuses_the_message(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        made(session)
        session.run(publish(session.writer, PublishMessage(1, "w.a", HELLO)))
        with pytest.raises(RequestFailed, match="wrong last sequence: 1"):
            asked = PublishMessage(1, "w.a", HELLO, expected_last_seq=0)
            session.run(publish(session.writer, asked))
        with pytest.raises(RequestFailed, match='no stream stores "nowhere"'):
            session.run(publish(session.writer, PublishMessage(1, "nowhere", HELLO)))


def test_a_work_queue_loses_what_is_acknowledged(account: Account, tmp_path: Path) -> None:
    with admin_session(account.url, tmp_path) as session:
        made(session, retention="workqueue")
        for _ in range(5):
            session.run(publish(session.writer, PublishMessage(1, "w.a", HELLO)))
        for _ in range(3):
            answered(session, pulled(session), "double_ack")
        assert messages(session) == 2


def test_a_message_given_back_with_a_delay_comes_again_after_it(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        made(session)
        session.run(publish(session.writer, PublishMessage(1, "w.a", HELLO)))
        started = time.monotonic()
        text = answered(session, pulled(session), "nak", delay_s=1.5)
        assert text == "nak'd: redelivered after 1.5 s"
        with pytest.raises(NotFound, match="consumer C has no message to deliver now"):
            session.run(pull_next(session.writer, PullNext(1, "W", "C", wait_s=0.3)))
        again = session.run(pull_next(session.writer, PullNext(1, "W", "C", wait_s=10)))
        assert time.monotonic() - started >= 1.5
        assert again.deliveries_count == 2
        assert again.message.payload_base64 == HELLO


def test_a_terminated_message_announces_its_reason_and_does_not_come_again(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        made(session)
        session.run(publish(session.writer, PublishMessage(1, "w.a", HELLO)))
        advisory = "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.W.C"
        nc = session.writer.client.nc
        heard = session.run(nc.subscribe(advisory))
        answered(session, pulled(session), "term", reason="cannot be read")
        told = session.run(heard.next_msg(timeout=10))
        assert json.loads(told.data)["reason"] == "cannot be read"
        info = session.request("CONSUMER.INFO.W.C")
        assert (info["num_ack_pending"], info["num_pending"]) == (0, 0)


def test_in_progress_starts_the_ack_wait_again(account: Account, tmp_path: Path) -> None:
    with admin_session(account.url, tmp_path) as session:
        made(session)
        session.run(publish(session.writer, PublishMessage(1, "w.a", HELLO)))
        message = pulled(session)
        assert message.pending_msgs == 0
        answered(session, message, "in_progress")
        assert session.request("CONSUMER.INFO.W.C")["num_ack_pending"] == 1
        answered(session, message, "ack")


def test_a_request_shows_its_first_reply(account: Account, tmp_path: Path) -> None:
    with admin_session(account.url, tmp_path) as session:
        client = session.writer.client

        async def turn(msg: Msg) -> None:
            await msg.respond(msg.data[::-1])

        session.run(client.subscribe("echo", turn))
        reply = session.run(request_reply(session.writer, RequestReply(1, "echo", HELLO)))
        assert base64.b64decode(reply.payload_base64) == b"olleh"
        with pytest.raises(RequestFailed, match='no reply on "silence"'):
            session.run(request_reply(session.writer, RequestReply(1, "silence")))


def test_an_answer_that_is_no_acknowledgement_stores_nothing(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:

        async def serve(msg: Msg) -> None:
            await msg.respond(b'{"fine": true}')

        session.run(session.writer.client.subscribe("service", serve))
        with pytest.raises(OutcomeUnknown, match='"service" is no acknowledgement of a stream'):
            session.run(publish(session.writer, PublishMessage(1, "service", HELLO)))


def test_read_only_neither_publishes_nor_pulls_nor_answers(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        made(session)
    with admin_session(account.url, tmp_path, read_only=True) as session:
        for work in (
            publish(session.writer, PublishMessage(1, "w.a", HELLO)),
            request_reply(session.writer, RequestReply(1, "echo", HELLO)),
            pull_next(session.writer, PullNext(1, "W", "C")),
            send_ack(session.writer, AnswerMessage(1, "C", "$JS.ACK.W.C.1.1.1.1.0", "ack")),
        ):
            with pytest.raises(ActionRefusal, match="read-only"):
                session.run(work)  # type: ignore[arg-type]
        assert messages(session) == 0


def test_what_is_sent_taken_and_answered_is_journalled_without_its_payload(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        made(session)
        secret = base64.b64encode(b"the secret payload").decode()
        headers = (("Authorization", "Bearer hidden"),)
        asked = PublishMessage(1, "w.a", secret, headers, message_id="one")
        session.run(publish(session.writer, asked))
        session.run(publish(session.writer, asked))
        with pytest.raises(RequestFailed, match="no stream stores"):
            session.run(publish(session.writer, PublishMessage(1, "nowhere", secret)))
        answered(session, pulled(session), "nak", delay_s=60)
        with pytest.raises(NotFound):
            pulled(session)
        entries = session.writer.journal.entries()[2:]
        assert [(entry_text(one), one.outcome) for one in entries] == [
            ("publish 18 bytes to w.a, stored as 1 in W", "done"),
            ("publish 18 bytes to w.a, a duplicate of 1 in W", "done"),
            ("publish 18 bytes to nowhere", "failed"),
            ("pull message 1 from C on W", "done"),
            ("nak message 1 of C on W", "done"),
        ]
        written = (tmp_path / "journal.jsonl").read_text()
        assert "Authorization" in written
        assert "secret payload" not in written and "hidden" not in written
        assert secret not in written


@pytest.mark.parametrize(
    "how",
    ["ack", "term", *(pytest.param(how, marks=pytest.mark.long) for how in ("double_ack", "nak"))],
)
def test_an_answer_goes_to_the_consumer_that_delivered_the_message_or_nowhere(
    nats_server: Broker, tmp_path: Path, how: Answer
) -> None:
    with admin_session(nats_server.url, tmp_path) as session:

        def delivered() -> PulledMessage:
            made(session)
            session.run(publish(session.writer, PublishMessage(1, "w.a", HELLO)))
            pull = PullNext(1, "W", "C", wait_s=1)
            return session.run(pull_identified(session.writer, pull))

        def answer_to(message: PulledMessage) -> str:
            created_at_us = message.consumer_created_at_us
            return answered(session, message, how, consumer_created_at_us=created_at_us)

        before = delivered()
        session.request("STREAM.DELETE.W")
        now = delivered()
        # But for a time, the reply subject is the same: it would ack the other message.
        with pytest.raises(Conflict, match="not the consumer that this message was pulled from"):
            answer_to(before)
        assert session.request("CONSUMER.INFO.W.C")["num_ack_pending"] == 1
        # A server without a name has another id then.
        nats_server.restart()
        session.run(reconnected(session.writer.client))
        answer_to(now)
        session.request("STREAM.DELETE.W")
        with pytest.raises(Conflict, match="not the consumer that this message was pulled from"):
            answer_to(now)


async def reconnected(client: Client) -> None:
    async with asyncio.timeout(30):
        while not client.nc.stats["reconnects"]:
            await asyncio.sleep(0.01)
