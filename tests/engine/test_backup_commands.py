"""Backups through the pipes of a real engine: stopped, nothing of them stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from natstui.jetstream.testbed.broker import Broker
from natstui.model.records.managing import Change
from natstui.model.records.messages import Answered
from natstui.model.records.stores import BackUp, LookAtBackup, RestoreBackup, StopMoving
from tests.engine.engine_process import EngineProcess
from tests.engine.test_server_commands import asked, engine

pytestmark = pytest.mark.server

__all__ = ["engine"]


def test_a_stopped_backup_leaves_nothing(engine: EngineProcess, tmp_path: Path) -> None:
    config = json.dumps({"name": "S", "subjects": ["s.>"]})
    asked(engine, Change(1, "create_stream", "S", None, config))
    # It asks the server several things before it is done, and is stopped before the first answer.
    engine.send(BackUp(2, "S", str(tmp_path / "kept")), StopMoving(3, 2))
    told = engine.next(Answered, lambda answer: answer.command_id == 2)
    assert (told.status, told.text) == ("refused", "the transfer was stopped: nothing was kept")
    assert list(tmp_path.glob("*kept*")) == []


def test_a_damaged_backup_and_one_that_is_there_are_refused(
    engine: EngineProcess, nats_server: Broker, tmp_path: Path
) -> None:
    config = json.dumps({"name": "S", "subjects": ["s.>"]})
    asked(engine, Change(1, "create_stream", "S", None, config))
    folder = tmp_path / "kept"
    assert asked(engine, BackUp(2, "S", str(folder))).status == "done"
    seen = json.loads(asked(engine, LookAtBackup(3, str(folder))).body_json or "")
    assert (seen["present"], seen["name"]) == (["S"], "S")
    there = asked(engine, RestoreBackup(4, str(folder)))
    assert there.status == "failed"
    assert there.text.startswith("stream S exists already and is not overwritten")
    with (folder / "stream.tar.s2").open("ab") as file:
        file.write(b"more")
    damaged = asked(engine, LookAtBackup(5, str(folder)))
    assert damaged.status == "failed"
    assert "is not complete" in damaged.text
