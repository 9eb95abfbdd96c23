"""`natstui reply` against a real server, asked with nats-py and with `natstui request`."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from asyncio.subprocess import Process
from contextlib import suppress
from pathlib import Path

import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from natstui.cli.core.reply import _create_reply_function
from natstui.config import Connection
from natstui.errors import NatstuiError
from natstui.jetstream.connection.client import connect
from natstui.jetstream.connection.journal import Journal
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.messages.reply import ReceivedRequest, Reply, Responder
from natstui.jetstream.testbed.broker import Broker
from tests.accounts import Account
from tests.cli.beside import Begin, run_beside, stop, until_said
from tests.cli.processes import start_beside, wait_until_ended
from tests.cli.test_core import PATIENCE_S, connected, ended, listened_to, run
from tests.cli.test_manage import Done, Shell, run_here
from tests.jetstream.flushing import flushed

pytestmark = pytest.mark.server


@pytest.fixture
def shell(account: Account, tmp_path: Path) -> Shell:
    return Shell(account.url, tmp_path)


async def answering(shell: Shell, *words: str) -> Process:
    """Start `natstui reply` and wait until the server knows on what it answers."""
    process = await start_beside("reply", *words, environment=shell.environment)
    async with asyncio.timeout(PATIENCE_S):
        line = await process.stderr.readline()
    assert line.startswith(b"natstui: replying on "), line
    return process


def answering_here(shell: Shell, *words: str) -> asyncio.Task[Done]:
    """Reply in this process: it has to end by itself."""
    return asyncio.create_task(run(shell, "reply", *words))


async def first_answer(nc: Client, subject: str, payload: bytes) -> Msg:
    """Request until somebody listens, who gets one request."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(nats.errors.NoRespondersError):
                return await nc.request(subject, payload, timeout=PATIENCE_S)
            await asyncio.sleep(0.02)


async def test_requests_are_answered_counted_and_journalled_as_one(
    shell: Shell, account: Account
) -> None:
    replying = answering_here(shell, "ask.>", "no {{Count}}", "-H", "K:v", "--count", "3")
    async with connected(account.url) as nc:
        for number in (1, 2, 3):
            answer = await first_answer(nc, "ask.me", b"?")
            assert (answer.data, answer.headers) == (b"no %d" % number, {"K": "v"})
    done = await replying
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "natstui: 3 replies")
    entries = json.loads((await run(shell, "journal", "--json")).stdout)
    mine = [one for one in entries if one["action"] == "reply"]
    assert [json.loads(one["after_json"]) for one in mine] == [{"replies_count": 3}]
    text = (await run(shell, "journal")).stdout
    assert "reply 3 times to requests on ask.>" in text


async def test_an_echo_is_what_was_asked_and_a_share_is_that_of_a_group(
    shell: Shell, account: Account
) -> None:
    of_other = 0

    async def answer_too(message: Msg) -> None:
        nonlocal of_other
        of_other += 1
        await message.respond(b"of the other")

    replying = answering_here(shell, "ask", "--echo", "--queue", "G", "--count", "5")
    async with connected(account.url) as nc:
        assert (await first_answer(nc, "ask", b"first")).data == b"first"
        await nc.subscribe("ask", "G", answer_too)
        await flushed(nc)
        requests, own = 1, 1
        while own < 5 and requests < 500:
            answer = await nc.request("ask", b"x", headers={"H": "x"}, timeout=PATIENCE_S)
            requests += 1
            if answer.data != b"of the other":
                assert (answer.data, answer.headers) == (b"x", {"H": "x"})
                own += 1
        done = await replying
    assert done.stderr.endswith("natstui: 5 replies\n") and done.returncode == 0
    assert own + of_other == requests, "each request has gone to one of the group"


async def test_requests_beyond_the_count_are_those_of_the_others_of_the_group(
    shell: Shell, account: Account
) -> None:
    async def answer_too(message: Msg) -> None:
        await message.respond(b"of the other")

    replying = answering_here(shell, "ask", "own", "--queue", "G", "--count", "5")
    async with connected(account.url) as nc:
        assert (await first_answer(nc, "ask", b"?")).data == b"own"
        for _ in range(2):
            # This does not count.
            await nc.publish("ask", b"no request")
        assert (await nc.request("ask", b"?", timeout=PATIENCE_S)).data == b"own"
        await nc.subscribe("ask", "G", answer_too)
        await flushed(nc)
        answers = await asyncio.gather(*(nc.request("ask", b"?", timeout=10) for _ in range(40)))
        own = sum(answer.data == b"own" for answer in answers)
        while own < 3:
            own += (await nc.request("ask", b"?", timeout=10)).data == b"own"
        done = await replying
    assert own == 3 and done.returncode == 0, done
    assert done.stderr.endswith("natstui: 5 replies\n")


