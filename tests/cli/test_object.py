"""`natstui object`: written here and read with nats-py, and the other way round."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from pathlib import Path

import nats.js.errors
import pytest
from nats.js import api

from tests.accounts import Account
from tests.cli.beside import Begin, run_beside, stop
from tests.cli.test_core import connected, run
from tests.cli.test_manage import Shell

pytestmark = pytest.mark.server

CONTENT = random.Random(1).randbytes(700_001)


@pytest.fixture
def shell(account: Account, tmp_path: Path) -> Shell:
    return Shell(account.url, tmp_path)


PUT = ("object", "put", "B", "--name", "f", "--yes")
"""Of what is written into the standard input."""


async def test_a_file_put_here_is_got_with_another_client_and_deleted(
    shell: Shell, account: Account, tmp_path: Path
) -> None:
    file = tmp_path / "a file.bin"
    file.write_bytes(CONTENT)
    for words in (
        ("add", "B", "--description", "files"),
        ("put", "B", str(file), "--description", "mine"),
        ("put", "B", "/dev/null", "--name", "empty"),
    ):
        done = await run(shell, "object", *words)
        assert done.returncode == 0, (words, done.stderr)
    async with connected(account.url) as nc:
        js = nc.jetstream()
        store = await js.object_store("B")
        got = await store.get("a file.bin")
        assert got.data == CONTENT
        assert (got.info.size, got.info.chunks, got.info.description) == (700_001, 6, "mine")
        assert (await store.get("empty")).data == b""
        assert sorted(one.name for one in await store.list()) == ["a file.bin", "empty"]
        file.write_bytes(b"second")
        refused = await run(shell, "object", "put", "B", str(file))
        assert refused.returncode == 5 and "684 KiB, is overwritten" in refused.stderr
        assert (await store.get("a file.bin")).data == CONTENT
        assert (await run(shell, "object", "put", "B", str(file), "--yes")).returncode == 0
        assert (await store.get("a file.bin")).data == b"second"
        # The parts of the first one are gone.
        assert (await js.stream_info("OBJ_B")).state.messages == 3
        assert (await run(shell, "object", "rm", "B", "a file.bin", "--yes")).returncode == 0
        with pytest.raises(nats.js.errors.ObjectNotFoundError):
            await store.get("a file.bin")
        assert (await js.stream_info("OBJ_B")).state.messages == 2
    entries = json.loads((await run(shell, "journal", "--json")).stdout)
    assert [one["action"] for one in entries] == [
        "create_stream", "put_object", "put_object", "put_object", "delete_object",
    ]  # fmt: skip
    assert "cannot be undone" in (await run(shell, "undo")).stderr


async def test_a_file_put_by_another_client_is_got_here_its_digest_checked(
    shell: Shell, account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with connected(account.url) as nc:
        js = nc.jetstream()
        store = await js.create_object_store("B")
        await store.put("dir/big", CONTENT)
        await store.put("gone", b"x")
        await store.delete("gone")
        other = await js.create_object_store("OTHER")
        options = api.ObjectMetaOptions(link=api.ObjectLink(bucket="B", name="dir/big"))
        link = api.ObjectInfo(name="link", bucket="OTHER", nuid="x", size=0, chunks=0,
                              options=options)  # fmt: skip
        subject = "$O.OTHER.M.bGluaw=="
        await js.publish(subject, json.dumps(link.as_dict()).encode())
        assert (await other.get_info("link")).is_link()
        done = await run(shell, "object", "get", "B", "dir/big")
        assert done.returncode == 0, done.stderr
        assert Path("big").read_bytes() == CONTENT
        again = await run(shell, "object", "get", "B", "dir/big")
        assert again.returncode == 2 and "exists already" in again.stderr
        assert (await run(shell, "object", "get", "OTHER", "link", "-O", "linked")).returncode == 0
        assert Path("linked").read_bytes() == CONTENT
        told = json.loads((await run(shell, "object", "ls", "B", "--json")).stdout)
        assert [(one["name"], one["size_bytes"], one["chunks_count"]) for one in told] == [
            ("dir/big", 700_001, 6)
        ]
        assert told[0] == json.loads(
            (await run(shell, "object", "info", "B", "dir/big", "--json")).stdout
        )
        listed = json.loads((await run(shell, "object", "ls", "--json")).stdout)
        assert [one["config"]["name"] for one in listed] == ["OBJ_B", "OBJ_OTHER"]
        for name, code in (("gone", 4), ("none", 4), ("..", 2)):
            assert (await run(shell, "object", "get", "B", name)).returncode == code
        # A part of it is replaced by another one of the same length.
        info = await store.get_info("dir/big")
        await js.purge_stream("OBJ_B", subject=f"$O.B.C.{info.nuid}", keep=5)
        short = await run(shell, "object", "get", "B", "dir/big", "-O", "short")
        assert short.returncode == 4 and "not complete" in short.stderr
        await js.publish(f"$O.B.C.{info.nuid}", b"x" * 128 * 1024)
        wrong = await run(shell, "object", "get", "B", "dir/big", "-O", "wrong")
        assert wrong.returncode == 4 and "is damaged" in wrong.stderr
    assert sorted(one.name for one in tmp_path.iterdir() if one.is_file()) == ["big", "linked"]


async def test_a_link_stands_for_a_file_and_a_sealed_store_takes_nothing(
    shell: Shell, account: Account, tmp_path: Path
) -> None:
    file = tmp_path / "f"
    file.write_bytes(CONTENT)
    for words in (
        ("add", "B"), ("add", "OTHER"), ("put", "B", str(file), "--name", "a/f"),
        ("put", "B", str(file), "--name", "plain"),
        ("link", "OTHER", "far", "B/a/f"), ("link", "B", "near", "plain"),
    ):  # fmt: skip
        done = await run(shell, "object", *words)
        assert done.returncode == 0, (words, done.stderr)
    async with connected(account.url) as nc:
        store = await nc.jetstream().object_store("OTHER")
        info = await store.get_info("far")
        assert info.options is not None and info.options.link is not None
        assert (info.options.link.bucket, info.options.link.name) == ("B", "a/f")
        assert (await store.get("far")).data == CONTENT, "as another client follows it"
    got = tmp_path / "got"
    assert (await run(shell, "object", "get", "OTHER", "far", "-O", str(got))).returncode == 0
    assert got.read_bytes() == CONTENT
    for words, said in (
        (("link", "OTHER", "x", "B/none"), "B has no object none"),
        (("link", "OTHER", "x", "OTHER/far"), "is a link itself"),
        (("link", "B", "plain", "a/f", "--yes"), "no object store a"),
        (("link", "B", "plain", "B/a/f", "--yes"), "is a file already"),
        (("link", "OTHER", "far", "B/plain"), "is a link already"),
        (("seal", "B"), "this will edit object store B: it stays sealed"),
    ):
        done = await run(shell, "object", *words)
        assert done.returncode in (2, 4, 5) and said in done.stderr, (words, done.stderr)
    assert (await run(shell, "object", "rm", "OTHER", "far", "--yes")).returncode == 0
    assert (await run(shell, "object", "seal", "B", "--yes")).returncode == 0
    # Nothing is announced, or asked for, that is refused then.
    refused = "natstui: object store B is sealed: nothing can change\n"
    for words in (("put", "B", str(file)), ("put", "B", str(file), "--name", "plain"),
                  ("rm", "B", "plain", "--yes"), ("link", "B", "x", "B/plain")):  # fmt: skip
        done = await run(shell, "object", *words)
        assert (done.returncode, done.stderr) == (4, refused), words
    assert "yes" in (await run(shell, "object", "info", "B")).stdout


@pytest.mark.parametrize("content", [CONTENT, b""], ids=["file", "empty"])
async def test_chunks_that_a_full_store_never_had_do_not_stay_in_it(
    shell: Shell, account: Account, tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "f"
    file.write_bytes(content)
    async with connected(account.url) as nc:
        await nc.jetstream().add_stream(
            name="OBJ_B", subjects=["$O.B.C.>", "$O.B.M.>"], max_bytes=1,
            discard=api.DiscardPolicy.NEW, deny_purge=True,
        )  # fmt: skip
        done = await run(shell, "object", "put", "B", str(file))
        assert done.returncode == 4
        assert "; nothing was stored" in done.stderr and "chunk" not in done.stderr, done.stderr
        assert (await nc.jetstream().stream_info("OBJ_B")).state.messages == 0


async def test_chunks_that_cannot_be_removed_again_are_counted(
    shell: Shell, account: Account, tmp_path: Path
) -> None:
    file = tmp_path / "f"
    file.write_bytes(CONTENT)
    async with connected(account.url) as nc:
        await nc.jetstream().add_stream(
            name="OBJ_B", subjects=["$O.B.C.>", "$O.B.M.>"], max_bytes=300_000,
            discard=api.DiscardPolicy.NEW, deny_purge=True,
        )  # fmt: skip
        done = await run(shell, "object", "put", "B", str(file))
        assert done.returncode == 4
        assert "the file was not stored, and 2 chunks of it stay in B: " in done.stderr
        assert (await nc.jetstream().stream_info("OBJ_B")).state.messages == 2


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.long)]
)
def test_a_put_that_is_stopped_leaves_nothing(
    shell: Shell, account: Account, number: signal.Signals
) -> None:
    async def work(begin: Begin) -> None:
        async with connected(account.url) as nc:
            js = nc.jetstream()
            await (await js.create_object_store("B")).put("f", b"before")
            begin()
            await asyncio.to_thread(file.write, CONTENT)
            while (await js.stream_info("OBJ_B")).state.messages < 5:
                await asyncio.sleep(0.05)
        # Whoever writes into the pipe has stalled, and leaves it open.
        stop(number)

    async def left() -> tuple[int, bytes | None]:
        async with connected(account.url) as nc:
            js = nc.jetstream()
            count = (await js.stream_info("OBJ_B")).state.messages
            return count, (await (await js.object_store("B")).get("f")).data

    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as stdin, os.fdopen(writer, "wb", 0) as file:
        done = run_beside(work, *PUT, environment=shell.environment, stdin=stdin)
        file.close()
    assert done.returncode == 128 + number
    (entry,) = json.loads(shell.ok("journal", "--json"))
    reason = "it was stopped: what it had stored was removed"
    assert (entry["outcome"], entry["reason"]) == ("failed", reason)
    assert asyncio.run(left()) == (2, b"before")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("recreate", "the object store B was deleted and recreated meanwhile: f was not stored"),
        pytest.param(
            "purge",
            "chunks: another client or a limit of the store removed the others: f was not",
            marks=pytest.mark.long,
        ),
    ],
)
async def test_a_file_whose_chunks_are_removed_while_it_is_put_is_not_stored(
    shell: Shell, account: Account, change: str, said: str
) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as stdin, os.fdopen(writer, "wb", 0) as file:
        async with connected(account.url) as nc:
            js = nc.jetstream()
            await js.create_object_store("B")
            putting = asyncio.create_task(asyncio.to_thread(shell.run, *PUT, stdin=stdin))
            await asyncio.to_thread(file.write, CONTENT)
            async with asyncio.timeout(60):
                while (await js.stream_info("OBJ_B")).state.messages < 5:
                    await asyncio.sleep(0.05)
            if change == "recreate":
                await js.delete_stream("OBJ_B")
                await js.create_object_store("B")
            else:
                await js.purge_stream("OBJ_B")
            await asyncio.to_thread(file.write, CONTENT)
            file.close()
            done = await putting
            assert done.returncode == 4, done.stderr
            assert said in done.stderr
            # What was stored after the removal is removed too.
            assert (await js.stream_info("OBJ_B")).state.messages == 0


async def test_a_store_that_makes_room_for_the_end_of_a_file_has_not_stored_it(
    shell: Shell, account: Account
) -> None:
    async with connected(account.url) as nc:
        js = nc.jetstream()
        await js.add_stream(
            name="OBJ_B", subjects=["$O.B.C.>", "$O.B.M.>"], max_bytes=400_000,
            discard="old", allow_rollup_hdrs=True, allow_direct=True,
        )  # fmt: skip
        put = await asyncio.to_thread(
            shell.run, "object", "put", "B", "--name", "f", "--yes", stdin="x" * 1_000_000
        )
        assert put.returncode == 4, put.stderr
        assert "another client or a limit of the store removed the others" in put.stderr


async def test_a_file_that_cannot_be_read_to_its_end_is_not_put(
    shell: Shell, account: Account
) -> None:
    assert (await run(shell, "object", "add", "B")).returncode == 0
    refused = await run(shell, "object", "put", "B", "/proc/self/mem")
    assert refused.returncode == 2 and "cannot be read" in refused.stderr
    async with connected(account.url) as nc:
        assert (await nc.jetstream().stream_info("OBJ_B")).state.messages == 0
