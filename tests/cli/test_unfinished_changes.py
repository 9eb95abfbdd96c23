"""What a change could not do to its end is said beside what it did, and scripts see it."""

from __future__ import annotations

import itertools
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
from tests.hostile_server import TRUTH, Lie, lying

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


def with_config(key: str, value: object) -> Callable[[bytes], bytes]:
    """Return what makes a reply show another value of one option."""

    def changed(body: bytes) -> bytes:
        info: Any = json.loads(body)
        if "config" in info:
            info["config"][key] = value
        return json.dumps(info).encode()

    return changed


@pytest.mark.parametrize(
    ("words", "verb", "option", "text"),
    [
        ("stream add T --subjects t --yes", "STREAM.CREATE", ("subjects", ["u"]),
         "Subjects: requested t, but the server set u"),
        ("stream edit S --max-msgs 33 --yes", "STREAM.UPDATE", ("max_msgs", 7),
         "Maximum messages: requested 33, but the server set 7"),
        ("stream edit S --max-msgs 33 --yes", "STREAM.UPDATE", ("max_age", 3 * 10**9),
         "Maximum age: requested 1h, but the server set 3s"),
        ("stream edit S --max-msgs 33 --yes", "STREAM.INFO", ("max_msgs", 7),
         "Maximum messages: requested 33, but the server set 7"),
        ("consumer add S D --yes", "CONSUMER.CREATE", ("max_deliver", 77), None),
        ("consumer add S D --max-deliver 4 --yes", "CONSUMER.CREATE", ("max_deliver", 77),
         "Maximum deliveries: requested 4, but the server set 77"),
        ("consumer edit S C --max-deliver 4 --yes", "CONSUMER.CREATE", ("max_deliver", 77),
         "Maximum deliveries: requested 4, but the server set 77"),
    ],
)  # fmt: skip
def test_what_a_server_set_otherwise_is_named_and_no_success(
    words: str,
    verb: str,
    option: tuple[str, object],
    text: str | None,
    account: Account,
    tmp_path: Path,
) -> None:
    shell = Shell(account.url, tmp_path)
    shell.ok("stream", "add", "S", "--subjects", "s", "--max-age", "1h", "--yes")
    shell.ok("consumer", "add", "S", "C", "--yes")
    with lying(account.url) as wire:
        wire.carries_changes, wire.lie = True, Lie(verb, with_config(*option))
        done = Shell(wire.url, tmp_path).run(*words.split())
    assert done.returncode == (4 if text else 0), done.stderr
    assert (text or "") in done.stderr


FAR = "2099-01-01T00:00:00Z"


@pytest.mark.needs_server("2.14")
@pytest.mark.parametrize(
    ("words", "verb", "reply", "text"),
    [
        (words, verb, {}, "the server's reply does not say whether it was done")
        for words, verb in (
            ("stream rm S", "STREAM.DELETE"),
            ("stream purge S", "STREAM.PURGE"),
            ("stream rmm S 1", "STREAM.MSG.DELETE"),
            ("consumer rm S C", "CONSUMER.DELETE"),
            ("consumer pause S C 1h", "CONSUMER.PAUSE"),
            ("consumer resume S C", "CONSUMER.PAUSE"),
            ("consumer reset S C", "CONSUMER.RESET"),
            ("consumer unpin S P g", "CONSUMER.UNPIN"),
        )
    ] + [
        ("stream rmm S 1", "STREAM.MSG.DELETE", {"success": False}, "the server did not do it"),
        ("consumer pause S C 1h", "CONSUMER.PAUSE", {"paused": False},
         "the server replied that it is not paused, though"),
        ("consumer pause S C 1h", "CONSUMER.PAUSE", {"paused": True, "pause_until": FAR},
         f"but the server set {FAR}"),
        ("consumer resume S C", "CONSUMER.PAUSE", {"paused": True, "pause_until": FAR},
         f"the server replied that it is paused until {FAR}"),
    ],
)  # fmt: skip
def test_a_reply_that_does_not_say_that_it_was_done_is_no_success(
    words: str, verb: str, reply: dict[str, object], text: str, account: Account, tmp_path: Path
) -> None:
    shell = Shell(account.url, tmp_path)
    shell.ok("stream", "add", "S", "--subjects", "s", "--yes")
    shell.ok("consumer", "add", "S", "C", "--yes")
    policy = ("--priority-policy", "pinned_client", "--priority-groups", "g")
    shell.ok("consumer", "add", "S", "P", *policy, "--yes")
    shell.ok("pub", "s", "x", "-J")
    with lying(account.url) as wire:
        wire.carries_changes = True
        wire.lie = Lie(verb, lambda _body: json.dumps(reply).encode())
        done = Shell(wire.url, tmp_path).run(*words.split(), "--yes")
        wire.lie = TRUTH
        again = Shell(wire.url, tmp_path).run(*words.split(), "--yes")
    assert done.returncode == 4
    assert text in done.stderr
    assert again.returncode == (4 if " rm" in words else 0), again.stderr