async def test_a_command_answers_and_one_that_fails_does_not(
    shell: Shell, account: Account
) -> None:
    program = (
        "import os, sys; asked = sys.stdin.read(); assert asked != 'bad'; "
        "print(os.environ['NATS_REQUEST_SUBJECT'], os.environ['NATS_REQUEST_BODY'], asked, end='')"
    )
    command = f'{sys.executable} -c "{program}" # $(touch x)'
    replying = answering_here(shell, "ask.*", "--command", command, "--count", "3")
    async with connected(account.url) as nc:
        answer = await first_answer(nc, "ask.one", b"hello; ls")
        assert answer.data == b"ask.one hello; ls hello; ls"
        answers_to_bad = await nc.subscribe("bad")
        await nc.publish("ask.one", b"bad", reply="bad")
        assert (await nc.request("ask.two", b"", timeout=PATIENCE_S)).data == b"ask.two  "
        done = await replying
        await flushed(nc)
        assert answers_to_bad.pending_msgs == 0
    assert "no reply to a request on ask.one" in done.stderr
    assert "natstui: 2 replies; 1 request got no reply\n" in done.stderr
    assert done.returncode == 4


@pytest.mark.parametrize(
    ("words", "reason", "count"),
    [
        (('sh -c "exit 3"',), "sh ended with 3", 3),
        (("sleep 600", "--timeout", "100ms"), "sleep took longer than 0.1 s", 1),
        (("no-such-program",), "no-such-program cannot be run", 1),
    ],
)
async def test_requests_that_were_not_answered_are_no_success(
    shell: Shell, account: Account, words: tuple[str, ...], reason: str, count: int
) -> None:
    done = answering_here(shell, "ask", "--count", str(count), "--command", *words)
    async with connected(account.url) as nc:
        # The last that it sends is the first that is received.
        await listened_to(nc, "ask")
        for _ in range(count - 1):
            await nc.publish("ask", b"?", reply="nobody.hears")
        await flushed(nc)
        said = (await done).stderr
    assert said.count(f"natstui: no reply to a request on ask: {reason}") == count, said
    requests_text = "request" if count == 1 else "requests"
    assert said.endswith(f"natstui: 0 replies; {count} {requests_text} got no reply\n"), said
    assert done.result().returncode == 4


async def test_with_json_a_request_that_was_not_answered_is_an_error_object(
    shell: Shell, account: Account
) -> None:
    words = ("reply", "ask", "--count", "1", "--command", "false", "-j")
    replying = asyncio.create_task(
        asyncio.to_thread(run_here, *words, environment=shell.environment)
    )
    async with connected(account.url) as nc:
        await listened_to(nc, "ask")
    done = await replying
    error = json.loads(done.stderr.splitlines()[-1])
    assert error["error"] == "0 replies; 1 request got no reply", done.stderr
    assert done.returncode == 4


def test_a_lost_connection_is_printed_at_once_and_counted(
    nats_server: Broker, tmp_path: Path
) -> None:
    shell = Shell(nats_server.url, tmp_path)
    lost = "natstui: the connection is lost; requests sent in the meantime are missed: "

    async def work(begin: Begin) -> None:
        begin()
        await until_said("natstui: replying on ")
        await asyncio.to_thread(nats_server.kill)
        await until_said(lost)
        stop(signal.SIGINT)

    done = run_beside(work, "reply", "ask", "x", environment=shell.environment)
    assert done.stderr.splitlines()[1].startswith(lost)
    assert done.stderr.endswith(
        "natstui: 0 replies; the connection was lost 1 time and is not back: "
        "what came since then, if anything, is missing\n"
    )
    assert done.returncode == 0


async def test_a_payload_that_is_no_variable_is_on_stdin_alone(
    shell: Shell, account: Account
) -> None:
    shell.environment["NATS_REQUEST_BODY"] = "of another request"
    program = (
        "import os, sys; asked = sys.stdin.buffer.read(); "
        "print(os.environb.get(b'NATS_REQUEST_BODY') == asked, "
        "'NATS_REQUEST_BODY' in os.environ, len(asked), end='')"
    )
    command = f'{sys.executable} -c "{program}"'
    replying = answering_here(shell, "ask", "--command", command, "--count", "6")
    async with connected(account.url) as nc:
        for payload, is_set in (
            (b"x" * 100_000, True), (b"x" * 100_001, False), (b"x" * 120_000, False),
            (b"a\0b", False), (b"\xff", True), (b"", True),
        ):  # fmt: skip
            answer = await first_answer(nc, "ask", payload)
            assert answer.data.decode() == f"{is_set} {is_set} {len(payload)}"
    assert (await replying).returncode == 0


