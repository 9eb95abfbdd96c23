"""`natstui messages copy`: every message once at the target, and the account says so."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import math
import re
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Self

import pytest
from nats.aio.client import Client
from nats.js.api import StreamSource

from natstui import units
from natstui.config.connection import Connection
from natstui.jetstream.connection.client import connect
from natstui.jetstream.connection.decode.streams import StreamState
from natstui.jetstream.messages.copying.account import CopyAccount, CopyState
from natstui.jetstream.messages.copying.copy import CopyTarget, MessageCopy, count_copy
from natstui.jetstream.messages.copying.selection import (
    Selection,
    SelectionRequest,
    SequenceGaps,
    select,
)
from natstui.jetstream.testbed.broker import Broker
from natstui.session.read.max_deliver import read_dropped_messages
from natstui.session.read.recording import Recording
from natstui.values import replace
from tests.cli.beside import Begin, run_beside, stop, until_printed
from tests.cli.processes import NatstuiProcess
from tests.cli.test_core import PATIENCE_S, connected, run
from tests.cli.test_manage import Done, Shell
from tests.jetstream.flushing import flushed
from tests.tui.terminals import OnTerminal

pytestmark = pytest.mark.server

MANY = 8_000
AT_ONCE = 5_000
"""A stream drops what nobody waits for beyond 10,000 messages that it has not stored yet."""


@pytest.fixture
def shell(nats_server: Broker, tmp_path: Path) -> Shell:
    return Shell(nats_server.url, tmp_path)


async def filled(nc: Client, stream: str, count: int, subject: str = "s.{}") -> None:
    """Store so many messages, each with a subject and a payload of its own."""
    js = nc.jetstream()
    await js.add_stream(name=stream, subjects=[f"{subject.partition('.')[0]}.>"])
    for first in range(1, count + 1, AT_ONCE):
        last = min(first + AT_ONCE - 1, count)
        for number in range(first, last + 1):
            await nc.publish(subject.format(number), b"%d" % number)
        await flushed(nc)
        await some_stored(nc, stream, last)


async def counts(nc: Client, stream: str) -> dict[str, int]:
    """Return how many messages of each subject a stream has, with nothing of ours."""
    found: dict[str, int] = {}
    while True:
        asked = json.dumps({"subjects_filter": ">", "offset": len(found)}).encode()
        reply = await nc.request(f"$JS.API.STREAM.INFO.{stream}", asked, timeout=30)
        page = json.loads(reply.data)["state"].get("subjects") or {}
        found |= page
        if not page:
            return found


async def contents(nc: Client, stream: str) -> list[tuple[str, bytes, dict[str, str]]]:
    js = nc.jetstream()
    last = (await js.stream_info(stream)).state.last_seq
    got = [await js.get_msg(stream, seq) for seq in range(1, last + 1)]
    return [(one.subject or "", one.data or b"", dict(one.headers or {})) for one in got]


def copied(text: str) -> dict[str, Any]:
    account: dict[str, Any] = json.loads(text)
    parts = ("acknowledged", "duplicate", "refused", "unknown")
    assert account["read_msgs"] == sum(account[f"{part}_msgs"] for part in parts)
    return account


def started(shell: Shell, *words: str) -> NatstuiProcess:
    return NatstuiProcess("messages", "copy", *words, "--json", environment=shell.environment)


def copying_here(shell: Shell, *words: str) -> asyncio.Task[Done]:
    """Copy in this process, beside what happens meanwhile."""
    return asyncio.create_task(run(shell, "messages", "copy", *words, "--json"))


async def some_stored(nc: Client, stream: str, count: int) -> int:
    async with asyncio.timeout(PATIENCE_S):
        while (there := (await nc.jetstream().stream_info(stream)).state.messages) < count:
            await asyncio.sleep(0.02)
    return int(there)


@pytest.mark.long
async def test_many_messages_are_stored_once_though_the_server_restarts_in_the_middle(
    shell: Shell, nats_server: Broker
) -> None:
    async with connected(nats_server.url) as nc:
        await filled(nc, "S", MANY)
        await nc.jetstream().add_stream(name="T", subjects=["t.>"])
        copying = copying_here(shell, "S", "--to-stream", "T", "--map", "s.>:t.>")
        there = await some_stored(nc, "T", MANY // 4)
        assert there < MANY
    await asyncio.to_thread(nats_server.restart)
    done = await copying
    assert done.returncode == 0, done.stderr
    account = copied(done.stdout)
    assert (account["read_msgs"], account["acknowledged_msgs"]) == (MANY, MANY)
    assert account["confirmed_msgs"] > 0, "the restart was in the middle"
    async with connected(nats_server.url) as nc:
        state = (await nc.jetstream().stream_info("T")).state
        assert state.messages == MANY
        assert await counts(nc, "T") == {f"t.{number}": 1 for number in range(1, MANY + 1)}
        for number in range(1, MANY + 1, 5_000):
            assert (await nc.jetstream().get_last_msg("T", f"t.{number}")).data == b"%d" % number


def stopped_here(shell: Shell, url: str, stored_msgs: int, *words: str, rate: str = "300") -> Done:
    """Copy in this process, and interrupt that once the target has so many messages."""
    over = threading.Event()

    async def work(begin: Begin) -> None:
        begin()
        async with connected(url) as nc:
            await some_stored(nc, "T", stored_msgs)
        assert not over.is_set(), "it ended before"
        stop(signal.SIGINT)

    copy = ("messages", "copy", *words, "--rate", rate, "--json")
    return run_beside(work, *copy, environment=shell.environment, ended=over)


def ready(url: str, count: int, lacking: Sequence[int] = ()) -> None:
    """Make a stream S with messages, of which some are removed, and an empty T."""

    async def make() -> None:
        async with connected(url) as nc:
            await filled(nc, "S", count)
            for seq in lacking:
                await nc.jetstream().delete_msg("S", seq)
            await nc.jetstream().add_stream(name="T", subjects=["t.>"])

    asyncio.run(make())


def stored_in(url: str, stream: str) -> dict[str, int]:
    """Return how many messages of each subject a stream has."""

    async def ask() -> dict[str, int]:
        async with connected(url) as nc:
            return await counts(nc, stream)

    return asyncio.run(ask())


def test_a_copy_that_was_interrupted_goes_on_where_it_was(
    shell: Shell, nats_server: Broker
) -> None:
    words = ("S", "--to-stream", "T", "--map", "s.>:t.>")
    ready(nats_server.url, 1_500)
    stopped = stopped_here(shell, nats_server.url, 150, *words)
    assert stopped.returncode == 130 and "--resume continues it" in stopped.stderr
    account = copied(stopped.stdout)
    before = json.loads(shell.ok("stream", "info", "T", "--json"))["state"]["messages"]
    assert account["is_stopped"] and account["acknowledged_msgs"] == before < 1_500
    account = copied(shell.ok("messages", "copy", *words, "--resume", "--json"))
    assert account["refused_msgs"] == account["unknown_msgs"] == account["duplicate_msgs"] == 0
    assert account["acknowledged_msgs"] == 1_500 - before
    stored = stored_in(nats_server.url, "T")
    assert set(stored.values()) == {1} and len(stored) == 1_500
    assert "not stopped" in shell.run("messages", "copy", *words, "--resume").stderr


def test_a_continued_copy_keeps_the_times_with_which_it_began(
    shell: Shell, nats_server: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("S", "--to-stream", "T", "--map", "s.>:t.>", "--since", "1h", "--until", "in 1h")
    ready(nats_server.url, 200)
    assert stopped_here(shell, nats_server.url, 30, *words).returncode == 130
    message = json.loads(shell.ok("stream", "get", "S", "150", "--json"))
    file = state_file(tmp_path)
    left = json.loads(file.read_bytes())
    file.write_text(json.dumps({**left, "until_us": message["stored_at_us"]}))

    class Later(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return super().now(tz) + timedelta(hours=2)

    monkeypatch.setattr(units, "datetime", Later)
    account = copied(shell.ok("messages", "copy", *words, "--resume", "--json"))
    assert (account["first_seq"], account["last_seq"]) == (left["done_seq"] + 1, 150)
    assert set(stored_in(nats_server.url, "T")) == {f"t.{number}" for number in range(1, 151)}


def test_what_was_refused_while_earlier_messages_were_in_flight_is_sent_once_and_after_them(
    shell: Shell, nats_server: Broker, tmp_path: Path
) -> None:
    words = ("S", "--to-stream", "T", "--map", "s.>:t.>")
    ready(nats_server.url, 500)
    stopped_here(shell, nats_server.url, 30, *words)
    # As a kill leaves it.
    file = state_file(tmp_path)
    left = json.loads(file.read_bytes()) | {"refused_ranges": [[490, 490]], "unknown_msgs": 9}
    done_seq = left["done_seq"]
    file.write_text(json.dumps({**left, "sent_at_us": 1}))
    warned = shell.run("messages", "copy", *words, "--resume")
    assert f"from sequence {done_seq + 1} on may be stored twice" in warned.stderr, warned
    file.write_text(json.dumps({**left, "sent_at_us": time.time_ns() // 1_000}))
    stopped = stopped_here(shell, nats_server.url, done_seq + 1, *words, "--resume", rate="1")
    assert stopped.returncode == 130, stopped
    read_msgs = copied(stopped.stdout)["read_msgs"]
    assert json.loads(file.read_bytes())["done_seq"] == done_seq + read_msgs < 490
    account = copied(shell.ok("messages", "copy", *words, "--resume", "--json"))
    assert (account["read_msgs"], account["duplicate_msgs"]) == (500 - done_seq - read_msgs, 0)
    stored = stored_in(nats_server.url, "T")
    assert len(stored) == 500 and set(stored.values()) == {1}


@pytest.mark.long
async def test_a_copy_that_was_killed_goes_on_where_it_was(
    shell: Shell, nats_server: Broker, tmp_path: Path
) -> None:
    words = ("S", "--to-stream", "T", "--map", "s.>:t.>", "--rate", "1k")
    async with connected(nats_server.url) as nc:
        await filled(nc, "S", 1_500)
        await nc.jetstream().add_stream(name="T", subjects=["t.>"])
        process = started(shell, *words)
        await position_saved(tmp_path, 1)
        process.kill()
        await asyncio.to_thread(process.communicate)
        before = (await nc.jetstream().stream_info("T")).state.messages
        assert before < 1_500
        done = await run(shell, "messages", "copy", *words, "--resume", "--json")
        assert done.returncode == 0, done.stderr
        account = copied(done.stdout)
        assert account["refused_msgs"] == account["unknown_msgs"] == 0
        assert account["acknowledged_msgs"] == 1_500 - before
        assert set((await counts(nc, "T")).values()) == {1}
        assert len(await counts(nc, "T")) == 1_500
        assert "not stopped" in (await run(shell, "messages", "copy", *words, "--resume")).stderr


@pytest.mark.long
async def test_what_was_removed_while_a_copy_was_stopped_is_named(
    shell: Shell, nats_server: Broker
) -> None:
    words = ("S", "--to-stream", "T", "--map", "s.>:t.>")
    async with connected(nats_server.url) as nc:
        await filled(nc, "S", 2_000)
        await nc.jetstream().add_stream(name="T", subjects=["t.>"])
        process = started(shell, *words, "--rate", "300")
        await some_stored(nc, "T", 300)
        process.send_signal(signal.SIGINT)
        await asyncio.to_thread(process.communicate)
        before = (await nc.jetstream().stream_info("T")).state.messages
        assert before < 1_000
        await nc.jetstream().purge_stream("S", seq=1_001)
        done = await run(shell, "messages", "copy", *words, "--resume", "--json")
        assert done.returncode == 4, done
        assert f"from sequence {before + 1:,} to 1,000 were removed from S" in done.stderr
        account = copied(done.stdout)
        assert account["removed_seqs"] == [before + 1, 1_000]
        assert account["acknowledged_msgs"] == 1_000
        assert len(await counts(nc, "T")) == before + 1_000


@pytest.mark.parametrize(
    ("words", "lacking", "removed"),
    [
        pytest.param((), (), (700, 705), marks=pytest.mark.long),
        pytest.param((), (), (600, 1_000), marks=pytest.mark.long),
        pytest.param((), (1, 2, 300, 301, 1_000), (700, 700), marks=pytest.mark.long),
        ((), (2, 300, 301, 999, 1_000), ()),
        pytest.param(
            ("--from-seq", "50"), (*range(2, 40), 300, 1_000), (700, 705), marks=pytest.mark.long
        ),
        pytest.param(
            ("--from-seq", "50"), (*range(2, 60), 300, 1_000), (), marks=pytest.mark.long
        ),
        (("--from-seq", "50", "--to-seq", "900"), (2, 300, 900, 950), (890, 899)),
        pytest.param(("--to-seq", "900"), (2, 300, 900, 950), (), marks=pytest.mark.long),
    ],
)
def test_what_was_removed_in_the_middle_while_a_copy_was_stopped_is_named(
    shell: Shell, nats_server: Broker, words: tuple[str, ...], lacking: tuple[int, ...],
    removed: tuple[int, ...],
) -> None:  # fmt: skip
    words = ("S", "--to-stream", "T", "--map", "s.>:t.>", *words)
    ready(nats_server.url, 1_000, lacking)
    assert stopped_here(shell, nats_server.url, 100, *words).returncode == 130

    async def remove() -> None:
        async with connected(nats_server.url) as nc:
            assert (await nc.jetstream().stream_info("T")).state.messages < 500
            for seq in range(removed[0], removed[1] + 1) if removed else ():
                if seq not in lacking:
                    await nc.jetstream().delete_msg("S", seq)

    asyncio.run(remove())
    done = shell.run("messages", "copy", *words, "--resume", "--json")
    account = copied(done.stdout)
    assert done.returncode == (4 if removed else 0), done
    assert ("were removed from S before they were copied" in done.stderr) is bool(removed)
    if removed:
        first_seq, last_seq = account["removed_seqs"]
        assert first_seq <= removed[0] and removed[1] <= last_seq


async def test_the_count_before_a_resumed_copy_finds_nothing_removed_that_never_was_there(
    nats_server: Broker,
) -> None:
    async with connected(nats_server.url) as nc:
        await filled(nc, "S", 100)
        for seq in range(50, 60):
            await nc.jetstream().delete_msg("S", seq)
    client = await connect(Connection(servers=(nats_server.url,)))
    try:
        begun = await select(client, SelectionRequest("S"))
        await client.request("STREAM.PURGE.S", {"seq": 50})
        resumed = await select(client, SelectionRequest("S"))
        selection = replace(resumed, begin_seq=1, lacking_count=begun.lacking_count)
        assert (selection.first_seq, selection.lacking_count) == (60, 10)
        copy = MessageCopy(CopyTarget("T"), selection, state=CopyState(end_seq=100, done_seq=49))
        assert (await count_copy(client, client, copy)).messages == 41
        assert copy.account == CopyAccount()
    finally:
        await client.close()


@pytest.mark.parametrize("is_recent", [False, True])
def test_what_was_in_flight_longer_than_its_ids_last_is_not_sent_again_unasked(
    shell: Shell, nats_server: Broker, tmp_path: Path, is_recent: bool
) -> None:
    ready(nats_server.url, 200)
    words = ("S", "--to-stream", "T", "--map", "s.>:t.>")
    stopped_here(shell, nats_server.url, 30, *words)
    # As a kill leaves it.
    file = state_file(tmp_path)
    left = json.loads(file.read_bytes())
    done_seq = left["done_seq"]
    for unknown_count in (7, 1_000):
        file.write_text(json.dumps({**left, "unknown_msgs": unknown_count, "sent_at_us": 1}))
        refused = shell.run("messages", "copy", *words, "--resume")
        most = min(unknown_count, 200 - done_seq)
        limit = f"up to {most} messages from sequence {done_seq + 1} on may be stored twice"
        assert refused.returncode == 2 and limit in refused.stderr, refused
    flags = ("--resume", "--accept-duplicates", "--json")
    if is_recent:
        file.write_text(
            json.dumps({**left, "unknown_msgs": 7, "sent_at_us": time.time_ns() // 1_000})
        )
        flags = ("--resume", "--json")
    done = shell.run("messages", "copy", *words, *flags)
    assert copied(done.stdout)["acknowledged_msgs"] == 200 - done_seq, done.stderr


@pytest.mark.long
async def test_no_more_is_stored_twice_after_a_kill_than_the_copy_says(
    shell: Shell, nats_server: Broker, tmp_path: Path
) -> None:
    words = ("S", "--to-stream", "T", "--map", "s.>:t.>")
    async with connected(nats_server.url) as nc:
        await filled(nc, "S", MANY)
        await nc.jetstream().add_stream(name="T", subjects=["t.>"], duplicate_window=0.5)
        process = started(shell, *words)
        await some_stored(nc, "T", MANY // 4)
        process.kill()
        await asyncio.to_thread(process.communicate)
        there = (await nc.jetstream().stream_info("T")).state.messages
        assert there < MANY, "it was killed in the middle"
        while time.time() - state_file(tmp_path).stat().st_mtime < 1:
            await asyncio.sleep(0.05)
        refused = await run(shell, "messages", "copy", *words, "--resume")
        said = re.search(r"up to ([\d,]+) messages from sequence ([\d,]+) on", refused.stderr)
        assert refused.returncode == 2 and said is not None, refused.stderr
        assert "stored twice" in refused.stderr
        most, from_seq = (int(number.replace(",", "")) for number in said.groups())
        assert there - (from_seq - 1) <= most <= 2_000
        again = (*words, "--resume", "--accept-duplicates", "--json")
        done = await run(shell, "messages", "copy", *again)
        assert done.returncode == 0, done.stderr
        assert (await nc.jetstream().stream_info("T")).state.messages - MANY <= most
        assert len(await counts(nc, "T")) == MANY


def test_messages_sent_later_than_now_are_of_unknown_age() -> None:
    now_us = time.time_ns() // 1000
    assert 60 <= CopyState(end_seq=1, sent_at_us=now_us - 60_000_000).age_s < 600
    assert CopyState(end_seq=1, sent_at_us=now_us + 7_200_000_000).age_s == math.inf


def state_file(folder: Path) -> Path:
    """Return the file with the position of the only copy that was stopped."""
    (file,) = (folder / "STATE").rglob("copies/*.json")
    return file


async def position_saved(folder: Path, wanted_seq: int) -> None:
    """Return once the position of a copy is saved, and it is this sequence or a later one."""
    async with asyncio.timeout(PATIENCE_S):
        while not any((folder / "STATE").rglob("copies/*.json")) or (
            json.loads(state_file(folder).read_bytes())["done_seq"] < wanted_seq
        ):
            await asyncio.sleep(0.02)


async def gave_up(
    nc: Client,
    count: int,
    *,
    acked: int,
    retention: str = "limits",
    seen: Awaitable[None] | None = None,
) -> None:
    """Let consumer C of S give up `count` messages after it acknowledged some.

    It does not before it is `seen`.
    """
    js = nc.jetstream()
    await js.add_stream(
        name="S", subjects=["s.>"], retention=retention, metadata={}, duplicate_window=120
    )
    config = {"durable_name": "C", "ack_policy": "explicit", "max_deliver": 1,
              "max_ack_pending": -1}  # fmt: skip

    async def waits(ack_wait_s: float) -> None:
        asked = {"stream_name": "S", "config": config | {"ack_wait": int(ack_wait_s * 1e9)}}
        await nc.request("$JS.API.CONSUMER.CREATE.S.C", json.dumps(asked).encode(), timeout=20)

    await waits(60)
    if seen is not None:
        await seen
    for number in range(1, acked + count + 1):
        await nc.publish(f"s.{number}", b"%d" % number, headers={"Nats-Msg-Id": f"own-{number}"})
    await flushed(nc)
    await some_stored(nc, "S", acked + count)
    sub = await js.pull_subscribe_bind("C", stream="S")
    for message in await sub.fetch(acked, timeout=5):
        await message.ack_sync(timeout=30)
    # Not before: on a busy machine, to acknowledge these takes longer than what is given up has.
    await waits(0.2)
    taken = 0
    while taken < count:
        taken += len(await sub.fetch(count - taken, timeout=5))
    async with asyncio.timeout(PATIENCE_S):
        while True:  # it is given up when it would be delivered again
            with contextlib.suppress(TimeoutError):
                await sub.fetch(1, timeout=0.3)
            info = json.loads(
                (await nc.request("$JS.API.CONSUMER.INFO.S.C", b"", timeout=20)).data
            )
            if not info["num_ack_pending"]:
                return


async def test_what_was_given_up_is_sent_again(shell: Shell, nats_server: Broker) -> None:
    words = ("S", "--given-up", "C", "--to-stream", "AGAIN", "--map", "s.*:again.$1")
    async with connected(nats_server.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="AGAIN", subjects=["again.>"])
        await js.add_stream(
            name="ADVISORIES", subjects=["$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>"]
        )
        await gave_up(nc, 500, acked=100)
        await js.delete_msg("S", 600)
        dry = json.loads((await run(shell, "messages", "copy", *words, "--dry-run", "-j")).stdout)
        assert (dry["messages"], dry["first_seq"], dry["gone"]) == (499, 101, 1)
        done = await run(shell, "messages", "copy", *words, "--json")
        assert done.returncode == 0, done.stderr
        assert "500 in advisories that ADVISORIES stores" in done.stderr
        account = copied(done.stdout)
        assert (account["acknowledged_msgs"], account["gone_msgs"]) == (499, 1)
        assert await counts(nc, "AGAIN") == {f"again.{number}": 1 for number in range(101, 600)}
        first = await js.get_msg("AGAIN", 1)
        assert first.data == b"101"
        assert (first.headers or {})["Natstui-Msg-Id"] == "own-101"
        again = copied((await run(shell, "messages", "copy", *words, "--json")).stdout)
        assert (again["acknowledged_msgs"], again["duplicate_msgs"]) == (0, 499)
        # Into the stream itself: its own ids must not make them duplicates of themselves.
        back = ("S", "--given-up", "C", "--to-stream", "S", "--json")
        assert (
            copied((await run(shell, "messages", "copy", *back)).stdout)["acknowledged_msgs"]
            == 499
        )


@pytest.mark.parametrize("retention", ["interest", "workqueue"])
async def test_advisories_are_read_without_a_consumer_where_one_could_remove_them(
    shell: Shell, nats_server: Broker, retention: str
) -> None:
    subject = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.S.C"
    async with connected(nats_server.url) as nc:
        js = nc.jetstream()
        await filled(nc, "S", 5)
        await js.add_stream(name="ADVISORIES", subjects=[subject], retention=retention)
        await js.add_consumer("ADVISORIES", durable_name="READER", ack_policy="explicit")
        await js.add_stream(name="AGAIN", subjects=["again"])
        await js.add_consumer("S", durable_name="C", ack_policy="explicit", max_deliver=1)
        await (await js.pull_subscribe_bind("C", stream="S")).fetch(5, timeout=5)
        for seq in (2, 4):
            said = {"stream": "S", "consumer": "C", "stream_seq": seq, "timestamp": ""}
            await js.publish(subject, json.dumps(said).encode())
        words = ("S", "--given-up", "C", "--to-subject", "again", "--json")
        done = await run(shell, "messages", "copy", *words)
        assert copied(done.stdout)["acknowledged_msgs"] == 2, done.stderr
        assert (await js.stream_info("ADVISORIES")).state.messages == 2


async def test_a_work_queue_tells_itself_what_was_given_up(
    shell: Shell, nats_server: Broker
) -> None:
    async with connected(nats_server.url) as nc:
        await gave_up(nc, 20, acked=10, retention="workqueue")
        await nc.jetstream().add_stream(name="AGAIN", subjects=["again"])
        words = ("S", "--given-up", "C", "--to-subject", "again", "--json")
        done = await run(shell, "messages", "copy", *words)
        assert copied(done.stdout)["acknowledged_msgs"] == 20, done.stderr
        assert (await nc.jetstream().stream_info("S")).state.messages == 20, "none was removed"
        got = await contents(nc, "AGAIN")
        assert [payload for _, payload, _ in got] == [b"%d" % number for number in range(11, 31)]


async def test_a_resumed_copy_leaves_out_what_was_dropped_of_messages_stored_since(
    nats_server: Broker,
) -> None:
    async with connected(nats_server.url) as nc:
        await filled(nc, "S", 9)
    client = await connect(Connection(servers=(nats_server.url,)))
    try:
        selection = await select(client, SelectionRequest("S"))
        # As of a copy that began when the stream ended with sequence 5.
        selection = replace(selection, seqs=(2, 4, 7), end_seq=5)
        copy = MessageCopy(CopyTarget("T"), selection, state=CopyState(end_seq=5, done_seq=2))
        assert (await count_copy(client, client, copy)).subjects == {"s.4": 1}
    finally:
        await client.close()


@pytest.mark.parametrize(
    ("max_deliver", "copied_msgs", "why"),
    [
        (1, 5, "without 3 sequences that C cannot have dropped: it was delivered up to 10"),
        (-1, 0, "without 8 sequences that C cannot have dropped: it has no max deliver"),
    ],
)
async def test_a_forged_announcement_does_not_choose_what_is_sent(
    shell: Shell, nats_server: Broker, max_deliver: int, copied_msgs: int, why: str
) -> None:
    subject = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.S.C"
    async with connected(nats_server.url) as nc:
        js = nc.jetstream()
        await filled(nc, "S", 20)
        await js.add_stream(name="ADVISORIES", subjects=[subject])
        await js.add_stream(name="AGAIN", subjects=["again"])
        await js.add_consumer(
            "S", durable_name="C", ack_policy="explicit", max_deliver=max_deliver
        )
        await (await js.pull_subscribe_bind("C", stream="S")).fetch(10, timeout=5)
        for seq in (*range(1, 6), 0, 11, 2**40):
            said = {"stream": "S", "consumer": "C", "stream_seq": seq, "timestamp": ""}
            await js.publish(subject, json.dumps(said).encode())
        words = ("S", "--given-up", "C", "--to-subject", "again", "--json")
        done = await run(shell, "messages", "copy", *words)
        assert why in done.stderr
        assert (await js.stream_info("AGAIN")).state.messages == copied_msgs


async def test_what_was_given_up_is_not_guessed(shell: Shell, nats_server: Broker) -> None:
    async with connected(nats_server.url) as nc:
        await gave_up(nc, 2, acked=1)
    done = await run(shell, "messages", "copy", "S", "--given-up", "C", "--to-subject", "x")
    assert done.returncode == 4 and "it is unknown which messages C dropped" in done.stderr
    assert "among 2…3" in done.stderr


async def told(folder: Path, word: str, count: int) -> None:
    """Wait until a recording has a word so often."""
    async with asyncio.timeout(PATIENCE_S):
        while sum(one.read_text().count(word) for one in folder.glob("*.jsonl")) < count:
            await asyncio.sleep(0.1)


def recorded_giving_up(shell: Shell, url: str) -> Path:
    """Record, here, how a consumer gives 5 messages up; return the recording."""
    home = Path(shell.environment["XDG_DATA_HOME"]) / "natstui" / "sessions"

    async def work(begin: Begin) -> None:
        begin()
        await until_printed("\n")
        (folder,) = home.iterdir()
        async with connected(url) as nc:
            await told(folder, '"snapshot"', 1)
            await gave_up(nc, 5, acked=2, seen=told(folder, "durable_name", 1))
            await told(folder, '"max_deliver"', 5)
        stop(signal.SIGINT)

    environment = {**shell.environment, "NATSTUI_MONITOR_INTERVAL_S": "0.5"}
    assert run_beside(work, "record", "--name", "night", environment=environment).returncode == 0
    (folder,) = home.iterdir()
    return folder


def test_a_recording_knows_what_was_given_up(shell: Shell, nats_server: Broker) -> None:
    folder = recorded_giving_up(shell, nats_server.url)
    asyncio.run(what_was_recorded_is_sent_again(shell, nats_server.url, folder))


async def what_was_recorded_is_sent_again(shell: Shell, url: str, folder: Path) -> None:
    async with connected(url) as nc:
        await nc.jetstream().add_stream(name="AGAIN", subjects=["again"])
        words = ("S", "--given-up", "C", "--session", "night", "--to-subject", "again", "--json")
        done = await run(shell, "messages", "copy", *words)
        assert copied(done.stdout)["acknowledged_msgs"] == 5, done.stderr
    # One of this name on another server was not recorded, whatever has the time of the recording.
    recording = Recording(folder)
    drops = [
        drop._replace(at_us=time.time_ns() // 1000 + 60_000_000)
        for drop in read_dropped_messages(recording, "S", "C")[0]
    ]
    async with connected(url) as nc:
        await nc.jetstream().delete_consumer("S", "C")
        await nc.jetstream().add_consumer("S", durable_name="C", max_deliver=1)
        client = await connect(Connection(servers=(url,)))
        wanted = SelectionRequest(
            "S", consumer="C", consumer_messages="given_up", recorded_drops=tuple(drops)
        )
        assert "0 in recordings" in (await select(client, wanted)).remark
        unknown = tuple(drop._replace(consumer_created_at_us=None) for drop in drops)
        wanted = replace(wanted, recorded_drops=unknown)
        assert "5 in recordings" in (await select(client, wanted)).remark
        await client.close()


@pytest.mark.parametrize("retention", ["limits", "workqueue", "interest"])
async def test_what_is_not_acknowledged_is_copied_and_stays(
    shell: Shell, nats_server: Broker, retention: str
) -> None:
    async with connected(nats_server.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"], retention=retention)
        await js.add_consumer("S", durable_name="C", ack_policy="explicit", filter_subject="s.a")
        await js.add_stream(name="T", subjects=["t"])
        for number in range(10):
            await js.publish("s.a", b"%d" % number)
        sub = await js.pull_subscribe_bind("C", stream="S")
        first, second, *_ = await sub.fetch(5, timeout=5)
        await first.ack_sync(timeout=30)
        await second.ack_sync(timeout=30)
        before = (await js.stream_info("S")).state.messages
        words = ("S", "--unacknowledged", "C", "--to-subject", "t", "--json")
        done = await run(shell, "messages", "copy", *words)
        assert copied(done.stdout)["acknowledged_msgs"] == 8, done.stderr
        assert (await js.stream_info("S")).state.messages == before
        got = await contents(nc, "T")
        assert [payload for _, payload, _ in got] == [b"%d" % number for number in range(2, 10)]


@pytest.mark.parametrize("retention", ["limits", "interest"])
async def test_of_the_messages_of_a_consumer_only_those_of_the_subjects_are_copied(
    shell: Shell, nats_server: Broker, retention: str
) -> None:
    async with connected(nats_server.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"], retention=retention)
        for name, subject_filter in (("C", "s.a.*"), ("OTHER", "s.>")):
            await js.add_consumer(
                "S", durable_name=name, ack_policy="explicit", filter_subject=subject_filter
            )
        await js.add_stream(name="T", subjects=["t.>"])
        for subject in ("s.a.x", "s.b.x", "s.a.y"):
            await js.publish(subject, b"")
        words = ("S", "--unacknowledged", "C", "--subject", "s.*.x", "--map", "s.>:t.>", "-j")
        counted = await run(shell, "messages", "copy", *words, "--to-stream", "T", "--dry-run")
        assert json.loads(counted.stdout)["subjects"] == {"t.a.x": 1}, counted.stderr
        done = await run(shell, "messages", "copy", *words, "--to-stream", "T")
        assert copied(done.stdout)["acknowledged_msgs"] == 1, done.stderr
        assert await counts(nc, "T") == {"t.a.x": 1}


async def test_what_a_consumer_passes_over_is_said_to_be_copied_as_well(
    shell: Shell, nats_server: Broker, tmp_path: Path
) -> None:
    async with connected(nats_server.url) as nc:
        await filled(nc, "S", 10)
        policy = "last_per_subject"
        await nc.jetstream().add_consumer(
            "S", durable_name="C", deliver_policy=policy, filter_subject="s.>"
        )
    words = ("S", "--unacknowledged", "C", "--to-file", str(tmp_path / "file"))
    done = await run(shell, "messages", "copy", *words)
    assert done.returncode == 0
    assert "the last message of a subject only: those before it are copied as well" in done.stderr


async def test_a_part_of_a_stream_is_copied(shell: Shell, nats_server: Broker) -> None:
    async with connected(nats_server.url) as nc:
        js = nc.jetstream()
        await filled(nc, "S", 20)
        middle = (await js.get_msg("S", 10)).time
        for words, wanted in (
            (("--from-seq", "18"), [18, 19, 20]),
            (("--to-seq", "2"), [1, 2]),
            (("--from-seq", "3", "--to-seq", "4"), [3, 4]),
            (("--subject", "s.7", "--subject", "s.9"), [7, 9]),
            (("--since", str(middle)), list(range(10, 21))),
            (("--until", str(middle)), list(range(1, 11))),
            (("--since", "1h"), list(range(1, 21))),
            (("--until", "1h"), []),
            (("--from-seq", "21"), []),
        ):
            await js.add_stream(name="T", subjects=["t"])
            done = await run(shell, "messages", "copy", "S", *words, "--to-subject", "t")
            assert done.returncode == 0, (words, done.stderr)
            got = await contents(nc, "T")
            assert [int(payload) for _, payload, _ in got] == wanted, words
            await js.delete_stream("T")


async def test_a_part_by_time_is_whole_where_the_first_message_is_the_newest(
    shell: Shell, nats_server: Broker, tmp_path: Path
) -> None:
    async with connected(nats_server.url) as nc:
        js = nc.jetstream()
        await filled(nc, "S", 10)
        assert (await run(shell, "stream", "backup", "S", str(tmp_path / "S"))).returncode == 0
        await js.delete_stream("S")
        await filled(nc, "S", 5)
        await js.add_stream(name="M", mirror=StreamSource(name="S"))
        await some_stored(nc, "M", 5)
        await js.delete_stream("S")
        restored = await run(shell, "stream", "restore", str(tmp_path / "S"), "--yes")
        assert restored.returncode == 0, restored.stderr
    # A mirror looks for its origin as soon as the server starts, else each 10 s or so.
    await asyncio.to_thread(nats_server.restart)
    async with connected(nats_server.url) as nc:
        js = nc.jetstream()
        await some_stored(nc, "M", 10)
        eighth, second = [(await js.get_msg("M", seq)).time for seq in (8, 2)]
        for words, wanted in (
            (("--since", str(eighth)), [1, 2, 3, 4, 5, 8, 9, 10]),
            (("--until", str(eighth)), [6, 7, 8]),
            (("--since", str(eighth), "--until", str(second)), [1, 2, 8, 9, 10]),
        ):
            await js.add_stream(name="T", subjects=["t"])
            done = await run(shell, "messages", "copy", "M", *words, "--to-subject", "t")
            assert done.returncode == 0, (words, done.stderr)
            assert [int(payload) for _, payload, _ in await contents(nc, "T")] == wanted, words
            await js.delete_stream("T")


async def test_messages_keep_what_they_hold_and_lose_what_would_act(
    shell: Shell, nats_server: Broker
) -> None:
    async with connected(nats_server.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"], allow_rollup_hdrs=True)
        await js.add_stream(name="T", subjects=["t.>"], allow_rollup_hdrs=True)
        await js.publish("t.before", b"there")
        block = b"NATS/1.0\r\nA: 1\r\nA: 2\r\nNats-Rollup: all\r\nNats-Msg-Id: own\r\n"
        block += b"Nats-Expected-Last-Sequence: 0\r\n\r\n"
        body = bytes(range(256))
        raw = b"HPUB s.x %d %d\r\n%b%b\r\n" % (len(block), len(block) + 256, block, body)
        await nc._send_command(raw)
        await flushed(nc)
        await some_stored(nc, "S", 1)
        words = ("S", "--to-stream", "T", "--map", "s.*:t.{{wildcard(1)}}.y", "--msg-id", "kept")
        account = copied((await run(shell, "messages", "copy", *words, "--json")).stdout)
        assert (account["acknowledged_msgs"], account["without_rollup_msgs"]) == (1, 1)
        raw_reply = json.loads(
            (await nc.request("$JS.API.STREAM.MSG.GET.T", b'{"seq":2}', timeout=20)).data
        )
        message = raw_reply["message"]
        assert message["subject"] == "t.x.y"
        assert base64.b64decode(message["data"]) == body
        lines = base64.b64decode(message["hdrs"]).decode().split("\r\n")
        assert lines[1:3] == ["A: 1", "A: 2"]
        assert "Nats-Msg-Id: own" in lines
        assert (await js.stream_info("T")).state.messages == 2, "nothing was rolled up"


async def test_through_a_file_and_back(shell: Shell, nats_server: Broker, tmp_path: Path) -> None:
    async with connected(nats_server.url) as nc:
        js = nc.jetstream()
        await filled(nc, "S", 300)
        await js.publish("s.bin", bytes(range(256)), headers={"A": "b"})
        await js.add_stream(name="T", subjects=["t.>"])
        file = tmp_path / "kept.jsonl"
        account = copied((await run(
            shell, "messages", "copy", "S", "--to-file", str(file), "--json"
        )).stdout)  # fmt: skip
        assert account["acknowledged_msgs"] == len(file.read_text().splitlines()) == 301
        assert list(tmp_path.glob(".kept*")) == []
        again = await run(shell, "messages", "copy", "S", "--to-file", str(file))
        assert again.returncode == 2 and "exists already" in again.stderr
        words = ("--from-file", str(file), "--to-stream", "T", "--map", "s.>:t.>", "--json")
        for acknowledged in (301, 0):
            account = copied((await run(shell, "messages", "copy", *words)).stdout)
            assert account["acknowledged_msgs"] == acknowledged
            assert account["duplicate_msgs"] == 301 - acknowledged
        got, before = await contents(nc, "T"), await contents(nc, "S")
        assert [(one[0][2:], one[1]) for one in got] == [(one[0][2:], one[1]) for one in before]
        assert got[-1][2]["A"] == "b"
        file.write_text('{"torn')
        torn = await run(shell, "messages", "copy", *words)
        assert torn.returncode == 4 and ":1 is no message" in torn.stderr


def message_line(subject: str, text: str = "x", stored_at_us: int = 1) -> bytes:
    """Return a line of a file of messages."""
    fields = {
        "stream_seq": 1, "subject": subject, "stored_at_us": stored_at_us, "headers": [],
        "payload_base64": base64.b64encode(text.encode()).decode(), "payload_bytes": len(text),
    }  # fmt: skip
    return json.dumps(fields).encode() + b"\n"


def test_a_file_that_was_rewritten_is_not_continued(
    shell: Shell, nats_server: Broker, tmp_path: Path
) -> None:
    file = tmp_path / "messages.jsonl"
    words = ("--from-file", str(file), "--to-stream", "T")
    resume = ("messages", "copy", *words, "--resume", "--json")

    def lines(text: str, count: int) -> bytes:
        return b"".join(message_line(f"t.{n}", text) for n in range(1, count + 1))

    def there() -> int:
        return int(json.loads(shell.ok("stream", "info", "T", "--json"))["state"]["messages"])

    file.write_bytes(before := lines("one", 300))
    ready(nats_server.url, 0)
    stopped = stopped_here(shell, nats_server.url, 20, *words, rate="50")
    stored_count = there()
    assert copied(stopped.stdout)["is_stopped"] and 20 <= stored_count < 300
    for lines_count in (300, 10, 0):
        file.write_bytes(lines("two", lines_count))
        refused = shell.run(*resume)
        assert refused.returncode == 2, (lines_count, refused)
        assert f"of the first {stored_count} lines of {file}" in refused.stderr, lines_count
        assert "copy again without --resume" in refused.stderr, lines_count
        assert there() == stored_count, lines_count
    # What comes after the part that was read may change.
    rest = lines("two", 400).splitlines(keepends=True)[300:]
    file.write_bytes(before + b"".join(rest))
    assert copied(shell.ok(*resume))["acknowledged_msgs"] == 400 - stored_count
    assert set(stored_in(nats_server.url, "T").values()) == {1}


async def test_a_line_with_a_wildcard_as_subject_is_refused(
    shell: Shell, nats_server: Broker, tmp_path: Path
) -> None:
    file = tmp_path / "messages.jsonl"
    subjects = ("t.1", "t.>", "t.*.x", "t.2")
    file.write_bytes(b"".join(map(message_line, subjects)))
    async with connected(nats_server.url) as nc:
        await nc.jetstream().add_stream(name="T", subjects=["t.>"])
        words = ("--from-file", str(file), "--to-stream", "T", "--json")
        refused = await run(shell, "messages", "copy", *words)
        assert refused.returncode == 4, refused
        account = copied(refused.stdout)
        assert account["refused_ranges"] == [[2, 3]]
        assert account["refusals"] == {"its subject has a wildcard: a message has one subject": 2}
        # What was read and refused is counted as read.
        assert (account["first_seq"], account["last_seq"]) == (1, 4)
        assert (account["read_msgs"], account["payload_bytes"]) == (4, 4 * len("x"))
        assert await counts(nc, "T") == {"t.1": 1, "t.2": 1}


async def test_no_time_in_a_file_makes_a_copy_wait_for_years(
    shell: Shell, nats_server: Broker, tmp_path: Path
) -> None:
    file = tmp_path / "messages.jsonl"
    words = ("--from-file", str(file), "--to-stream", "T", "--original-pace", "--json")
    async with connected(nats_server.url) as nc:
        await nc.jetstream().add_stream(name="T", subjects=["t.>"])
        file.write_bytes(message_line("t.1") + message_line("t.2", stored_at_us=10**18))
        refused = await run(shell, "messages", "copy", *words)
        assert refused.returncode == 4
        assert f"{file}:2 is no message: its time is not possible" in refused.stderr
        file.write_bytes(message_line("t.1") + message_line("t.2", stored_at_us=10**15))
        stopped = await run(shell, "messages", "copy", *words)
        assert stopped.returncode == 4
        assert "message 2 would follow 11574d" in stopped.stderr
        assert "--resume goes on without this pause" in stopped.stderr
        done = await run(shell, "messages", "copy", *words, "--resume")
        assert done.returncode == 0, done.stderr
        assert await counts(nc, "T") == {"t.1": 1, "t.2": 1}


async def test_what_was_refused_of_a_file_is_tried_again(
    shell: Shell, nats_server: Broker, tmp_path: Path
) -> None:
    file = tmp_path / "messages.jsonl"
    words = ("--from-file", str(file), "--to-stream", "T", "--map", "s.>:t.>", "--json")
    async with connected(nats_server.url) as nc:
        js = nc.jetstream()
        await filled(nc, "S", 10)
        assert (await run(shell, "messages", "copy", "S", "--to-file", str(file))).returncode == 0
        config = {"name": "T", "subjects": ["t.>"], "discard": "new", "max_msgs": 4}
        await js.add_stream(**config)
        refused = await run(shell, "messages", "copy", *words)
        assert refused.returncode == 4 and "--resume tries them again" in refused.stderr
        await js.update_stream(**{**config, "max_msgs": 100})
        done = await run(shell, "messages", "copy", *words, "--resume")
        assert done.returncode == 0, done.stderr
        assert copied(done.stdout)["acknowledged_msgs"] == 6
        assert await counts(nc, "T") == {f"t.{number}": 1 for number in range(1, 11)}


async def test_to_another_system(
    shell: Shell, nats_server: Broker, nats_server_factory: Callable[..., Broker], tmp_path: Path
) -> None:
    other = nats_server_factory()
    context = tmp_path / "other.json"
    context.write_text(json.dumps({"url": other.url}))
    async with connected(nats_server.url) as nc, connected(other.url) as there:
        await filled(nc, "S", 50)
        await there.jetstream().add_stream(name="S", subjects=["s.>"])
        words = ("S", "--to-context", str(context), "--json")
        assert (
            copied((await run(shell, "messages", "copy", *words)).stdout)["acknowledged_msgs"]
            == 50
        )
        assert await counts(there, "S") == await counts(nc, "S")


async def test_what_is_refused_is_counted_and_tried_again(
    shell: Shell, nats_server: Broker
) -> None:
    async with connected(nats_server.url) as nc:
        js = nc.jetstream()
        await filled(nc, "S", 10)
        config = {"name": "T", "subjects": ["t.>"], "discard": "new", "max_msgs": 4}
        await js.add_stream(**config)
        words = ("S", "--to-stream", "T", "--map", "s.>:t.>", "--json")
        done = await run(shell, "messages", "copy", *words)
        account = copied(done.stdout)
        assert done.returncode == 4 and "--resume tries them again" in done.stderr
        assert (account["acknowledged_msgs"], account["refused_msgs"]) == (4, 6)
        assert account["refused_ranges"] == [[5, 10]]
        assert list(account["refusals"].values()) == [6]
        await js.update_stream(**{**config, "max_msgs": 100})
        done = await run(shell, "messages", "copy", *words, "--resume")
        assert done.returncode == 0, done.stderr
        assert copied(done.stdout)["acknowledged_msgs"] == 6
        assert await counts(nc, "T") == {f"t.{number}": 1 for number in range(1, 11)}


async def test_what_was_refused_and_is_gone_by_now_is_no_success(
    shell: Shell, nats_server: Broker
) -> None:
    async with connected(nats_server.url) as nc:
        js = nc.jetstream()
        await filled(nc, "S", 10)
        config = {"name": "T", "subjects": ["t.>"], "discard": "new", "max_msgs": 4}
        await js.add_stream(**config)
        words = ("S", "--to-stream", "T", "--map", "s.>:t.>", "--json")
        done = await run(shell, "messages", "copy", *words)
        assert copied(done.stdout)["refused_ranges"] == [[5, 10]]
        for seq in (6, 7):
            await js.delete_msg("S", seq)
        for most_msgs, refused_msgs in ((6, 2), (100, 0)):
            await js.update_stream(**{**config, "max_msgs": most_msgs})
            done = await run(shell, "messages", "copy", *words, "--resume")
            account = copied(done.stdout)
            assert (done.returncode, account["refused_msgs"]) == (4, refused_msgs), done
            assert account["removed_seqs"] == [6, 7]
        assert account["acknowledged_msgs"] == 2
        assert "from sequence 6 to 7 were removed from S before they were copied" in done.stderr


async def test_what_a_consumer_took_of_what_was_refused_is_not_missing(
    shell: Shell, nats_server: Broker
) -> None:
    async with connected(nats_server.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"], retention="workqueue")
        await js.add_stream(name="T", subjects=["t.>"], max_msg_size=100)
        await js.publish("s.a", b"x" * 200)
        puller = await js.pull_subscribe("s.>", durable="C")
        words = ("S", "--to-stream", "T", "--map", "s.>:t.>", "--json")
        done = await run(shell, "messages", "copy", *words)
        assert copied(done.stdout)["refused_msgs"] == 1
        (message,) = await puller.fetch(1)
        await message.ack_sync()
        done = await run(shell, "messages", "copy", *words, "--resume")
        assert (done.returncode, copied(done.stdout)["gone_msgs"]) == (0, 1), done


async def test_what_cannot_be_done_is_said_before_anything_is_sent(
    shell: Shell, nats_server: Broker
) -> None:
    async with connected(nats_server.url) as nc:
        await filled(nc, "S", 3)
        await nc.jetstream().add_stream(name="T", subjects=["t"])
    for words, code, said in (
        (("S",), 2, "the target is missing"),
        ((), 2, "name a stream or use --from-file"),
        (("S", "--to-subject", "nobody"), 4, 'no stream stores "nobody"'),
        (("S", "--to-stream", "T"), 4, 'another stream stores "s.1"'),
        (("S", "--to-stream", "T", "--map", "s.*:$2"), 2, "uses wildcard 2"),
        (("S", "--to-stream", "T", "--map", "s.*:{{partition(2,1)}}"), 2, "not supported here"),
        (("S", "--to-subject", "t", "--to-file", "x"), 2, "needs no --to-subject"),
        (("S", "--to-subject", "$JS.API.STREAM.DELETE.S"), 4, "the target refused some messages"),
        (("S", "--to-subject", "t", "--read-only"), 5, "read-only"),
        (("S", "--to-subject", "t", "--resume"), 2, "nothing to resume"),
        (("NONE", "--to-subject", "t"), 4, "not found"),
        (("S", "--to-subject", "t", "--unacknowledged", "NONE"), 4, "not found"),
    ):
        done = await run(shell, "messages", "copy", *words)
        assert (done.returncode, said in done.stderr) == (code, True), (words, done.stderr)
    async with connected(nats_server.url) as nc:
        assert (await nc.jetstream().stream_info("T")).state.messages == 0
        assert (await nc.jetstream().stream_info("S")).state.messages == 3


async def test_production_wants_the_name_of_the_target(shell: Shell, nats_server: Broker) -> None:
    async with connected(nats_server.url) as nc:
        await filled(nc, "S", 3)
        await nc.jetstream().add_stream(name="T", subjects=["t"])
        words = ("S", "--to-stream", "T", "--to-subject", "t")
        shell.environment["NATSTUI_CONNECTION_PRODUCTION"] = "true"
        done = await run(shell, "messages", "copy", *words, "--yes")
        assert done.returncode == 5 and "--confirm T" in done.stderr
        assert (await nc.jetstream().stream_info("T")).state.messages == 0
        done = await run(shell, "messages", "copy", *words, "--confirm", "T")
        assert done.returncode == 0, done.stderr
        assert "copy 3 messages of S to T" in (await run(shell, "journal")).stdout


def mark_as_production(shell: Shell, server: Broker) -> None:
    """Name a server by the context `prod`, which a profile marks as production."""
    contexts = shell.folder / "CONFIG" / "nats" / "context"
    contexts.mkdir(parents=True)
    (contexts / "prod.json").write_text(json.dumps({"url": server.url}))
    settings = shell.folder / "CONFIG" / "natstui" / "config.toml"
    settings.parent.mkdir()
    settings.write_text("[profiles.live]\ncontext = 'prod'\nproduction = true\n")


async def test_another_system_that_is_production_wants_the_name_of_the_target(
    shell: Shell, nats_server: Broker, nats_server_factory: Callable[..., Broker]
) -> None:
    other = nats_server_factory()
    mark_as_production(shell, other)
    async with connected(nats_server.url) as nc, connected(other.url) as target:
        await filled(nc, "S", 3)
        await target.jetstream().add_stream(name="T", subjects=["t"])
        words = ("messages", "copy", "S", "--to-context", "prod", "--to-subject", "t")
        for more in ((), ("--yes",), ("--to-stream", "T", "--yes")):
            done = await run(shell, *words, *more)
            assert done.returncode == 5 and "this is production" in done.stderr.lower(), more
        assert (await target.jetstream().stream_info("T")).state.messages == 0
        done = await run(shell, *words, "--confirm", "t")
        assert done.returncode == 0, done.stderr
        assert (await target.jetstream().stream_info("T")).state.messages == 3


@pytest.mark.parametrize(
    ("flag", "mark"),
    [
        ("--config", "read_only"),
        ("--settings", "production"),
        pytest.param("--config", "production", marks=pytest.mark.long),
        pytest.param("--settings", "read_only", marks=pytest.mark.long),
    ],
)
async def test_marks_of_the_configuration_that_is_named_hold_for_the_target(
    shell: Shell, nats_server: Broker, nats_server_factory: Callable[..., Broker], mark: str,
    flag: str,
) -> None:  # fmt: skip
    other = nats_server_factory()
    context, settings = shell.folder / "other.json", shell.folder / "named.toml"
    context.write_text(json.dumps({"url": other.url}))
    settings.write_text(f'[profiles.live]\nserver = "{other.url}"\n{mark} = true\n')
    async with connected(nats_server.url) as nc, connected(other.url) as target:
        await filled(nc, "S", 3)
        await target.jetstream().add_stream(name="T", subjects=["t"])
        words = ("messages", "copy", "S", "--to-context", str(context), "--to-subject", "t")
        for more in ((), ("--yes",)):
            done = await run(shell, *words, *more, flag, str(settings))
            assert done.returncode == 5, (done.stdout, more)
            assert mark.replace("_", "-") in done.stderr.lower(), done.stderr
        assert (await target.jetstream().stream_info("T")).state.messages == 0


def test_every_command_that_is_told_to_work_in_production_wants_a_name(
    shell: Shell, nats_server: Broker
) -> None:
    shell.ok("stream", "add", "T", "--subjects", "t")
    mark_as_production(shell, nats_server)
    shell.environment.pop("NATSTUI_CONNECTION_SERVER")
    for words in (
        ("pub", "t", "x", "--yes"), ("stream", "add", "U", "--subjects", "u", "--yes"),
        ("stream", "edit", "T", "--description", "x", "--yes"), ("kv", "add", "B", "--yes"),
        ("stream", "rm", "T", "--yes"), ("bench", "pub", "t", "--msgs", "1", "--yes", "--no-save"),
    ):  # fmt: skip
        done = shell.run(*words, "--context", "prod")
        assert done.returncode == 5 and "production" in done.stderr, (words, done.stderr)


async def test_the_pace_is_kept(shell: Shell, nats_server: Broker) -> None:
    async with connected(nats_server.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s"])
        await js.add_stream(name="T", subjects=["t"])
        for _ in range(4):
            await js.publish("s", b"x")
            await asyncio.sleep(0.25)
        words = ("S", "--to-subject", "t", "--original-pace", "--json")
        assert copied((await run(shell, "messages", "copy", *words)).stdout)["read_msgs"] == 4
        times = [(await js.get_msg("T", seq)).time for seq in (1, 4)]
        assert all(times)
        assert (times[1] - times[0]).total_seconds() >= 0.7


@pytest.mark.parametrize(
    ("limits", "words", "said"),
    [
        (
            {"max_msgs": 3},
            ("--to-stream", "T", "--map", "s.*:t.$1"),
            "up to 3 messages of T and up to 3 copies in T are removed by its limits",
        ),
        pytest.param(
            {"max_bytes": 2000},
            ("--map", "s.*:t.$1", "--to-context", ""),
            "up to 3 messages of T",
            marks=pytest.mark.long,
        ),
        (
            {"max_msgs_per_subject": 1},
            ("--to-subject", "t.1"),
            "up to 1 message of T and up to 5 copies in T are removed by its limits",
        ),
        (
            {"max_msgs_per_subject": 1, "discard": "new"},
            ("--to-subject", "t.1"),
            "up to 1 message of T and up to 5 copies in T are removed by its limits",
        ),
    ],
)
async def test_a_copy_into_a_stream_at_its_limits_says_what_is_removed_and_asks(
    shell: Shell,
    nats_server: Broker,
    limits: dict[str, Any],
    words: tuple[str, ...],
    said: str,
) -> None:
    # To another context that is the same server: only the subjects say which stream it is.
    words = tuple(str(context(shell, nats_server.url)) if word == "" else word for word in words)
    async with connected(nats_server.url) as nc:
        await filled(nc, "S", 6)
        await nc.jetstream().add_stream(name="T", subjects=["t.>"], **limits)
        for number in (1, 2, 3):
            await nc.jetstream().publish(f"t.{number}", b"mine")
        before = await counts(nc, "T")
        refused = await run(shell, "messages", "copy", "S", *words)
        assert (refused.returncode, await counts(nc, "T")) == (5, before), refused.stderr
        assert said in refused.stderr
        done = await run(shell, "messages", "copy", "S", *words, "--yes")
        assert done.returncode == 0, done.stderr
        assert said in done.stderr, "said also to whoever is not asked"


@pytest.mark.parametrize("words", [("--to-stream", "T"), ("--to-subject", "t.x")])
async def test_a_copy_whose_target_may_not_be_read_says_so_and_asks(
    tmp_path: Path, nats_server_factory: Callable[..., Broker], words: tuple[str, ...]
) -> None:
    denied = 'deny: ["$JS.API.STREAM.LIST", "$JS.API.STREAM.INFO.T"]'
    broker = nats_server_factory(
        "authorization { users: [ {user: a, password: a}, {user: b, password: b,"
        f" permissions: {{ publish: {{ {denied} }} }} }} ] }}"
    )
    shell = Shell(broker.url.replace("//", "//b:b@"), tmp_path)
    async with connected(broker.url.replace("//", "//a:a@")) as nc:
        await filled(nc, "S", 3)
        await nc.jetstream().add_stream(name="T", subjects=["t.>"], max_msgs=2)
        words = (*words, "--map", "s.*:t.$1") if words[0] == "--to-stream" else words
        refused = await run(shell, "messages", "copy", "S", *words)
        assert (refused.returncode, await counts(nc, "T")) == (5, {}), refused.stderr
        assert "you have no permission to read its limits" in refused.stderr
        done = await run(shell, "messages", "copy", "S", *words, "--yes")
        assert done.returncode == 0, done.stderr
        assert sum((await counts(nc, "T")).values()) == 2


@pytest.mark.parametrize(
    ("limits", "said", "kept_msgs"),
    [
        ({"retention": "interest"}, "6 copies not stored by T: it has interest retention", 0),
        ({"max_age": 50}, "copies in T expire after 50s, its max age", None),
        ({"max_msgs": 2}, "up to 4 copies in T are removed by its limits", 2),
    ],
)
async def test_what_a_target_acknowledges_and_does_not_keep_is_asked_for_and_no_success(
    shell: Shell,
    nats_server: Broker,
    limits: dict[str, Any],
    said: str,
    kept_msgs: int | None,
) -> None:
    async with connected(nats_server.url) as nc:
        await filled(nc, "S", 6)
        await nc.jetstream().add_stream(name="T", subjects=["t.>"], **limits)
        words = ["messages", "copy", "S", "--to-stream", "T", "--map", "s.*:t.$1"]
        refused = await run(shell, *words)
        assert (refused.returncode, await counts(nc, "T")) == (5, {}), refused.stderr
        assert said in refused.stderr
        done = await run(shell, *words, "--yes", "--json")
        assert done.returncode == 0, done.stderr
        account = copied(done.stdout)
        if kept_msgs is not None:
            assert sum(account["not_kept"].values()) == 6 - kept_msgs
            assert sum((await counts(nc, "T")).values()) == kept_msgs
        sent = await run(shell, "pub", "t.1", "x", "-J")
        if kept_msgs == 0:
            assert sent.returncode == 4, sent
            assert "1 message acknowledged and not kept by T: interest retention" in sent.stderr
            assert "stored" not in sent.stdout
        else:
            assert (sent.returncode, "stored in T" in sent.stdout) == (0, True), sent


async def test_a_copy_that_its_target_loses_meanwhile_is_no_success(
    shell: Shell, nats_server: Broker
) -> None:
    async with connected(nats_server.url) as nc:
        js = nc.jetstream()
        await filled(nc, "S", 40)
        await js.add_stream(name="T", subjects=["t.>"])
        words = ("S", "--to-stream", "T", "--map", "s.*:t.$1", "--rate", "20")
        copying = copying_here(shell, *words)
        await some_stored(nc, "T", 10)
        await js.update_stream(name="T", subjects=["t.>"], max_msgs=5)
        done = await copying
        assert done.returncode == 4, done.stderr
        account = copied(done.stdout)
        assert account["acknowledged_msgs"] == 40
        cause = "T: max messages 5 or a deletion or purge by somebody"
        assert account["not_kept"] == {cause: 35}
        assert "the target acknowledged copies and did not keep them" in done.stderr


async def test_an_interest_target_keeps_what_its_consumers_want(
    shell: Shell, nats_server: Broker
) -> None:
    async with connected(nats_server.url) as nc:
        js = nc.jetstream()
        await filled(nc, "S", 6)
        await js.add_stream(name="T", subjects=["t.>"], retention="interest")
        await js.add_consumer("T", durable_name="C", ack_policy="explicit", filter_subject="t.1")
        words = ["messages", "copy", "S", "--to-stream", "T", "--map", "s.*:t.$1"]
        refused = await run(shell, *words)
        assert refused.returncode == 5
        assert "5 copies not stored by T: it has interest retention" in refused.stderr
        sent = [await run(shell, "pub", subject, "x", "-J") for subject in ("t.1", "t.2")]
        assert [each.returncode for each in sent] == [0, 4]
        assert "interest retention, and no consumer of t.2" in sent[1].stderr
        await js.add_consumer("T", durable_name="D", ack_policy="explicit")
        done = await run(shell, *words)
        assert done.returncode == 0, done.stderr
        assert sum((await counts(nc, "T")).values()) == 7


async def test_a_copy_asks_nothing_where_nothing_is_removed(
    shell: Shell, nats_server: Broker
) -> None:
    async with connected(nats_server.url) as nc:
        await filled(nc, "S", 6)
        await nc.jetstream().add_stream(name="T", subjects=["t.>"], max_msgs=9)
        for number in (1, 2, 3):
            await nc.jetstream().publish(f"t.{number}", b"mine")
        done = await run(shell, "messages", "copy", "S", "--to-stream", "T", "--map", "s.*:t.$1")
        assert done.returncode == 0, done.stderr
        assert sum((await counts(nc, "T")).values()) == 9


def context(shell: Shell, url: str) -> str:
    """Make a context of the server, and return its name."""
    folder = shell.folder / "CONFIG" / "nats" / "context"
    folder.mkdir(parents=True)
    (folder / "same.json").write_text(json.dumps({"url": url}))
    return "same"


@pytest.mark.parametrize(
    "flag",
    [
        "--unacknowledged",
        pytest.param("--given-up", marks=pytest.mark.long),
        pytest.param("--subject", marks=pytest.mark.long),
        pytest.param("--since", marks=pytest.mark.long),
    ],
)
async def test_an_empty_flag_does_not_mean_all_messages(shell: Shell, flag: str) -> None:
    done = await run(shell, "messages", "copy", "S", flag, "", "--to-stream", "T")
    assert (done.returncode, "is empty" in done.stderr) == (2, True), done.stderr


@pytest.mark.long
@pytest.mark.terminal
async def test_what_comes_while_a_copy_asks_is_not_copied(
    shell: Shell, nats_server: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in shell.environment.items():
        monkeypatch.setenv(name, text)
    words = ("messages", "copy", "S", "--to-subject", "t", "--server", nats_server.url)
    code = "from natstui.__main__ import main; main()"
    async with connected(nats_server.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s"])
        await js.add_stream(name="T", subjects=["t"], max_msgs=4)
        for subject in ("s", "s", "t", "t", "t"):
            await js.publish(subject, b"x")
        with OnTerminal(code, *words, width=200) as terminal:
            assert b"up to 1 message" in await asyncio.to_thread(terminal.read, b"onfirm"), (
                terminal.output
            )
            for _ in range(3):
                await js.publish("s", b"later")
            terminal.type("t\r")
            assert b"2 acknowledged" in await asyncio.to_thread(terminal.read, b"2 acknowledged")
        assert (await js.stream_info("T")).state.last_seq == 5


@pytest.mark.parametrize(
    ("lacking_count", "read_seqs", "removed_seqs"),
    [
        (0, (1, 2, 3, 4, 5), None),
        (0, (1, 3, 5), (2, 4)),
        (0, (3, 4, 5), (1, 2)),
        (0, (1, 2, 3), (4, 5)),
        (0, (), (1, 5)),
        (3, (1, 5), None),
        (2, (1, 5), (2, 4)),
        (2, (1, 4), (2, 5)),
    ],
)
def test_what_a_copy_skips_and_the_stream_had_was_removed_before_it_was_read(
    lacking_count: int, read_seqs: tuple[int, ...], removed_seqs: tuple[int, int] | None
) -> None:
    selection = Selection(
        SelectionRequest("S"), 0, 1, 5, (), None, True, lacking_count=lacking_count
    )
    for done_seq in range(6):
        # Stopped and resumed anywhere, it is the same.
        gaps = SequenceGaps(selection)
        for seq in read_seqs:
            gaps.add(seq)
        assert gaps.removed_seqs == removed_seqs
        settled_seq = next((seq for seq in reversed(read_seqs) if seq <= done_seq), 0)
        state = CopyState(end_seq=5, done_seq=settled_seq, skipped=gaps.until(settled_seq))
        resumed = SequenceGaps(selection, state)
        for seq in read_seqs:
            if seq > settled_seq:
                resumed.add(seq)
        assert resumed.removed_seqs == removed_seqs


@pytest.mark.parametrize(
    ("wanted", "has_limits_retention", "state", "is_whole"),
    [
        (SelectionRequest("S"), True, {"consumer_count": 1}, True),
        (SelectionRequest("S", from_seq=2, to_seq=5), True, {}, True),
        (SelectionRequest("S", ("s.a",)), True, {}, False),
        (SelectionRequest("S", since_us=1), True, {}, False),
        (SelectionRequest("S", consumer="C"), True, {}, False),
        (SelectionRequest("S"), False, {}, True),
        (SelectionRequest("S"), False, {"consumer_count": 1}, False),
    ],
)
def test_all_messages_of_a_range_are_missed_where_no_consumer_removes_them(
    wanted: SelectionRequest, has_limits_retention: bool, state: dict[str, int], is_whole: bool
) -> None:
    selection = Selection(
        wanted, 0, 1, 9, wanted.subjects, None, has_limits_retention, state=StreamState(**state)
    )
    assert selection.is_complete_range is is_whole
