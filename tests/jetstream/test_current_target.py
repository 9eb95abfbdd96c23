"""What is done for good is done to the one that it was decided on, or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from natstui.errors import Conflict, Refused
from natstui.jetstream.testbed.broker import Broker
from natstui.model.records.actions import IRREVERSIBLE
from natstui.model.records.managing import Action
from tests.jetstream.admin_session import AdminSession, admin_session

_STREAM = {"name": "S", "subjects": ["s.>"], "storage": "memory"}
_CONSUMER = {"durable_name": "C", "ack_policy": "explicit"}
_ASKED: dict[str, dict[str, object]] = {"delete_message": {"seq": 2}, "reset_consumer": {"seq": 1}}


def fill(session: AdminSession) -> None:
    session.request("STREAM.CREATE.S", _STREAM)
    session.request(
        "CONSUMER.CREATE.S.C", {"stream_name": "S", "config": _CONSUMER, "action": "create"}
    )
    for number in range(3):
        session.run(session.writer.client.ask("s.a", str(number).encode()))


def what_is_there(session: AdminSession) -> tuple[int, int]:
    state = session.request("STREAM.INFO.S")["state"]
    return state["messages"], state["consumer_count"]


@pytest.mark.parametrize("action", sorted(IRREVERSIBLE))
def test_what_was_made_again_meanwhile_is_left_alone(
    nats_server: Broker, tmp_path: Path, action: Action
) -> None:
    consumer = "C" if action.endswith("consumer") else None
    with admin_session(nats_server.url, tmp_path) as session:
        fill(session)
        seen = session.created_at_us("S", consumer)
        session.request("STREAM.DELETE.S")
        fill(session)
        with pytest.raises(Conflict, match="was made again"):
            session.apply(
                action, "S", _ASKED.get(action), consumer=consumer,
                confirmed=consumer or "S", created_at_us=seen,
            )  # fmt: skip
        assert what_is_there(session) == (3, 1)


@pytest.mark.parametrize("action", sorted(IRREVERSIBLE))
def test_without_the_one_it_was_decided_on_nothing_is_done_for_good(
    nats_server: Broker, tmp_path: Path, action: Action
) -> None:
    consumer = "C" if action.endswith("consumer") else None
    with admin_session(nats_server.url, tmp_path) as session:
        fill(session)
        with pytest.raises(Refused, match="which"):
            session.apply(
                action, "S", _ASKED.get(action), consumer=consumer,
                confirmed=consumer or "S", created_at_us=None,
            )  # fmt: skip
        assert what_is_there(session) == (3, 1)


def test_an_edit_of_what_was_made_again_is_refused_also_when_it_looks_the_same(
    nats_server: Broker, tmp_path: Path
) -> None:
    with admin_session(nats_server.url, tmp_path) as session:
        fill(session)
        seen, created_at_us = session.config("S"), session.created_at_us("S")
        session.request("STREAM.DELETE.S")
        fill(session)
        wanted = json.loads(json.dumps(seen)) | {"description": "mine"}
        with pytest.raises(Conflict, match="was made again"):
            session.apply("edit_stream", "S", wanted, seen=seen, created_at_us=created_at_us)
        assert not session.config("S").get("description")
