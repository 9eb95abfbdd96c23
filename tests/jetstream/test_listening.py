"""What is listened to is counted exactly, by subject, in bounded memory, whatever comes."""

from __future__ import annotations

import asyncio
import base64
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from nats.errors import ProtocolError

from natstui.config import Connection
from natstui.errors import PermissionDenied, RequestFailed
from natstui.jetstream.connection.client import connect
from natstui.jetstream.connection.wire_parser import BlockMessage, WireParser
from natstui.jetstream.messages.listening import listener, tally
from natstui.jetstream.messages.listening.listener import Listener
from natstui.jetstream.messages.listening.tally import DistinctCounter
from natstui.jetstream.testbed.broker import Broker
from natstui.model.records.listening import (
    MAX_KEPT_MSGS,
    Listened,
    StartListening,
    SubjectRowOptions,
)
from natstui.values import replace
from tests.ending import ended
from tests.jetstream.raw_publisher import RawPublisher
from tests.jetstream.test_outage import until

LIST = SubjectRowOptions(by="subject", reverse=False, as_tree=False)
Message = tuple[bytes, bytes, bytes]
TREE = SubjectRowOptions(by="subject", reverse=False, open_level=9)


class Told:
    """A listener and its newest picture."""

    def __init__(self, subjects: tuple[str, ...], look: SubjectRowOptions) -> None:
        self.pictures: list[Listened] = []
        self.denied: list[PermissionDenied] = []
        self.listener = Listener(StartListening(1, subjects, look), self.pictures.append)

    @property
    def last(self) -> Listened:
        return self.pictures[-1]

    async def came(self, count: int) -> Listened:
        """Wait until so many messages came."""
        await until(lambda: bool(self.pictures) and self.last.came_msgs >= count)
        return self.last

    async def looked_at(self, look: SubjectRowOptions) -> Listened:
        """Return the first picture of another look."""
        seen = len(self.pictures)
        self.listener.set_row_options(look)
        await until(lambda: len(self.pictures) > seen)
        return self.last


@asynccontextmanager
async def listening(
    server: Broker, *subjects: str, look: SubjectRowOptions
) -> AsyncIterator[Told]:
    told = Told(subjects, look)
    await told.listener.begin(Connection(servers=(server.url,)), told.denied.append)
    running = asyncio.create_task(told.listener.run())
    try:
        yield told
    finally:
        running.cancel()
        await ended(running)


def published(server: Broker, messages: list[Message]) -> None:
    with RawPublisher(server.url) as publisher:
        for subject, payload, headers in messages:
            publisher.publish(subject, payload, headers)
        publisher.settle()


@pytest.mark.server
async def test_messages_and_bytes_of_each_subject_are_those_published(nats_server: Broker) -> None:
    dice = random.Random(16)
    subjects = [f"a.{x}.{y}".encode() for x in "bcd" for y in "efgh"] + [b"a.b", b"z", b"\xff\x0b"]
    heads = (b"", b"NATS/1.0\r\nA: b\r\n\r\n")
    messages = [
        (dice.choice(subjects), dice.randbytes(dice.randrange(300)), dice.choice(heads))
        for _ in range(3_000)
    ]
    count, size = Counter[str](), Counter[str]()
    for subject, payload, headers in messages:
        text = subject.decode("utf-8", "backslashreplace")
        count[text] += 1
        size[text] += len(payload) + len(headers)
    # Not all: the server may still announce what we asked it while we connected.
    async with listening(nats_server, "a.>", "*", look=LIST) as told:
        published(nats_server, messages)
        last = await told.came(len(messages))
        rows = {row.path: row for row in last.rows}
        assert {path: row.came_msgs for path, row in rows.items()} == count
        assert {path: row.came_bytes for path, row in rows.items()} == size
        assert (last.came_msgs, last.came_bytes) == (3_000, size.total())
        assert last.subjects_count == last.wanted_subjects_count == len(count)

        tree = {row.path: row for row in (await told.looked_at(TREE)).rows}
        below = {path: n for path, n in count.items() if path.startswith("a.b.") or path == "a.b"}
        assert tree["a.b"].came_msgs == sum(below.values())
        assert tree["a.b"].subjects_count == len(below)
        assert tree["a"].came_bytes == sum(n for path, n in size.items() if path[:2] == "a.")
        assert [row.path for row in (await told.looked_at(replace(TREE, open_level=1))).rows] == [
            "\\xff\x0b", "a", "z",
        ]  # fmt: skip

        some = await told.looked_at(replace(LIST, pattern="^a.b"))
        assert {row.path for row in some.rows} == set(below)
        assert some.unwanted_msgs == 3_000 - sum(below.values())
        assert {one.message.subject for one in some.heard} <= set(below)

        whole = await told.looked_at(LIST)
        assert [one.heard_id for one in whole.heard] == list(range(2_801, 3_001))
        one = told.listener.find(2_900)
        assert base64.b64decode(one.message.payload_base64) == messages[2_899][1]
        assert bool(one.message.headers) == bool(messages[2_899][2])
        with pytest.raises(RequestFailed, match="no longer kept"):
            told.listener.find(1)


