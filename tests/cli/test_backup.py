"""Backup and restore against real servers: whole, compared, or not there at all."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nats.aio.msg import Msg

from natstui.jetstream.connection.decode.streams import read_state
from natstui.jetstream.managing import restore
from natstui.jetstream.managing.backup import find_reached_limits
from natstui.jetstream.managing.backup_folder import RESTORE_MARK
from natstui.model.assets.fields import without_server_metadata
from tests.accounts import Account, ClusterAccount
from tests.cli.key_history import history_of
from tests.cli.rewriting import speaking
from tests.cli.test_core import connected
from tests.cli.test_manage import Done, Shell
from tests.jetstream.flushing import flushed
from tests.jetstream.pending import until_pending

pytestmark = pytest.mark.server


@pytest.fixture
def shell(account: Account, tmp_path: Path) -> Shell:
    return Shell(account.url, tmp_path)


def other_shell(account: Account, folder: Path) -> Shell:
    return Shell(account.url, folder / "other")


async def filled(url: str) -> None:
    """Make streams with holes, limits per subject, headers, compression and consumers at work."""
    async with connected(url) as nc:
        js = nc.jetstream()
        config = {"name": "S", "subjects": ["s.>"], "compression": "s2",
                  "max_msgs_per_subject": 7, "metadata": {"owner": "me"}}  # fmt: skip
        await nc.request("$JS.API.STREAM.CREATE.S", json.dumps(config).encode(), timeout=20)
        for number in range(300):
            await js.publish(f"s.{number % 20}", b"%d" % number, headers={"K": f"v{number}"})
        for seq in range(200, 230):
            await js.delete_msg("S", seq)
        await js.add_consumer("S", durable_name="C", ack_policy="explicit", ack_wait=3600)
        pulled = await js.pull_subscribe("s.>", durable="C", stream="S")
        messages = await pulled.fetch(10)
        for message in messages[:4]:
            await message.ack_sync(timeout=30)
        kv = await js.create_key_value(bucket="B", history=3)
        for number in range(30):
            await kv.put(f"k.{number % 6}", b"%d" % number)
        await kv.delete("k.1")
        store = await js.create_object_store("O")
        await store.put("file", b"x" * 300_000)
        await js.add_stream(name="EMPTY", subjects=["e"])


def backed_up(shell: Shell, folder: Path, *flags: str) -> None:
    """Back up a small stream S with a consumer."""
    shell.ok("stream", "add", "S", "--subjects", "s.>")
    shell.ok("consumer", "add", "S", "C")
    shell.ok("pub", "s.a", "x", "--count", "5", "-J")
    shell.ok("stream", "backup", "S", str(folder), *flags)


async def everything(url: str, stream: str) -> list[tuple[Any, ...]]:
    """Return every message that a stream holds, read with nats-py."""
    found = []
    async with connected(url) as nc:
        js = nc.jetstream()
        state = (await js.stream_info(stream)).state
        for seq in range(state.first_seq, state.last_seq + 1):
            body = json.dumps({"seq": seq}).encode()
            reply = json.loads(
                (await nc.request(f"$JS.API.STREAM.MSG.GET.{stream}", body, timeout=20)).data
            )
            if "message" in reply:
                one = reply["message"]
                found.append((seq, one["subject"], one.get("hdrs"), one.get("data"), one["time"]))
    return found


def test_an_account_is_the_same_after_it_was_restored_elsewhere(
    shell: Shell,
    account: Account,
    new_account: Callable[[], Account],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(restore, "_MIN_STABLE_S", 0.3)
    asyncio.run(filled(account.url))
    folder = str(tmp_path / "kept")
    said = shell.ok("backup", folder)
    assert "\nS: 110 messages" in said
    names = ["EMPTY", "KV_B", "OBJ_O", "S"]
    assert sorted(one.name for one in Path(folder).iterdir() if one.is_dir()) == names
    assert sorted(one.name for one in Path(folder, "S").iterdir()) == [
        "backup.json", "natstui.json", "stream.tar.s2",
    ]  # fmt: skip
    written = json.loads(shell.ok("backup", str(tmp_path / "again"), "--json"))["streams"]
    assert set(written[0]) == {
        "stream", "state", "consumers_count", "data_bytes", "remark", "removed_msgs", "is_whole",
    }  # fmt: skip
    verified = json.loads(shell.ok("backup", "verify", folder, "--json"))
    assert [one["stream"] for one in verified["streams"]] == names
    other = new_account()
    target = other_shell(other, tmp_path)
    assert target.run("restore", folder, "--read-only").returncode == 5
    restored = {
        one["name"]: one for one in json.loads(target.ok("restore", folder, "--json"))["streams"]
    }
    assert set(restored["S"]) == {"name", "state", "consumers_count", "remarks", "is_same"}
    info = json.loads(target.ok("stream", "info", "S", "--json"))
    assert restored["S"]["state"].keys() == info["state"].keys()
    for name in names:
        assert asyncio.run(everything(other.url, name)) == asyncio.run(
            everything(account.url, name)
        )
        assert target.config("stream", "info", name) == shell.config("stream", "info", name)
    was = json.loads(shell.ok("consumer", "info", "S", "C", "--json"))
    now = json.loads(target.ok("consumer", "info", "S", "C", "--json"))
    assert now["config"] == was["config"]
    assert now["ack_floor"]["stream_seq"] == was["ack_floor"]["stream_seq"]
    unacknowledged = was["num_ack_pending"] + was["num_pending"]
    assert now["num_ack_pending"] + now["num_pending"] == unacknowledged
    asyncio.run(buckets_are_usable(other.url))
    entries = json.loads(target.ok("journal", "--json"))
    assert [one["action"] for one in entries] == ["restore_stream"] * 4
    assert {one["stream"] for one in entries} == set(names)


async def buckets_are_usable(url: str) -> None:
    async with connected(url) as nc:
        js = nc.jetstream()
        kv = await js.key_value("B")
        assert (await kv.get("k.2")).value == b"26"
        assert len(await history_of(kv, "k.2")) == 3
        store = await js.object_store("O")
        assert (await store.get("file")).data == b"x" * 300_000
        assert (await js.publish("s.0", b"new")).seq == 301


@pytest.mark.needs_server("2.15")
def test_a_stream_is_never_restored_over_another_and_can_have_another_name(
    shell: Shell, account: Account, tmp_path: Path
) -> None:
    asyncio.run(filled(account.url))
    folder = str(tmp_path / "kept")
    shell.ok("stream", "backup", "S", folder)
    assert shell.run("stream", "backup", "S", folder).returncode == 6
    before = asyncio.run(everything(account.url, "S"))
    refused = shell.run("stream", "restore", folder)
    assert refused.returncode == 4 and "S exists already" in refused.stderr
    # The subjects are those of S, and no two streams have the same.
    command = f"natstui stream restore {folder} --as NAME --subjects SUBJECT restores it"
    assert command in refused.stderr
    overlapping = shell.run("stream", "restore", folder, "--as", "T")
    assert overlapping.returncode == 4 and "overlap" in overlapping.stderr
    shell.ok("stream", "add", "S2", "--subjects", "u")
    shell.ok("stream", "backup", "S2", str(tmp_path / "two"))
    shell.ok("stream", "edit", "S2", "--subjects", "v")
    refused = shell.run("stream", "restore", str(tmp_path / "two"))
    assert "--as NAME restores it under another name\n" in refused.stderr
    shell.ok("stream", "restore", str(tmp_path / "two"), "--as", "U")
    shell.ok("stream", "restore", folder, "--as", "T", "--subject", "t.>")
    assert asyncio.run(everything(account.url, "T")) == before
    assert (
        shell.config("stream", "info", "T")["metadata"]
        == shell.config("stream", "info", "S")["metadata"]
    )
    assert "T" in json.loads(shell.ok("undo", "--yes", "--json"))["text"]
    assert "not found" in shell.run("stream", "info", "T").stderr
    assert asyncio.run(everything(account.url, "S")) == before


def test_a_restore_asks_before_its_push_consumers_deliver(
    shell: Shell, account: Account, tmp_path: Path
) -> None:
    shell.ok("stream", "add", "S", "--subjects", "s.>")
    shell.ok("consumer", "add", "S", "P", "--target", "app.in")
    shell.ok("pub", "s.a", "x", "--count", "3", "-J")

    async def counted() -> None:
        async with connected(account.url) as nc:
            await until_pending(nc.jetstream(), "S", 3, "P")

    asyncio.run(counted())
    shell.ok("stream", "backup", "S", str(tmp_path / "kept"))
    shell.ok("stream", "rm", "S", "--yes")
    refused = shell.run("stream", "restore", str(tmp_path / "kept"))
    assert refused.returncode == 5
    assert "P of S delivers up to 3 messages to app.in" in refused.stderr
    shell.ok("stream", "restore", str(tmp_path / "kept"), "--yes")


@pytest.mark.needs_server(before="2.15")
def test_a_backup_names_the_consumers_that_the_server_leaves_out(
    shell: Shell, tmp_path: Path
) -> None:
    shell.ok("stream", "add", "S", "--subjects", "s.>")
    shell.ok("consumer", "add", "S", "C")
    shell.ok("consumer", "add", "S", "M", "--memory")
    done = shell.run("stream", "backup", "S", str(tmp_path / "kept"))
    text = "without 1 consumer, which the server left out: M"
    assert done.returncode == 4 and text in done.stderr, done
    done = shell.run("backup", "verify", str(tmp_path / "kept"))
    assert done.returncode == 6 and text in done.stdout, done


def test_a_folder_with_two_backups_of_one_stream_is_refused_before_anything_is_restored(
    shell: Shell, tmp_path: Path
) -> None:
    (tmp_path / "account").mkdir()
    for name in ("A", "B"):
        shell.ok("stream", "add", name, "--subjects", name.lower())
        for folder in {"A": ["one"], "B": ["three", "two"]}[name]:
            shell.ok("stream", "backup", name, str(tmp_path / "account" / folder))
        shell.ok("stream", "rm", name, "--yes")
    for words in (("backup", "verify"), ("restore",)):
        done = shell.run(*words, str(tmp_path / "account"))
        assert (done.returncode, done.stdout) == (6, "")
        assert "account has two backups of B: three and two; move one of them" in done.stderr
    assert json.loads(shell.ok("stream", "ls", "--json")) == []


@pytest.mark.parametrize(
    "made_by",
    [
        "natstui",
        pytest.param("nats", marks=[pytest.mark.needs_server("2.15"), pytest.mark.long]),
    ],
)
def test_of_a_truncated_backup_nothing_stays_behind(
    shell: Shell, account: Account, tmp_path: Path, made_by: str
) -> None:
    asyncio.run(large(account.url, 2_500))
    folder = tmp_path / "kept"
    shell.ok("stream", "backup", "S", str(folder))
    shell.ok("stream", "rm", "S", "--yes")
    data = folder / "stream.tar.s2"
    whole = data.read_bytes()
    if made_by == "nats":
        (folder / "natstui.json").unlink()
    data.write_bytes(whole[: len(whole) // 2])
    for words in (("backup", "verify", str(folder)), ("stream", "restore", str(folder))):
        refused = shell.run(*words)
        assert refused.returncode == 6 and "not complete" in refused.stderr, words
    if made_by == "nats":
        # Cut off between two blocks: only the server can tell.
        data.write_bytes(whole[: ends_of_blocks(whole)[-2]])
        refused = shell.run("stream", "restore", str(folder))
        assert refused.returncode == 4 and "was removed" in refused.stderr
    assert "S" not in [row["config"]["name"] for row in json.loads(shell.ok("stream", "ls", "-j"))]
    data.write_bytes(whole)
    shell.ok("stream", "restore", str(folder))


def ends_of_blocks(data: bytes) -> list[int]:
    ends, at = [], 0
    while at < len(data):
        at += 4 + int.from_bytes(data[at + 1 : at + 4], "little")
        ends.append(at)
    return ends


def test_a_changed_byte_is_noticed_before_anything_is_sent(shell: Shell, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    backed_up(shell, folder, "--no-consumers")
    assert json.loads((folder / "natstui.json").read_text())["consumers"] == []
    for name in ("stream.tar.s2", "backup.json"):
        content = bytearray((folder / name).read_bytes())
        content[len(content) // 2] ^= 1
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(content)
        assert shell.run("backup", "verify", str(folder)).returncode == 6
        (folder / name).write_bytes(whole)
    assert shell.run("backup", "verify", str(tmp_path / "none")).returncode == 6
    assert shell.run("stream", "backup", "NONE", str(tmp_path / "none")).returncode == 4
    assert sorted(one.name for one in tmp_path.iterdir() if "none" in one.name) == []


async def large(url: str, messages_count: int = 4_000) -> None:
    async with connected(url) as nc:
        await nc.jetstream().add_stream(name="S", subjects=["s.>"])
        for number in range(messages_count):
            await nc.publish(f"s.{number}", random.randbytes(1000))
        await flushed(nc)
        # The server has taken them, but a stream stores what was not asked for in its own time.
        while (await nc.jetstream().stream_info("S")).state.messages < messages_count:
            await asyncio.sleep(0.05)


def run_killed(shell: Shell, number: int, after_s: float, *words: str) -> None:
    """Start a command and send it a signal after so long, if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "natstui", *words],
        env={**os.environ, **shell.environment}, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        process.send_signal(number)
        process.wait(60)


