"""What is done for good is done to the one that it was decided on, or not at all."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import get_args

import pytest

from natstui.errors import ActionRefusal, Conflict
from natstui.jetstream.connection.writer import MissingConfirmation, Writer
from natstui.jetstream.managing.keys import KeyChange, change_key
from natstui.jetstream.managing.objects import ObjectChange, delete_object, put_object
from natstui.jetstream.messages.objects import find_names_with_chunks
from natstui.model.records.actions import IRREVERSIBLE_ACTIONS
from natstui.model.records.managing import Action, KeyAction, ObjectAction
from tests.accounts import Account
from tests.jetstream.admin_session import AdminSession, admin_session

pytestmark = pytest.mark.server

_STREAM = {"name": "S", "subjects": ["s.>"], "storage": "memory"}
_CONSUMER = {"durable_name": "C", "ack_policy": "explicit"}
_ASKED: dict[str, dict[str, object]] = {"delete_message": {"seq": 2}, "reset_consumer": {"seq": 1}}


def fill(session: AdminSession) -> None:
    session.request("STREAM.CREATE.S", _STREAM)
    session.request(
        "CONSUMER.CREATE.S.C", {"stream_name": "S", "config": _CONSUMER, "action": "create"}
    )
    for number in range(3):
        session.run(session.writer.client.request_subject("s.a", str(number).encode()))


def what_is_there(session: AdminSession) -> tuple[int, int]:
    state = session.request("STREAM.INFO.S")["state"]
    return state["messages"], state["consumer_count"]


@pytest.mark.parametrize("action", sorted(IRREVERSIBLE_ACTIONS & set(get_args(Action))))
def test_what_was_made_again_meanwhile_is_left_alone(
    account: Account, tmp_path: Path, action: Action
) -> None:
    consumer = "C" if action.endswith("consumer") else None
    with admin_session(account.url, tmp_path) as session:
        fill(session)
        seen = session.created_at_us("S", consumer)
        session.request("STREAM.DELETE.S")
        fill(session)
        with pytest.raises(Conflict, match="was recreated"):
            session.apply(
                action, "S", _ASKED.get(action), consumer=consumer,
                confirmed=consumer or "S", created_at_us=seen,
            )  # fmt: skip
        assert what_is_there(session) == (3, 1)


@pytest.mark.parametrize("action", sorted(IRREVERSIBLE_ACTIONS & set(get_args(Action))))
def test_without_the_one_it_was_decided_on_nothing_is_done_for_good(
    account: Account, tmp_path: Path, action: Action
) -> None:
    consumer = "C" if action.endswith("consumer") else None
    with admin_session(account.url, tmp_path) as session:
        fill(session)
        with pytest.raises(ActionRefusal, match=r"the creation time of .* is missing"):
            session.apply(
                action, "S", _ASKED.get(action), consumer=consumer,
                confirmed=consumer or "S", created_at_us=None,
            )  # fmt: skip
        assert what_is_there(session) == (3, 1)


def test_an_edit_of_what_was_made_again_is_refused_also_when_it_looks_the_same(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        fill(session)
        seen, created_at_us = session.config("S"), session.created_at_us("S")
        session.request("STREAM.DELETE.S")
        fill(session)
        wanted = json.loads(json.dumps(seen)) | {"description": "mine"}
        with pytest.raises(Conflict, match="was recreated"):
            session.apply("edit_stream", "S", wanted, seen=seen, created_at_us=created_at_us)
        assert not session.config("S").get("description")


_IN_STORE = sorted(IRREVERSIBLE_ACTIONS & {*get_args(KeyAction), *get_args(ObjectAction)})


def store(session: AdminSession, value: bytes) -> None:
    for stream, of_config in (("KV_B", "$KV.B.>"), ("OBJ_B", "$O.B.>")):
        config = {"subjects": [of_config], "max_msgs_per_subject": 5, "allow_rollup_hdrs": True}
        session.request(f"STREAM.CREATE.{stream}", {"name": stream, "storage": "memory", **config})
    put(session, value)


def put(session: AdminSession, value: bytes) -> None:
    session.run(change_key(session.writer, KeyChange("put_key", "B", "k", value)))
    asked = ObjectChange("B", "k", confirmed="k")
    session.run(
        put_object(
            session.writer, asked, io.BytesIO(value), lambda _: None, find_names_with_chunks
        )
    )


async def remove(writer: Writer, action: Action, confirmed: str | None) -> None:
    if action == "delete_object":
        deletion = ObjectChange("B", "k", confirmed=confirmed)
        await delete_object(writer, deletion, find_names_with_chunks)
    else:
        await change_key(writer, KeyChange("purge_key", "B", "k", confirmed=confirmed))


@pytest.mark.parametrize("made_again", [True, False], ids=["bucket", "value"])
@pytest.mark.parametrize("action", _IN_STORE)
def test_what_was_stored_after_the_question_is_not_removed_by_the_answer(
    account: Account, tmp_path: Path, action: Action, made_again: bool
) -> None:
    with admin_session(account.url, tmp_path) as session:
        store(session, b"old")
        with pytest.raises(MissingConfirmation) as asked:
            session.run(remove(session.writer, action, None))
        if made_again:
            session.request("STREAM.DELETE.KV_B")
            session.request("STREAM.DELETE.OBJ_B")
            store(session, b"new")
        else:
            put(session, b"new")
        before = session.request("STREAM.INFO.KV_B"), session.request("STREAM.INFO.OBJ_B")
        shown = asked.value.confirmation
        assert shown.created_at_us is not None
        answered = Writer(session.writer.client, session.writer.journal, decided_on=shown)
        with pytest.raises(Conflict, match="changed before you confirmed"):
            session.run(remove(answered, action, "k"))
        after = session.request("STREAM.INFO.KV_B"), session.request("STREAM.INFO.OBJ_B")
        assert [it["state"] for it in after] == [it["state"] for it in before]


_OF_SERVERS = {"kick_connection", "remove_server"}
"""Tried in `tests/cli/test_system_actions.py`, with servers that come and go."""


def test_every_action_that_is_final_is_tried() -> None:
    assert {*get_args(Action), *_IN_STORE, *_OF_SERVERS} == {
        *get_args(Action),
        *IRREVERSIBLE_ACTIONS,
    }
