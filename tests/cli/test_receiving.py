"""`natstui consumer sub` against a real server: pull and push consumers, and how it ends."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from asyncio.subprocess import Process
from pathlib import Path

import pytest

from natstui.cli.manage.consumer import _received_summary_text
from natstui.config import Connection
from natstui.jetstream.connection.client import connect
from natstui.jetstream.messages.receive import Receiver
from natstui.jetstream.testbed.broker import Broker
from natstui.model.records.messages import PulledMessage
from tests.accounts import Account
from tests.cli.beside import Begin, run_beside, stop, until_printed, until_said
from tests.cli.processes import close_stdout, start_beside
from tests.cli.test_core import PATIENCE_S, connected, ended, run
from tests.cli.test_manage import Shell
from tests.cli.test_taking import filled
from tests.jetstream.flushing import flushed

pytestmark = pytest.mark.server


@pytest.fixture
def shell(account: Account, tmp_path: Path) -> Shell:
    return Shell(account.url, tmp_path)


async def receiving(shell: Shell, *words: str, stdout: int = subprocess.PIPE) -> Process:
    """Start it without a stdin, and wait until it receives."""
    words = ("consumer", "sub", "S", *words)
    process = await start_beside(*words, environment=shell.environment, stdout=stdout)
    async with asyncio.timeout(PATIENCE_S):
        while not (line := await process.stderr.readline()).startswith(b"natstui: receiving"):
            assert line, "it ended"
    return process


async def state_of(shell: Shell, name: str) -> tuple[int, int]:
    """Return how many are unprocessed, and how many wait for an acknowledgement."""
    info = json.loads(await asyncio.to_thread(shell.ok, "consumer", "info", "S", name, "--json"))
    return info["num_pending"], info["num_ack_pending"]


async def test_messages_of_a_pull_consumer_come_until_there_are_enough_of_them(
    shell: Shell, account: Account
) -> None:
    await filled(account.url, 5)
    words = ("consumer", "sub", "S", "C")
    assert (await run(shell, *words, "--read-only")).returncode == 5
    shell.environment["NATSTUI_CONNECTION_PRODUCTION"] = "true"
    refused = await run(shell, *words, "--yes", "--count", "1")
    assert refused.returncode == 5 and "this is production" in refused.stderr
    assert await state_of(shell, "C") == (5, 0)
    taken = await run(shell, *words, "--ack", "--count", "2", "--raw", "--confirm", "C")
    assert (taken.returncode, taken.stdout) == (0, "0\n1\n"), taken.stderr
    assert "2 messages, 2 acknowledged" in taken.stderr
    del shell.environment["NATSTUI_CONNECTION_PRODUCTION"]
    assert await state_of(shell, "C") == (3, 0)
    kept = await run(shell, *words, "--count", "1", "--json")
    assert kept.stderr.count("nothing is acknowledged: each message is redelivered after 30") == 1
    found = json.loads(kept.stdout)
    assert (found["stream_seq"], found["deliveries_count"]) == (3, 1)
    headers = await run(shell, *words, "--count", "1", "--headers-only")
    assert "  K: v" in headers.stdout and "seq 4" in headers.stdout
    assert await state_of(shell, "C") == (1, 2)
    for_a_while = await run(shell, *words, "--ack", "--duration", "2s", "--raw")
    assert (for_a_while.returncode, for_a_while.stdout) == (0, "4\n")
    journal = await asyncio.to_thread(shell.ok, "journal")
    assert "receive 2, acknowledge 2 of C on S" in journal
    gone = await run(shell, "consumer", "sub", "S", "NONE")
    assert gone.returncode == 4


def test_it_ends_with_its_accounts_when_stopped(shell: Shell, account: Account) -> None:
    asyncio.run(filled(account.url, 1))

    async def work(begin: Begin) -> None:
        begin()
        await until_printed("0\n")
        async with connected(account.url) as nc:
            js = nc.jetstream()
            while (await js.consumer_info("S", "C")).ack_floor.stream_seq < 1:
                await asyncio.sleep(0.02)
        stop(signal.SIGINT)

    words = ("consumer", "sub", "S", "C", "--ack", "--raw")
    done = run_beside(work, *words, environment=shell.environment)
    assert (done.returncode, done.stdout) == (0, "0\n")
    assert done.stderr.splitlines()[-1] == "natstui: 1 message, 1 acknowledged"


async def test_it_ends_with_its_accounts_when_nobody_reads(shell: Shell, account: Account) -> None:
    await filled(account.url, 0)
    async with connected(account.url) as nc, asyncio.timeout(PATIENCE_S):
        unread = await receiving(shell, "C", "--ack", "--raw")
        close_stdout(unread)
        await nc.jetstream().publish("s", b"lost")
        assert await unread.wait() == 0
    assert await unread.stderr.read() == b"natstui: 0 messages, 0 acknowledged\n"
    assert await state_of(shell, "C") == (0, 1), "what nobody saw comes again"


@pytest.mark.parametrize("kind", ["pull", "push"])
async def test_it_fails_when_its_output_cannot_be_written(
    shell: Shell, account: Account, kind: str
) -> None:
    await filled(account.url, 1)
    words = ("--target", "push", "--ack", "none", "--filter", "s")
    await asyncio.to_thread(shell.ok, "consumer", "add", "S", "P", *words)
    name = "C" if kind == "pull" else "P"
    with Path("/dev/full").open("wb") as full:
        process = await receiving(shell, name, "--raw", stdout=full.fileno())
    async with asyncio.timeout(PATIENCE_S):
        _, said = await process.communicate()
    assert process.returncode == 6, said
    assert said.decode().splitlines() == [
        "natstui: 0 messages, 0 acknowledged",
        "natstui: the output cannot be written: No space left on device",
    ]
    journal = await asyncio.to_thread(shell.ok, "journal")
    assert f"receive 0, acknowledge 0 of {name} on S" in journal


async def test_a_push_consumer_is_listened_to_and_only_its_own_messages_are_answered(
    shell: Shell, account: Account
) -> None:
    await filled(account.url, 3)
    words = ("--target", "push", "--heartbeat", "200ms", "--flow-control")
    await asyncio.to_thread(shell.ok, "consumer", "add", "S", "P", *words)
    async with connected(account.url) as nc, asyncio.timeout(PATIENCE_S):
        process = await receiving(shell, "P", "--ack", "--raw")
        assert [await process.stdout.readline() for _ in range(3)] == [b"0\n", b"1\n", b"2\n"]
        await nc.publish("push", b"evil", reply="$JS.API.STREAM.DELETE.S")
        await flushed(nc)
        await nc.jetstream().publish("s", b"more")
        assert await process.stdout.readline() == b"more\n"
        while (await nc.jetstream().consumer_info("S", "P")).ack_floor.stream_seq < 4:
            await asyncio.sleep(0.02)
        refused = await run(shell, "consumer", "sub", "S", "P", "--ack", "--count", "1")
        assert refused.returncode == 5 and "to another client" in refused.stderr
        process.send_signal(signal.SIGTERM)
        _, said = await ended(process)
    assert said == (
        "natstui: 4 messages, 4 acknowledged; 1 of other senders on the deliver subject left out\n"
    )
    assert process.returncode == 0


async def test_messages_that_find_too_many_others_waiting_are_counted(
    shell: Shell, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(account.url, 3)
    words = ("--target", "push", "--ack", "explicit", "--filter", "s")
    await asyncio.to_thread(shell.ok, "consumer", "add", "S", "P", *words)
    client = await connect(Connection(servers=(account.url,)))
    acked, received = asyncio.Event(), list[PulledMessage]()

    async def ack(_reply: str, _payload: bytes) -> None:
        await acked.wait()

    monkeypatch.setattr(client, "ack", ack)
    info = await client.consumer_info("S", "P")
    receiver = Receiver("S", "P", info, True, None, None, received.append, lambda: None)
    receiving = asyncio.create_task(receiver._receive_messages(client))
    try:
        async with asyncio.timeout(PATIENCE_S), connected(account.url) as nc:
            while len(received) < 1:
                await asyncio.sleep(0.01)
            (subscription,) = (one for one in client.nc._subs.values() if one.subject == "push")
            subscription._pending_bytes_limit = 10
            for payload in (b"more than fits", b"also more than fits"):
                await nc.jetstream().publish("s", payload)
            await nc.publish("push", b"of another sender, and too long")
            await nc.publish("push", b"end")
            await flushed(nc)
            while subscription.pending_msgs < 3:
                await asyncio.sleep(0.01)
            acked.set()
            while receiver.foreign_messages_count < 1:
                await asyncio.sleep(0.01)
            receiver.stop_event.set()
            await receiving
    finally:
        await client.close()
    assert (receiver.received_count, receiver.dropped_messages_count) == (3, 2)
    text = _received_summary_text(receiver)
    assert "3 messages, 3 acknowledged; 2 dropped unseen: they came faster than " in text


def test_a_lost_connection_is_printed_at_once_and_counted(
    nats_server: Broker, tmp_path: Path
) -> None:
    shell = Shell(nats_server.url, tmp_path)
    asyncio.run(filled(nats_server.url, 1))
    lost = "natstui: the connection is lost; no messages are received in the meantime"

    async def work(begin: Begin) -> None:
        begin()
        await until_printed("0\n")
        await asyncio.to_thread(nats_server.kill)
        await until_said(lost)
        stop(signal.SIGINT)

    words = ("consumer", "sub", "S", "C", "--ack", "--raw")
    said = run_beside(work, *words, environment=shell.environment).stderr
    assert f"\n{lost}" in said
    assert "1 message, " in said and "; the connection was lost 1 time and is not back: " in said
