"""`natstui pub`, `sub` and `request` against a real server, and nats-py on the other side."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import signal
import subprocess
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from natstui.cli.core.payload import fill_templates
from natstui.errors import UsageError
from natstui.jetstream.testbed.broker import Broker
from tests.accounts import Account
from tests.cli.beside import Begin, run_beside, stop, until_said
from tests.cli.processes import close_stdout, start_beside
from tests.cli.rewriting import just_before
from tests.cli.test_manage import Done, Shell
from tests.cli.test_recreated_meanwhile import request
from tests.jetstream.flushing import flushed

pytestmark = pytest.mark.server

PATIENCE_S = 120
HOSTILE = b"evil\x1b]0;title\x07\x1b[31m"


@pytest.fixture
def shell(account: Account, tmp_path: Path) -> Shell:
    return Shell(account.url, tmp_path)


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Client]:
    nc = await nats.connect(url)
    try:
        yield nc
    finally:
        await nc.close()


async def run(shell: Shell, *words: str, stdin: str = "") -> Done:
    """Run a command, which has a loop of its own, beside this one."""
    return await asyncio.to_thread(shell.run, *words, stdin=stdin)


async def listening(shell: Shell, *words: str, stdout: int = subprocess.PIPE) -> Process:
    """Start `natstui sub` and wait until the server knows what it listens to."""
    process = await start_beside("sub", *words, environment=shell.environment, stdout=stdout)
    async with asyncio.timeout(PATIENCE_S):
        line = await process.stderr.readline()
    assert line.startswith(b"natstui: listening to "), line
    return process


async def listened_to(nc: Client, subject: str) -> None:
    """Wait until somebody listens to a subject: the server tells a request without a listener."""
    inbox = nc.new_inbox()
    told = await nc.subscribe(inbox)
    async with asyncio.timeout(PATIENCE_S):
        while True:
            await nc.publish(subject, b"", reply=inbox)
            # What the server says of it comes before its reply to this.
            await flushed(nc)
            if not told.pending_msgs:
                break
            await told.next_msg(5)
            await asyncio.sleep(0.02)
    await told.unsubscribe()


async def ended(process: Process) -> tuple[list[str], str]:
    """Return the lines it printed and what it said."""
    async with asyncio.timeout(PATIENCE_S):
        out, err = await process.communicate()
    return out.decode(errors="replace").splitlines(), err.decode()


def test_a_header_that_is_none_is_refused_before_anything_is_sent(shell: Shell) -> None:
    wrong = [("pub", header) for header in ("A: b\r\nC: d", "A: b\nC: d", "A b: c", ": c", "A")]
    for command, header in (*wrong, ("request", "A"), ("reply", "A")):
        refused = shell.run(command, "s", "x", "--header", header)
        assert refused.returncode == 2, refused.stderr
        assert "write it as NAME:VALUE, without a blank in NAME, on one line" in refused.stderr


async def test_what_is_published_arrives_with_headers_and_is_journalled_once(
    shell: Shell, account: Account
) -> None:
    async with connected(account.url) as nc:
        sub = await nc.subscribe("a.>")
        await flushed(nc)
        words = ("pub", "a.b", "no {{Count}} {{Random 3 3}}", "--count", "3", "-H", "K: v:w")
        done = await run(shell, *words, "--reply", "back")
        assert done.returncode == 0, done.stderr
        assert done.stdout == "3 messages, 24 B, sent to a.b.\n"
        got = [await sub.next_msg(5) for _ in range(3)]
    assert [re.sub(rb"[A-Za-z0-9]{3}$", b"x", one.data) for one in got] == [
        b"no 1 x", b"no 2 x", b"no 3 x",
    ]  # fmt: skip
    assert {(one.subject, one.reply, (one.headers or {})["K"]) for one in got} == {
        ("a.b", "back", "v:w")
    }
    (entry,) = json.loads(shell.ok("journal", "--json"))
    assert (entry["action"], entry["outcome"]) == ("publish", "done")
    assert "3 of 3 messages" in shell.ok("journal")


async def test_a_payload_comes_from_a_pipe_or_a_file_byte_for_byte(
    shell: Shell, account: Account, tmp_path: Path
) -> None:
    file = tmp_path / "payload"
    file.write_bytes(bytes(range(256)) + b"{{Count}}")
    async with connected(account.url) as nc:
        sub = await nc.subscribe("a")
        await flushed(nc)
        assert (await run(shell, "pub", "a", stdin="from stdin\n")).returncode == 0
        assert (await run(shell, "pub", "a", "--file", str(file))).returncode == 0
        plain = await run(shell, "pub", "a", "--file", str(file), "--no-templates")
        assert plain.returncode == 0
        assert [(await sub.next_msg(5)).data for _ in range(3)] == [
            b"from stdin\n", bytes(range(256)) + b"1", file.read_bytes(),
        ]  # fmt: skip


async def test_a_stream_says_what_it_stored_and_what_it_had_already(
    shell: Shell, account: Account
) -> None:
    async with connected(account.url) as nc:
        await nc.jetstream().add_stream(name="S", subjects=["s.>"])
        done = await run(shell, "pub", "s.a", "x", "-J", "--count", "5", "--json")
        assert json.loads(done.stdout) == {
            "subject": "s.a", "sent_msgs": 5, "payload_bytes": 5, "stream": "S", "first_seq": 1,
            "domain": None, "last_seq": 5, "duplicate_msgs": 0, "not_kept_msgs": 0,
        }  # fmt: skip
        same = ("pub", "s.a", "x", "-J", "-H", "Nats-Msg-Id:one", "--count", "2")
        done = await run(shell, *same)
        assert "1 of them stored in S up to sequence 6; 1 not stored: within the" in done.stdout
        await nc.jetstream().purge_stream("S")
        done = await run(shell, *same)
        assert "0 of them stored in S; 2 not stored: within the duplicate window" in done.stdout
        nobody = await run(shell, "pub", "elsewhere", "x", "-J")
        assert (nobody.returncode, nobody.stdout) == (4, "")
        assert 'no stream stores "elsewhere"' in nobody.stderr
        assert (await nc.jetstream().stream_info("S")).state.messages == 0


def test_a_stream_that_is_recreated_while_it_stores_is_no_success(
    shell: Shell, account: Account
) -> None:
    create = ("$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
    request(account.url, create)

    def recreate() -> None:
        request(account.url, ("$JS.API.STREAM.DELETE.S", {}), create)

    with just_before(account.url, b"PUB s.a", recreate, nth=3) as there:
        words = ("pub", "s.a", "x", "-J", "--count", "6", "--sleep", "20ms")
        done = shell.run(*words, "--server", there)
    assert done.returncode == 4, done.stdout
    assert "S stored a message at sequence 1 after one at 2:" in done.stderr


async def test_a_roll_up_is_named_with_its_count_and_done_only_when_confirmed(
    shell: Shell, account: Account
) -> None:
    async with connected(account.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s"], allow_rollup_hdrs=True)
        for _ in range(4):
            await js.publish("s", b"x")
        words = ("pub", "s", "x", "-J", "-H", "Nats-Rollup:all")
        asked = await run(shell, *words)
        assert asked.returncode == 5
        assert "the roll-up removes 4 of 4 messages of S for good" in asked.stderr
        assert (await js.stream_info("S")).state.messages == 4
        wrong = await run(shell, *words, "--confirm", "other")
        assert wrong.returncode == 5
        api = await run(shell, "request", "$JS.API.STREAM.PURGE.S", "")
        assert api.returncode == 5 and "remove messages" in api.stderr
        assert (await js.stream_info("S")).state.messages == 4
        assert (await run(shell, *words, "--yes")).returncode == 0
        assert (await js.stream_info("S")).state.messages == 1


async def test_read_only_and_production_hold_for_messages_too(
    shell: Shell, account: Account
) -> None:
    async with connected(account.url) as nc:
        sub = await nc.subscribe("a")
        await flushed(nc)
        for words in (("pub", "a", "x"), ("request", "a", "x")):
            assert (await run(shell, *words, "--read-only")).returncode == 5
        shell.environment["NATSTUI_CONNECTION_PRODUCTION"] = "true"
        for words in (("pub", "a", "x"), ("pub", "a", "x", "--yes"), ("request", "a", "x")):
            done = await run(shell, *words)
            assert done.returncode == 5 and "this is production" in done.stderr
        shared = await run(shell, "sub", "a", "--queue", "workers", "--count", "1")
        assert shared.returncode == 5 and "workers get fewer messages" in shared.stderr
        other = ("--queue", "workers", "--count", "1", "--confirm", "others")
        shared = await run(shell, "sub", "a", *other)
        assert shared.returncode == 5 and "'others' is not 'workers'" in shared.stderr
        await flushed(nc)
        assert sub.pending_msgs == 0
        assert (await run(shell, "pub", "a", "x", "--confirm", "a")).returncode == 0
        assert (await sub.next_msg(5)).subject == "a"


async def test_a_denied_subject_is_named_and_nothing_counts_as_sent(
    nats_server_factory: Callable[..., Broker], tmp_path: Path
) -> None:
    permissions = 'authorization {users: [{user: a, password: a, permissions: {publish: "b.>"}}]}'
    url = nats_server_factory(permissions).url.replace("//", "//a:a@")
    done = await run(Shell(url, tmp_path), "pub", "a", "x", "--count", "3")
    assert (done.returncode, done.stdout) == (4, "")
    assert 'no permission to publish to "a"' in done.stderr
    assert "sent to" not in done.stderr
    shell = Shell(url, tmp_path)
    text = (await run(shell, "journal")).stdout
    assert "publish 0 of 3 messages to a" in text


def test_a_filter_is_no_subject_of_a_message(shell: Shell) -> None:
    shell.ok("stream", "add", "S", "--subjects", "orders.>")
    for words in (("pub",), ("pub", "-J"), ("request",)):
        done = shell.run(*words, "orders.*", "x")
        assert (done.returncode, "has a wildcard" in done.stderr) == (2, True), done.stderr
    assert json.loads(shell.ok("stream", "info", "S", "--json"))["state"]["messages"] == 0


UNRECEIVABLE = (
    ("pub bk..x", "'bk..x' is not a valid subject: nobody can receive it"),
    ("pub -J .x", "'.x' is not a valid subject: nobody can receive it"),
    ("request x.", "'x.' is not a valid subject: nobody can receive it"),
    ("pub x --reply *", "'*' is not a valid subject for replies"),
    ("pub x --reply r..a", "'r..a' is not a valid subject for replies"),
    ("pub x --reply a\tb", "'a\\tb' is not a valid subject for replies"),
)


def test_a_subject_that_nobody_can_receive_is_named_and_not_sent_to(shell: Shell) -> None:
    for words, reason in UNRECEIVABLE:
        done = shell.run(*words.split(" "), "--", "hi")
        assert (done.returncode, reason in done.stderr) == (2, True), done


async def test_replies_are_printed_one_several_or_all(shell: Shell, account: Account) -> None:
    async with connected(account.url) as nc:
        for name in (b"one", b"two"):

            async def answer(msg: Msg, name: bytes = name) -> None:
                await msg.respond(name + b" " + msg.data)

            await nc.subscribe("service", cb=answer)
        await flushed(nc)
        first = await run(shell, "request", "service", "ping", "--raw")
        assert first.stdout in ("one ping\n", "two ping\n"), first.stderr
        both = await run(shell, "request", "service", "ping", "--replies", "2", "--json")
        texts = [json.loads(line)["payload_base64"] for line in both.stdout.splitlines()]
        assert sorted(map(base64.b64decode, texts)) == [b"one ping", b"two ping"]
        words = ("request", "service", "x", "--raw", "--timeout", "1500ms", "--replies")
        every = await run(shell, *words, "0")
        assert (every.returncode, len(every.stdout.splitlines())) == (0, 2)
        few = await run(shell, *words, "3")
        assert (few.returncode, len(few.stdout.splitlines())) == (4, 2)
        assert '2 of 3 replies came on "service" within 1.5 s' in few.stderr
        nobody = await run(shell, "request", "nobody", "x")
        assert (nobody.returncode, nobody.stdout) == (4, "")
        assert 'no reply on "nobody"' in nobody.stderr


async def test_what_arrives_is_printed_harmless_whole_or_in_parts(
    shell: Shell, account: Account
) -> None:
    async with connected(account.url) as nc:
        every = []
        for form in ((), ("--json",), ("--raw",), ("--headers-only",), ("--subjects-only",)):
            # Of its own: the server may still count the subscription of the command before. And a
            # command in a thread has to end by itself.
            unread = f"a{len(every)}.not"
            end = ("--count", "2", "--wait", f"{PATIENCE_S}s")
            words = ("sub", "a.*", unread, "-I", unread, *end, *form)
            listening_here = asyncio.create_task(run(shell, *words))
            await listened_to(nc, unread)
            await nc.publish("a.b", HOSTILE, reply="back", headers={"K": "v"})
            await nc.publish("a.c", b"\xff\xfe")
            every.append(await listening_here)
    text, as_json, raw, headers, subjects = (done.stdout.splitlines() for done in every)
    assert all(done.returncode == 0 for done in every)
    assert all("natstui: 2 messages" in done.stderr for done in every)
    assert re.match(r"#1  \d\d:\d\d:\d\d\.\d{3}  a\.b  \d+ B  reply back$", text[0])
    assert text[1] == "  K: v"
    assert "\x1b" not in "".join(text) and "evil" in text[2]
    assert r"\xff\xfe" in text
    assert [json.loads(line)["subject"] for line in as_json] == ["a.b", "a.c"]
    assert base64.b64decode(json.loads(as_json[0])["payload_base64"]) == HOSTILE
    assert json.loads(as_json[0])["reply"] == "back"
    assert raw[0].encode() == HOSTILE
    assert "evil" not in "".join(headers) and "  K: v" in headers
    assert subjects == ["a.b", "a.c"]


async def test_it_ends_when_nothing_comes_and_when_nobody_reads(
    shell: Shell, account: Account
) -> None:
    quiet = await run(shell, "sub", "a", "--wait", "200ms")
    assert (quiet.returncode, quiet.stdout) == (0, "")
    assert quiet.stderr.splitlines()[1:] == ["natstui: 0 messages"]
    unread = await listening(shell, "a", "--raw")
    assert unread.stdout is not None
    close_stdout(unread)
    async with connected(account.url) as nc:
        async with asyncio.timeout(PATIENCE_S):
            while unread.returncode is None:
                await nc.publish("a", b"x" * 1000)
                await asyncio.sleep(0.02)
    assert unread.returncode == 0
    assert unread.stderr is not None
    assert b"Traceback" not in await unread.stderr.read()


async def test_it_fails_when_its_output_cannot_be_written(shell: Shell, account: Account) -> None:
    with Path("/dev/full").open("wb") as full:
        process = await listening(shell, "a", "--raw", stdout=full.fileno())
    async with connected(account.url) as nc:
        await nc.publish("a", b"x")
    async with asyncio.timeout(PATIENCE_S):
        _, said = await process.communicate()
    assert process.returncode == 6, said
    assert said.decode().splitlines() == [
        "natstui: 0 messages",
        "natstui: the output cannot be written: No space left on device",
    ]


def test_it_ends_when_it_is_stopped(shell: Shell) -> None:
    async def work(begin: Begin) -> None:
        begin()
        await until_said("natstui: listening to ")
        stop(signal.SIGINT)

    assert run_beside(work, "sub", "a", environment=shell.environment).returncode == 0


@pytest.mark.long
async def test_what_was_published_before_a_kill_is_in_the_journal(
    shell: Shell, account: Account
) -> None:
    async def outcomes() -> list[tuple[str, str]]:
        entries = json.loads((await run(shell, "journal", "--json")).stdout)
        return [(one["outcome"], one["reason"]) for one in entries]

    not_noted = "its end is not noted: it is not over yet, or natstui was killed"
    async with connected(account.url) as nc:
        await nc.jetstream().add_stream(name="S", subjects=["s"])
        words = ("pub", "s", "x", "-J", "--count", "9000", "--sleep", "20ms")
        process = await start_beside(*words, environment=shell.environment)
        async with asyncio.timeout(PATIENCE_S):
            while (await nc.jetstream().stream_info("S")).state.messages < 3:
                await asyncio.sleep(0.05)
        assert await outcomes() == [("unknown", not_noted)]
        process.kill()
        await ended(process)
        # What comes next leaves its entry as it is.
        assert (await run(shell, "pub", "s", "x", "-J")).returncode == 0
        assert sorted(await outcomes()) == [("done", None), ("unknown", not_noted)]


async def test_after_a_lost_connection_what_was_published_is_a_limit_of_what_arrived(
    nats_server: Broker, tmp_path: Path
) -> None:
    shell = Shell(nats_server.url, tmp_path)
    async with connected(nats_server.url) as nc:
        heard = await nc.subscribe("a")
        await flushed(nc)
        words = ("pub", "a", "x", "--count", "99999", "--sleep", "1ms")
        publishing = asyncio.create_task(run(shell, *words))
        await heard.next_msg(timeout=PATIENCE_S)
        nats_server.kill()
        async with asyncio.timeout(PATIENCE_S):
            done = await publishing
    assert done.returncode != 0
    said = r"natstui: at most [\d,]+ messages?, .*, sent to a, arrived before"
    assert re.search(said, done.stderr), done.stderr


@pytest.mark.long
async def test_a_share_of_a_group_and_a_lost_connection_are_told(
    nats_server: Broker, tmp_path: Path
) -> None:
    shell = Shell(nats_server.url, tmp_path)
    others: list[int] = []

    async def take(message: Msg) -> None:
        others.append(int(message.data))

    flags = ("-I", "end", "--queue", "g", "--raw", "--count", "9")
    async with connected(nats_server.url) as nc:
        member = asyncio.create_task(run(shell, "sub", "w", "end", *flags))
        await listened_to(nc, "end")
        await nc.subscribe("w", queue="g", cb=take)
        await asyncio.to_thread(nats_server.restart)
        async with asyncio.timeout(PATIENCE_S):
            while not nc.is_connected:
                await asyncio.sleep(0.05)
        await listened_to(nc, "end")
        number = 0
        async with asyncio.timeout(PATIENCE_S):
            while not member.done():
                await nc.publish("w", b"%d" % number)
                await flushed(nc)
                number += 1
        done = member.result()
    got = list(map(int, done.stdout.split()))
    assert len({*got}) == 9, done
    # Each message went to one of both.
    assert others and not {*got} & {*others}
    assert "the connection is lost" in done.stderr
    assert "the connection was lost 1 time" in done.stderr


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{{Nothing}}", "is not a known template"),
        ("{{Random 5}}", "minimum first"),
        ("{{Random 9 5}}", "minimum first"),
        ("{{Random 1 9999999999}}", "minimum first"),
        ("{{Count 3}}", "is not a known template"),
        ("{{ if .X }}", "--no-templates"),
    ],
)
def test_a_template_that_means_nothing_is_refused_before_anything_is_sent(
    text: str, problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        fill_templates(text.encode(), 1)


def test_every_place_of_a_template_is_filled_for_every_message() -> None:
    text = b"{{Count}} {{Unix}} {{UnixNano}} {{ID}} {{Random(2,4)}} {{ TimeStamp }} {{Time}}"
    first, second = (one.decode().split(" ") for one in fill_templates(text, 2))
    assert (first[0], second[0]) == ("1", "2")
    assert first[3] != second[3] and len(first[3]) == 32
    assert all(part for part in first)
    assert 2 <= len(first[4]) <= 4
