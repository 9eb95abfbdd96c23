"""What a change could not do to its end is said beside what it did, and scripts see it."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nats
import pytest

from natstui.jetstream.managing import replicas, restore, snapshot
from natstui.jetstream.managing.backup_folder import RESTORE_MARK
from natstui.jetstream.messages.copying import window
from natstui.jetstream.testbed.broker import Broker
from tests.accounts import Account, through
from tests.cli.processes import NatstuiProcess
from tests.cli.test_core import run
from tests.cli.test_manage import Shell
from tests.hostile_server import TRUTH, Lie, lying
from tests.serving import relay, serving

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
    monkeypatch.setattr(replicas, "REPLICAS_TIMEOUT_S", 0.0)
    Shell(account.url, tmp_path).ok("stream", "add", "S", "--subjects", "s", "--yes")
    with lying(account.url) as wire:
        wire.lie = Lie("STREAM.INFO", with_late_copy)
        done = Shell(wire.url, tmp_path).run("stream", "scale", "S", "1", "--yes")
    assert done.returncode == 4
    assert (
        "it was not complete within 0 s: it is on n1, n9 so far, not complete on n9" in done.stderr
    )


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
         "Subjects: requested t, but it is u now"),
        ("stream edit S --max-msgs 33 --yes", "STREAM.UPDATE", ("max_msgs", 7),
         "Maximum messages: requested 33, but it is 7 now"),
        pytest.param("stream edit S --max-msgs 33 --yes", "STREAM.UPDATE", ("max_age", 3 * 10**9),
         "Maximum age: requested 1h, but it is 3s now", marks=pytest.mark.long),
        ("stream edit S --max-msgs 33 --yes", "STREAM.INFO", ("max_msgs", 7),
         "Maximum messages was set to 33 and is now 7"),
        pytest.param(
            "consumer add S D --yes", "CONSUMER.CREATE", ("max_deliver", 77), None,
            marks=pytest.mark.long,
        ),
        pytest.param(
            "consumer add S D --max-deliver 4 --yes", "CONSUMER.CREATE", ("max_deliver", 77),
            "Maximum deliveries: requested 4, but it is 77 now", marks=pytest.mark.long,
        ),
        pytest.param(
            "consumer edit S C --max-deliver 4 --yes", "CONSUMER.CREATE", ("max_deliver", 77),
            "Maximum deliveries: requested 4, but it is 77 now", marks=pytest.mark.long,
        ),
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


@pytest.mark.parametrize(
    ("flags", "limits", "purged", "text"),
    [
        ((), (), 3, None),
        (("--keep", "1"), (), 2, None),
        (
            (),
            (),
            5,
            "the server replied that 5 messages were removed, but 3 of 3 are removed: 0 are",
        ),
        ((), (), 1, "the server replied that 1 message was removed, but 3 of 3 are removed"),
        (
            ("--subject", "other"),
            (),
            2,
            "2 messages were removed, but 0 of 3 are removed: 3 are left",
        ),
        # Its limits may have removed the others.
        ((), ("--max-age", "1h"), 1, None),
        ((), ("--max-age", "1h"), 4, "that 4 messages were removed, but 3 of 3 are removed"),
    ],
)
def test_a_purge_that_removed_another_number_than_the_server_says_is_no_success(
    flags: tuple[str, ...],
    limits: tuple[str, ...],
    purged: int,
    text: str | None,
    account: Account,
    tmp_path: Path,
) -> None:
    shell = Shell(account.url, tmp_path)
    shell.ok("stream", "add", "S", "--subjects", "s.>", *limits, "--yes")
    shell.ok("pub", "s.a", "x", "-J", "--count", "3")

    def lie(body: bytes) -> bytes:
        reply = json.loads(body)
        return json.dumps(reply | ({"purged": purged} if "purged" in reply else {})).encode()

    with lying(account.url) as wire:
        wire.carries_changes, wire.lie = True, Lie("STREAM.PURGE", lie)
        done = Shell(wire.url, tmp_path).run("stream", "purge", "S", *flags, "--yes")
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
         f"but it is {FAR} now"),
        ("consumer resume S C", "CONSUMER.PAUSE", {"paused": True, "pause_until": FAR},
         f"the server replied that it is paused until {FAR}"),
        ("consumer reset S C --seq 1", "CONSUMER.RESET", {"reset_seq": 99},
         "the server replied that it delivers again from sequence 99"),
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
        pytest.param(
            "kv put B k v", {"stream": "KV_B", "seq": 0}, "acknowledged with sequence 0",
            marks=pytest.mark.long,
        ),
        ("kv put B k v", {"stream": "KV_B", "seq": 1, "duplicate": True}, "as a duplicate of 1"),
        ("kv del B k", {"stream": "X", "seq": 5}, "acknowledged by stream X instead of KV_B"),
        ("object put O {file}", {"stream": "X", "seq": 5}, "by stream X instead of OBJ_O"),
        pytest.param(
            "object put O {file}", {"stream": "OBJ_O", "seq": 1, "duplicate": True}, "a duplicate",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "pub s x -J", {"stream": "S", "seq": -1}, "acknowledged with sequence -1",
            marks=pytest.mark.long,
        ),
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
    words: str,
    ack: dict[str, object],
    text: str,
    account: Account,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(window, "_RESEND_AFTER_S", 0.5)
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


def kept(shell: Shell, folder: Path, *streams: str) -> str:
    """Make streams of three messages, back them up as an account, and return the folder."""
    for name in streams:
        shell.ok("stream", "add", name, "--subjects", name.lower(), "--yes")
        shell.ok("pub", name.lower(), "x", "--count", "3", "-J")
    shell.ok("backup", str(folder))
    return str(folder)


def without_last_reply(body: bytes) -> bytes | None:
    """Lose the reply to the last byte of a restore; those to its parts are empty."""
    return None if body else body


def test_a_restore_without_its_last_reply_ends_and_says_what_the_server_has(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "LAST_REPLY_TIMEOUT_S", 0.5)
    shell = Shell(account.url, tmp_path)
    folder = kept(shell, tmp_path / "kept", "S")
    shell.ok("stream", "rm", "S", "--yes")
    with lying(account.url) as wire:
        wire.carries_changes, wire.lie = True, Lie("publish", without_last_reply)
        done = Shell(wire.url, tmp_path).run("stream", "restore", f"{folder}/S")
    assert done.returncode == 4
    assert 'no reply on "$JS.SNAPSHOT.RESTORE.S.' in done.stderr
    assert "the server may still restore it; read again, S is there: 3 messages" in done.stderr
    assert f"marked as {RESTORE_MARK}" in done.stderr
    assert json.loads(shell.ok("stream", "info", "S", "--json"))["state"]["messages"] == 3


class Cut:
    """A wire to the server that is cut once, in place of the reply to one of the requests."""

    def __init__(self, url: str, request: bytes, number: int, *, is_final: bool = False) -> None:
        self._url, self._request, self._left = url, request, number
        self._is_final = is_final
        self._is_cut = False

    async def join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what a client and the server send; after a final cut nothing."""
        if not (self._is_cut and self._is_final):
            await relay(reader, writer, self._url, self._up, self._down)

    def _up(self, data: bytes) -> bytes:
        self._left -= data.count(self._request)
        return data

    def _down(self, data: bytes) -> bytes:
        if self._left <= 0 and not self._is_cut and b"MSG " in data:
            self._is_cut = True
            raise ConnectionResetError
        return data


