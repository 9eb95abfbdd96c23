"""What is written arrives whole, also when the process is stopped while it waits for a reader."""

import fcntl
import os
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from natstui.output import CompleteWriteFile, write_all
from tests.cli.test_manage import run_here

pytestmark = pytest.mark.slow

SIZE_BYTES = 1_000_000
TEXT = f"'a' * {SIZE_BYTES} + chr(10)"
OUT = "import sys; from natstui.output import *;"


def arrived(code: str) -> bytes:
    """Stop a program that writes more than a pipe holds, and read when it goes on."""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        waiting = 0
        while waiting < 65_536:
            assert program.poll() is None
            time.sleep(0.02)
            found = fcntl.ioctl(program.stdout, termios.FIONREAD, struct.pack("i", 0))
            waiting = struct.unpack("i", found)[0]
        program.send_signal(signal.SIGSTOP)
        state = Path(f"/proc/{program.pid}/stat")
        while state.read_text().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.01)
        program.send_signal(signal.SIGCONT)
        time.sleep(0.1)
        data = program.stdout.read()
        assert program.wait(60) == 0
    return data


@pytest.mark.parametrize(
    "code",
    [
        f"{OUT} protect_stdout(); print({TEXT}, end='')",
        f"{OUT} protect_stdout(); sys.stdout.buffer.write(({TEXT}).encode())",
        pytest.param(
            f"{OUT} protect_stdout(); import click; click.echo({TEXT}, nl=False)",
            marks=pytest.mark.long,
        ),
        pytest.param(f"{OUT} write_all(1, ({TEXT}).encode())", marks=pytest.mark.long),
        pytest.param(
            f"{OUT} text_file(1, 'utf-8', 'strict').write({TEXT})", marks=pytest.mark.long
        ),
    ],
    ids=["print", "bytes", "click", "descriptor", "text file"],
)
def test_a_large_write_that_a_stop_cuts_short_arrives_whole(code: str) -> None:
    data = arrived(code)
    assert len(data) == SIZE_BYTES + 1
    assert data.endswith(b"a\n")


def test_what_the_command_line_prints_goes_that_way() -> None:
    asked = "import sys; from natstui.__main__ import main; sys.argv = ['natstui', '--version'];"
    kind = "print(type(sys.stdout.buffer.raw).__name__)"
    done = subprocess.run(
        [sys.executable, "-c", f"{asked} main(); {kind}"], capture_output=True, text=True
    )
    assert done.stdout.splitlines()[1:] == ["CompleteWriteFile"]


def test_a_reader_that_is_gone_is_an_error() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with pytest.raises(BrokenPipeError):
        write_all(write_end, b"x")
    with pytest.raises(BrokenPipeError):
        CompleteWriteFile(write_end).write(b"x")
    os.close(write_end)


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "utf-8"])
def test_what_an_encoding_cannot_hold_is_replaced(encoding: str) -> None:
    code = f"{OUT} protect_stdout(); print('● \\u00fc \\udce9')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONIOENCODING": encoding},
        capture_output=True,
        check=True,
    )
    said = "● ü ?" if encoding == "utf-8" else "? ü ?" if encoding == "latin-1" else "? ? ?"
    assert done.stdout.decode(encoding) == f"{said}\n"


def test_output_on_a_full_disk_is_a_sentence() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "natstui", "config"], stdout=full, stderr=subprocess.PIPE,
            check=False, timeout=60,
        )  # fmt: skip
    said = b"natstui: the output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (6, said)


@pytest.mark.parametrize(
    "words",
    [
        ("sessions", "rename", "last", "caf\udce9", "--json"),
        pytest.param(
            ("stream", "find", "--name", "caf\udce9", "--server", "nats://127.0.0.1:1"),
            marks=pytest.mark.long,
        ),
    ],
    ids=["sessions", "stream"],
)
def test_words_that_are_no_utf8_are_named(words: tuple[str, ...]) -> None:
    done = run_here(*words)
    assert "Traceback" not in done.stderr and done.returncode != 0


@pytest.mark.parametrize(
    ("words", "closed", "code", "sentence"),
    [
        pytest.param("config", 0, 0, "", marks=pytest.mark.long),
        pytest.param("config", 2, 0, "", marks=pytest.mark.long),
        ("config", 1, 6, "natstui: the output cannot be written: "),
        ("--version", 1, 6, "natstui: the output cannot be written: "),
        ("pub s", 0, 2, "natstui: the payload on stdin cannot be read: "),
    ],
)
def test_what_is_closed_is_neither_empty_nor_read_by_anybody(
    words: str, closed: int, code: int, sentence: str, tmp_path: Path
) -> None:
    command = f"{shlex.join([sys.executable, '-m', 'natstui'])} {words} {closed}>&-"
    env = os.environ | {"XDG_CONFIG_HOME": str(tmp_path)}
    shell = ["sh", "-c", command]
    done = subprocess.run(shell, capture_output=True, text=True, env=env, check=False)
    assert (done.returncode, done.stderr.startswith(sentence)) == (code, True), done
    assert len(done.stderr.splitlines()) == bool(sentence)
    assert (done.stdout == "") is (code != 0)
