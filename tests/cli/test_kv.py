"""`natstui kv`: written here and read with nats-py, and the other way round."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import nats.js.errors
import pytest
from nats.js.kv import KeyValue

from natstui.config.connection import Connection
from natstui.engine.server_commands import execute_store
from natstui.jetstream.connection.client import connect
from natstui.jetstream.connection.journal import Journal
from natstui.jetstream.connection.nats_client import HeaderPairs
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.messages.keys import leave_out_superseded, read_key
from natstui.jetstream.messages.reading import StreamMessage
from natstui.jetstream.testbed.broker import Broker
from natstui.model.assets.buckets import is_key_filter
from natstui.model.records.stores import ChangeKey
from tests.accounts import Account
from tests.cli.key_history import history_of, keys_of
from tests.cli.test_core import PATIENCE_S, connected, run
from tests.cli.test_manage import Shell

pytestmark = pytest.mark.server

BINARY = bytes(range(256))


@pytest.fixture
def shell(account: Account, tmp_path: Path) -> Shell:
    return Shell(account.url, tmp_path)


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


async def test_what_is_put_here_is_read_with_another_client(
    shell: Shell, account: Account, tmp_path: Path
) -> None:
    (tmp_path / "value").write_bytes(BINARY)
    for words in (
        ("add", "B", "--history", "5", "--ttl", "1d", "--max-value-size", "1KB"),
        ("put", "B", "a.b", "one"),
        ("put", "B", "a.b", "two", "--if-revision", "1"),
        ("create", "B", "bin", "--file", str(tmp_path / "value")),
        ("put", "B", "gone", "x"),
        ("del", "B", "gone"),
    ):
        done = await run(shell, "kv", *words)
        assert done.returncode == 0, (words, done.stderr)
    async with connected(account.url) as nc:
        kv = await nc.jetstream().key_value("B")
        entry = await kv.get("a.b")
        assert (entry.value, entry.revision) == (b"two", 2)
        assert (await kv.get("bin")).value == BINARY
        with pytest.raises(nats.js.errors.KeyNotFoundError):
            await kv.get("gone")
        assert await keys_of(kv) == ["a.b", "bin"]
        assert [(one.value, one.operation) for one in await history_of(kv, "gone")] == [
            (b"x", None), (b"", "DEL"),
        ]  # fmt: skip
        assert ((await kv.status()).history, (await kv.status()).ttl) == (5, 86_400)
        done = await run(shell, "kv", "purge", "B", "a.b", "--yes")
        assert "all 2 revisions of a.b are removed for good" in done.stderr
        assert [one.operation for one in await history_of(kv, "a.b")] == ["PURGE"]


def test_a_bucket_is_deleted_under_its_own_name(shell: Shell) -> None:
    for group, what, prefix in (("kv", "bucket", "KV_"), ("object", "object store", "OBJ_")):
        for bucket in ("R", "T"):
            shell.ok(group, "add", bucket)
        asked = shell.run(group, "rm", "R")
        assert asked.returncode == 5 and f"this will delete {what} R: " in asked.stderr
        assert prefix not in asked.stderr
        refused = shell.run(group, "rm", "R", "--confirm", "T")
        assert refused.returncode == 5 and "'T' is not 'R': nothing was changed" in refused.stderr
        shell.environment["NATSTUI_CONNECTION_PRODUCTION"] = "true"
        production = shell.run(group, "rm", "R", "--yes")
        del shell.environment["NATSTUI_CONNECTION_PRODUCTION"]
        assert production.returncode == 5 and "use --confirm R" in production.stderr
        done = shell.run(group, "rm", "R", "--confirm", "R")
        assert (done.returncode, done.stdout) == (0, f"{what} R deleted\n"), done.stderr
        # Scripts confirm with the name of the stream.
        shell.ok(group, "rm", "T", "--confirm", f"{prefix}T")
        gone = shell.run(group, "rm", "R", "--yes")
        assert gone.returncode == 4 and f"there is no {what} R" in gone.stderr


NAMING = (
    "kv add B", "kv rm {}", "kv put {} k v", "kv create {} k v", "kv del {} k",
    "kv purge {} k", "kv get {} k", "kv history {} k", "kv keys {}", "kv ls {}",
    "kv watch {} --wait 1ms", "object add B", "object rm {}", "object put {} /dev/null",
    "object get {} f", "object rm {} f", "object link {} l f", "object link B l {}/f",
    "object ls {}", "object info {}", "object info {} f", "object seal {}", "object seal {} --yes",
)  # fmt: skip


@pytest.mark.parametrize("bucket", ["B", "NONE"])
def test_who_names_a_bucket_reads_nothing_of_a_stream(bucket: str, shell: Shell) -> None:
    shell.ok("kv", "add", "B")
    added = shell.ok("object", "add", "B")
    assert added == "object store B created\n"
    for words in NAMING:
        # Nothing is changed but by the last one.
        shell.environment["NATSTUI_CONNECTION_PRODUCTION"] = str("--yes" not in words).lower()
        done = shell.run(*words.format(bucket).split())
        said = done.stdout + done.stderr
        assert "KV_" not in said and "OBJ_" not in said and "stream" not in said, (words, said)
        if bucket == "NONE" and "{}" in words:
            assert done.returncode in (4, 5) and "NONE" in said, (words, said)


async def test_a_stream_that_only_has_the_name_of_a_bucket_is_neither_deleted_nor_sealed(
    shell: Shell,
) -> None:
    for name, words in (("KV_FAKE", ("kv", "rm")), ("OBJ_FAKE", ("object", "rm"))):
        assert (await run(shell, "stream", "add", name, "--subjects", name)).returncode == 0
        done = await run(shell, *words, "FAKE", "--yes")
        assert done.returncode == 5, done.stderr
        assert f"{name} is a stream and no bucket: its subjects are {name}" in done.stderr
    done = await run(shell, "object", "seal", "FAKE", "--yes")
    assert (done.returncode, "and no bucket" in done.stderr) == (5, True), done.stderr
    for words in (("kv", "add", "B"), ("object", "add", "B"), ("kv", "rm", "B", "--yes"),
                  ("object", "rm", "B", "--yes")):  # fmt: skip
        done = await run(shell, *words)
        assert done.returncode == 0, (words, done.stderr)
    listed = await run(shell, "stream", "ls", "--json")
    assert {row["config"]["name"] for row in json.loads(listed.stdout)} == {"KV_FAKE", "OBJ_FAKE"}


async def filled(kv: KeyValue) -> None:
    await kv.put("a.b", b"one")
    await kv.put("a.b", b"two")
    await kv.put("bin", BINARY)
    await kv.put("gone", b"x")
    await kv.delete("gone")
    await kv.put("purged", b"x")
    await kv.purge("purged")


@pytest.mark.parametrize("direct", [True, False])
async def test_what_another_client_put_is_read_here(
    shell: Shell, account: Account, direct: bool
) -> None:
    async with connected(account.url) as nc:
        js = nc.jetstream()
        await filled(await js.create_key_value(bucket="B", history=3, direct=direct))
        await js.create_key_value(bucket="EMPTY")
    got = await run(shell, "kv", "get", "B", "a.b")
    assert got.stdout == "two", got.stderr
    whole = json.loads((await run(shell, "kv", "get", "B", "bin", "--json")).stdout)
    assert (whole["revision"], whole["operation"], whole["value"]) == (3, "PUT", None)
    first = await run(shell, "kv", "get", "B", "a.b", "--revision", "1", "--json")
    assert json.loads(first.stdout)["value"] == "one"
    for key in ("gone", "purged", "none"):
        missing = await run(shell, "kv", "get", "B", key)
        assert (missing.returncode, missing.stdout) == (4, ""), key
    other = await run(shell, "kv", "get", "B", "bin", "--revision", "1")
    assert other.returncode == 4 and "belongs to key a.b" in other.stderr
    assert json.loads((await run(shell, "kv", "keys", "B", "-j")).stdout) == ["a.b", "bin"]
    assert (await run(shell, "kv", "keys", "B", "a.*")).stdout == "a.b\n"
    assert (await run(shell, "kv", "ls", "EMPTY")).stdout == ""
    told = lines((await run(shell, "kv", "history", "B", "a.b", "--json")).stdout)
    assert [(one["revision"], one["value"]) for one in told] == [(1, "one"), (2, "two")]
    every = lines((await run(shell, "kv", "history", "B", ">", "--json")).stdout)
    assert [one["operation"] for one in every] == ["PUT", "PUT", "PUT", "PUT", "DEL", "PURGE"]
    listed = json.loads((await run(shell, "kv", "ls", "--json")).stdout)
    assert [one["config"]["name"] for one in listed] == ["KV_B", "KV_EMPTY"]
    assert (await run(shell, "kv", "get", "NONE", "a")).returncode == 4
    async with connected(account.url) as nc:
        # Nothing that read is left behind.
        assert (await nc.jetstream().stream_info("KV_B")).state.consumer_count == 0


def test_a_bucket_that_stores_keys_under_other_names_takes_no_change(shell: Shell) -> None:
    shell.ok("kv", "add", "B")
    transform = '{"subject_transform": {"src": "$KV.B.>", "dest": "$KV.B.pre.>"}}'
    (shell.folder / "t.json").write_text(transform)
    shell.ok("stream", "edit", "KV_B", "--file", str(shell.folder / "t.json"), "--yes")
    for words in (("put", "B", "k", "v"), ("create", "B", "k", "v")):
        done = shell.run("kv", *words)
        assert (done.returncode, done.stdout) == (4, "")
        assert "B stores keys under other names (subject transform)" in done.stderr
    assert shell.run("kv", "ls", "B").stdout == ""


def test_nothing_is_announced_of_a_sealed_bucket_that_is_refused_then(shell: Shell) -> None:
    shell.ok("kv", "add", "B")
    shell.ok("kv", "put", "B", "a", "x")
    shell.ok("stream", "seal", "KV_B", "--yes")
    for words in ("put B a x", "del B a", "purge B a --yes", "create B b x"):
        done = shell.run("kv", *words.split())
        assert done.returncode == 4, words
        assert done.stderr == "natstui: bucket B is sealed: nothing can change\n"


async def test_changes_are_seen_as_they_come(shell: Shell, account: Account) -> None:
    async with connected(account.url) as nc:
        kv = await nc.jetstream().create_key_value(bucket="B", history=3)
        await kv.put("a", b"1")
        await kv.put("b", b"1")
        words = ("kv", "watch", "B", "--json", "--count", "5")
        watching = asyncio.create_task(run(shell, *words))
        async with asyncio.timeout(PATIENCE_S):
            while not (await nc.jetstream().stream_info("KV_B")).state.consumer_count:
                await asyncio.sleep(0.05)
        await kv.put("a", b"2")
        await kv.delete("b")
        await kv.purge("a")
        async with asyncio.timeout(PATIENCE_S):
            done = await watching
        told = [(one["key"], one["operation"], one["value"]) for one in lines(done.stdout)]
        assert told == [
            ("a", "PUT", "1"), ("b", "PUT", "1"), ("a", "PUT", "2"), ("b", "DEL", ""),
            ("a", "PURGE", ""),
        ]  # fmt: skip
        quiet = await run(shell, "kv", "watch", "B", "b", "--history", "--wait", "1500ms")
        assert [line.split()[2] for line in quiet.stdout.splitlines()] == ["PUT", "DEL"]


def test_a_change_is_taken_back_with_the_value_before(shell: Shell) -> None:
    shell.ok("kv", "add", "B", "--history", "4")
    shell.ok("kv", "put", "B", "k", "one")
    shell.ok("kv", "put", "B", "k", "two")
    shell.ok("undo")
    assert shell.ok("kv", "get", "B", "k") == "one"
    shell.ok("kv", "del", "B", "k")
    shell.ok("undo")
    assert shell.ok("kv", "get", "B", "k") == "one"
    shell.ok("kv", "create", "B", "new", "x")
    shell.ok("undo")
    assert shell.run("kv", "get", "B", "new").returncode == 4
    shell.ok("kv", "put", "B", "k", "three")
    put = json.loads(shell.ok("journal", "--json"))[-1]
    assert (put["action"], put["stream"], put["consumer"]) == ("put_key", "KV_B", "k")
    assert "three" not in json.dumps(put)
    shell.ok("kv", "put", "B", "k", "four")
    changed = shell.run("undo", put["entry"])
    assert changed.returncode == 4 and "changed again in the meantime" in changed.stderr
    shell.ok("kv", "purge", "B", "k", "--yes")
    assert "cannot be undone" in shell.run("undo").stderr
    said = shell.ok("journal", "--commands").splitlines()
    assert said[1:3] == ["nats kv put B k", "nats kv put B k"]
    assert said[-1] == "nats kv purge B k --force"


def test_changes_are_taken_back_one_after_the_other_and_made_again(shell: Shell) -> None:
    shell.ok("kv", "add", "B", "--history", "20")
    for value in ("one", "two", "three"):
        shell.ok("kv", "put", "B", "k", value)
    shell.ok("kv", "del", "B", "k")
    for value in ("three", "two", "one"):
        shell.ok("undo")
        assert shell.ok("kv", "get", "B", "k") == value
    # The undo of an undo makes the change again, and is the last change then.
    undo = json.loads(shell.ok("journal", "--json"))[-1]["entry"]
    shell.ok("undo", undo)
    assert shell.ok("kv", "get", "B", "k") == "two"
    shell.ok("undo")
    assert shell.ok("kv", "get", "B", "k") == "one"
    shell.ok("undo")
    assert shell.run("kv", "get", "B", "k").returncode == 4
    # What somebody else put meanwhile is not replaced.
    shell.ok("kv", "put", "B", "k", "four")
    shell.ok("kv", "put", "B", "k", "five")
    shell.ok("undo")
    shell.ok("pub", "$KV.B.k", "theirs", "-J", "--yes")
    put = json.loads(shell.ok("journal", "--json"))[-4]["entry"]
    changed = shell.run("undo", put)
    assert changed.returncode == 4 and "changed again in the meantime" in changed.stderr


CHANGES_A_KEY = "it changes or deletes key k of bucket B"
SCHEDULED = "Nats-Schedule-Target:$KV.B.k"


CHANGING_MESSAGES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("pub", "$KV.B.k", "x"), CHANGES_A_KEY),
    (("pub", "$KV.B.k", "x", "-J"), CHANGES_A_KEY),
    (("request", "$KV.B.k", "x", "--timeout", "300ms"), CHANGES_A_KEY),
    (("request", "$KV.B.k", "x", "--replies", "0", "--timeout", "300ms"), CHANGES_A_KEY),
    (("pub", "s.a", "x", "--reply", "$KV.B.k"), CHANGES_A_KEY),
    (("pub", "s.a", "x", "--header", SCHEDULED), CHANGES_A_KEY),
    (("pub", "$O.F.M.Zg==", "{}"), "it replaces the entry of object f in store F"),
    (("pub", "$O.F.C.id", "x"), "it adds a chunk to the objects of store F"),
    (("messages", "copy", "S", "--to-subject", "$KV.B.k"), CHANGES_A_KEY),
    (
        ("messages", "copy", "S", "--map", "s.>:$KV.B.>", "--to-stream", "KV_B"),
        "it changes or deletes keys of bucket B",
    ),
    (("messages", "copy", "--from-file", "FILE", "--to-stream", "KV_B"), CHANGES_A_KEY),
)


def test_a_message_that_changes_a_key_or_an_object_is_confirmed_as_one(
    shell: Shell, tmp_path: Path
) -> None:
    def objects() -> object:
        return json.loads(shell.ok("stream", "info", "OBJ_F", "--json"))["state"]["messages"]

    shell.ok("kv", "add", "B", "--history", "5")
    shell.ok("object", "add", "F")
    shell.ok("kv", "put", "B", "k", "old")
    shell.ok("stream", "add", "S", "--subjects", "s.>")
    shell.ok("pub", "s.a", "x", "-J")
    file = tmp_path / "messages.jsonl"
    shell.ok("messages", "copy", "KV_B", "--to-file", str(file))
    for case, text in CHANGING_MESSAGES:
        words = tuple(word.replace("FILE", str(file)) for word in case)
        shell.ok("kv", "put", "B", "k", "newer", "--yes")
        before = objects()
        refused = shell.run(*words)
        assert refused.returncode == 5, refused
        assert text in refused.stderr, words
        assert shell.ok("kv", "get", "B", "k") == "newer", words
        assert objects() == before, words
        assert shell.run(*words, "--yes").returncode != 5, words
    # What no stream has is no bucket.
    shell.ok("pub", "$KV.NONE.k", "x")


def test_a_value_comes_back_with_its_headers(shell: Shell) -> None:
    shell.ok("kv", "add", "B", "--history", "5")
    headers = ("X-Who:me", "X-Who:you", "Nats-Msg-Id:1", "Nats-Expected-Stream:KV_B")
    flags = [word for header in headers for word in ("--header", header)]
    shell.ok("pub", "$KV.B.k", "one", "-J", "--yes", *flags)
    shell.ok("kv", "put", "B", "k", "two")
    shell.ok("undo")
    message = json.loads(shell.ok("stream", "get", "KV_B", "--last-for", "$KV.B.k", "--json"))
    kept = [pair for pair in message["headers"] if not pair[0].startswith("Nats-Expected")]
    assert kept == [["X-Who", "me"], ["X-Who", "you"]]


async def test_an_earlier_value_is_put_again_with_its_headers(account: Account) -> None:
    client = await connect(Connection(servers=(account.url,)))
    await client.request(
        "STREAM.CREATE.KV_B",
        {"name": "KV_B", "subjects": ["$KV.B.>"], "max_msgs_per_subject": 5},
    )
    headers = [
        ("Content-Encoding", "gzip"),
        ("X-Who", "me"),
        ("X-Who", "you"),
        ("Nats-Msg-Id", "1"),
    ]
    await client.request_subject("$KV.B.k", b"\x1f\x8bzip", headers=HeaderPairs(headers))
    await client.request_subject("$KV.B.k", b"plain")
    revert = ChangeKey(1, "put_key", "B", "k", of_revision_seq=1, if_revision_seq=2)
    await execute_store(Writer(client, Journal()), revert)
    entry = await read_key(client, "B", "k")
    assert (entry.revision, entry.value) == (3, b"\x1f\x8bzip")
    own = [pair for pair in entry.headers if not pair[0].startswith("Nats-Expected")]
    assert own == headers[:3]
    await client.close()


async def test_a_revision_that_is_a_deletion_is_no_empty_value(shell: Shell) -> None:
    for words in (("add", "B", "--history", "5"), ("put", "B", "k", "x"), ("del", "B", "k")):
        assert (await run(shell, "kv", *words)).returncode == 0
    words = ("kv", "get", "B", "k", "--revision", "2")
    done = await run(shell, *words)
    assert (done.returncode, done.stdout) == (4, "")
    assert "revision 2 of key k of B is its deletion" in done.stderr
    done = await run(shell, *words, "--json")
    assert json.loads(done.stdout)["operation"] == "DEL"


def test_a_value_that_cannot_be_put_back_is_named_before_it_goes(shell: Shell) -> None:
    shell.ok("kv", "add", "B")
    shell.ok("kv", "put", "B", "k", "first")
    entry = json.loads(shell.ok("journal", "--json"))[-1]["entry"]
    refused = shell.run("kv", "put", "B", "k", "second")
    assert refused.returncode == 5
    assert "revision 1 of k, 5 B, is removed for good: B keeps 1 value" in refused.stderr
    assert shell.ok("kv", "get", "B", "k") == "first"
    shell.ok("kv", "put", "B", "k", "second", "--yes")
    gone = shell.run("undo")
    assert gone.returncode == 4 and "revision 1 is deleted" in gone.stderr
    shell.ok("kv", "rm", "B", "--yes")
    shell.ok("kv", "add", "B")
    shell.ok("kv", "put", "B", "k", "other")
    again = shell.run("undo", entry, "--yes")
    assert again.returncode == 4 and "was recreated in the meantime" in again.stderr
    assert shell.ok("kv", "get", "B", "k") == "other"


def test_a_revision_that_is_not_the_newest_is_not_written_over(shell: Shell) -> None:
    shell.ok("kv", "add", "B", "--history", "2")
    shell.ok("kv", "create", "B", "k", "1")
    for words in (("create", "B", "k", "2"), ("put", "B", "k", "2", "--if-revision", "7")):
        refused = shell.run("kv", *words)
        assert refused.returncode == 4 and "revision 1" in refused.stderr
    shell.ok("kv", "del", "B", "k")
    shell.ok("kv", "create", "B", "k", "again")
    for words, code in (
        (("put", "B", "a b", "x"), 2),
        (("put", "B", "a.*", "x"), 2),
        (("put", "B.C", "a", "x"), 2),
        (("del", "B", "none"), 4),
        (("purge", "B", "none"), 4),
        (("put", "NONE", "a", "x"), 4),
    ):
        assert shell.run("kv", *words, "--yes").returncode == code, words


def test_a_filter_of_keys_is_a_subject() -> None:
    right = ("a", "a.b", "*", ">", "a.*.b", "a.>", "x/y=z_1-")
    assert all(map(is_key_filter, right))
    assert not any(map(is_key_filter, ("", "a.", ".a", "a..b", "a*", ">.a", "a b")))


async def test_many_keys_are_all_listed(shell: Shell, account: Account) -> None:
    count = 3_000
    async with connected(account.url) as nc:
        await nc.jetstream().create_key_value(bucket="B")
        for number in range(count):
            if number % 1_000 == 999:
                # A stream drops what comes faster than it stores.
                await nc.request(f"$KV.B.key.{number}", b"%d" % number, timeout=30)
            else:
                await nc.publish(f"$KV.B.key.{number}", b"%d" % number)
        async with asyncio.timeout(PATIENCE_S):
            while (await nc.jetstream().stream_info("KV_B")).state.messages < count:
                await asyncio.sleep(0.1)
        done = await run(shell, "kv", "keys", "B", "--json")
        assert len(json.loads(done.stdout)) == count


async def test_watching_goes_on_after_the_server_was_away(
    nats_server: Broker, tmp_path: Path
) -> None:
    shell = Shell(nats_server.url, tmp_path)
    async with connected(nats_server.url) as nc:
        kv = await nc.jetstream().create_key_value(bucket="B", history=3)
        await kv.put("a", b"1")
    words = ("kv", "watch", "B", "--json", "--count", "4")
    loss_text = "natstui: the connection is lost; changes made in the meantime are printed later"
    watching = asyncio.create_task(run(shell, *words))
    async with connected(nats_server.url) as nc, asyncio.timeout(PATIENCE_S):
        while not (await nc.jetstream().stream_info("KV_B")).state.consumer_count:
            await asyncio.sleep(0.05)
    await asyncio.to_thread(nats_server.restart)
    async with connected(nats_server.url) as nc:
        kv = await nc.jetstream().key_value("B")
        for number in (2, 3, 4):
            await kv.put("a", b"%d" % number)
    async with asyncio.timeout(PATIENCE_S):
        done = await watching
    assert [one["value"] for one in lines(done.stdout)] == ["1", "2", "3", "4"]
    assert loss_text in done.stderr
    assert "natstui: 4 changes; the connection was lost 1 time\n" in done.stderr


@pytest.mark.parametrize(
    ("left_msgs", "shown_seqs"), [(3, [1, 4, 5, 6, 7, 8]), (0, [1, 3, 4, 5, 6, 7, 8])]
)
async def test_a_watch_that_goes_on_shows_no_revision_that_was_superseded_before(
    left_msgs: int, shown_seqs: list[int]
) -> None:
    restarts_count = 0

    async def read() -> AsyncIterator[StreamMessage]:
        nonlocal restarts_count
        yield StreamMessage("a", 1, 0, (), b"", 5)
        restarts_count = 1
        for seq, subject in ((2, "b"), (3, "b"), (4, "b"), (5, "c"), (6, "b"), (7, "b"), (8, "b")):
            left = left_msgs if seq == 3 else 9
            yield StreamMessage(subject, seq, 0, (), b"", left)

    newest = leave_out_superseded(read(), 5, lambda: restarts_count > 0)
    assert [message.stream_seq async for message in newest] == shown_seqs


@pytest.mark.parametrize(
    "words",
    [
        "kv keys B", "kv history B a", "kv watch B --wait 100ms", "object ls B",
        "object get B f --output -",
    ],
)  # fmt: skip
async def test_what_interest_retention_would_remove_is_not_read_with_a_consumer(
    shell: Shell, account: Account, words: str
) -> None:
    stream = "KV_B" if words.startswith("kv") else "OBJ_B"
    async with connected(account.url) as nc:
        js = nc.jetstream()
        kv = await js.create_key_value(bucket="B")
        for key in ("a", "b"):
            await kv.put(key, b"x")
        await (await js.create_object_store("B")).put("f", b"content")
        # Servers before 2.15 also keep what no consumer needs, and a reader here removes that.
        await js.add_consumer(stream, durable_name="C", ack_policy="explicit")
        await js.update_stream((await js.stream_info(stream)).config.evolve(retention="interest"))
        assert (await js.stream_info(stream)).state.messages == 2
        done = await run(shell, *words.split())
        assert (done.returncode, done.stdout) == (5, ""), done.stderr
        assert "has interest retention, so reading here could remove messages" in done.stderr
        assert (await js.stream_info(stream)).state.messages == 2


async def test_a_ttl_below_that_of_markers_is_told_as_what_it_becomes(
    shell: Shell, account: Account
) -> None:
    async with connected(account.url) as nc:
        for bucket, history in ("ONE", "1"), ("MORE", "5"):
            words = ("--marker-ttl", "10m", "--history", history)
            await run(shell, "kv", "add", bucket, *words)
            short = (await run(shell, "kv", "create", bucket, "k", "x", "--ttl", "3s")).stdout
            message = await nc.jetstream().get_last_msg(f"KV_{bucket}", f"$KV.{bucket}.k")
            assert message.headers is not None
            is_lifted = message.headers["Nats-TTL"] != "3s"
            assert ("kept 10m00s, not 3s" in short) == is_lifted, short
            long = (await run(shell, "kv", "create", bucket, "l", "x", "--ttl", "11m")).stdout
            assert "kept" not in long