@pytest.mark.long
def test_a_backup_killed_at_random_moments_leaves_none_that_looks_whole(
    shell: Shell, account: Account, tmp_path: Path
) -> None:
    asyncio.run(large(account.url))
    rate = ("--rate", "4MB")
    folder = tmp_path / "kept"
    for turn in range(20):
        number = signal.SIGKILL if turn % 2 else signal.SIGTERM
        # Of one that was killed; who is stopped before it began leaves that as it was.
        before = {*tmp_path.glob(".kept.*.part/backup.json")}
        run_killed(
            shell, number, random.uniform(0.5, 2.5), "stream", "backup", "S", str(folder), *rate
        )
        if folder.exists():
            shell.ok("backup", "verify", str(folder))
            (folder / "backup.json").rename(folder / "x")
            folder.rename(tmp_path / f"whole{turn}")
        if number == signal.SIGTERM:
            assert before.issuperset(tmp_path.glob(".kept.*.part/backup.json"))
    shell.ok("stream", "backup", "S", str(folder))
    shell.ok("backup", "verify", str(folder))
    assert not list(tmp_path.glob(".*.part"))


@pytest.mark.long
def test_a_restore_killed_at_random_moments_leaves_nothing_or_says_so(
    shell: Shell, account: Account, tmp_path: Path
) -> None:
    asyncio.run(large(account.url))
    folder = tmp_path / "kept"
    shell.ok("stream", "backup", "S", str(folder))
    shell.ok("stream", "rm", "S", "--yes")
    words = ("stream", "restore", str(folder), "--rate", "4MB")
    for turn in range(20):
        number = signal.SIGKILL if turn % 2 else signal.SIGTERM
        run_killed(shell, number, random.uniform(0.5, 2.5), *words)
        seen = shell.run("stream", "info", "S", "--json")
        if seen.returncode:
            continue
        info = json.loads(seen.stdout)
        if RESTORE_MARK not in info["config"].get("metadata", {}):
            assert info["state"]["messages"] == 4_000
        else:
            assert number == signal.SIGKILL
            refused = shell.run(*words)
            assert refused.returncode == 4 and "did not end" in refused.stderr
        shell.ok("stream", "rm", "S", "--yes")
    until = time.monotonic() + 60
    while (done := shell.run("stream", "restore", str(folder))).returncode:
        assert time.monotonic() < until, done.stderr
    assert json.loads(shell.ok("stream", "info", "S", "--json"))["state"]["messages"] == 4_000