@pytest.mark.parametrize(
    ("words", "ack", "text"),
    [
        ("kv put B k v", {"stream": "X", "seq": 5}, "acknowledged by stream X instead of KV_B"),
        ("kv put B k v", {"stream": "KV_B", "seq": 0}, "acknowledged with sequence 0"),
        ("kv put B k v", {"stream": "KV_B", "seq": 1, "duplicate": True}, "as a duplicate of 1"),
        ("kv del B k", {"stream": "X", "seq": 5}, "acknowledged by stream X instead of KV_B"),
        ("object put O {file}", {"stream": "X", "seq": 5}, "by stream X instead of OBJ_O"),
        ("object put O {file}", {"stream": "OBJ_O", "seq": 1, "duplicate": True}, "a duplicate"),
        ("pub s x -J", {"stream": "S", "seq": -1}, "acknowledged with sequence -1"),
        ("pub s x -J", {"stream": "S", "seq": 2, "duplicate": True}, "as a duplicate of 2"),
        ("pub s x -J --header Nats-Expected-Stream:S", {"stream": "X", "seq": 5},
         "by stream X instead of S"),
        ("pub s x -J", {"stream": "S", "seq": 0}, "acknowledged with sequence 0"),
        ("messages copy S --map s:t --to-stream T --yes", {"stream": "T", "seq": -1},
         "acknowledged with sequence -1"),
        ("messages copy S --map s:t --to-stream T --yes", {"stream": "S", "seq": 1},
         "by stream S instead of T"),
    ],
)  # fmt: skip
def test_an_ack_that_no_stream_gives_is_no_success(
    words: str, ack: dict[str, object], text: str, account: Account, tmp_path: Path
) -> None:
    shell = Shell(account.url, tmp_path)
    shell.ok("stream", "add", "S", "--subjects", "s", "--yes")
    shell.ok("stream", "add", "T", "--subjects", "t", "--yes")
    shell.ok("pub", "s", "x", "-J")
    shell.ok("kv", "add", "B", "--history", "5")
    shell.ok("kv", "put", "B", "k", "old")
    shell.ok("object", "add", "O")
    file = tmp_path / "file"
    file.write_text("content")
    with lying(account.url) as wire:
        wire.carries_changes = True
        wire.lie = Lie("publish", lambda _body: json.dumps(ack).encode())
        done = Shell(wire.url, tmp_path).run(*words.format(file=file).split())
    assert done.returncode in (1, 4), done.stdout
    assert text in done.stderr + done.stdout