CHUNK = b"PUB $JS.SNAPSHOT.RESTORE.S."


@pytest.mark.parametrize(
    ("request_bytes", "number", "code", "text"),
    [
        (CHUNK, 1, 4, "the connection was lost before the reply arrived"),
        (CHUNK, 2, 4, f"read again, S is there: 3 messages, 96 B, 1…3, marked as {RESTORE_MARK}"),
        pytest.param(b"PUB $JS.API.CONSUMER.NAMES.S ", 1, 0, "", marks=pytest.mark.long),
        pytest.param(b"PUB $JS.API.STREAM.UPDATE.S ", 1, 0, "", marks=pytest.mark.long),
    ],
    ids=["a part", "the last part", "the comparison", "the mark"],
)
async def test_a_restore_whose_connection_is_lost_reads_again_what_the_server_has(
    account: Account, tmp_path: Path, request_bytes: bytes, number: int, code: int, text: str
) -> None:
    shell = Shell(account.url, tmp_path)
    folder = await asyncio.to_thread(kept, shell, tmp_path / "kept", "S")
    await run(shell, "stream", "rm", "S", "--yes")
    async with serving(Cut(account.url, request_bytes, number).join) as port:
        near = Shell(through(port, account.url), tmp_path)
        done = await run(near, "stream", "restore", f"{folder}/S")
    assert (done.returncode, text in done.stderr) == (code, True), done
    info = await run(shell, "stream", "info", "S", "--json")
    if number == 1 and code:
        assert "there is no stream S" in done.stderr or "was removed" in done.stderr, done
        assert info.returncode == 4, info
        return
    assert json.loads(info.stdout)["state"]["messages"] == 3
    assert (RESTORE_MARK in info.stdout) == (code != 0)