@pytest.mark.cluster
@pytest.mark.needs_server("2.15")
def test_a_replicated_stream_is_restored_with_its_consumers(
    cluster_account: ClusterAccount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore, "_MIN_STABLE_S", 0.5)
    shell = Shell(cluster_account.url, tmp_path)
    shell.ok("stream", "add", "S", "--subjects", "s", "--replicas", "3")
    shell.ok("consumer", "add", "S", "C")
    shell.ok("pub", "s", "x", "--count", "50", "-J")
    folder = str(tmp_path / "kept")
    shell.ok("stream", "backup", "S", folder)
    shell.ok("stream", "restore", folder, "--as", "ONE", "--subject", "one", "--replicas", "1")
    shell.ok("stream", "rm", "S", "--yes")
    done = json.loads(shell.ok("stream", "restore", folder, "--json"))["streams"][0]
    assert (done["state"]["messages"], done["consumers_count"]) == (50, 1)
    assert shell.config("stream", "info", "S")["num_replicas"] == 3
    assert shell.config("stream", "info", "ONE")["num_replicas"] == 1


async def published_meanwhile(shell: Shell, url: str, folder: str) -> None:
    async with connected(url) as nc:
        working = asyncio.create_task(
            asyncio.to_thread(shell.ok, "stream", "backup", "S", folder, "--rate", "1MB")
        )
        while not working.done():
            await nc.jetstream().publish("s.new", b"x" * 1000)
        await working


@pytest.mark.long
@pytest.mark.needs_server("2.15")
def test_a_backup_of_a_stream_that_is_written_to_is_one_moment_of_it(
    shell: Shell, account: Account, tmp_path: Path
) -> None:
    asyncio.run(large(account.url, 500))
    folder = str(tmp_path / "kept")
    asyncio.run(published_meanwhile(shell, account.url, folder))
    shell.ok("stream", "rm", "S", "--yes")
    done = json.loads(shell.ok("stream", "restore", folder, "--json"))["streams"][0]
    assert done["remarks"] == []
    assert done["state"]["messages"] == done["state"]["last_seq"] >= 500


KINDS: dict[str, dict[str, Any]] = {
    "COUNTER": {"subjects": ["counter"], "allow_msg_counter": True},
    "EXPIRING": {"subjects": ["expiring"], "max_age": 1_000_000_000},
    "INTEREST": {"subjects": ["interest"], "retention": "interest"},
    "MEMORY": {"subjects": ["memory"], "storage": "memory"},
    "QUEUE": {"subjects": ["queue"], "retention": "workqueue"},
    "SEALED": {"subjects": ["sealed"]},
}