@pytest.mark.server
async def test_a_report_during_which_the_machine_did_something_else_delays_no_other(
    nats_server: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "_REPORT_PAUSE_RATIO", 400)
    reports: list[Listened] = []

    def wait_and_add(report: Listened) -> None:
        time.sleep(0.1)
        reports.append(report)

    counting = Listener(StartListening(1, ("a",), LIST), wait_and_add)
    await counting.begin(Connection(servers=(nats_server.url,)), lambda error: None)
    running = asyncio.create_task(counting.run())
    await until(lambda: len(reports) == 2)
    running.cancel()
    await ended(running)


@pytest.mark.server
async def test_subjects_beyond_what_is_remembered_are_counted_together(
    nats_server: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    most, subjects = 10_000, 14_000
    monkeypatch.setattr(tally, "MAX_NODES_COUNT", most)
    async with listening(nats_server, "many.>", look=SubjectRowOptions()) as told:
        with RawPublisher(nats_server.url) as publisher:
            for begin in range(0, subjects, 1_000):
                lines = (b"PUB many.x%d 2\r\nhi\r\n" % n for n in range(begin, begin + 1_000))
                publisher.send(b"".join(lines))
            publisher.settle()
        last = await told.came(subjects)
        kept = last.subjects_count
        # A token above them all, and the place above that.
        assert kept == most - 2
        assert abs(last.other_subjects_count - (subjects - kept)) < (subjects - kept) * 0.1
        assert last.came_msgs == subjects
        many, *some, rest, others = last.rows
        assert (many.path, many.subjects_count, many.came_msgs) == ("many", kept, kept)
        assert len(some) == 100
        assert (rest.kind, rest.subjects_count, rest.came_msgs) == ("rest", kept - 100, kept - 100)
        assert (others.kind, others.came_msgs) == ("others", subjects - kept)
        assert len((await told.looked_at(LIST)).rows) <= 402


def test_the_names_of_subjects_are_limited_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "MAX_PATHS_BYTES", 8)
    tree = tally.SubjectTree()
    assert tree.find_or_add("ü" * 4) is not None
    assert tree.is_full
    assert tree.find_or_add("a") is None


@pytest.mark.server
async def test_a_subject_whose_last_token_finds_no_room_is_counted_with_the_others(
    nats_server: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tally, "MAX_NODES_COUNT", 10)
    async with listening(nats_server, "eu.sensor.>", look=TREE) as told:
        with RawPublisher(nats_server.url) as publisher:
            # The root, two tokens and three devices need 9 nodes; the id of the next is the 10th.
            publisher.send(b"".join(b"PUB eu.sensor.%d.temp 2\r\nhi\r\n" % n for n in range(5)))
            publisher.settle()
        last = await told.came(5)
        assert (last.subjects_count, last.other_subjects_count) == (3, 2)
        assert (last.rows[-1].kind, last.rows[-1].came_msgs) == ("others", 2)


@pytest.mark.long
@pytest.mark.server
async def test_a_flood_is_counted_and_the_other_connection_stays(nats_server: Broker) -> None:
    client = await connect(Connection(servers=(nats_server.url,)))
    block = b"".join(b"PUB f.%d 64\r\n%s\r\n" % (n % 50, b"x" * 64) for n in range(5_000))
    async with listening(nats_server, "f.>", look=LIST) as told:
        flood = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _FLOOD, nats_server.url, stdin=asyncio.subprocess.PIPE
        )
        await asyncio.gather(flood.communicate(block), *(_asked(client) for _ in range(5)))
        # A machine that is too slow loses the connection: then that is said, and not hidden.
        await until(lambda: told.last.came_msgs == 100_000 or told.last.interruptions_count > 0)
        assert client.nc.stats["reconnects"] == 0
        assert len(told.last.heard) == MAX_KEPT_MSGS
        if told.last.came_msgs == 100_000:
            assert {row.came_msgs for row in told.last.rows} == {2_000}
    await client.close()


_FLOOD = """
import sys
from tests.jetstream.raw_publisher import RawPublisher
with RawPublisher(sys.argv[1]) as publisher:
    block = sys.stdin.buffer.read()
    for _ in range(20):
        publisher.send(block)
    publisher.settle()
"""


async def _asked(client: object) -> None:
    await asyncio.sleep(0.1)
    assert await client.request("INFO", timeout_s=20)  # type: ignore[attr-defined]


