"""Every command with a server that lies: a sentence, and nothing changed or written elsewhere."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import nats
import pytest
from click.testing import CliRunner

from natstui.cli.root import root
from tests.accounts import Account
from tests.cli.processes import NatstuiProcess
from tests.cli.test_manage import Shell
from tests.hostile_commands import (
    BENCHMARKS,
    PROCESSES,
    USES,
    Use,
    filled,
    only_reads,
    problems,
    untested,
    whole_lies,
)
from tests.hostile_server import TRUTH, Lie, Wire, is_change, lying
from tests.jetstream.flushing import flushed

pytestmark = [
    pytest.mark.server,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("lone_server"),
    pytest.mark.xdist_group("hostile server"),
]

SLOW_VERBS = {"deliver", "STREAM.SNAPSHOT", "STREAM.RESTORE"}
"""What is waited for longer than for a reply."""


@pytest.fixture(scope="module")
def wires(
    new_account: Callable[[], Account], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Wire, Wire, Path]]:
    """Return wires of a user and of the system account, and a folder with a backup."""
    account, folder = new_account(), tmp_path_factory.mktemp("hostile")
    filled(account.url)
    backup = CliRunner().invoke(root, ["backup", str(folder / "whole"), "--server", account.url])
    assert backup.exit_code == 0, backup.output
    with lying(account.url) as wire, lying(account.system_url) as system:
        yield wire, system, folder


def told(use: Use, lie: Lie, wires: tuple[Wire, Wire, Path]) -> tuple[Wire, list[str]]:
    """Use a command in a folder of its own."""
    wire = wires[1] if use.as_system else wires[0]
    home = wires[2] / "home"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    return wire, problems(use, lie, wire, home)


def test_every_command_is_here() -> None:
    assert untested() == set()
    for command, uses in USES.items():
        if only_reads(command):
            assert not [use.words for use in uses if use.changes], command


_SOME = ("bench js get", "bench js ordered", "bench js pub sync")
CHECKED = USES | {name: BENCHMARKS[name] for name in _SOME}
"""Of benchmarks one that reads replies, one that reads deliveries and one that reads acks; make
fuzz tries them all."""
_IN_SHORT = {
    "backup", "balance", "bench js pub sync", "check", "consumer add", "consumer edit",
    "consumer find", "consumer sub", "health", "kick", "kv create", "kv del",
    "kv get", "kv put", "kv rm",
    "messages copy", "object get", "object rm", "overview", "pub", "restore",
    "stream add", "stream gaps", "stream get", "stream info", "stream publishers",
    "stream restore", "stream rmm", "stream scale", "stream seal", "stream view", "stuck",
    "undo",
}  # fmt: skip
"""What they read is read by the others too."""


@pytest.mark.parametrize(
    "command",
    [pytest.param(name, marks=[pytest.mark.long] * (name not in _IN_SHORT)) for name in CHECKED],
)
def test_no_lie_of_a_server_does_harm(command: str, wires: tuple[Wire, Wire, Path]) -> None:
    chance, wrong = random.Random(command), list[str]()
    use = chance.choice(CHECKED[command])
    wire = wires[1] if use.as_system else wires[0]
    wire.replies.clear()
    _, found = told(use, TRUTH, wires)
    assert wire.replies, f"{use.words} asks the server nothing"
    wrong += [f"{use.words}: {one}" for one in found]
    # The last requests are those of the command itself, the first ones of every connection.
    verbs = [verb for verb in wire.replies if verb not in SLOW_VERBS][-2:]
    # One lie about each; make fuzz tells all of them.
    for verb in verbs:
        lies = {name: lie for name, lie in whole_lies(verb).items() if name != "silence"}
        name = chance.choice(sorted(lies))
        found = told(use, lies[name], wires)[1]
        wrong += [f"{use.words}: {verb}: {name}: {one}" for one in found]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "words",
    [
        "backup {folder}/backup",
        "stream backup S {folder}/backup",
        "object get F f -O {folder}/got",
        "kv history B k",
        "consumer next S C --wait 1s --ack",
        "consumer sub S C --duration 1s --ack",
    ],
)
def test_a_message_does_not_choose_what_is_sent_to_the_server(
    words: str, wires: tuple[Wire, Wire, Path]
) -> None:
    purge = Lie("", lambda body: body, reply=b"$JS.API.STREAM.PURGE.S")
    own = r"\$JS\.API\.CONSUMER\.MSG\.NEXT\.S\.C"
    assert told(Use(words, own), purge, wires)[1] == []


def test_the_subject_of_a_reply_is_not_published_to_and_depth_is_no_traceback(
    wires: tuple[Wire, Wire, Path],
) -> None:
    for command in ("object rm", "object link"):
        for use in USES[command]:
            assert told(use, whole_lies("publish")["a deep object"], wires)[1] == []
            for name in ("*", ">", "$O.F.M.*", "other"):
                lie = Lie("STREAM.MSG.GET", lambda body, name=name: with_subject(body, name))
                assert told(use, lie, wires)[1] == [], (use, name)


def test_a_configuration_that_is_none_is_not_kept_in_the_journal(
    wires: tuple[Wire, Wire, Path],
) -> None:
    for command, verb in (("stream purge", "STREAM.PURGE"), ("consumer pause", "CONSUMER.PAUSE")):
        lie = Lie(verb, lambda body: json.dumps(json.loads(body) | {"config": 0}).encode())
        for use in USES[command]:
            assert told(use, lie, wires)[1] == [], use.words


def with_subject(body: bytes, subject: str) -> bytes:
    """Return the reply with a message of another subject."""
    reply = json.loads(body)
    reply["message"]["subject"] = subject
    return json.dumps(reply).encode()


def test_a_list_without_an_end_does_not_keep_a_benchmark(wires: tuple[Wire, Wire, Path]) -> None:
    (use,) = BENCHMARKS["bench js pub sync"]
    assert told(use, whole_lies("CONSUMER.LIST")["no end"], wires)[1] == []


@pytest.mark.parametrize(
    ("words", "lie", "said"),
    [
        ("stream report", "a page again and again", "list repeats itself and does not end"),
        ("overview --for 200ms", "a page again and again", "repeats itself and does not end"),
        ("stream report", "no end", "natstui reads at most 1,000,000"),
        ("stream ls", "no end", "natstui reads at most 1,000,000"),
        ("overview --for 200ms", "no end", "STREAM.LIST: the server lists 1,000,000,000"),
        ("overview --for 200ms", "fewer than it counts", "the server counts 5 more streams than"),
        (
            "watch --once",
            "fewer than it counts",
            "STREAM.LIST: the server counts 5 more streams than it lists",
        ),
        ("consumer report S", "everything the largest", "more streams than it lists"),
        ("overview --for 200ms", "everything escapes", "cannot be read"),
        ("stream ls", "everything a number beyond all others", "reply cannot be read"),
    ],
)
def test_a_lie_about_a_list_is_told_as_what_it_is(
    words: str, lie: str, said: str, wires: tuple[Wire, Wire, Path], tmp_path: Path
) -> None:
    wire = wires[0]
    wire.lie = whole_lies("STREAM.LIST")[lie]
    try:
        done = Shell(wire.url, tmp_path).run(*words.split())
    finally:
        wire.lie = TRUTH
    assert done.returncode == 4 and said in done.stderr
    assert "STREAM.LIST: STREAM.LIST" not in done.stderr
    assert "fine" not in done.stdout
    assert "\x1b" not in done.stderr + done.stdout


@pytest.mark.parametrize(
    "command",
    [
        # They do with the same polls what `watch` does.
        name if name == "watch" else pytest.param(name, marks=pytest.mark.long)
        for name in PROCESSES
    ],
)
def test_what_watches_goes_on_with_a_server_that_lies(
    command: str, wires: tuple[Wire, Wire, Path], tmp_path: Path
) -> None:
    wire, config = wires[0], tmp_path / "config.toml"
    config.write_text('[alerts.all]\ncommand = "true"\nhold_s = 0\n')
    wire.lie, begun = TRUTH, len(wire.requests)
    environment = {
        "NATSTUI_CONNECTION_SERVER": wire.url, "NATSTUI_CONFIG": str(config),
        "NATSTUI_MONITOR_INTERVAL_S": "0.3",
    }  # fmt: skip
    # An engine ends with its standard input.
    reading, writing = os.pipe()
    words = PROCESSES[command].format(folder=tmp_path).split()
    process = NatstuiProcess(*words, environment=environment, stdin=reading)
    os.close(reading)
    try:
        lies = {name: lie for name, lie in whole_lies("").items() if name != "silence"}
        wait_for_requests(wire, begun + 4, process)
        # After each it asks less and less often.
        for name in random.Random(command).sample(sorted(lies), 2):
            wire.lie = lies[name]
            wait_for_requests(wire, len(wire.requests) + 3, process)
        wire.lie = TRUTH
        wait_for_requests(wire, len(wire.requests) + 2, process)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    finally:
        wire.lie = TRUTH
        process.kill()
        process.wait()
        os.close(writing)
    assert "Traceback" not in said
    assert "\x1b" not in said
    # What an engine survives as a defect of its own, it writes down.
    assert [log.read_text() for log in tmp_path.rglob("crash-*.log")] == []
    assert not [subject for subject in wire.requests[begun:] if is_change(subject)]


@pytest.mark.long
def test_no_lie_about_a_request_does_harm_to_what_replies(
    wires: tuple[Wire, Wire, Path],
) -> None:
    wire = wires[0]
    wire.lie, begun = TRUTH, len(wire.requests)
    server = {"NATSTUI_CONNECTION_SERVER": wire.url}
    process = NatstuiProcess("reply", "r.>", "hello", environment=server)
    lies = {name: lie for name, lie in whole_lies("").items() if name != "silence"}
    lies |= {
        f"wants its reply at {subject}": Lie("", lambda body: body, reply=subject.encode())
        for subject in ("$JS.API.STREAM.PURGE.S", "$SYS.REQ.SERVER.PING", "$JS.ACK.S.C.1.1.1.1.0")
    }
    try:
        said = [process.stderr.readline()]
        ask_until_replied(wire, "nobody.waits.before", process)
        for name in sorted(lies):
            wire.lie, carried = lies[name], wire.replies["deliver"]
            carried.clear()
            asyncio.run(ask(wire.real_url, "r.a", "nobody.waits"))
            give_up_at = time.monotonic() + 60
            while not carried:
                assert time.monotonic() < give_up_at, name
                time.sleep(0.01)
            # After each it replies again; a lie about headers ends the connection first.
            wire.lie = TRUTH
            ask_until_replied(wire, f"nobody.waits.after.{len(said)}", process)
            said.append(name)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    finally:
        wire.lie = TRUTH
        process.kill()
        process.wait()
    said += [out, err]
    assert process.returncode == 0 and "replies" in err, said
    assert not re.findall("[\x1b\x07\u202e\x9b]|Traceback", "".join(said))
    refused = ("$JS.API.STREAM.PURGE", "$JS.ACK", "$SYS.REQ.SERVER")
    assert not [subject for subject in wire.requests[begun:] if subject.startswith(refused)]


async def ask(url: str, subject: str, reply: str) -> None:
    """Send a request and do not wait for its reply."""
    nc = await nats.connect(url)
    await nc.publish(subject, b"?", reply=reply, headers={"A": "b"})
    await flushed(nc)
    await nc.close()


def ask_until_replied(wire: Wire, reply: str, process: NatstuiProcess) -> None:
    """Ask again and again until there is a reply; fail where the process ended."""
    give_up_at = time.monotonic() + 60
    while reply not in wire.requests:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < give_up_at, wire.requests
        asyncio.run(ask(wire.real_url, "r.a", reply))
        time.sleep(0.05)


def wait_for_requests(wire: Wire, count: int, process: NatstuiProcess) -> None:
    """Wait until so many requests came; fail where the process ended."""
    give_up_at = time.monotonic() + 60
    while len(wire.requests) < count:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < give_up_at, (len(wire.requests), count)
        time.sleep(0.02)
