"""What comes on standard input without an end: refused, or passed on, within bounded memory."""

from __future__ import annotations

import io
import json
import os
import resource
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from natstui.cli import options
from natstui.jetstream.messages.copying import message_file
from tests.accounts import Account
from tests.cli.beside import standard_input
from tests.cli.processes import NatstuiProcess
from tests.cli.test_manage import Shell, run_here

pytestmark = pytest.mark.server

MOST_BYTES = 1024**3
"""Of address space: an endless input would take all of it, and end in a traceback."""
PATIENCE_S = 120


@pytest.fixture
def shell(account: Account, tmp_path: Path) -> Shell:
    shell = Shell(account.url, tmp_path)
    shell.ok("stream", "add", "S", "--subjects", "s")
    shell.ok("kv", "add", "B")
    return shell


def ended_of(
    shell: Shell, source: str, *words: str, most_bytes: int = MOST_BYTES
) -> tuple[int | None, str]:
    """Run a command with a program of endless output at its standard input; tell how it ended."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))

    with subprocess.Popen(["sh", "-c", source], stdout=subprocess.PIPE) as endless:
        assert endless.stdout is not None
        stdin = endless.stdout.fileno()
        process = NatstuiProcess(
            *words, environment=shell.environment, stdin=stdin, before=limited
        )
        endless.stdout.close()
        _, said = process.communicate(PATIENCE_S)
    return process.returncode, said


ZERO = "cat /dev/zero"
PAYLOAD = "the payload on stdin cannot be read: it is larger than 67,108,864 bytes"
CONFIG = "stdin cannot be read: it is larger than 16,777,216 bytes"
SECRET = "stdin cannot be read: it is larger than 1,048,576 bytes"
READ_HERE = [
    (("pub", "s", "-J", "--count", "2"), 2, PAYLOAD),
    (("pub", "s", "--file", "-"), 2, PAYLOAD),
    pytest.param(("request", "s"), 2, PAYLOAD, marks=pytest.mark.long),
    (("kv", "put", "B", "k"), 2, PAYLOAD),
    pytest.param(("kv", "create", "B", "k"), 2, PAYLOAD, marks=pytest.mark.long),
    (("stream", "add", "--config", "-"), 2, CONFIG),
    pytest.param(("stream", "edit", "S", "--file", "-"), 2, CONFIG, marks=pytest.mark.long),
    (("consumer", "add", "S", "C", "--file", "-"), 2, CONFIG),
    (("context", "add", "c", "--password", "-"), 2, f"password: {SECRET}"),
    (("stream", "rm", "S"), 5, "not confirmed"),
]
"""What reads `sys.stdin`, whatever that is."""
REFUSED = [
    pytest.param(
        ZERO, ("engine", "--server", "-"), 2, "the first line on stdin is longer than 1,048,576",
        marks=pytest.mark.long,
    ),
    pytest.param(
        ZERO, ("pub", "s", "--file", "/dev/stdin"), 2, "it is larger than 67,108,864 bytes",
        marks=pytest.mark.long,
    ),
    pytest.param(
        ZERO, ("messages", "copy", "--from-file", "/dev/stdin", "--to-subject", "s"), 4,
        "the line has more than 134,217,728 bytes", marks=pytest.mark.long,
    ),
]  # fmt: skip


class Endless(io.RawIOBase):
    """Gives bytes without an end, and counts them."""

    given_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.given_bytes += len(buffer)
        buffer[:] = bytes(len(buffer))
        assert self.given_bytes < MOST_BYTES
        return len(buffer)


@pytest.mark.parametrize(("words", "code", "said"), READ_HERE, ids=lambda value: None
    if isinstance(value, int) else " ".join(value)[:40] if isinstance(value, tuple) else "",
)  # fmt: skip
def test_no_more_is_read_of_an_input_without_an_end_than_may_be_used(
    shell: Shell, words: tuple[str, ...], code: int, said: str
) -> None:
    endless = Endless()
    done = shell.run(*words, stdin=io.BufferedReader(endless))
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    assert done.stderr.count("natstui: ") == 1
    assert endless.given_bytes < 70_000_000
    assert json.loads(shell.ok("stream", "info", "S", "--json"))["state"]["messages"] == 0


@pytest.mark.parametrize(
    ("source", "words", "code", "said"), REFUSED, ids=lambda value: " ".join(value)[:40]
    if isinstance(value, tuple) else None,
)  # fmt: skip
def test_an_input_without_an_end_is_refused_with_one_sentence(
    shell: Shell, source: str, words: tuple[str, ...], code: int, said: str
) -> None:
    ended_with, err = ended_of(shell, source, *words)
    assert (ended_with, said in err, err.count("natstui: ")) == (code, True, 1), err
    assert json.loads(shell.ok("stream", "info", "S", "--json"))["state"]["messages"] == 0


def test_no_more_is_read_of_a_line_with_an_address_than_one_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(options, "MAX_LINE_BYTES", 1_000)
    reader, writer = os.pipe()
    os.write(writer, bytes(3_000))
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        with standard_input(reader):
            done = run_here("engine", "--server", "-")
        assert len(file.read()) == 3_000 - 1_001
    assert done.returncode == 2
    assert done.stderr.count("natstui: ") == 1
    assert "the first line on stdin is longer than 1,000 bytes" in done.stderr


def test_a_line_without_an_end_in_a_fifo_is_refused(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_file, "_MAX_LINE_BYTES", 1_000)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    def write() -> None:
        with suppress(BrokenPipeError):
            fifo.write_bytes(bytes(200_000))

    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(write)
        done = shell.run("messages", "copy", "--from-file", str(fifo), "--to-subject", "s")
        writing.result()
    assert done.returncode == 4 and "the line has more than 1,000 bytes" in done.stderr, done


def test_a_recording_is_not_deleted_without_a_terminal(shell: Shell) -> None:
    library = Path(shell.environment["XDG_DATA_HOME"]) / "natstui" / "sessions"
    shell.ok("record", "--name", "mine", "--duration", "1s")
    done = shell.run("sessions", "rm", "mine", stdin=io.BufferedReader(Endless()))
    assert done.returncode == 5 and "add --yes to confirm" in done.stderr
    assert len(list(library.iterdir())) == 1


def test_an_endless_file_is_streamed_into_a_store_until_that_is_full(shell: Shell) -> None:
    shell.ok("object", "add", "F", "--max-bucket-size", "20MB")
    endless = Endless()
    done = shell.run("object", "put", "F", "--name", "endless", stdin=io.BufferedReader(endless))
    assert done.returncode == 4 and "maximum bytes exceeded" in done.stderr, done
    assert endless.given_bytes < 70_000_000
    assert json.loads(shell.ok("object", "ls", "F", "--json")) == []


ENGINE_BYTES = 500_000_000
"""Of address space for an engine: it takes nearly as much from its start."""
LONG_LINES = 'yes "$(head -c 60000 /dev/zero | tr "\\0" x)"'


@pytest.mark.long
@pytest.mark.parametrize(
    "source", [pytest.param(LONG_LINES, id="lines"), pytest.param(ZERO, id="no lines")]
)
def test_an_engine_reads_no_faster_than_it_takes_what_it_reads(shell: Shell, source: str) -> None:
    endless = f"{source} | head -c {ENGINE_BYTES}"
    code, err = ended_of(shell, endless, "engine", most_bytes=ENGINE_BYTES)
    assert code == 0, err[-2000:]
    assert "Error" not in err, err[-2000:]


@pytest.mark.long
def test_what_is_no_command_of_an_engine_is_left_out(shell: Shell) -> None:
    # More than waits anywhere for an engine that does not read yet.
    code, err = ended_of(shell, f"{LONG_LINES} | head -c 30000000", "engine")
    assert code == 0, err[-2000:]
    assert err.startswith("natstui engine: ") and "Traceback" not in err, err[-2000:]