@pytest.mark.server
async def test_internal_subjects_are_hidden_and_those_used_once_stand_together(
    nats_server: Broker,
) -> None:
    async with listening(nats_server, ">", look=LIST) as told:
        # Replies to our own requests come too; the listener itself asks a few.
        published(nats_server, [(f"_INBOX.x.{n}".encode(), b"", b"") for n in range(50)])
        published(nats_server, [(b"$JS.ACK.S.C.%d" % n, b"", b"") for n in range(50)])
        published(nats_server, [(b"plain", b"", b"")])
        last = await told.came(101)
        assert [row.path for row in last.rows] == ["plain"]
        assert last.unwanted_msgs >= 100
        shown = {
            row.path: row for row in (await told.looked_at(replace(LIST, internal=True))).rows
        }
        assert shown["_INBOX.>"].came_msgs >= 50
        assert shown["$JS.ACK.S.C.>"].came_msgs == 50
    async with listening(nats_server, "_INBOX.x.>", look=replace(LIST, internal=True)) as told:
        published(nats_server, [(f"_INBOX.x.{n}".encode(), b"", b"") for n in range(5)])
        paths = [row.path for row in (await told.came(5)).rows]
        assert paths == [f"_INBOX.x.{n}" for n in range(5)]


@pytest.mark.server
async def test_a_lost_connection_is_told_and_it_goes_on(nats_server: Broker) -> None:
    async with listening(nats_server, "news", look=LIST) as told:
        published(nats_server, [(b"news", b"one", b"")])
        assert (await told.came(1)).interruptions_count == 0
        nats_server.restart()
        await until(lambda: told.last.interruptions_count == 1)
        assert told.last.interrupted_by
        for _ in range(200):
            published(nats_server, [(b"news", b"two", b"")])
            if told.last.came_msgs > 1:
                break
            await asyncio.sleep(0.05)
        assert told.last.rows[0].came_msgs == told.last.came_msgs > 1


async def test_what_is_no_subject_is_refused() -> None:
    told = Told(("a..b",), LIST)
    with pytest.raises(RequestFailed, match=r"'a\.\.b' is not a subject"):
        await told.listener.begin(Connection(servers=("nats://127.0.0.1:1",)), told.denied.append)


async def test_blocks_are_read_the_same_wherever_they_are_cut() -> None:
    dice = random.Random(7)
    wire, wanted = b"", list[Message]()
    for n in range(300):
        payload, reply = dice.randbytes(dice.randrange(40)), b"r.%d " % n if n % 3 else b""
        if n % 5 == 0:
            wire += b"PING\r\n"
        if n % 2:
            wire += b"MSG s.%d 4 %s%d\r\n%s\r\n" % (n, reply, len(payload), payload)
        else:
            whole = b"NATS/1.0\r\n\r\n" + payload
            wire += b"HMSG s.%d 4 %s12 %d\r\n%s\r\n" % (n, reply, len(whole), whole)
        wanted.append((b"s.%d" % n, reply.strip(), payload))
    for _ in range(20):
        found = list[Message]()

        def take(data: bytes, run: list[BlockMessage], found: list[Message] = found) -> None:
            for subject, reply, start, header_bytes, size_bytes in run:
                found.append((subject, reply, data[start + header_bytes : start + size_bytes]))

        pinged = _Pinged()
        parser = WireParser(pinged)
        parser.set_block_callback(4, take)
        at = 0
        while at < len(wire):
            step = dice.choice((1, 2, 7, 50, 5_000))
            await parser.parse(wire[at : at + step])
            at += step
        assert found == wanted
        assert pinged.count == 60


async def test_who_leaves_in_the_middle_of_a_long_message_lets_the_next_one_read() -> None:
    found = list[bytes]()

    def take(_data: bytes, run: list[BlockMessage]) -> None:
        found.extend(subject for subject, *_ in run)

    parser = WireParser(_Pinged())
    parser.set_block_callback(4, take)
    await parser.parse(b"MSG a 4 100000\r\n" + b"x" * 10)
    parser.set_block_callback(4, None)
    parser.set_block_callback(5, take)
    await parser.parse(b"x" * 99_990 + b"\r\nMSG b 5 2\r\nhi\r\n")
    assert found == [b"b"]


class _Pinged:
    count = 0

    async def _process_msg(self, *_: object) -> None:
        """Take a message that nobody gets by the block."""

    async def _process_ping(self) -> None:
        self.count += 1


@pytest.mark.parametrize("size", [b"200000000", b"9" * 5000], ids=("large", "5,000 digits"))
@pytest.mark.parametrize("line", [b"MSG a 1 %s\r\n", b"HMSG a 1 12 %s\r\n"])
@pytest.mark.parametrize("by_block", [True, False])
async def test_a_message_larger_than_any_server_accepts_is_not_waited_for(
    size: bytes, line: bytes, by_block: bool
) -> None:
    parser = WireParser(_Pinged())
    if by_block:
        parser.set_block_callback(1, lambda block, pieces: None)
    with pytest.raises(ProtocolError):
        await parser.parse(line % size)


def test_different_things_are_counted_in_little_room() -> None:
    for count in (0, 1, 10, 5_000, 60_000):
        counter = DistinctCounter()
        for _ in range(2):
            for number in range(count):
                counter.add(b"thing %d" % number)
        assert abs(counter.count() - count) <= max(1, count * 0.08)
