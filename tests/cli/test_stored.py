"""`natstui sub --since` and the like: what a stream holds, then what comes, without a gap."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest
from nats.aio.client import Client

from natstui.jetstream.testbed.broker import Broker
from tests.accounts import Account
from tests.cli.beside import Begin, run_beside, stop, until_printed, until_said
from tests.cli.test_core import PATIENCE_S, connected, ended, listening, run
from tests.cli.test_manage import Shell

pytestmark = pytest.mark.server


@pytest.fixture
def shell(account: Account, tmp_path: Path) -> Shell:
    return Shell(account.url, tmp_path)


async def filled(nc: Client, count: int, **config: object) -> None:
    js = nc.jetstream()
    await js.add_stream(name="S", subjects=["s.>"], **config)
    for number in range(1, count + 1):
        await js.publish(f"s.{number % 3}", b"%d" % number, headers={"N": str(number)})


@pytest.mark.parametrize(
    ("words", "seqs", "where"),
    [
        (("s.>", "--all"), [1, 2, 3, 4, 5, 6], "from the first message"),
        (("s.>", "--since", "1h"), [1, 2, 3, 4, 5, 6], "from 1h on"),
        (("s.>", "--since", "1h ago"), [1, 2, 3, 4, 5, 6], "from 1h ago on"),
        (("s.>", "--start-sequence", "4"), [4, 5, 6], "from sequence 4 on"),
        pytest.param(
            ("s.1", "s.2", "--all"), [1, 2, 4, 5], "from the first message", marks=pytest.mark.long
        ),
        (("s.>", "--all", "-I", "s.1"), [2, 3, 5, 6], "from the first message"),
        pytest.param(
            ("--stream", "S", "--all"),
            [1, 2, 3, 4, 5, 6],
            "all in the stream S",
            marks=pytest.mark.long,
        ),
        pytest.param(("s.>", "--last"), [6], "from the last message", marks=pytest.mark.long),
        pytest.param(
            ("s.>", "--last-per-subject"),
            [4, 5, 6],
            "the last message of each subject",
            marks=pytest.mark.long,
        ),
        pytest.param(
            ("s.>", "--since", "2000-01-01T00:00:00Z"),
            [1, 2, 3, 4, 5, 6],
            "from 2000-01-01",
            marks=pytest.mark.long,
        ),
    ],
)
async def test_a_stream_is_read_from_where_it_is_said(
    shell: Shell, account: Account, words: tuple[str, ...], seqs: list[int], where: str
) -> None:
    async with connected(account.url) as nc:
        await filled(nc, 6)
    done = await run(shell, "sub", *words, "--count", str(len(seqs)), "--json")
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["stream_seq"] for one in found] == seqs
    assert all(one["headers"] == [["N", str(one["stream_seq"])]] for one in found)
    assert "natstui: listening to " in done.stderr and where in done.stderr
    async with connected(account.url) as nc:
        assert (await nc.jetstream().stream_info("S")).state.consumer_count == 0


async def delivered(nc: Client, wanted_msgs: int) -> None:
    """Wait until the only consumer of S was sent so many messages."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            reply = await nc.request("$JS.API.CONSUMER.LIST.S", b"", timeout=PATIENCE_S)
            consumers = json.loads(reply.data)["consumers"]
            if consumers and consumers[0]["delivered"]["consumer_seq"] >= wanted_msgs:
                return
            await asyncio.sleep(0.02)


async def test_new_messages_follow_the_stored_ones_also_over_a_restart(
    nats_server: Broker, tmp_path: Path
) -> None:
    shell = Shell(nats_server.url, tmp_path)
    async with connected(nats_server.url) as nc:
        await filled(nc, 2)
        words = ("sub", "s.>", "--all", "--count", "5", "--subjects-only")
        reading = asyncio.create_task(run(shell, *words))
        await delivered(nc, 2)
        await nc.jetstream().publish("s.new", b"3")
        await delivered(nc, 3)
    await asyncio.to_thread(nats_server.restart)
    async with connected(nats_server.url) as nc:
        for number in (4, 5):
            await nc.jetstream().publish(f"s.{number}", b"later")
    done = await reading
    assert done.stdout.splitlines() == ["s.1", "s.2", "s.new", "s.4", "s.5"]
    assert done.returncode == 0
    assert "messages stored in the meantime are printed later" in done.stderr
    assert done.stderr.splitlines()[-1] == (
        "natstui: 5 messages; the connection was lost 1 time: none is missing"
    )


