"""FIFOs, pipes of a shell, terminals and sockets where a command reads a file."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from natstui import files
from natstui.config.references import file_or_secret
from natstui.errors import UsageError
from natstui.files import read_user_file
from tests.accounts import Account
from tests.cli.beside import standard_input
from tests.cli.processes import NatstuiProcess
from tests.cli.test_manage import Shell
from tests.cli.test_messages_copy_faults import waits_at

SILENT = "nothing was written into it within 0.05 s"
PLAIN = "it is not a plain file"


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    return fifo


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PIPE_TIMEOUT_S", 0.05)


def test_a_fifo_is_read_once_it_has_a_writer(fifo: Path) -> None:
    def write() -> None:
        with fifo.open("wb", buffering=0) as file:
            file.write(b"one ")
            file.write(b"two")

    writer = threading.Thread(target=write)
    writer.start()
    assert read_user_file(fifo, 100) == b"one two"
    writer.join()


@pytest.mark.usefixtures("impatient")
def test_a_fifo_whose_writer_stops_is_not_waited_for_without_a_limit(fifo: Path) -> None:
    # Opened for both, it has a writer, and needs no other end.
    writer = os.open(fifo, os.O_RDWR)
    os.write(writer, b"one")
    try:
        with pytest.raises(TimeoutError, match=SILENT):
            read_user_file(fifo, 100)
    finally:
        os.close(writer)


def test_a_pipe_whose_writer_has_ended_is_read_to_its_end() -> None:
    for content in (b"content", b""):
        reader, writer = os.pipe()
        os.write(writer, content)
        os.close(writer)
        try:
            assert read_user_file(Path(f"/dev/fd/{reader}"), 100) == content
        finally:
            os.close(reader)


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    main, terminal = pty.openpty()
    try:
        with pytest.raises(OSError, match="it is a terminal"):
            read_user_file(Path(os.ttyname(terminal)), 100)
    finally:
        os.close(main)
        os.close(terminal)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        with pytest.raises(OSError, match="it is a socket"):
            read_user_file(tmp_path / "socket", 100)
    with pytest.raises(OSError, match="larger than 100 bytes"):
        read_user_file(Path("/dev/zero"), 100)
    assert read_user_file(Path("/dev/null"), 100) == b""


SECRETS = {
    "password": ('user = "u"\npassword = "file://{fifo}"', SILENT),
    "creds": ('creds = "{fifo}"', SILENT),
    "nkey": ('nkey = "{fifo}"', SILENT),
    "ca": ('ca = "{fifo}"', PLAIN),
    "cert": ('cert = "{fifo}"\nkey = "{fifo}"', PLAIN),
}
COMMANDS = {
    "configuration": (("--settings", "{fifo}", "stream", "ls"), SILENT),
    "put": (("object", "put", "O", "{fifo}"), SILENT),
    "value": (("kv", "put", "B", "k", "--file", "{fifo}"), SILENT),
    "payload": (("pub", "s", "--file", "{fifo}"), SILENT),
    "stream": (("stream", "add", "S", "--file", "{fifo}"), SILENT),
    "scenario": (("bench", "run", "{fifo}"), SILENT),
    "payload of a benchmark": (("bench", "pub", "s", "--payload", "{fifo}"), "does not exist"),
}


@pytest.mark.server
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_fifo_without_a_writer_is_refused_where_a_file_is_read(
    account: Account, tmp_path: Path, fifo: Path, name: str
) -> None:
    shell = Shell(account.url, tmp_path)
    words, reason = COMMANDS[name]
    refused = shell.run(*(word.format(fifo=fifo) for word in words))
    assert refused.returncode == 2, refused
    assert str(fifo) in refused.stderr and reason in refused.stderr


@pytest.mark.server
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", SECRETS)
def test_a_fifo_without_a_writer_is_refused_where_a_secret_is_read(
    account: Account, tmp_path: Path, fifo: Path, name: str
) -> None:
    shell = Shell(account.url, tmp_path)
    text, reason = SECRETS[name]
    settings = tmp_path / "settings.toml"
    address = f'server = "{account.url.partition("@")[2] or account.url}"'
    settings.write_text(f"[connection]\n{address}\n{text.format(fifo=fifo)}\n")
    del shell.environment["NATSTUI_CONNECTION_SERVER"]
    refused = shell.run("--settings", str(settings), "stream", "ls")
    assert refused.returncode == 2, refused
    assert str(fifo) in refused.stderr and reason in refused.stderr


@pytest.mark.server
def test_a_fifo_of_authorities_in_the_environment_is_refused(
    account: Account, tmp_path: Path, fifo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = Shell(account.url, tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(fifo))
    refused = shell.run("--server", account.url.replace("nats://", "tls://"), "stream", "ls")
    assert refused.returncode == 2, refused
    assert f"SSL_CERT_FILE: {fifo} cannot be read: {PLAIN}" in refused.stderr
    shell.ok("stream", "ls")


@pytest.mark.server
@pytest.mark.slow
def test_messages_of_stdin_are_copied(account: Account, tmp_path: Path) -> None:
    shell = Shell(account.url, tmp_path)
    for name in ("S", "T"):
        shell.ok("stream", "add", name, "--subjects", name.lower())
    shell.ok("pub", "s", "x", "-J", "--count", "3")
    file = tmp_path / "messages"
    shell.ok("messages", "copy", "S", "--to-file", str(file))
    words = ("messages", "copy", "--from-file", "-", "--map", "s:t", "--to-stream", "T")
    with file.open() as stdin, standard_input(stdin.fileno()):
        assert "3 read from /dev/stdin" in shell.ok(*words)
    assert json.loads(shell.ok("stream", "info", "T", "--json"))["state"]["messages"] == 3


@pytest.mark.server
def test_an_empty_stdin_is_named_where_it_becomes_a_file_or_a_value(
    account: Account, tmp_path: Path
) -> None:
    shell = Shell(account.url, tmp_path)
    shell.ok("object", "add", "O")
    shell.ok("kv", "add", "B")
    for words in (
        ("object", "put", "O", "--name", "a"),
        ("object", "put", "O", "-", "--name", "b"),
        ("kv", "put", "B", "a"),
        ("kv", "put", "B", "b", "--file", "-"),
        ("kv", "create", "B", "c"),
    ):
        done = shell.run(*words)
        assert (done.returncode, "stdin was empty" in done.stderr) == (0, True), done
    (tmp_path / "empty").touch()
    for words in (
        ("object", "put", "O", str(tmp_path / "empty")),
        ("kv", "put", "B", "d", ""),
    ):
        assert "stdin" not in shell.run(*words).stderr


@pytest.fixture
def payload_file(tmp_path: Path) -> Path:
    file = tmp_path / "payload"
    file.write_text("the payload")
    return file


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.server
def test_a_process_substitution_is_a_file(
    account: Account, tmp_path: Path, payload_file: Path
) -> None:
    shell = Shell(account.url, tmp_path)
    shell.ok("kv", "add", "B")
    natstui = shlex.join((sys.executable, "-m", "natstui"))
    settings = f'[connection]\nserver = "{account.url}"\n'
    line = (
        f"{natstui} --settings <(printf %s {shlex.quote(settings)}) "
        f"kv put B k --file <(sleep 1; cat {shlex.quote(str(payload_file))})"
    )
    environment = {**os.environ, **shell.environment}
    done = subprocess.run(
        ["bash", "-c", line], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done
    assert shell.ok("kv", "get", "B", "k") == "the payload"


@pytest.fixture
def waiting(account: Account, tmp_path: Path, fifo: Path) -> Iterator[NatstuiProcess]:
    """A command that waits for the writer of a FIFO."""
    words = ("pub", "s", "--file", str(fifo))
    with NatstuiProcess(*words, environment=Shell(account.url, tmp_path).environment) as process:
        yield process
        process.kill()


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.parametrize(
    ("number", "codes"),
    [
        (signal.SIGINT, {130}),
        pytest.param(signal.SIGTERM, {143, -15}, marks=pytest.mark.long),
    ],
)
async def test_a_signal_ends_the_wait_for_a_writer_at_once(
    waiting: NatstuiProcess, fifo: Path, number: int, codes: set[int]
) -> None:
    await waits_at(waiting, fifo)
    waiting.send_signal(number)
    _, stderr = await asyncio.to_thread(waiting.communicate, timeout=files.PIPE_TIMEOUT_S / 2)
    assert waiting.returncode in codes
    assert "Traceback" not in stderr


def test_a_pipe_of_creds_is_read_once(fifo: Path) -> None:
    writer = threading.Thread(target=fifo.write_text, args=("the creds",))
    writer.start()
    assert file_or_secret(str(fifo)) == (None, "the creds")
    writer.join()
    assert file_or_secret("/no/such/file") == ("/no/such/file", None)
    with pytest.raises(UsageError, match="NO_SUCH_VARIABLE"):
        file_or_secret("env://NO_SUCH_VARIABLE")
