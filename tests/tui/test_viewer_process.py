"""The real command on a real terminal: refused, reset and ended in order."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from natstui.tui.terminal import RESET
from tests.cli.processes import assert_nothing_is_left
from tests.tui.terminals import OnTerminal

MAIN = "import sys; from natstui.__main__ import main; sys.argv[0] = 'natstui'; main()"


def test_without_a_terminal_one_sentence_names_the_plain_command() -> None:
    command = [sys.executable, "-m", "natstui", "--server", "nats://127.0.0.1:1"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "run `natstui watch`" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_terminal_can_be_reset() -> None:
    with OnTerminal(MAIN, "--reset-terminal") as terminal:
        assert terminal.wait() == 0
        assert RESET.encode() in terminal.output


def test_the_viewer_leaves_the_terminal_in_order_after_a_signal(nats_server: object) -> None:
    with OnTerminal(MAIN, "--server", nats_server.url) as terminal:  # type: ignore[attr-defined]
        assert b"connected" in terminal.read(b"connected", within_s=60)
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.wait() == 143
        assert b"\x1b[?1049l" in terminal.output
        assert b"\x1b[?1003l" in terminal.output


def test_a_viewer_whose_terminal_is_closed_ends_with_everything_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with OnTerminal(MAIN, "demo", width=200, height=60) as terminal:
        assert b"ORDERS" in terminal.read(b"ORDERS", within_s=60)
        terminal.hang_up()
        assert terminal.process.wait(20) == 129
    assert_nothing_is_left(tmp_path)


def test_a_viewer_told_to_go_on_that_was_not_suspended_leaves_the_terminal_in_order(
    nats_server: object,
) -> None:
    with OnTerminal(MAIN, "--server", nats_server.url) as terminal:  # type: ignore[attr-defined]
        assert b"connected" in terminal.read(b"connected", within_s=60)
        terminal.process.send_signal(signal.SIGCONT)
        terminal.read(b"never", within_s=0.5)
        terminal.type("q")
        assert terminal.wait() == 0
        assert terminal.output.count(b"\x1b[?1049h") == terminal.output.count(b"\x1b[?1049l") == 1


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("no-such-program", "the engine cannot be started with no-such-program: No such file or"),
        ("ssh 'host", '--engine "ssh \'host": no closing quotation'),
        (" ", "--engine needs a command"),
    ],
)
def test_an_engine_that_cannot_be_started_is_one_sentence(command: str, sentence: str) -> None:
    with OnTerminal(MAIN, "--engine", command, width=200) as terminal:
        assert terminal.wait() == 2
        assert f"natstui: {sentence}".encode() in terminal.output
        assert b"Traceback" not in terminal.output