@pytest.mark.parametrize(
    ("info", "text"),
    [
        (
            {"total": 10**9, "subjects": {"s.a": 1}},
            "the server's list repeats itself and does not end",
        ),
        ({"total": 3, "subjects": {}}, "the server counts 3 more subjects than it lists"),
    ],
)
def test_fewer_subjects_than_the_server_counts_are_no_success(
    info: dict[str, Any], text: str, account: Account, tmp_path: Path
) -> None:
    def lie(body: bytes) -> bytes:
        reply = json.loads(body)
        if "total" in reply:
            reply["total"] = info["total"]
            reply["state"]["subjects"] = info["subjects"]
        return json.dumps(reply).encode()

    shell = Shell(account.url, tmp_path)
    shell.ok("stream", "add", "S", "--subjects", "s.>", "--yes")
    for subject in ("s.a", "s.b"):
        shell.ok("pub", subject, "x", "-J")
    assert json.loads(shell.ok("stream", "subjects", "S", "--json")) == {"s.a": 1, "s.b": 1}
    assert json.loads(shell.ok("stream", "subjects", "S", "none", "--json")) == {}
    with lying(account.url) as wire:
        wire.lie = Lie("STREAM.INFO", lie)
        done = Shell(wire.url, tmp_path).run("stream", "subjects", "S")
    assert done.returncode == 4
    assert text in done.stderr


@pytest.mark.needs_server("2.11")
def test_what_servers_complete_or_write_otherwise_is_as_requested(
    account: Account, tmp_path: Path
) -> None:
    shell = Shell(account.url, tmp_path)
    shell.ok("stream", "add", "O", "--subjects", "o.>", "--metadata", "a=b", "--yes")
    # An origin that allows direct gets later gives that to its mirror with the next change of it.
    (tmp_path / "m.json").write_text('{"mirror": {"name": "O"}}')
    shell.ok("stream", "add", "M", "--file", str(tmp_path / "m.json"), "--yes")
    shell.ok("stream", "edit", "O", "--allow-direct", "--yes")
    shell.ok("stream", "edit", "M", "--description", "x", "--yes")
    assert shell.config("stream", "info", "M")["mirror_direct"] is True
    moment = "2026-01-02T03:04:05.500000+00:00"
    (tmp_path / "s.json").write_text(
        json.dumps({"sources": [{"name": "O", "opt_start_time": moment, "filter_subject": ""}]})
    )
    shell.ok("stream", "add", "A", "--file", str(tmp_path / "s.json"), "--yes")
    shell.ok("stream", "edit", "A", "--max-age", "1h", "--yes")
    shell.ok("stream", "edit", "O", "--subject-delete-marker-ttl", "1m", "--yes")
    shell.ok("stream", "edit", "O", "--max-age", "1h", "--yes")
    consumer = {
        "durable_name": "C", "deliver_policy": "by_start_time", "opt_start_time": moment,
        "backoff": [10**9, 2 * 10**9], "max_deliver": 5, "sample_freq": "100%",
        "pause_until": "2099-01-02T03:04:05.120000+02:00", "filter_subjects": ["o.a"],
    }  # fmt: skip
    (tmp_path / "c.json").write_text(json.dumps(consumer))
    shell.ok("consumer", "add", "O", "C", "--file", str(tmp_path / "c.json"), "--yes")
    shell.ok("consumer", "edit", "O", "C", "--max-deliver", "9", "--yes")
    # A sealed stream keeps everything, and takes no roll-up.
    shell.ok("stream", "edit", "A", "--allow-rollup", "--yes")
    shell.ok("stream", "seal", "A", "--yes")


def test_a_file_of_which_no_ack_says_whether_it_is_stored_keeps_its_chunks(
    account: Account, tmp_path: Path
) -> None:
    shell = Shell(account.url, tmp_path)
    shell.ok("object", "add", "O")
    file, acks = tmp_path / "file", itertools.count()
    file.write_text("content")

    def of_chunk_only(body: bytes) -> bytes:
        return body if next(acks) == 0 else b'{"stream": "X", "seq": 5}'

    with lying(account.url) as wire:
        wire.carries_changes = True
        wire.lie = Lie("publish", of_chunk_only)
        put = Shell(wire.url, tmp_path).run("object", "put", "O", str(file))
    assert put.returncode in (1, 4) and next(acks) > 1
    assert shell.ok("object", "get", "O", "file", "-O", "-") == "content"


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