class CutAfter(Cut):
    """A wire that is cut in place of a request that follows another one."""

    def __init__(self, url: str, first: bytes, request: bytes) -> None:
        super().__init__(url, request, 1)
        self._first, self._is_due = first, False

    def _up(self, data: bytes) -> bytes:
        if self._is_due and self._request in data and not self._is_cut:
            self._is_cut = True
            raise ConnectionResetError
        self._is_due |= self._first in data
        return data

    def _down(self, data: bytes) -> bytes:
        return data


@pytest.mark.parametrize(
    ("words", "verb", "changed"),
    [
        ("stream purge S --yes", b"STREAM.PURGE", "1 message of S removed"),
        ("stream edit S --max-msgs 33", b"STREAM.UPDATE", "stream S changed"),
    ],
)
async def test_a_connection_that_ends_after_the_reply_makes_no_doubt_of_the_reply(
    account: Account, tmp_path: Path, words: str, verb: bytes, changed: str
) -> None:
    shell = Shell(account.url, tmp_path)
    await run(shell, "stream", "add", "S", "--subjects", "s")
    await run(shell, "pub", "s", "x", "-J")
    async with serving(CutAfter(account.url, verb, b"STREAM.INFO").join) as port:
        done = await run(Shell(through(port, account.url), tmp_path), *words.split())
    assert done.returncode == 4, done
    sentence = done.stderr.splitlines()[-1]
    assert f"{changed}, as the server replied; it could not be read again: " in sentence
    # That the server replied and that no reply came are two requests.
    assert "before the reply arrived" not in sentence
    assert sentence.count("the server closed the connection") == 1
    entry = json.loads((await run(shell, "journal", "--json")).stdout)[-1]
    assert entry["outcome"] == "done"


async def test_a_restore_whose_connection_stays_lost_says_how_to_see_what_the_server_has(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore, "RECONNECT_TIMEOUT_S", 0.5)
    shell = Shell(account.url, tmp_path)
    folder = await asyncio.to_thread(kept, shell, tmp_path / "kept", "S")
    for request, said in (
        (CHUNK, "a part of S may be on the server and could not be removed"),
        (b"PUB $JS.API.CONSUMER.NAMES.S ", "S is restored, but was not compared"),
        (
            b"PUB $JS.API.STREAM.UPDATE.S ",
            f"no reply shows that its mark {RESTORE_MARK} was removed",
        ),
    ):
        await run(shell, "stream", "rm", "S", "--yes")
        async with serving(Cut(account.url, request, 1, is_final=True).join) as port:
            near = Shell(through(port, account.url), tmp_path)
            done = await run(near, "stream", "restore", f"{folder}/S")
        assert done.returncode == 4, done
        assert said in done.stderr
        assert "natstui stream info S shows what the server has" in done.stderr


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_restore_that_waits_for_its_last_reply_ends_with_the_first_signal(
    account: Account, tmp_path: Path, number: signal.Signals
) -> None:
    shell = Shell(account.url, tmp_path)
    folder = kept(shell, tmp_path / "kept", "S")
    shell.ok("stream", "rm", "S", "--yes")
    with lying(account.url) as wire:
        wire.carries_changes, wire.lie = True, Lie("publish", without_last_reply)
        environment = Shell(wire.url, tmp_path).environment
        process = NatstuiProcess("stream", "restore", f"{folder}/S", environment=environment)
        until_s = time.monotonic() + 30
        while shell.run("stream", "info", "S").returncode:
            assert time.monotonic() < until_s
            time.sleep(0.05)
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 128 + number, said
    assert "the restore was stopped: all of S was sent, and the server has not replied" in said
    assert "read again, S is there: 3 messages" in said
    assert json.loads(shell.ok("stream", "info", "S", "--json"))["state"]["messages"] == 3


