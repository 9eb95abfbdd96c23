"""`natstui stream view|subjects` on a real server: nothing is made or taken for it."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from natstui.cli.core.printer import MessagePrinter
from natstui.jetstream.connection.client import Client
from natstui.jetstream.messages import browse
from natstui.model.records.messages import BrowseMessages, MessagePage
from tests.accounts import Account
from tests.cli.test_core import connected, run
from tests.cli.test_manage import Shell
from tests.jetstream.raw_publisher import RawPublisher

pytestmark = pytest.mark.server


@pytest.fixture
def shell(account: Account, tmp_path: Path) -> Shell:
    return Shell(account.url, tmp_path)


async def filled(url: str, count: int, **config: object) -> None:
    async with connected(url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"], storage="memory", **config)
        for number in range(1, count + 1):
            await js.publish(f"s.{number % 3}", b"payload %d" % number)


def sequences(text: str) -> list[int]:
    return [json.loads(line)["stream_seq"] for line in text.splitlines()]


@pytest.mark.parametrize("direct", [True, False])
async def test_messages_are_seen_from_either_end_and_of_a_subject(
    shell: Shell, account: Account, direct: bool
) -> None:
    await filled(account.url, 25, allow_direct=direct)
    newest = await run(shell, "stream", "view", "S", "--json")
    assert sequences(newest.stdout) == list(range(16, 26)), newest.stderr
    assert newest.stderr == "natstui: 10 messages; for earlier ones: --before 16\n"
    older = await run(shell, "stream", "view", "S", "20", "--before", "16", "--json")
    assert sequences(older.stdout) == list(range(1, 16))
    assert older.stderr == "natstui: 15 messages\n"
    on = await run(shell, "stream", "view", "S", "3", "--id", "5", "--json")
    assert sequences(on.stdout) == [5, 6, 7]
    assert on.stderr == "natstui: 3 messages; for later ones: --id 8\n"
    of = await run(shell, "stream", "view", "S", "100", "--subject", "s.1", "--json")
    assert sequences(of.stdout) == list(range(1, 26, 3))
    every = await run(shell, "stream", "view", "S", "100", "--since", "1h", "--json")
    assert sequences(every.stdout) == list(range(1, 26))
    none = await run(shell, "stream", "view", "S", "--since", "in 1h", "--json")
    assert (none.returncode, none.stdout) == (0, "")
    last = await run(shell, "stream", "view", "S", "--last-per-subject", "--subjects-only")
    assert sorted(last.stdout.split()) == ["s.0", "s.1", "s.2"]
    raw = await run(shell, "stream", "view", "S", "1", "--raw")
    assert raw.stdout == "payload 25\n"
    text = await run(shell, "stream", "view", "S", "1")
    first, payload = text.stdout.splitlines()[:2]
    assert first.startswith("seq 25  ") and "  s.1  " in first and payload == "payload 25"
    async with connected(account.url) as nc:
        assert (await nc.jetstream().stream_info("S")).state.consumer_count == 0


@pytest.mark.parametrize("direct", [True, False])
async def test_the_newest_messages_are_printed_in_order_though_a_page_has_fewer(
    shell: Shell, account: Account, direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browse, "MAX_BATCH_MSGS", 7)
    await filled(account.url, 25, allow_direct=direct)
    newest = await run(shell, "stream", "view", "S", "20", "--json")
    assert sequences(newest.stdout) == list(range(6, 26)), newest.stderr
    assert newest.stderr == "natstui: 20 messages; for earlier ones: --before 6\n"
    older = await run(shell, "stream", "view", "S", "20", "--before", "16", "--json")
    assert sequences(older.stdout) == list(range(1, 16))
    assert older.stderr == "natstui: 15 messages\n"
    of = await run(shell, "stream", "view", "S", "9", "--subject", "s.1", "--json")
    assert sequences(of.stdout) == list(range(1, 26, 3))


async def test_the_newest_messages_are_printed_page_by_page_without_those_stored_since(
    shell: Shell, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = list[MessagePage]()
    printed_counts = list[int]()
    write_stored, read_page = MessagePrinter.write_stored, browse.browse

    async def browse_and_publish(client: Client, browse_command: BrowseMessages) -> MessagePage:
        pages.append(await read_page(client, browse_command))
        printed_counts.append(0)
        if len(pages) == 1:
            await client.request_subject("s.new", b"stored since")
        return pages[-1]

    def count_printed(printer: MessagePrinter, *arguments: Any) -> None:
        printed_counts[-1] += 1
        write_stored(printer, *arguments)

    monkeypatch.setattr(browse, "MAX_BATCH_MSGS", 7)
    monkeypatch.setattr(browse, "browse", browse_and_publish)
    monkeypatch.setattr(MessagePrinter, "write_stored", count_printed)
    await filled(account.url, 25)
    newest = await run(shell, "stream", "view", "S", "20", "--json")
    assert sequences(newest.stdout) == list(range(6, 26)), newest.stderr
    assert newest.stderr == "natstui: 20 messages; for earlier ones: --before 6\n"
    assert max(printed_counts) <= 7, "more than one page was kept in memory"


@pytest.mark.parametrize("direct", [True, False])
async def test_of_more_subjects_than_are_printed_the_newest_are_and_the_others_are_counted(
    shell: Shell, account: Account, direct: bool
) -> None:
    async with connected(account.url) as nc:
        await nc.jetstream().add_stream(name="S", subjects=["s.>"], allow_direct=direct)
        for number in (*range(1, 13), 1):
            await nc.jetstream().publish(f"s.{number}", b"")
    words = ("stream", "view", "S", "--last-per-subject", "--json")
    newest = await run(shell, *words)
    assert sequences(newest.stdout) == list(range(4, 14)), newest.stderr
    assert newest.stderr == "natstui: 10 messages; for 2 more subjects: a larger SIZE\n"
    one = await run(shell, *words, "11")
    assert one.stderr == "natstui: 11 messages; for 1 more subject: a larger SIZE\n"
    every = await run(shell, *words, "12")
    assert sequences(every.stdout) == list(range(2, 14))
    assert every.stderr == "natstui: 12 messages\n"


async def test_long_payloads_come_whole_and_wrong_questions_are_refused(
    shell: Shell, account: Account
) -> None:
    await filled(account.url, 1)
    long = bytes(range(256)) * 2000
    async with connected(account.url) as nc:
        await nc.jetstream().publish("s.long", long)
    found = await run(shell, "stream", "view", "S", "1", "--json")
    assert base64.b64decode(json.loads(found.stdout)["payload_base64"]) == long
    for words, code, said in (
        (("S", "--id", "1", "--since", "1h"), 2, "use only one of"),
        (("S", "--last-per-subject", "--id", "1"), 2, "and --last-per-subject"),
        (("S", "--last-per-subject", "--since", "1h"), 2, "and --last-per-subject"),
        (("S", "--last-per-subject", "--before", "2"), 2, "and --last-per-subject"),
        (("S", "--subject", "a..b"), 2, "not a valid subject"),
        (("S", "--since", "yesterday"), 2, "is not a time"),
        (("NONE",), 4, "stream not found"),
    ):
        done = await run(shell, "stream", "view", *words)
        assert (done.returncode, done.stdout) == (code, ""), words
        assert said in done.stderr


async def test_messages_are_counted_by_subject(shell: Shell, account: Account) -> None:
    await filled(account.url, 5)
    every = await run(shell, "stream", "subjects", "S", "--json")
    assert list(json.loads(every.stdout).items()) == [("s.1", 2), ("s.2", 2), ("s.0", 1)]
    by_name = await run(shell, "stream", "subjects", "S", "--sort", "name")
    assert [line.split() for line in by_name.stdout.splitlines()[1:]] == [
        ["s.0", "1"], ["s.1", "2"], ["s.2", "2"],
    ]  # fmt: skip
    one = await asyncio.to_thread(shell.ok, "stream", "subjects", "S", "s.0", "--json")
    assert json.loads(one) == {"s.0": 1}


WRITTEN = [
    ("A", "1"), ("B", "x"), ("A", "2"), ("A", "1"), ("Nats-Stream", "mine"),
    ("Nats-Sequence", "7"), ("Nats-Subject", "mine"), ("Nats-Time-Stamp", "mine"),
    ("Nats-Num-Pending", "3"), ("Nats-Last-Sequence", "4"), ("Nats-UpTo-Sequence", "5"),
    ("Nats-Mine", "m"), ("nats-stream", "small"), ("Status", "404"), ("Empty", ""),
]  # fmt: skip
"""Headers of a publisher: repeated, and with the names that the server uses in its replies."""


@pytest.mark.parametrize("direct", [True, False])
async def test_every_header_that_the_publisher_wrote_is_shown(
    shell: Shell, account: Account, direct: bool
) -> None:
    async with connected(account.url) as nc:
        await nc.jetstream().add_stream(
            name="S", subjects=["s.>"], storage="memory", allow_direct=direct
        )
    flags = [word for name, value in WRITTEN for word in ("-H", f"{name}:{value}")]
    for number in (1, 2):
        done = await run(shell, "pub", f"s.{number}", f"{number}", "-J", *flags)
        assert done.returncode == 0, done.stderr
    pairs = [list(pair) for pair in WRITTEN]
    ways = (
        ("stream", "view", "S", "1"), ("stream", "view", "S", "1", "--id", "2"),
        ("stream", "view", "S", "1", "--subject", "s.2"),
        ("stream", "view", "S", "--last-per-subject"), ("stream", "get", "S", "2"),
        ("stream", "get", "S", "--last-for", "s.2"),
    )  # fmt: skip
    for words in ways:
        done = await run(shell, *words, "--json")
        message = json.loads(done.stdout.splitlines()[-1])
        assert (message["stream_seq"], message["subject"]) == (2, "s.2"), words
        assert message["headers"] == pairs, words
    text = (await run(shell, "stream", "view", "S", "1")).stdout
    shown = [f"  {name}: {value}".rstrip() for name, value in WRITTEN]
    assert [line.rstrip() for line in text.splitlines()[1:-2]] == shown


@pytest.mark.parametrize("direct", [True, False])
async def test_headers_that_are_no_text_hide_no_message(
    shell: Shell, account: Account, direct: bool
) -> None:
    async with connected(account.url) as nc:
        await nc.jetstream().add_stream(name="S", subjects=["s"], allow_direct=direct)
    with RawPublisher(account.url) as raw:
        raw.publish(b"s", b"x", b"NATS/1.0\r\nA: \xff\r\nA: 2\r\n\r\n")
        raw.settle()
    done = await run(shell, "stream", "view", "S", "--json")
    assert json.loads(done.stdout)["headers"] == [["A", "\ufffd"], ["A", "2"]], done.stderr
