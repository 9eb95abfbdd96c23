"""What one natstui silences, another one that watches the same server hears of."""

from __future__ import annotations

import asyncio
import time

import pytest

from natstui.config import Connection
from natstui.jetstream.connection.client import connect
from natstui.jetstream.connection.journal import Journal
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.managing import silences
from natstui.jetstream.managing.silences import follow_silences
from natstui.jetstream.testbed.broker import Broker
from natstui.model.records.managing import SilenceFinding
from natstui.model.records.record import Record, Restored, Unavailable
from natstui.model.records.silences import Silenced
from natstui.values import replace
from tests.accounts import Account

pytestmark = pytest.mark.server


class Heard:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def add(self, record: Record) -> None:
        self.records.append(record)

    async def next(self) -> Record:
        async with asyncio.timeout(60):
            while not self.records:
                await asyncio.sleep(0.05)
        return self.records.pop(0)


def asked(for_s: float | None) -> SilenceFinding:
    return SilenceFinding(0, "NT-C07", "S", "C", 5, "", "it is meant", for_s)


async def test_silences_of_others_are_heard_of_and_those_of_other_servers_are_not(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silences, "_CHECK_INTERVAL_S", 0.1)
    heard, journal = Heard(), Journal()
    ours = await connect(Connection(servers=(account.url,)))
    following = asyncio.create_task(follow_silences(ours, heard))
    # At first also that there is none: the engine before may have reported some.
    none = await heard.next()
    assert isinstance(none, Silenced) and none.silences == ()
    with Broker(name="elsewhere") as other:
        others = await connect(Connection(servers=(other.url,)))
        Writer(others, journal).silence(asked(600))
        await others.close()
    Writer(ours, journal).silence(asked(600))
    first = await heard.next()
    assert isinstance(first, Silenced)
    (one,) = first.silences
    assert (one.code, one.stream, one.consumer, one.reason) == ("NT-C07", "S", "C", "it is meant")
    Writer(ours, journal).silence(asked(None))
    second = await heard.next()
    assert isinstance(second, Silenced) and second.silences == ()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await ours.close()


@pytest.mark.parametrize("damage", [b"no journal", b'{"entry": 5}'])
async def test_silences_around_a_damaged_line_are_kept_and_the_line_is_named(
    account: Account, damage: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silences, "_CHECK_INTERVAL_S", 0.1)
    heard, journal = Heard(), Journal()
    client = await connect(Connection(servers=(account.url,)))
    writer = Writer(client, journal)
    writer.silence(asked(600))
    following = asyncio.create_task(follow_silences(client, heard))
    first = await heard.next()
    assert isinstance(first, Silenced) and len(first.silences) == 1
    whole = journal.file.read_bytes()
    journal.file.write_bytes(damage + b"\n" + whole)
    damaged = await heard.next()
    assert isinstance(damaged, Unavailable)
    assert "journal.jsonl:1 is damaged and left out" in damaged.reason
    writer.silence(replace(asked(600), part="another"))
    second = await heard.next()
    assert isinstance(second, Silenced) and len(second.silences) == 2
    journal.file.write_bytes(whole)
    third = await heard.next()
    assert isinstance(third, Silenced) and third.silences == first.silences
    assert isinstance(await heard.next(), Restored)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await client.close()


async def test_a_silence_that_a_wrong_clock_ended_goes_on_by_the_right_one(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silences, "_CHECK_INTERVAL_S", 0.1)
    heard, journal, time_ns = Heard(), Journal(), time.time_ns
    client = await connect(Connection(servers=(account.url,)))
    Writer(client, journal).silence(asked(600))
    following = asyncio.create_task(follow_silences(client, heard))
    for ahead_s, count in ((0, 1), (7200, 0), (0, 1)):
        monkeypatch.setattr(time, "time_ns", lambda ahead_s=ahead_s: time_ns() + ahead_s * 10**9)
        record = await heard.next()
        assert isinstance(record, Silenced) and len(record.silences) == count
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await client.close()