async def test_a_request_whose_subject_is_no_variable_gets_no_reply() -> None:
    flags = {"headers": (), "sleep": None, "timeout": "30s", "echo": False}
    create_reply = _create_reply_function(None, "cat", flags)
    request = ReceivedRequest(1, "ask.\0", (), b"?")
    with pytest.raises(NatstuiError, match="its subject has a NUL byte"):
        await create_reply(request)


async def test_requests_that_find_too_many_others_waiting_got_no_reply(
    account: Account, tmp_path: Path
) -> None:
    said, released, listening = list[str](), asyncio.Event(), asyncio.Event()

    async def create_reply(_request: ReceivedRequest) -> Reply:
        await released.wait()
        return Reply(b"")

    client = await connect(Connection(servers=(account.url,)))
    responder = Responder("ask", "", None, create_reply, said.append, listening.set)
    journal = Journal(tmp_path / "journal.jsonl")
    serving = asyncio.create_task(responder.serve(Writer(client, journal)))
    try:
        async with asyncio.timeout(PATIENCE_S), connected(account.url) as nc:
            await listening.wait()
            (subscription,) = (one for one in client.nc._subs.values() if one.subject == "ask")
            subscription._pending_bytes_limit = 10
            await nc.publish("ask", b"first", reply="nobody.hears")
            while not responder._requests_count:
                await asyncio.sleep(0.01)
            for _ in range(2):
                await nc.publish("ask", b"more than fits", reply="nobody.hears")
            await nc.publish("ask", b"not a request, and too long")
            await nc.publish("ask", b"last", reply="nobody.hears")
            await flushed(nc)
            while not subscription.pending_msgs:
                await asyncio.sleep(0.01)
            released.set()
            while responder.replies_count < 2:
                await asyncio.sleep(0.01)
            responder.stop_event.set()
            await serving
    finally:
        await client.close()
    assert responder.requests_without_reply_count == 2
    assert said == ["no reply to a request on ask: too many requests wait"] * 2


async def test_a_member_of_a_group_ends_though_one_of_its_requests_was_dropped(
    account: Account, tmp_path: Path
) -> None:
    said, released, listening = list[str](), asyncio.Event(), asyncio.Event()

    async def create_reply(_request: ReceivedRequest) -> Reply:
        await released.wait()
        return Reply(b"")

    client = await connect(Connection(servers=(account.url,)))
    responder = Responder("ask", "G", 4, create_reply, said.append, listening.set)
    journal = Journal(tmp_path / "journal.jsonl")
    serving = asyncio.create_task(responder.serve(Writer(client, journal)))
    try:
        async with asyncio.timeout(PATIENCE_S), connected(account.url) as nc:
            await listening.wait()
            (subscription,) = (one for one in client.nc._subs.values() if one.subject == "ask")
            subscription._pending_bytes_limit = 10
            await nc.publish("ask", b"first", reply="nobody.hears")
            while not responder._requests_count:
                await asyncio.sleep(0.01)
            await nc.publish("ask", b"more than fits", reply="nobody.hears")
            await nc.publish("ask", b"second", reply="nobody.hears")
            await nc.publish("ask", b"not a request, and too long")
            while subscription.delivered < 4:
                await asyncio.sleep(0.01)
            assert not responder.stop_event.is_set(), "two requests wait for their reply"
            released.set()
            await serving
    finally:
        serving.cancel()
        await client.close()
    assert (responder.replies_count, responder.requests_without_reply_count) == (2, 1)
    assert said == ["no reply to a request on ask: too many requests wait"]


async def test_messages_that_are_no_requests_leave_no_subscriptions_behind(
    account: Account, tmp_path: Path
) -> None:
    said, listening = list[str](), asyncio.Event()

    async def create_reply(_request: ReceivedRequest) -> Reply:
        return Reply(b"own")

    client = await connect(Connection(servers=(account.url,)))

    def count_subscriptions() -> int:
        return sum(one.subject == "ask" for one in client.nc._subs.values())

    responder = Responder("ask", "G", 3, create_reply, said.append, listening.set)
    journal = Journal(tmp_path / "journal.jsonl")
    serving = asyncio.create_task(responder.serve(Writer(client, journal)))
    try:
        async with asyncio.timeout(PATIENCE_S), connected(account.url) as nc:
            await listening.wait()
            for number in range(1, 21):
                await nc.publish("ask", b"no request")
                while len(said) < number:
                    await asyncio.sleep(0.01)
                # What was subscribed is known to the server before the next message is sent.
                await client.nc.flush()
            # The first one, and one for each of the three requests that are left.
            assert count_subscriptions() <= 4
            assert (await nc.request("ask", b"?", timeout=PATIENCE_S)).data == b"own"
            while not responder.replies_count:
                await asyncio.sleep(0.01)
            await client.nc.reconnect_now()
            while not client.nc.is_connected or not client.nc.stats["reconnects"]:
                await asyncio.sleep(0.01)
            await client.nc.flush()
            before = count_subscriptions()
            for number in range(21, 41):
                await nc.publish("ask", b"no request")
                while len(said) < number:
                    await asyncio.sleep(0.01)
            assert count_subscriptions() <= before
            for _ in range(2):
                assert (await nc.request("ask", b"?", timeout=PATIENCE_S)).data == b"own"
            await serving
    finally:
        serving.cancel()
        await client.close()
    assert responder.replies_count == 3