def elsewhere(url: str, requests: dict[str, dict[str, object] | None]) -> None:
    """Send requests of somebody else to the JetStream API, and wait for their replies."""

    async def send() -> None:
        nc = await nats.connect(url)
        for verb, body in requests.items():
            await nc.request(f"$JS.API.{verb}", json.dumps(body or {}).encode(), timeout=30)
        await nc.close()

    other = threading.Thread(target=lambda: asyncio.run(send()))
    other.start()
    other.join()


def recreated(name: str) -> dict[str, dict[str, object] | None]:
    """Return the requests that delete a stream and make another one of its name."""
    config = {"name": name, "subjects": [name.lower()]}
    return {f"STREAM.DELETE.{name}": None, f"STREAM.CREATE.{name}": config}


@pytest.mark.parametrize("verb", ["CONSUMER.NAMES", "STREAM.UPDATE"])
def test_a_restored_stream_that_somebody_recreated_is_not_called_the_restored_one(
    account: Account, tmp_path: Path, verb: str
) -> None:
    shell = Shell(account.url, tmp_path)
    folder = kept(shell, tmp_path / "kept", "S")
    shell.ok("stream", "rm", "S", "--yes")

    def meanwhile(body: bytes) -> bytes:
        wire.lie = TRUTH
        elsewhere(account.url, recreated("S"))
        return body

    with lying(account.url) as wire:
        wire.carries_changes, wire.lie = True, Lie(verb, meanwhile)
        done = Shell(wire.url, tmp_path).run("stream", "restore", f"{folder}/S")
    assert done.returncode == 4, done
    assert "somebody deleted and recreated it meanwhile; it is left alone" in done.stderr
    assert "natstui stream rm" not in done.stderr


@pytest.mark.parametrize("is_recreated", [False, True])
def test_a_listed_stream_that_is_not_in_the_backup_of_an_account_is_named(
    account: Account, tmp_path: Path, is_recreated: bool
) -> None:
    shell = Shell(account.url, tmp_path)
    kept(shell, tmp_path / "kept", "A", "B", "C")
    requests = recreated("B") if is_recreated else {"STREAM.DELETE.B": None}

    def meanwhile(body: bytes) -> bytes:
        if wire.requests[-1].endswith("CONSUMER.LIST.B"):
            elsewhere(account.url, requests)
        return body

    with lying(account.url) as wire:
        wire.lie = Lie("CONSUMER.LIST", meanwhile)
        done = Shell(wire.url, tmp_path).run("backup", str(tmp_path / "again"))
    assert done.returncode == 4
    what = "deleted and recreated" if is_recreated else "deleted"
    assert f"not complete: stream B was {what} during the backup" in done.stderr
    assert [line[:2] for line in done.stdout.splitlines()] == ["A:", "C:"]
    verified = shell.run("backup", "verify", str(tmp_path / "again"))
    assert verified.returncode == 6 and f"not complete: stream B was {what}" in verified.stderr