async def every_kind(url: str) -> None:
    async with connected(url) as nc:
        js = nc.jetstream()

        async def ask(verb: str, body: dict[str, Any]) -> None:
            reply = await nc.request(f"$JS.API.{verb}", json.dumps(body).encode(), timeout=20)
            assert "error" not in json.loads(reply.data), reply.data

        for name, config in KINDS.items():
            await ask(f"STREAM.CREATE.{name}", {"name": name, **config})
        for name in ("INTEREST", "QUEUE"):
            await js.add_consumer(name, durable_name="C", ack_policy="explicit")
        for name in KINDS:
            for _ in range(20):
                headers = {"Nats-Incr": "1"} if name == "COUNTER" else None
                payload = b"" if name == "COUNTER" else b"x"
                await js.publish(name.lower(), payload, headers=headers)
        pulled = await js.pull_subscribe("queue", durable="C", stream="QUEUE")
        for message in (await pulled.fetch(5))[:3]:
            await message.ack_sync(timeout=30)
        await ask("STREAM.CREATE.MIRROR", {"name": "MIRROR", "mirror": {"name": "MEMORY"}})
        await ask("STREAM.CREATE.SOURCED", {"name": "SOURCED", "sources": [{"name": "MEMORY"}]})
        for name in ("MIRROR", "SOURCED"):
            async with asyncio.timeout(60):
                while (await js.stream_info(name)).state.messages < 20:
                    await asyncio.sleep(0.1)
        sealed = await nc.request("$JS.API.STREAM.INFO.SEALED", timeout=20)
        config = json.loads(sealed.data)["config"]
        await ask("STREAM.UPDATE.SEALED", {**config, "sealed": True})


async def published(url: str, subject: str) -> None:
    async with connected(url) as nc:
        await nc.jetstream().publish(subject, b"new")


async def holds(url: str, stream: str, wanted_msgs: int) -> None:
    """Wait until a stream has so many messages, and all of its origin; fail if it has more."""
    async with connected(url) as nc, asyncio.timeout(60):
        while True:
            reply = await nc.request(f"$JS.API.STREAM.INFO.{stream}", timeout=20)
            info = json.loads(reply.data)
            origins = info.get("sources") or [info["mirror"]]
            behind = any(origin["lag"] or origin["active"] < 0 for origin in origins)
            if info["state"]["messages"] >= wanted_msgs and not behind:
                break
            await asyncio.sleep(0.1)
        assert info["state"]["messages"] == wanted_msgs


@pytest.mark.needs_server("2.15")
def test_streams_of_every_kind_are_kept_and_restored(
    shell: Shell, account: Account, new_account: Callable[[], Account], tmp_path: Path
) -> None:
    asyncio.run(every_kind(account.url))
    folder = str(tmp_path / "kept")
    shell.ok("backup", folder)
    time.sleep(1.1)  # what is kept for 1 s is too old now, and that is no mistake
    other = new_account()
    target = other_shell(other, tmp_path)
    done = json.loads(target.ok("restore", folder, "--json", "--yes"))["streams"]
    said = {one["name"]: one["remarks"] for one in done if one["remarks"]}
    # A source that is there again is another one to the server, which tells both apart.
    again = "its source MEMORY was recreated: the messages of MEMORY are copied once more"
    said.pop("EXPIRING", None)  # whose messages the server removes in its own time
    assert said == {"SOURCED": [again]}
    shell.ok("stream", "backup", "SOURCED", f"{folder}2")
    shell.ok("stream", "rm", "SOURCED", "--yes")
    one = json.loads(shell.ok("stream", "restore", f"{folder}2", "--json"))["streams"][0]
    assert one["remarks"] == []
    for url, sourced_msgs in ((account.url, 21), (other.url, 41)):
        asyncio.run(published(url, "memory"))
        asyncio.run(holds(url, "SOURCED", sourced_msgs))
        asyncio.run(holds(url, "MIRROR", 21))
    for name in {*KINDS} - {"EXPIRING", "MEMORY"}:
        one, two = (each.config("stream", "info", name) for each in (shell, target))
        assert without_server_metadata(one) == without_server_metadata(two)
        assert asyncio.run(everything(other.url, name)) == asyncio.run(
            everything(account.url, name)
        )


@pytest.mark.parametrize(
    ("limits", "headers", "why"),
    [
        ({"max_age": 2_000_000_000}, None, "older than 2s, the max age"),
        pytest.param(
            {"allow_msg_ttl": True},
            {"Nats-TTL": "2s"},
            "had a TTL of their own",
            marks=pytest.mark.needs_server("2.11"),
        ),
    ],
)
def test_what_expires_when_it_is_restored_is_not_said_to_be_there(
    shell: Shell,
    account: Account,
    tmp_path: Path,
    limits: dict[str, object],
    headers: dict[str, str] | None,
    why: str,
) -> None:
    async def fill() -> None:
        async with connected(account.url) as nc:
            config = json.dumps({"name": "S", "subjects": ["s"], **limits})
            await nc.request("$JS.API.STREAM.CREATE.S", config.encode(), timeout=20)
            for _ in range(5):
                await nc.jetstream().publish("s", b"x", headers=headers)

    async def messages() -> int:
        async with connected(account.url) as nc:
            return int((await nc.jetstream().stream_info("S")).state.messages)

    async def expired() -> None:
        async with asyncio.timeout(30):
            while await messages():
                await asyncio.sleep(0.1)

    asyncio.run(fill())
    shell.ok("stream", "backup", "S", str(tmp_path / "backup"))
    asyncio.run(expired())
    shell.ok("stream", "rm", "S", "--yes")
    words = ("stream", "restore", str(tmp_path / "backup"))
    if "max_age" in limits:
        refused = shell.run(*words)
        assert refused.returncode == 5
        assert "the server removes all of 5 messages of S at once: older than " in refused.stderr
        assert "not found" in shell.run("stream", "info", "S").stderr
        words = (*words, "--yes")
    restored = shell.ok(*words)
    assert asyncio.run(messages()) == 0
    assert "S restored, not the same as in its backup: 0 messages" in restored
    assert "5 messages expired since the backup: they" in restored and why in restored


def test_a_restore_in_production_asks_for_the_name(
    shell: Shell, account: Account, tmp_path: Path
) -> None:
    shell.ok("stream", "add", "S", "--subjects", "s")
    folder = str(tmp_path / "kept")
    shell.ok("stream", "backup", "S", folder)
    shell.ok("stream", "rm", "S", "--yes")
    shell.environment["NATSTUI_CONNECTION_PRODUCTION"] = "true"
    words = ("stream", "restore", folder)
    for flags in ((), ("--yes",), ("--confirm", "OTHER")):
        assert shell.run(*words, *flags).returncode == 5, flags
    shell.ok(*words, "--confirm", "S")


