"""Managing through the pipes of a real engine, as the viewer does it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from natstui.jetstream.testbed.broker import Broker
from natstui.model.records.managing import (
    Change,
    ManagingCommand,
    ReadJournal,
    ReadNamesInUse,
    Undo,
)
from natstui.model.records.messages import (
    Answered,
    BrowseMessages,
    PublishMessage,
    StartTail,
    StopTail,
    Tailed,
)
from natstui.model.records.record import LinkChanged, Outcome
from natstui.model.records.recording import ChangeSession, ExportSelection
from natstui.model.records.stores import BackUp, InspectBackup, RestoreBackup, StopTransfer
from tests.engine.engine_process import EngineProcess

pytestmark = pytest.mark.server

HELLO = base64.b64encode(b"hello").decode()


@pytest.fixture
def engine(
    nats_server: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[EngineProcess]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with EngineProcess("--server", nats_server.url) as process:
        process.next(LinkChanged, lambda change: change.state == "connected")
        yield process


def asked(engine: EngineProcess, command: ManagingCommand) -> Answered:
    engine.send(command)
    return engine.next(Answered, lambda answer: answer.command_id == command.command_id)


@pytest.mark.long
def test_what_the_viewer_sends_is_done_and_answered(engine: EngineProcess, tmp_path: Path) -> None:
    a_change_a_page_the_journal_and_an_undo(engine)
    what_a_form_needs_is_read_at_once(engine)
    a_conflict_carries_both_versions(engine)
    a_tail_shows_what_arrives_and_counts_what_it_drops(engine)
    a_stopped_backup_leaves_nothing(engine, tmp_path)
    a_damaged_backup_and_one_that_is_there_are_refused(engine, tmp_path)
    a_path_that_cannot_be_is_answered_and_the_engine_goes_on(engine, tmp_path)


def a_change_a_page_the_journal_and_an_undo(engine: EngineProcess) -> None:
    config = {"name": "S", "subjects": ["s.>"]}
    made = asked(engine, Change(1, "create_stream", "S", None, json.dumps(config)))
    assert (made.status, made.text) == ("done", "stream S created")
    stored = asked(engine, PublishMessage(2, "s.a", HELLO, message_id="one"))
    assert stored.text == "stored as 1 in S"
    again = asked(engine, PublishMessage(3, "s.a", HELLO, message_id="one"))
    assert again.text == "a duplicate of 1 in S"
    page = json.loads(asked(engine, BrowseMessages(4, "S")).body_json or "")
    assert [message["payload_base64"] for message in page["messages"]] == [HELLO]
    journal = json.loads(asked(engine, ReadJournal(5)).body_json or "")
    actions = [entry["action"] for entry in journal]
    assert actions == ["publish", "publish", "create_stream"], "the newest first"
    refused = asked(engine, Undo(6))
    assert (refused.status, refused.text) == (
        "refused",
        "not confirmed: this cannot be undone (its only message (about 72 B) is removed for "
        "good), type 'S' to confirm",
    )
    shown = json.loads(refused.body_json or "")
    assert (shown["name"], shown["needed"], shown["most_msgs"]) == ("S", True, 1)
    dry = asked(engine, Undo(7, dry_run=True))
    assert (dry.status, json.loads(dry.body_json or "")) == ("done", shown)
    assert asked(engine, Undo(8, confirmed="S")).text == "stream S deleted"


def what_a_form_needs_is_read_at_once(engine: EngineProcess) -> None:
    config = {"name": "S", "subjects": ["s.>"]}
    asked(engine, Change(1, "create_stream", "S", None, json.dumps(config)))
    consumer = {"durable_name": "C", "filter_subject": "s.a", "ack_policy": "explicit"}
    asked(engine, Change(2, "create_consumer", "S", "C", json.dumps(consumer)))
    found = json.loads(asked(engine, ReadNamesInUse(3, "S")).body_json or "")
    assert found["streams"] == [{"name": "S", "subjects": ["s.>"]}]
    assert found["consumer_filters"] == {"C": ["s.a"]}
    assert found["servers_count"] == 1
    assert found["api_level"] >= 5
    assert "work queue" in [template["name"] for template in found["templates"]]


def a_conflict_carries_both_versions(engine: EngineProcess) -> None:
    config = {"name": "S", "subjects": ["s.>"]}
    seen = {**config, "max_msgs": 5}
    wanted = json.dumps({**config, "max_msgs": 6})
    answer = asked(engine, Change(2, "edit_stream", "S", None, wanted, json.dumps(seen)))
    assert answer.status == "failed"
    versions = json.loads(answer.body_json or "")
    assert (versions["seen"]["max_msgs"], versions["current"]["max_msgs"]) == (5, -1)


def a_tail_shows_what_arrives_and_counts_what_it_drops(engine: EngineProcess) -> None:
    assert asked(engine, StartTail(2, ("s.>",))).text == "following s.>"
    for number in range(400):
        engine.send(PublishMessage(100 + number, "s.a", HELLO))
    shown = 0
    while True:
        tailed = engine.next(Tailed)
        shown += len(tailed.messages)
        assert tailed.arrived_msgs == shown + tailed.dropped_msgs
        if tailed.arrived_msgs == 400:
            break
    assert asked(engine, StopTail(3, 2)).text == "natstui has stopped following"
    refused = asked(engine, StartTail(4, ("s.a", "not a subject")))
    assert (refused.status, refused.text) == ("failed", "'not a subject' is not a subject")


def a_stopped_backup_leaves_nothing(engine: EngineProcess, tmp_path: Path) -> None:
    config = json.dumps({"name": "B", "subjects": ["b.>"]})
    asked(engine, Change(1, "create_stream", "B", None, config))
    # It asks the server several things before it is done, and is stopped before the first answer.
    engine.send(BackUp(2, "B", str(tmp_path / "kept")), StopTransfer(3, 2))
    told = engine.next(Answered, lambda answer: answer.command_id == 2)
    assert (told.status, told.text) == ("refused", "the transfer was stopped: nothing was kept")
    assert list(tmp_path.glob("*kept*")) == []


def a_damaged_backup_and_one_that_is_there_are_refused(
    engine: EngineProcess, tmp_path: Path
) -> None:
    folder = tmp_path / "kept"
    assert asked(engine, BackUp(2, "B", str(folder))).status == "done"
    seen = json.loads(asked(engine, InspectBackup(3, str(folder))).body_json or "")
    assert (seen["present"], seen["confirmation"]["name"]) == (["B"], "B")
    there = asked(engine, RestoreBackup(4, str(folder)))
    assert there.status == "failed"
    assert there.text.startswith("stream B exists already and is not overwritten")
    with (folder / "stream.tar.s2").open("ab") as file:
        file.write(b"more")
    damaged = asked(engine, InspectBackup(5, str(folder)))
    assert damaged.status == "failed"
    assert "is not complete" in damaged.text


def a_path_that_cannot_be_is_answered_and_the_engine_goes_on(
    engine: EngineProcess, tmp_path: Path
) -> None:
    nobody, session = "~no-such-user/x", str(tmp_path)
    for number, command, reason in (
        (1, ExportSelection(1, nobody, "csv", ("S",), ()), f"{nobody}: there is no such user"),
        (2, ChangeSession(2, "pack", session, nobody), f"{nobody}: there is no such user"),
        (3, ChangeSession(3, "pack", session, "/"), "/ is not a file name"),
    ):
        engine.send(command)
        told = engine.next(Outcome, lambda it, number=number: it.command_id == number)  # type: ignore[misc]
        assert (told.status, told.text) == ("failed", reason)