def test_an_edit_never_overwrites_what_somebody_changed_before_its_last_read(
    account: Account, tmp_path: Path
) -> None:
    shell = Shell(account.url, tmp_path)
    shell.ok("stream", "add", "S", "--subjects", "s")
    words = ("stream", "edit", "S", "--description", "mine", "--yes")
    with lying(account.url) as wire:
        wire.carries_changes = True
        Shell(wire.url, tmp_path).ok(*words)
    subjects = [subject for subject in wire.requests if subject.endswith(".S")]
    (update,) = (at for at, subject in enumerate(subjects) if "STREAM.UPDATE" in subject)
    assert "STREAM.INFO" in subjects[update - 1], "directly before it"
    last_read = sum("STREAM.INFO" in subject for subject in subjects[:update])
    assert last_read > 1
    for reads_count in range(1, last_read):
        replies = itertools.count(1)
        other = {"name": "S", "subjects": ["s", f"other{reads_count}"], "description": "theirs"}

        def meanwhile(
            body: bytes,
            replies: Iterator[int] = replies,
            reads_count: int = reads_count,
            other: dict[str, object] = other,
        ) -> bytes:
            if next(replies) == reads_count:
                elsewhere(account.url, {"STREAM.UPDATE.S": other})
            return body

        with lying(account.url) as wire:
            wire.carries_changes, wire.lie = True, Lie("STREAM.INFO", meanwhile)
            refused = Shell(wire.url, tmp_path).run(*words)
        assert refused.returncode == 4, reads_count
        assert "was changed by somebody else meanwhile: nothing was written" in refused.stderr
        assert shell.config("stream", "info", "S")["description"] == "theirs"


EDITS = {
    "stream": ("stream edit S --description mine --yes", "STREAM.UPDATE", "Description", "mine"),
    "consumer": ("consumer edit S C --description mine", "CONSUMER.CREATE", "Description", "mine"),
    "no value": ("stream edit S --max-age 0 --yes", "STREAM.UPDATE", "Maximum age", "unlimited"),
}


@pytest.mark.parametrize(
    ("kind", "when"),
    [
        ("stream", "at once"),
        ("consumer", "later"),
        ("no value", "later"),
        pytest.param("stream", "later", marks=pytest.mark.long),
        pytest.param("consumer", "at once", marks=pytest.mark.long),
        pytest.param("no value", "at once", marks=pytest.mark.long),
    ],
)
def test_an_edit_that_somebody_overwrote_at_the_same_moment_is_no_success(
    account: Account, tmp_path: Path, kind: str, when: str
) -> None:
    words, verb, label, wanted = EDITS[kind]
    shell = Shell(account.url, tmp_path)
    shell.ok("stream", "add", "S", "--subjects", "s", "--max-age", "1h")
    shell.ok("consumer", "add", "S", "C")
    base = shell.config(*("consumer info S C" if kind == "consumer" else "stream info S").split())
    other: dict[str, dict[str, object] | None] = {"STREAM.UPDATE.S": {**base, "max_msgs": 99}}
    if kind == "consumer":
        config = {**base, "max_deliver": 99}
        other = {"CONSUMER.CREATE.S.C": {"stream_name": "S", "config": config, "action": "update"}}

    def meanwhile(body: bytes) -> bytes:
        asked = [request for request in wire.requests if verb in request]
        is_after = wire.requests[-1] not in asked
        if asked and is_after == (when == "later"):
            wire.lie = TRUTH
            elsewhere(account.url, other)
        return body

    with lying(account.url) as wire:
        read = "CONSUMER.INFO" if kind == "consumer" else "STREAM.INFO"
        wire.carries_changes = True
        wire.lie = Lie(verb if when == "at once" else read, meanwhile)
        done = Shell(wire.url, tmp_path).run(*words.split())
    assert done.returncode == 4, done
    assert wire.lie is TRUTH
    assert "somebody else changed it at the same time" in done.stderr
    assert label in done.stderr and wanted in done.stderr
    undone = shell.run("undo", "--yes")
    assert undone.returncode == 4, "what is there now is theirs"
    shell.ok(*words.split())