async def test_nobody_can_make_an_answer_a_request_to_the_server(
    shell: Shell, account: Account
) -> None:
    async with connected(account.url) as nc:
        await nc.jetstream().add_stream(name="S", subjects=["s"])
        replying = answering_here(shell, "ask", "--echo", "--count", "2")
        await first_answer(nc, "ask", b"there?")
        await nc.publish("ask", b"", reply="$JS.API.STREAM.DELETE.S")
        await nc.publish("ask", b"", reply="$KV.B.k")
        await nc.publish("ask", b"nobody waits")
        await flushed(nc)
        assert (await nc.request("ask", b"x", timeout=PATIENCE_S)).data == b"x"
        said = (await replying).stderr
        assert said.count("no reply to a message on ask") == 3 and "2 replies" in said
        assert "its reply would change a bucket" in said
        assert (await nc.jetstream().stream_info("S")).config.name == "S"
    for subject in (">", "$JS.API.STREAM.INFO.S", "$SYS.>", "*.API.>"):
        refused = await run(shell, "reply", subject, "x")
        assert refused.returncode == 4 and "servers also reply" in refused.stderr, subject


async def test_nothing_is_answered_where_nothing_may_be_changed(
    shell: Shell, account: Account
) -> None:
    assert (await run(shell, "reply", "ask", "x", "--read-only")).returncode == 5
    for words in (("x", "--echo"), (), ("--echo", "--command", "ls")):
        assert (await run(shell, "reply", "ask", *words)).returncode == 2, words
    shell.environment["NATSTUI_CONNECTION_PRODUCTION"] = "true"
    refused = await run(shell, "reply", "ask", "x", "--yes")
    assert refused.returncode == 5 and "this is production" in refused.stderr


async def test_a_command_that_prints_without_an_end_is_ended(
    shell: Shell, account: Account
) -> None:
    # With a child of its own, which prints.
    command = "sh -c 'cat /dev/zero; true'"
    words = ("--command", command, "--timeout", "60s", "--count", "1")
    replying = answering_here(shell, "ask.me", *words)
    async with connected(account.url) as nc:
        await listened_to(nc, "ask.me")
        assert "sh printed more than 67,108,864 bytes" in (await replying).stderr


async def test_a_command_that_ends_but_leaves_a_process_with_its_output_is_named_and_ended(
    shell: Shell, account: Account, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    command = f"sh -c 'sleep 600 & echo $! > {pid_file}; echo hi'"
    words = ("--command", command, "--timeout", "500ms", "--count", "1")
    replying = answering_here(shell, "ask.me", *words)
    async with connected(account.url) as nc:
        await listened_to(nc, "ask.me")
        said = (await replying).stderr
    assert "sh ended, but what it has started kept its output open for longer than 0.5 s" in said
    assert "Traceback" not in said
    wait_until_ended(int(pid_file.read_text()))


def test_a_command_that_takes_long_does_not_keep_it_from_ending(
    shell: Shell, account: Account, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    command = f'sh -c "touch {begun}; sleep 600"'

    async def work(begin: Begin) -> None:
        begin()
        await until_said("natstui: replying on ")
        async with connected(account.url) as nc:
            for _ in range(3):
                await nc.publish("ask.me", b"?", reply="nobody.hears")
            await flushed(nc)
        while not begun.exists():
            await asyncio.sleep(0.05)
        stop()

    words = ("reply", "ask.me", "--command", command, "--timeout", "600s")
    done = run_beside(work, *words, environment=shell.environment)
    assert "natstui was stopped" in done.stderr
    assert done.stderr.endswith("natstui: 0 replies; 3 requests got no reply\n")
    assert done.returncode == 4


@pytest.mark.long
async def test_an_echo_has_every_header_of_the_request_and_of_the_command_line(
    shell: Shell,
) -> None:
    process = await answering(shell, "q", "--echo", "-H", "A:3", "--count", "1")
    asked = await run(shell, "request", "q", "x", "-H", "A:1", "-H", "A:2", "--json")
    assert json.loads(asked.stdout)["headers"] == [["A", "1"], ["A", "2"], ["A", "3"]]
    await ended(process)
    assert process.returncode == 0