def test_what_is_stopped_while_disconnected_does_not_know_that_none_is_missing(
    nats_server: Broker, tmp_path: Path
) -> None:
    shell = Shell(nats_server.url, tmp_path)

    async def work(begin: Begin) -> None:
        async with connected(nats_server.url) as nc:
            await filled(nc, 2)
        begin()
        await until_printed("s.2\n")
        await asyncio.to_thread(nats_server.stop)
        await until_said("the connection is lost")
        stop(signal.SIGINT)

    words = ("sub", "s.>", "--since", "1h", "--subjects-only")
    done = run_beside(work, *words, environment=shell.environment)
    assert done.stderr.splitlines()[-1] == (
        "natstui: 2 messages; the connection was lost 1 time and is not back: what came since "
        "then, if anything, is missing"
    )


async def test_only_what_is_new_is_read_and_it_ends_when_nothing_comes(
    shell: Shell, account: Account
) -> None:
    async with connected(account.url) as nc:
        await filled(nc, 2)
        js = nc.jetstream()
        for seq, words in ((3, ("s.>", "--new")), (4, ("--stream", "S"))):
            reading = asyncio.create_task(run(shell, "sub", *words, "--count", "1", "--json"))
            async with asyncio.timeout(PATIENCE_S):
                while not (await js.stream_info("S")).state.consumer_count:
                    await asyncio.sleep(0.02)
            await js.publish("s.new", b"later")
            assert json.loads((await reading).stdout)["stream_seq"] == seq
    quiet = await run(shell, "sub", "s.>", "--new", "--wait", "200ms")
    assert (quiet.returncode, quiet.stdout) == (0, "")
    assert "listening to s.> in the stream S, from now on" in quiet.stderr


@pytest.mark.long
async def test_it_ends_when_it_is_stopped(shell: Shell, account: Account) -> None:
    async with connected(account.url) as nc:
        await filled(nc, 1)
    process = await listening(shell, "--stream", "S")
    process.send_signal(signal.SIGINT)
    assert await ended(process) == ([], "natstui: 0 messages\n")
    assert process.returncode == 0


async def test_what_cannot_be_read_is_said(shell: Shell, account: Account) -> None:
    async with connected(account.url) as nc:
        await filled(nc, 1)
        await nc.jetstream().add_stream(name="T", subjects=["t.>"])
        await nc.jetstream().add_stream(name="QUEUE", subjects=["q"], retention="workqueue")
    for words, code, said in (
        ((), 2, "name a SUBJECT"),
        (("none", "--all"), 4, "no stream stores none"),
        (
            ("s.>", "t.>", "--all"),
            2,
            "several streams store these subjects: S, T; add --stream NAME",
        ),
        (("s.>", "--all", "--since", "1h"), 2, "use only one start"),
        (("s.>", "--since", "yesterday"), 2, "--since: 'yesterday' is not a time"),
        (("s.>", "--all", "--queue", "g"), 2, "--queue shares what is published"),
        (("q", "--all"), 5, "natstui stream view QUEUE"),
        (("--stream", "NONE"), 4, "stream not found"),
        (("s.>", "--durable", "C"), 2, "--durable is not supported here: natstui consumer sub"),
        (("s.>", "--ack"), 2, "--ack is not supported here: natstui consumer sub"),
        (("s.>", "--graph"), 2, ":sub SUBJECT in the app"),
    ):
        done = await run(shell, "sub", *words)
        assert (done.returncode, done.stdout) == (code, ""), (words, done.stderr)
        assert said in done.stderr, words
