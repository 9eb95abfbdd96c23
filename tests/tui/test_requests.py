"""Requests are awaited: the reply comes, or the reason why none will."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from natstui.model.records.messages import Answered, BrowseMessages, StartTail, Tailed
from natstui.model.records.record import Noted, Record
from natstui.tui.app.link import Link
from natstui.tui.frame.live import NO_SERVER
from natstui.tui.frame.requests import ReplyRecord
from tests.accounts import Account
from tests.session.making import made
from tests.session.scenario import Scenario
from tests.tui.shared import asked, connected
from tests.tui.viewer import frozen, replaying, viewing

pytestmark = pytest.mark.server

ENGINE = """
import os, sys
from natstui.lines import decode_command, encode_record
from natstui.model.records.messages import Answered, StartTail, Tailed
from natstui.model.records.record import Noted
for line in sys.stdin.buffer:
    command = decode_command(line)
    number = command.command_id
    os.write(1, encode_record(Noted(1, "an event")))
    if isinstance(command, StartTail):
        os.write(1, encode_record(Answered(1, number, "done", "following")))
        os.write(1, encode_record(Tailed(2, number, (), 1, 0)))
        os.write(1, encode_record(Answered(3, number, "failed", "not permitted any more")))
    elif command.stream == "KILL":
        sys.exit(1)
    else:
        os.write(1, encode_record(Answered(1, number, "done", command.stream)))
"""


def read_all(link: Link) -> tuple[list[Record], asyncio.Task[None]]:
    """Read what no request waits for, in the background."""
    records: list[Record] = []

    async def read() -> None:
        async for record in link.records():
            records.append(record)

    return records, asyncio.create_task(read())


async def test_each_request_gets_its_own_reply_and_nobody_else_sees_it() -> None:
    link = Link((sys.executable, "-c", ENGINE))
    records, reading = read_all(link)
    try:
        replies = await asyncio.gather(
            *(link.request(BrowseMessages(0, f"S{at}")) for at in range(20))
        )
        assert [reply.text for reply in replies] == [f"S{at}" for at in range(20)]
        assert len({reply.command_id for reply in replies}) == 20
    finally:
        link.close()
    await reading
    assert records == [Noted(1, "an event")] * 20


async def test_a_request_yields_all_that_comes_of_it_until_the_engine_ends() -> None:
    link = Link((sys.executable, "-c", ENGINE))
    records, reading = read_all(link)
    seen: list[ReplyRecord] = []
    try:
        request = link.request(StartTail(0, (">",)))
        async for record in request:
            seen.append(record)
            if len(seen) == 3:
                os.kill(link.pid, signal.SIGKILL)
    finally:
        link.close()
    await reading
    number = request.command_id
    assert seen[:3] == [
        Answered(1, number, "done", "following"),
        Tailed(2, number, (), 1, 0),
        Answered(3, number, "failed", "not permitted any more"),
    ]
    assert [(one.status, one.text) for one in seen[3:] if isinstance(one, Answered)] == [
        ("failed", "the engine ended before it replied")
    ]
    assert records == [Noted(1, "an event")]


async def test_a_request_fails_when_the_engine_ends_and_at_once_when_it_has_ended() -> None:
    link = Link((sys.executable, "-c", ENGINE))
    _, reading = read_all(link)
    try:
        reply = await link.request(BrowseMessages(0, "KILL"))
        assert (reply.status, reply.text) == ("failed", "the engine ended before it replied")
        await reading
        later = await link.request(BrowseMessages(0, "S"))
        assert later.status == "failed"
    finally:
        link.close()


async def test_a_request_that_is_cancelled_is_forgotten() -> None:
    link = Link((sys.executable, "-c", "import sys; sys.stdin.read()"))
    _, reading = read_all(link)
    try:

        async def wait() -> None:
            await link.request(BrowseMessages(0, "S"))

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        assert len(link.pending) == 1
        waiting.cancel()
        await asyncio.wait({waiting})
        assert len(link.pending) == 0
    finally:
        link.close()
    await reading


async def test_what_only_a_server_can_do_fails_at_once_in_a_replay(tmp_path: Path) -> None:
    scenario = Scenario(streams=1, consumers=1)
    folder = made(tmp_path, [*scenario.beginning(), scenario.poll(1)])
    async with replaying(folder) as viewer:
        reply = await viewer.app.engine.request(BrowseMessages(0, "S"))
        assert (reply.status, reply.text) == ("failed", NO_SERVER)


async def test_a_screen_that_waits_shows_that_the_engine_ended(account: Account) -> None:
    async with connected(account.url) as nc, viewing(account.url) as viewer:
        await asked(nc, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        await viewer.until(lambda: "S" in viewer.rows(), "the stream")
        with frozen(viewer) as engine:
            await viewer.press("P")
            await viewer.until(
                lambda: "counting the messages that this removes" in viewer.words, "it waits"
            )
            pending = viewer.app.link.pending
            assert pending
            engine.kill()
        await viewer.until(lambda: "the engine ended before it replied" in viewer.said)
        assert not pending
