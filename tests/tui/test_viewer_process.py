"""The real command on a real terminal: refused, reset and ended in order."""

from __future__ import annotations

import os
import pty
import sys
import termios
import tty
from pathlib import Path

import pytest

from natstui.session.files.folder import list_segments
from natstui.tui.kit.terminal import RESET_SEQUENCES, reset_terminal
from tests.cli.processes import assert_nothing_is_left
from tests.cli.test_manage import run_here
from tests.session.making import made
from tests.session.scenario import Scenario
from tests.tui.terminals import OnTerminal

pytestmark = pytest.mark.terminal

MAIN = "import sys; from natstui.__main__ import main; sys.argv[0] = 'natstui'; main()"


def test_without_a_terminal_one_sentence_names_the_plain_command() -> None:
    done = run_here("--server", "nats://127.0.0.1:1")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "run `natstui watch`" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_terminal_can_be_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    done = run_here("--reset-terminal")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", RESET_SEQUENCES)
    master, slave = pty.openpty()
    try:
        tty.setraw(slave)
        with open(slave, closefd=False) as stdin, monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", stdin)
            reset_terminal()
        taken, given, _, local, *_ = termios.tcgetattr(slave)
        for flags, flag in (
            (taken, termios.ICRNL), (taken, termios.IXON), (taken, termios.BRKINT),
            (given, termios.OPOST), (given, termios.ONLCR), (local, termios.ICANON),
            (local, termios.ECHO), (local, termios.ISIG), (local, termios.IEXTEN),
        ):  # fmt: skip
            assert flags & flag
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.long
@pytest.mark.server
def test_a_viewer_whose_terminal_is_closed_ends_with_everything_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with OnTerminal(MAIN, "demo", width=200, height=60) as terminal:
        assert b"ORDERS" in terminal.read(b"ORDERS", within_s=60)
        terminal.hang_up()
        assert terminal.process.wait(60) == 129
    assert_nothing_is_left(tmp_path)


def test_an_engine_that_cannot_be_started_is_one_sentence() -> None:
    for command, sentence in (
        ("ssh 'host", '--engine "ssh \'host": no closing quotation'),
        (" ", "--engine is empty: give it a value, or leave the option out"),
    ):
        done = run_here("--engine", command)
        assert (done.returncode, done.stderr) == (2, f"natstui: {sentence}\n")
    sentence = "the engine cannot be started with no-such-program: No such file or directory"
    with OnTerminal(MAIN, "--engine", "no-such-program", width=200) as terminal:
        assert terminal.wait() == 2
        assert terminal.output.decode().splitlines() == [f"natstui: {sentence}"]


@pytest.mark.parametrize("damaged", [True, pytest.param(False, marks=pytest.mark.long)])
def test_whoever_leaves_a_replay_hears_what_is_missing_of_the_session(
    tmp_path: Path, damaged: bool
) -> None:
    scenario = Scenario(streams=1, consumers=1)
    records = [*scenario.beginning(), *scenario.records(0, 7)]
    folder = made(tmp_path / "sessions", records, polls_per_segment=3)
    gone = list_segments(folder)[1]
    if damaged:
        gone.path.unlink()
    with OnTerminal(MAIN, "replay", str(folder), "--paused") as terminal:
        assert b"paused" in terminal.read(b"paused", within_s=60)
        terminal.type("q")
        assert terminal.wait() == (6 if damaged else 0)
        said = terminal.output[terminal.output.rindex(b"\x1b[?1049l") :].decode()
    sentence = f"natstui: {folder} is damaged: segment {gone.number} is missing"
    assert (sentence in said) is damaged
    assert ("damaged" in said) is damaged