def test_an_undo_of_an_edit_that_somebody_added_to_at_the_same_moment_is_refused(
    account: Account, tmp_path: Path
) -> None:
    shell = Shell(account.url, tmp_path)
    shell.ok("stream", "add", "S", "--subjects", "s")
    base = shell.config("stream", "info", "S")

    def meanwhile(body: bytes) -> bytes:
        wire.lie = TRUTH
        other = {**base, "description": "mine", "subjects": ["s", "theirs"]}
        elsewhere(account.url, {"STREAM.UPDATE.S": other})
        return body

    with lying(account.url) as wire:
        wire.carries_changes, wire.lie = True, Lie("STREAM.UPDATE", meanwhile)
        words = ("stream", "edit", "S", "--description", "mine", "--yes")
        done = Shell(wire.url, tmp_path).run(*words)
    assert done.returncode == 0 and "requested" not in done.stderr, done
    assert shell.run("undo", "--yes").returncode == 4
    assert shell.config("stream", "info", "S")["subjects"] == ["s", "theirs"]


@pytest.mark.parametrize("words", ["stream seal S --yes", "stream move S --tag a --yes"])
def test_what_was_changed_after_it_was_read_is_never_set_back(
    account: Account, tmp_path: Path, words: str
) -> None:
    shell = Shell(account.url, tmp_path)
    shell.ok("stream", "add", "S", "--subjects", "s")
    other = {"name": "S", "subjects": ["s"], "description": "theirs"}

    def meanwhile(body: bytes) -> bytes:
        wire.lie = TRUTH
        elsewhere(account.url, {"STREAM.UPDATE.S": other})
        return body.replace(b'"cluster":{', b'"cluster":{"name":"C",')

    with lying(account.url) as wire:
        wire.carries_changes, wire.lie = True, Lie("STREAM.INFO", meanwhile)
        refused = Shell(wire.url, tmp_path).run(*words.split())
    assert refused.returncode == 4, refused
    assert "was changed by somebody else meanwhile: nothing was written" in refused.stderr
    assert shell.config("stream", "info", "S")["description"] == "theirs"


@pytest.mark.parametrize("meant", ["stream_info_response", "stream_update_response"])
def test_a_stream_that_is_recreated_while_it_is_moved_is_told(
    account: Account, tmp_path: Path, meant: str
) -> None:
    Shell(account.url, tmp_path).ok("stream", "add", "S", "--subjects", "s")
    moments = [lambda: elsewhere(account.url, recreated("S"))]

    def meanwhile(body: bytes) -> bytes:
        if meant.encode() in body and moments:
            moments.pop()()
        return body.replace(b'"cluster":{', b'"cluster":{"name":"C",')

    with lying(account.url) as wire:
        wire.carries_changes, wire.lie = True, Lie("", meanwhile)
        done = Shell(wire.url, tmp_path).run("stream", "move", "S", "--tag", "a", "--yes")
    assert done.returncode == 4, done.stdout
    assert "recreated" in done.stderr, done.stderr
    assert "is current on" not in done.stdout


def test_a_stream_of_a_server_alone_is_not_moved(account: Account, tmp_path: Path) -> None:
    shell = Shell(account.url, tmp_path)
    shell.ok("stream", "add", "S", "--subjects", "s", "--yes")
    for place in (("--tag", "a"), ("--cluster", "C")):
        done = shell.run("stream", "move", "S", *place, "--yes")
        assert (done.returncode, done.stdout) == (4, ""), done.stderr
        assert "the server of S is in no cluster: there is no other one" in done.stderr
    assert "placement" not in shell.config("stream", "info", "S")


def test_a_stream_that_is_recreated_while_it_is_backed_up_is_refused(
    account: Account, tmp_path: Path
) -> None:
    shell = Shell(account.url, tmp_path)
    kept(shell, tmp_path / "kept", "S")

    def meanwhile(body: bytes) -> bytes:
        wire.lie = TRUTH
        elsewhere(account.url, recreated("S"))
        return body

    with lying(account.url) as wire:
        wire.lie = Lie("STREAM.INFO", meanwhile)
        done = Shell(wire.url, tmp_path).run("stream", "backup", "S", str(tmp_path / "again"))
    assert done.returncode == 4
    assert "stream S was deleted and recreated during the backup" in done.stderr
    assert not (tmp_path / "again").exists()


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
    assert put.returncode == 0 and next(acks) > 1
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
