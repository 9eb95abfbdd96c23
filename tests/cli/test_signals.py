"""Ctrl-C is exit code 130, SIGTERM 143 and SIGHUP 129 of a command that was not done."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path

import pytest
from nats.js.api import StreamConfig

from natstui.cli.terminal_line import TerminalLine
from natstui.engine.stopping import ending_signals
from tests.accounts import Account
from tests.cli.beside import Begin, run_beside, stop
from tests.cli.processes import NatstuiProcess
from tests.cli.test_core import connected
from tests.cli.test_manage import Shell

pytestmark = [pytest.mark.server, pytest.mark.slow]

PATIENCE_S = 30.0


@pytest.fixture
def shell(account: Account, tmp_path: Path) -> Shell:
    return Shell(account.url, tmp_path)


def started(shell: Shell, *words: str) -> NatstuiProcess:
    return NatstuiProcess(*words, environment=shell.environment)


def shell_code(returncode: int) -> int:
    """Return an exit code as a shell shows it, also that of a process that a signal ended."""
    return returncode if returncode >= 0 else 128 - returncode


CONNECTING = {
    "stuck S C --for 5m": signal.SIGTERM, "overview": signal.SIGTERM,
    "watch --once": signal.SIGINT, "pub s x -J --json": signal.SIGTERM,
    "request s x": signal.SIGINT, "consumer next S C --ack": signal.SIGINT,
    "stream ls --json": signal.SIGINT, "object get O f -O -": signal.SIGTERM,
    "stream publishers S": signal.SIGINT, "messages copy S --to-subject t --yes": signal.SIGTERM,
}  # fmt: skip
"""Commands that wait for a server, and a signal that ends each: one handler has both signals, and
a command without a handler is ended by SIGTERM without being asked.
"""


def assert_neither_success_nor_finding(words: str, err: str) -> None:
    assert "Aborted" not in err and "Traceback" not in err
    if words == "stream ls --json":
        assert json.loads(err) == {"error": "natstui was stopped", "code": 130}
    if words == "watch --once":
        assert err == "natstui: natstui was stopped\n"


@pytest.mark.parametrize("words", ["watch --once", "stream ls --json"])
def test_a_command_that_is_interrupted_while_it_connects_says_so(
    words: str, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        shell = Shell(f"nats://127.0.0.1:{silent.getsockname()[1]}", tmp_path)
        silent.settimeout(PATIENCE_S)
        connections = []

        async def work(begin: Begin) -> None:
            begin()
            connections.append((await asyncio.to_thread(silent.accept))[0])
            stop(signal.SIGINT)

        done = run_beside(work, *words.split(), environment=shell.environment)
        connections[0].close()
    assert (done.returncode, done.stdout) == (130, ""), done
    assert_neither_success_nor_finding(words, done.stderr)


@pytest.mark.long
@pytest.mark.parametrize(("words", "number"), CONNECTING.items())
def test_a_command_that_is_stopped_while_it_connects_is_neither_success_nor_finding(
    words: str, number: signal.Signals, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        shell = Shell(f"nats://127.0.0.1:{silent.getsockname()[1]}", tmp_path)
        process = started(shell, *words.split())
        silent.settimeout(PATIENCE_S)
        connection, _ = silent.accept()
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
        connection.close()
    assert process.returncode is not None
    assert (shell_code(process.returncode), out) == (128 + number, ""), err
    assert_neither_success_nor_finding(words, err)


@pytest.mark.parametrize(("key", "code"), [("", 130), ("\x04", 5), ("no\n", 5)])
def test_a_question_that_gets_no_answer_changes_nothing(
    key: str, code: int, tmp_path: Path
) -> None:
    shell = Shell("nats://127.0.0.1:1", tmp_path)
    shell.ok("context", "add", "kept", "--server", "127.0.0.1")
    ours, terminal = os.openpty()
    process = NatstuiProcess(
        "context", "rm", "kept", environment=shell.environment, stdin=terminal
    )
    asked = b""
    while b"to remove it" not in asked:
        asked += os.read(process.stderr.fileno(), 1000)
    os.write(ours, key.encode())
    give_up_at = time.monotonic() + PATIENCE_S
    while process.poll() is None:
        assert time.monotonic() < give_up_at
        if not key:
            # One that comes just before Python waits for a line waits with it, and is sent again:
            # not too soon, since at its end Python leaves a signal to the system.
            process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(2)
    assert process.returncode == code
    process.stdout.close()
    process.stderr.close()
    os.close(ours)
    os.close(terminal)
    assert "kept" in shell.ok("context", "ls")


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("reply svc hello", signal.SIGINT),
        ("reply svc hello", signal.SIGTERM),
        ("consumer sub S C", signal.SIGINT),
    ],
)
def test_a_signal_ends_a_command_at_the_prompt_before_it_receives(
    words: str, number: signal.Signals, shell: Shell
) -> None:
    shell.ok("stream", "add", "S", "--subjects", "s")
    shell.ok("consumer", "add", "S", "C", "--pull")
    shell.environment["NATSTUI_CONNECTION_PRODUCTION"] = "true"
    ours, terminal = os.openpty()
    process = NatstuiProcess(*words.split(), environment=shell.environment, stdin=terminal)
    said = b""
    while b"to confirm" not in said:
        part = os.read(process.stderr.fileno(), 1000)
        assert part, said
        said += part
    give_up_at = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < give_up_at:
        # One that comes just before Python waits for a line waits with it, and is sent again.
        process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(2)
    returncode = process.poll()
    process.kill()
    out, err = process.communicate()
    os.close(ours)
    os.close(terminal)
    assert returncode is not None
    assert (shell_code(returncode), out) == (128 + number, "")
    assert "Traceback" not in err and "receiving from" not in err and "replying on" not in err


@pytest.mark.parametrize(
    ("flags", "number"),
    [
        pytest.param((), signal.SIGINT, marks=pytest.mark.long),
        (("-J",), signal.SIGTERM),
        pytest.param(("-J",), signal.SIGHUP, marks=pytest.mark.long),
    ],
)
def test_what_was_published_until_it_is_stopped_is_said(
    flags: tuple[str, ...], number: signal.Signals, shell: Shell, account: Account
) -> None:
    shell.ok("stream", "add", "S", "--subjects", "s")

    async def work(begin: Begin) -> None:
        begin()
        async with connected(account.url) as nc:
            while (await nc.jetstream().stream_info("S")).state.messages < 2:
                await asyncio.sleep(0.05)
        stop(number)

    words = ("pub", "s", "x", "--count", "1000", "--sleep", "300ms", *flags)
    done = run_beside(work, *words, environment=shell.environment)
    said = done.stderr
    stored_count = json.loads(shell.ok("stream", "info", "S", "--json"))["state"]["messages"]
    assert (done.returncode, done.stdout) == (128 + number, ""), said
    limit, end = ("", "all acknowledged,") if flags else ("at most ", "arrived")
    more = " and 1 more without an acknowledgement"
    sent = re.search(
        rf"natstui: {limit}(\d+) messages?, .* sent to s, {end}({more})? before this", said
    )
    assert sent and stored_count - int(sent[1]) in ((0, 1) if sent[2] else (0,)), said
    assert "publishing was stopped" in said
    entries = json.loads(shell.ok("journal", "--json"))
    (entry,) = (entry for entry in entries if entry["action"] == "publish")
    assert json.loads(entry["after_json"])["sent_count"] == int(sent[1])
    known = f"{sent[1]} acknowledged, {'1 more' if sent[2] else 'no more'}" if flags else "at most"
    assert entry["outcome"] == "unknown" and f"it was stopped: {known}" in entry["reason"]
    assert f"publish {sent[1]} of 1,000 messages to s" in shell.ok("journal")


def test_a_closed_terminal_ends_a_command_unless_nohup_ignores_it() -> None:
    assert signal.SIGHUP in ending_signals()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert ending_signals() == (signal.SIGTERM, signal.SIGINT)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_line_on_a_closed_terminal_does_not_end_the_work_it_is_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, terminal = os.openpty()
    with open(terminal, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        line = TerminalLine()
        line.show("a part")
        os.close(ours)
        line.show("another part")
        line.clear()
        # What is left of it may not be written when it is closed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), terminal)


@pytest.mark.parametrize(
    ("words", "number", "code"),
    [
        pytest.param("object get O f -O -", signal.SIGINT, 130, marks=pytest.mark.long),
        pytest.param("stream view S 500 --raw", signal.SIGTERM, 143, marks=pytest.mark.long),
        # These run until they are stopped.
        ("sub s --all --raw", signal.SIGINT, 0),
        pytest.param("consumer sub S C --raw --no-ack", signal.SIGTERM, 0, marks=pytest.mark.long),
        pytest.param("watch --json", signal.SIGTERM, 0, marks=pytest.mark.long),
    ],
)
async def test_a_reader_that_stalls_does_not_keep_a_command_from_ending(
    words: str, number: signal.Signals, code: int, shell: Shell, account: Account
) -> None:
    async with connected(account.url) as nc:
        js = nc.jetstream()
        if words.startswith("watch"):
            for name in range(40):
                await js.add_stream(
                    StreamConfig(name=f"W{name}", subjects=[f"w{name}"], description="d" * 4000)
                )
        elif words.startswith("object"):
            await (await js.create_object_store("O")).put("f", b"x" * 1_000_000)
        else:
            await js.add_stream(StreamConfig(name="S", subjects=["s"]))
            await js.add_consumer("S", durable_name="C")
            for number_of_message in range(300):
                await js.publish("s", b"%06d" % number_of_message * 100)
    process = started(shell, *words.split())
    give_up_at = time.monotonic() + PATIENCE_S
    waiting_bytes = before_bytes = 0
    # Once a pipe takes no more, what is left waits in the process.
    while waiting_bytes < 30_000 or waiting_bytes > before_bytes:
        assert time.monotonic() < give_up_at and process.poll() is None, waiting_bytes
        await asyncio.sleep(0.2)
        found = fcntl.ioctl(process.stdout, termios.FIONREAD, struct.pack("i", 0))
        before_bytes, waiting_bytes = waiting_bytes, struct.unpack("i", found)[0]
    process.send_signal(number)
    returncode = await asyncio.to_thread(process.wait, PATIENCE_S)
    said = process.stderr.read()
    process.stdout.close()
    process.stderr.close()
    assert shell_code(returncode) == code, said
    assert "Traceback" not in said
