"""What a change could not do to its end is said beside what it did, and scripts see it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from natstui.jetstream.managing import replicas
from natstui.jetstream.testbed.broker import Broker
from tests.accounts import Account
from tests.cli.test_manage import Shell
from tests.hostile_server import Lie, lying

pytestmark = pytest.mark.server

NO_PURGE = (
    "authorization { users: [ { user: a, password: a }, { user: b, password: b,"
    ' permissions: { publish: { deny: ["$JS.API.STREAM.PURGE.>"] } } } ] }'
)


def with_late_copy(body: bytes) -> bytes:
    """Return what is said of a stream whose second copy has not all messages yet."""
    info: Any = json.loads(body)
    late = {"name": "n9", "current": False, "active": 1, "lag": 20}
    info["cluster"] = {"name": "C", "leader": "n1", "replicas": [late]}
    return json.dumps(info).encode()


def test_copies_that_are_not_complete_in_time_are_no_success(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "SETTLES_WITHIN_S", 0.0)
    Shell(account.url, tmp_path).ok("stream", "add", "S", "--subjects", "s", "--yes")
    with lying(account.url) as wire:
        wire.lie = Lie("STREAM.INFO", with_late_copy)
        done = Shell(wire.url, tmp_path).run("stream", "scale", "S", "1", "--yes")
    assert done.returncode == 4
    assert "it was not complete within 0 s: it is on n1, n9 so far, not whole on n9" in done.stderr


def test_a_file_whose_chunks_could_not_be_removed_is_deleted_and_stored_all_the_same(
    nats_server_factory: Callable[[str], Broker], tmp_path: Path
) -> None:
    url = nats_server_factory(NO_PURGE).url
    every = Shell(url.replace("//", "//a:a@"), tmp_path)
    every.ok("object", "add", "B")
    shell = Shell(url.replace("//", "//b:b@"), tmp_path)
    for content in ("one", "two"):
        (tmp_path / content).write_text(content)
    shell.ok("object", "put", "B", str(tmp_path / "one"), "--name", "f")
    put = shell.run("object", "put", "B", str(tmp_path / "two"), "--name", "f", "--yes")
    assert put.returncode == 4
    assert "f stored in B" in put.stdout
    assert "the chunks of what f was before stay in B: the user has no permission" in put.stderr
    assert shell.ok("object", "get", "B", "f", "-O", "-") == "two"
    gone = shell.run("object", "rm", "B", "f", "--yes", "--json")
    assert gone.returncode == 4
    assert json.loads(gone.stdout)["text"] == "f of B deleted"
    assert "the chunks of what f was before stay in B" in gone.stderr
    assert json.loads(shell.ok("object", "ls", "B", "--json")) == []


def test_a_journal_that_is_no_file_is_refused_at_once(account: Account, tmp_path: Path) -> None:
    shell = Shell(account.url, tmp_path)
    (tmp_path / "STATE" / "natstui").mkdir(parents=True)
    os.mkfifo(tmp_path / "STATE" / "natstui" / "journal.jsonl")
    for words in (("journal",), ("undo", "--yes")):
        refused = shell.run(*words)
        assert refused.returncode == 6
        assert "journal.jsonl cannot be read" in refused.stderr