def test_a_backup_that_names_what_no_stream_is_called_is_damaged(
    shell: Shell, tmp_path: Path
) -> None:
    folder = tmp_path / "kept"
    backed_up(shell, folder)
    config, about = folder / "backup.json", folder / "natstui.json"
    good, sums = json.loads(config.read_bytes()), json.loads(about.read_bytes())
    for name in ("EVIL/../x", "a.b", "", ">", "a b"):
        config.write_text(json.dumps({**good, "config": {**good["config"], "name": name}}))
        digest = hashlib.sha256(config.read_bytes()).hexdigest()
        files = {**sums["files"], "backup.json": {"sha256": digest}}
        about.write_text(json.dumps({**sums, "files": files}))
        refused = shell.run("backup", "verify", str(folder))
        assert refused.returncode == 6 and "is damaged" in refused.stderr
    config.write_text(json.dumps(good))
    files = {**sums["files"], "../../etc/passwd": {"sha256": "0" * 64}}
    files["backup.json"] = {"sha256": hashlib.sha256(config.read_bytes()).hexdigest()}
    about.write_text(json.dumps({**sums, "files": files}))
    refused = shell.run("backup", "verify", str(folder))
    assert refused.returncode == 6 and "../../etc/passwd" in refused.stderr


def test_a_backup_without_one_of_its_files_is_not_complete(shell: Shell, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    backed_up(shell, folder)
    for name in ("backup.json", "stream.tar.s2"):
        (folder / name).rename(tmp_path / name)
        for words in (("backup", "verify"), ("stream", "restore", "--yes")):
            refused = shell.run(*words, str(folder))
            assert refused.returncode == 6 and name in refused.stderr, (words, refused)
        (tmp_path / name).rename(folder / name)
    shell.ok("backup", "verify", str(folder))


@pytest.mark.needs_server("2.15")
def test_a_hostile_backup_folder_is_refused_with_a_sentence_in_bounded_time(
    shell: Shell, tmp_path: Path
) -> None:
    folder = tmp_path / "kept"
    backed_up(shell, folder)
    about = json.loads((folder / "natstui.json").read_text())
    good = {path: path.read_bytes() for path in folder.iterdir()}
    contents: list[bytes | str] = [
        "a FIFO", "a link to /dev/zero", "a folder", b"", b"\xff", b'"abc"', b"[]", b"7", b"null",
        b"[" * 100_000, b'{"config": "abc"}', json.dumps({**about, "files": [1]}).encode(),
        json.dumps({**about, "files": {"stream.tar.s2": 1}}).encode(),
        json.dumps({**about, "consumers": "abc"}).encode(),
    ]  # fmt: skip
    for path, before in good.items():
        for content in contents:
            path.unlink()
            if content == "a FIFO":
                os.mkfifo(path)
            elif content == "a link to /dev/zero":
                path.symlink_to("/dev/zero")
            elif content == "a folder":
                path.mkdir()
            elif isinstance(content, bytes):
                path.write_bytes(content)
            for words in (("backup", "verify"), ("stream", "restore", "--as", "NEW")):
                done = shell.run(*words[:2], str(folder), *words[2:])
                case = path.name, content[:40], words, done
                assert done.returncode in (4, 6) and done.stderr.startswith("natstui: "), case
                assert len(done.stderr.splitlines()) == 1, case
            path.rmdir() if content == "a folder" else path.unlink()
            path.write_bytes(before)
    names = [row["config"]["name"] for row in json.loads(shell.ok("stream", "ls", "-j"))]
    assert "NEW" not in names
    shell.ok("stream", "restore", str(folder), "--as", "NEW", "--subjects", "elsewhere.>")


def test_a_backup_of_another_tool_lists_no_consumers_to_compare_with(
    shell: Shell, tmp_path: Path
) -> None:
    folder = tmp_path / "kept"
    backed_up(shell, folder)
    shell.ok("stream", "rm", "S", "--yes")
    (folder / "natstui.json").unlink()
    said = shell.ok("stream", "restore", str(folder))
    assert "the backup does not list its consumers: nothing to compare them with" in said


CUT: tuple[tuple[Callable[[bytes], bytes], str], ...] = (
    (lambda data: b"", "it is empty"),
    (lambda data: data[:10], "it has no data"),
    (lambda data: b"x" + data[1:], "it does not begin as S2 data"),
    (lambda data: data[:-3], "it ends within a block"),
)


def test_of_a_backup_of_another_tool_the_frames_are_checked(shell: Shell, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    backed_up(shell, folder)
    (folder / "natstui.json").unlink()
    verified = shell.ok("backup", "verify", str(folder))
    unchecked = "frames complete; contents not checked: the backup has no checksum"
    assert unchecked in verified and "checksum correct" not in verified
    data = folder / "stream.tar.s2"
    whole = data.read_bytes()
    for change, reason in CUT:
        data.write_bytes(change(whole))
        refused = shell.run("backup", "verify", str(folder))
        assert refused.returncode == 6 and reason in refused.stderr, reason


@pytest.mark.needs_server(before="2.15")
def test_a_server_that_knows_only_the_name_of_the_backup_is_named_as_the_reason(
    shell: Shell, tmp_path: Path
) -> None:
    shell.ok("stream", "add", "S", "--subjects", "s")
    folder = str(tmp_path / "kept")
    shell.ok("stream", "backup", "S", folder)
    refused = shell.run("stream", "restore", folder, "--as", "T", "--subjects", "t")
    assert refused.returncode == 4
    assert "restores S only under its own name" in refused.stderr
    assert shell.run("stream", "info", "T").returncode == 4


def test_who_may_not_list_consumers_is_told_that_they_are_unknown(
    nats_server_factory: Any, tmp_path: Path
) -> None:
    denied = '["$JS.API.CONSUMER.LIST.>", "$JS.API.CONSUMER.NAMES.>"]'
    broker = nats_server_factory(
        "authorization { users: [{ user: u, password: p, "
        f"permissions: {{ publish: {{ deny: {denied} }} }} }}] }}"
    )
    shell = Shell(broker.url.replace("//", "//u:p@"), tmp_path)
    shell.ok("stream", "add", "S", "--subjects", "s")
    shell.ok("consumer", "add", "S", "C")
    folder = str(tmp_path / "kept")
    said = shell.ok("stream", "backup", "S", folder)
    assert "consumers unknown: no permission to CONSUMER.LIST.S" in said
    shell.ok("stream", "rm", "S", "--yes")
    restored = shell.ok("stream", "restore", folder)
    assert "S restored, the same as in its backup" in restored and "1 consumer" in restored
    assert "consumers not checked: no permission to CONSUMER.NAMES.S" in restored
    assert RESTORE_MARK not in (shell.config("stream", "info", "S").get("metadata") or {})


def test_the_backup_of_what_a_restore_left_says_so_and_so_does_its_restore(
    shell: Shell, tmp_path: Path
) -> None:
    shell.ok("stream", "add", "S", "--subjects", "s", "--metadata", f"{RESTORE_MARK}=now")
    folder = str(tmp_path / "kept")
    left = "was left by a restore that began at now and did not end: it may be incomplete"
    for words in (("stream", "backup", "S", folder), ("backup", str(tmp_path / "all"))):
        assert f"; stream S {left}" in shell.ok(*words)
    shell.ok("stream", "rm", "S", "--yes")
    restored = shell.ok("stream", "restore", folder)
    assert f"; the stream of its backup {left}" in restored


async def backed_up_as_by_an_older_server(shell: Shell, url: str, folder: str) -> Any:
    """Back up while a responder answers for one stream as a server 2.12 does."""
    error = {"code": 500, "err_code": 10064, "description": "snapshot failed: no impl"}
    async with connected(url) as nc:

        async def refuse(message: Any) -> None:
            await message.respond(json.dumps({"type": "t", "error": error}).encode())

        await nc.subscribe("older.server", cb=refuse)
        await flushed(nc)
        return await asyncio.to_thread(shell.run, "backup", folder)


def test_a_stream_in_memory_that_the_server_cannot_back_up_is_left_out_by_name(
    nats_server_factory: Any, tmp_path: Path
) -> None:
    broker = nats_server_factory('mappings { "$JS.API.STREAM.SNAPSHOT.MEM": "older.server" }')
    shell = Shell(broker.url, tmp_path)
    shell.ok("stream", "add", "MEM", "--subjects", "mem", "--storage", "memory")
    shell.ok("stream", "add", "S", "--subjects", "s")
    folder = str(tmp_path / "kept")
    done = asyncio.run(backed_up_as_by_an_older_server(shell, broker.url, folder))
    assert done.returncode == 4 and "S: 0 messages" in done.stdout
    assert "the backup is not complete: stream MEM is in memory" in done.stderr
    done = shell.run("backup", "verify", folder, "--json")
    assert done.returncode == 6, done
    verified = json.loads(done.stdout)
    assert [row["stream"] for row in verified["streams"]] == ["S"]
    # Who verifies or restores it later was not there when it was made.
    left_out = "stream MEM is in memory, and this server cannot back up such a stream"
    assert verified["left_out"] == [left_out]
    assert f"not complete: {left_out}" in shell.run("backup", "verify", folder).stderr
    shell.ok("stream", "rm", "S", "--yes")
    restored = shell.run("restore", folder)
    assert (restored.returncode, left_out in restored.stderr) == (0, True), restored.stderr


async def backed_up_without_data(
    shell: Shell, url: str, folder: Path, more_msgs: int = 0, name: str = "S"
) -> Done:
    """Back up S; somebody sends only the beginning of a snapshot, and says that it is complete.

    It says that it has `more_msgs` more messages than the stream, and is called `name`.
    """
    async with connected(url) as nc:
        info = json.loads((await nc.request("$JS.API.STREAM.INFO.S", b"", timeout=20)).data)

        async def send_nothing(request: Msg) -> None:
            state = info["state"] | {"messages": info["state"]["messages"] + more_msgs}
            reply = {"config": info["config"] | {"name": name}, "state": state}
            await request.respond(json.dumps(reply).encode())
            inbox = json.loads(request.data)["deliver_subject"]
            await nc.publish(inbox, b"\xff\x06\x00\x00S2sTwO")
            await nc.publish(inbox, b"")

        await nc.subscribe("forged.snapshot", cb=send_nothing)
        await flushed(nc)
        return await asyncio.to_thread(shell.run, "stream", "backup", "S", str(folder))


def test_a_snapshot_without_data_is_no_backup(nats_server_factory: Any, tmp_path: Path) -> None:
    broker = nats_server_factory('mappings { "$JS.API.STREAM.SNAPSHOT.S": "forged.snapshot" }')
    shell, folder = Shell(broker.url, tmp_path), tmp_path / "kept"
    shell.ok("stream", "add", "S", "--subjects", "s")
    shell.ok("pub", "s", "x", "-J")
    done = asyncio.run(backed_up_without_data(shell, broker.url, folder))
    said = "the snapshot of S is not complete: it has no data"
    assert done.returncode == 6 and said in done.stderr, done
    assert not folder.exists()
    # As an older natstui has written it: its checksum is right.
    other = tmp_path / "other"
    shell.ok("stream", "add", "T", "--subjects", "t")
    shell.ok("stream", "backup", "T", str(other))
    data = b"\xff\x06\x00\x00S2sTwO"
    (other / "stream.tar.s2").write_bytes(data)
    about = json.loads((other / "natstui.json").read_text())
    about["files"]["stream.tar.s2"] = {
        "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data),
    }  # fmt: skip
    (other / "natstui.json").write_text(json.dumps(about))
    refused = shell.run("backup", "verify", str(other))
    assert refused.returncode == 6 and "it has no data" in refused.stderr


def test_a_server_that_sends_a_snapshot_faster_than_was_requested_fills_no_memory(
    nats_server_factory: Any, tmp_path: Path
) -> None:
    broker = nats_server_factory('mappings { "$JS.API.STREAM.SNAPSHOT.S": "forged.snapshot" }')
    shell, folder = Shell(broker.url, tmp_path), tmp_path / "kept"
    shell.ok("stream", "add", "S", "--subjects", "s")

    async def backed_up() -> Done:
        async with connected(broker.url) as nc:
            info = json.loads((await nc.request("$JS.API.STREAM.INFO.S", b"", timeout=20)).data)

            async def send_all_at_once(request: Msg) -> None:
                reply = {"config": info["config"], "state": info["state"]}
                await request.respond(json.dumps(reply).encode())
                inbox = json.loads(request.data)["deliver_subject"]
                for number in range(1, 101):
                    await nc.publish(inbox, b"x" * 131_072, reply=f"$JS.SNAPSHOT.ACK.S.a.{number}")

            await nc.subscribe("forged.snapshot", cb=send_all_at_once)
            await flushed(nc)
            words = ("stream", "backup", "S", str(folder), "--rate", "1MB")
            return await asyncio.to_thread(shell.run, *words)

    done = asyncio.run(backed_up())
    assert done.returncode == 4, done
    assert "the server sends more than the 256 KiB at a time that were requested" in done.stderr
    assert not folder.exists()


def test_a_snapshot_of_another_stream_is_no_backup(
    nats_server_factory: Any, tmp_path: Path
) -> None:
    broker = nats_server_factory('mappings { "$JS.API.STREAM.SNAPSHOT.S": "forged.snapshot" }')
    shell, folder = Shell(broker.url, tmp_path), tmp_path / "kept"
    shell.ok("stream", "add", "S", "--subjects", "s")
    done = asyncio.run(backed_up_without_data(shell, broker.url, folder, name="../../evil"))
    assert done.returncode == 4 and "a snapshot of '../../evil' instead of 'S'" in done.stderr
    assert not folder.exists()


def test_more_messages_than_sequences_are_no_backup(
    nats_server_factory: Any, tmp_path: Path
) -> None:
    broker = nats_server_factory('mappings { "$JS.API.STREAM.SNAPSHOT.S": "forged.snapshot" }')
    shell, folder = Shell(broker.url, tmp_path), tmp_path / "kept"
    shell.ok("stream", "add", "S", "--subjects", "s")
    shell.ok("pub", "s", "x", "-J")
    done = asyncio.run(backed_up_without_data(shell, broker.url, folder, more_msgs=998))
    said = "it has 999 messages from sequence 1 to 1"
    assert done.returncode == 6 and said in done.stderr, done
    assert not folder.exists()
    other = tmp_path / "other"
    shell.ok("stream", "add", "T", "--subjects", "t")
    shell.ok("stream", "backup", "T", str(other))
    config, about = other / "backup.json", other / "natstui.json"
    described, sums = json.loads(config.read_bytes()), json.loads(about.read_bytes())
    described["state"]["messages"] = 2
    config.write_text(json.dumps(described))
    sums["files"]["backup.json"] = {"sha256": hashlib.sha256(config.read_bytes()).hexdigest()}
    about.write_text(json.dumps(sums))
    refused = shell.run("backup", "verify", str(other))
    assert refused.returncode == 6 and "it has 2 messages" in refused.stderr, refused


def test_a_folder_with_another_stream_than_its_own_is_no_part_of_a_whole_backup(
    shell: Shell, tmp_path: Path
) -> None:
    for name in ("A", "B"):
        shell.ok("stream", "add", name, "--subjects", name.lower())
    folder = tmp_path / "account"
    shell.ok("backup", str(folder))
    for file in (folder / "A").iterdir():
        (folder / "B" / file.name).write_bytes(file.read_bytes())
    for words in (("backup", "verify"), ("restore",)):
        done = shell.run(*words, str(folder))
        assert done.returncode == 6, done.stdout
        assert "B is damaged: it contains 'A', not 'B'" in done.stderr


def test_a_stream_with_a_control_character_in_its_name_is_restored_and_blocks_no_other(
    shell: Shell, account: Account, tmp_path: Path
) -> None:
    name, folder = "T\x07b", tmp_path / "kept"
    shell.ok("stream", "add", "S", "--subjects", "s")

    async def created() -> None:
        async with connected(account.url) as nc:
            config = json.dumps({"name": name, "subjects": ["t"]}).encode()
            await nc.request(f"$JS.API.STREAM.CREATE.{name}", config, 30)
            await nc.request("t", b"x", 30)

    asyncio.run(created())
    shell.ok("backup", str(folder))
    shell.ok("backup", "verify", str(folder))
    for stream in (name, "S"):
        shell.ok("stream", "rm", stream, "--yes")
    shell.ok("restore", str(folder), "--yes")
    assert json.loads(shell.ok("stream", "info", name, "--json"))["state"]["messages"] == 1
    single = tmp_path / "single"
    shell.ok("stream", "backup", name, str(single))
    shell.ok("stream", "rm", name, "--yes")
    shell.ok("stream", "restore", str(single), "--as", "OTHER", "--yes")
    assert json.loads(shell.ok("stream", "info", "OTHER", "--json"))["state"]["messages"] == 1


async def _above_its_limits(url: str) -> None:
    """Make a stream whose limits were lowered below what it has."""
    async with connected(url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s"])
        await js.publish("s", b"x" * 5000)
        for number in range(3):
            await js.add_consumer("S", durable_name=f"C{number}", ack_policy="explicit")


def test_a_stream_above_its_limits_is_restored_with_them(shell: Shell, tmp_path: Path) -> None:
    asyncio.run(_above_its_limits(shell.environment["NATSTUI_CONNECTION_SERVER"]))
    limits = ("--max-consumers", "1", "--max-msg-size", "100")
    shell.ok("stream", "edit", "S", *limits, "--yes")
    shell.ok("stream", "backup", "S", str(tmp_path / "backup"))
    shell.ok("stream", "rm", "S", "--yes")
    restored = shell.ok("stream", "restore", str(tmp_path / "backup"))
    assert "1 message" in restored and "3 consumers" in restored
    config = shell.config("stream", "info", "S")
    assert (config["max_consumers"], config["max_msg_size"]) == (1, 100)
    assert RESTORE_MARK not in (config.get("metadata") or {})


async def _emptied_with_a_source(url: str) -> None:
    async with connected(url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="A", subjects=["a"])
        await js.publish("a", b"x")
        config = {"name": "S", "sources": [{"name": "A"}]}
        await nc.request("$JS.API.STREAM.CREATE.S", json.dumps(config).encode(), timeout=20)
        async with asyncio.timeout(30):
            while not (await js.stream_info("S")).state.messages:
                await asyncio.sleep(0.05)
        await js.purge_stream("S")


def test_the_restore_of_an_empty_stream_says_that_its_source_is_read_again(
    shell: Shell, tmp_path: Path
) -> None:
    asyncio.run(_emptied_with_a_source(shell.environment["NATSTUI_CONNECTION_SERVER"]))
    shell.ok("stream", "backup", "S", str(tmp_path / "backup"))
    shell.ok("stream", "rm", "S", "--yes")
    done = shell.run("stream", "restore", str(tmp_path / "backup"))
    assert done.returncode == 0
    assert "copies its source A from the start" in done.stdout + done.stderr


async def _summed(url: str) -> None:
    async with connected(url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="A", subjects=["a"])
        await js.publish("a", b"x")
        config = {"name": "SUM", "sources": [{"name": "A"}]}
        await nc.request("$JS.API.STREAM.CREATE.SUM", json.dumps(config).encode(), timeout=20)
    await holds(url, "SUM", 1)


@pytest.mark.parametrize("is_together", [True, False])
def test_a_restore_asks_before_messages_are_copied_once_more(
    shell: Shell, tmp_path: Path, is_together: bool
) -> None:
    asyncio.run(_summed(shell.environment["NATSTUI_CONNECTION_SERVER"]))
    folder = str(tmp_path / "backup")
    if is_together:
        shell.ok("backup", folder)
        shell.ok("stream", "rm", "SUM", "--yes")
        restore = ("restore", folder)
    else:
        shell.ok("stream", "backup", "A", folder)
        restore = ("stream", "restore", folder)
    shell.ok("stream", "rm", "A", "--yes")
    refused = shell.run(*restore)
    assert refused.returncode == 5, refused
    assert "SUM copies up to 1 message of A once more" in refused.stderr
    shell.ok(*restore, "--yes")


@pytest.mark.parametrize(
    "change",
    [
        "purged",
        pytest.param("overwritten", marks=pytest.mark.long),
        pytest.param("grown", marks=pytest.mark.long),
        "acked",
        pytest.param("rolled", marks=pytest.mark.long),
    ],
)
async def test_what_is_removed_while_a_backup_is_made_is_said(
    shell: Shell, account: Account, tmp_path: Path, change: str
) -> None:
    dice = random.Random(1)
    async with connected(account.url) as nc:
        js = nc.jetstream()
        await js.add_stream(
            name="S", subjects=["s.>"],
            **({"max_msgs": 300} if change == "rolled" else {"max_msgs_per_subject": 1}),
            retention="workqueue" if change == "acked" else "limits",
        )  # fmt: skip
        await js.add_consumer("S", durable_name="C", ack_policy="explicit")
        for number in range(300):
            await nc.publish(f"s.{number}", dice.randbytes(8_000))
        await flushed(nc)

        async def change_it(_advisory: Msg) -> None:
            if change == "purged":
                await nc.request("$JS.API.STREAM.PURGE.S", b'{"keep": 10}', timeout=30)
            elif change == "acked":
                pulled = await js.pull_subscribe("s.>", durable="C", stream="S")
                for message in await pulled.fetch(200):
                    await message.ack_sync(timeout=30)
            for number in range(300):
                name = f"s.{number}" if change == "overwritten" else f"s.new{number}"
                await nc.publish(name, b"new")

        await nc.subscribe("$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_CREATE.S", cb=change_it)
        await flushed(nc)
        words = ("stream", "backup", "S", str(tmp_path / "S"), "--rate", "1MB")
        done = await asyncio.to_thread(shell.run, *words)
    # A check needs no server, and no context that leads to one.
    own_shell = Shell("nats://[nonsense", tmp_path)
    verified = own_shell.run("backup", "verify", str(tmp_path / "S"))
    if change == "grown":
        assert done.returncode == 0 and "missing" not in done.stdout + done.stderr
        assert verified.returncode == 0 and "checksum correct" in verified.stdout
        return
    counts = {"purged": r"290", "overwritten": r"300", "acked": r"\d+", "rolled": r"\d+"}
    text = f"up to {counts[change]} messages? of it may be missing"
    assert re.search(text, done.stdout + done.stderr), done
    assert re.search(text, verified.stdout) and "checksum correct" not in verified.stdout
    # What is acknowledged, or the oldest by a limit, the stream has not to keep either.
    is_expected = change in ("acked", "rolled")
    wanted = (0, 0) if is_expected else (4, 6)
    assert (done.returncode, verified.returncode) == wanted, done.stderr
    assert ("the backup is not complete: S: up to" in done.stderr) is not is_expected
    assert ("(max messages 300)" in done.stdout) is (change == "rolled")


@pytest.mark.parametrize(
    ("config", "left", "limits"),
    [
        ({"max_age": 60 * 10**9}, {"first_ts": "2026-01-01T00:00:02Z"}, "max age 1m00s"),
        ({"max_age": 60 * 10**9}, {"first_ts": "2026-01-01T00:00:30Z"}, ""),
        ({"max_age": 60 * 10**9}, {"messages": 0}, ""),
        ({"max_age": 10 * 10**9}, {"messages": 0}, "max age 10s"),
        ({"max_msgs": 9}, {}, "max messages 9"),
        ({"max_msgs": 10}, {}, ""),
        ({"max_msgs": 9}, {"last_seq": 20}, ""),
        ({"max_msgs": 9, "discard": "new"}, {}, ""),
        ({"max_bytes": 900}, {}, "max bytes 900 B"),
        ({"max_bytes": 1600, "max_msg_size": 100}, {}, ""),
        ({"max_msgs": 9, "max_msgs_per_subject": 5}, {}, ""),
        ({"max_msgs": 9}, {"num_deleted": 1}, ""),
        ({"allow_rollup_hdrs": True, "allow_msg_ttl": True}, {}, ""),
    ],
)
def test_limits_explain_only_what_they_can_have_taken(
    config: dict[str, Any], left: dict[str, Any], limits: str
) -> None:
    before = {"messages": 20, "last_seq": 20, "last_ts": "2026-01-01T00:00:50Z"}
    state = {
        "messages": 9,
        "bytes": 900,
        "first_ts": "2026-01-01T00:00:40Z",
        "last_seq": 29,
    } | left
    now_us = 1_767_225_660_000_000  # 00:01:00
    assert find_reached_limits(config, read_state(before), read_state(state), now_us) == limits


async def test_streams_that_the_server_counts_and_does_not_name_are_missed(
    account: Account, tmp_path: Path
) -> None:
    async with connected(account.url) as nc:
        for name in ("A", "B"):
            await nc.jetstream().add_stream(name=name, subjects=[name])
    with speaking(account.url, b'"total":2', b'"total":9') as url:
        done = await asyncio.to_thread(Shell(url, tmp_path).run, "backup", str(tmp_path / "all"))
    assert done.returncode == 4 and "the server counts 9 streams and names 2" in done.stderr
    verified = Shell(account.url, tmp_path).run("backup", "verify", str(tmp_path / "all"))
    assert verified.returncode == 6
    assert "not complete: the server counts 9 streams and names 2" in verified.stderr
