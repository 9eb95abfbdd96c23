"""Whatever bytes a terminal sends, the viewer goes on; the exit code tells of every crash."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.accounts import Account
from tests.session.making import made
from tests.tui.terminals import OnTerminal
from tests.tui.test_terminal import APP
from tests.tui.test_viewer_process import MAIN

pytestmark = pytest.mark.terminal

NOT_UTF8 = (
    b"\x80",
    b"\xff\xfe",
    b"caf\xe9 latin-1",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xf5\x80\x80\x80",
)
NO_KEYS = (
    b"\x1b[1114112u",
    b"\x1b[99999999999999u",
    b"\x1b[97;1:2u",
    b"\x1b[97;1;99999999999u",
    b"\x1b[48;0;0;0;0t\x1b[<0;5;5M",
    b"\x1b[48;30000;30000;1;1t",
)

NO_MEMORY = """
from textual._xterm_parser import XTermParser

def fail(self, data):
    raise MemoryError

XTermParser.feed = fail
"""


COUNTING = APP.replace(
    "    def key_x(self):",
    """    count = 0
    def key_q(self):
        self.count += 1
        self.query_one(Static).update(safe(f"read {self.count} times"))
    def key_x(self):""",
)
"""Tells how often q was pressed."""


def test_input_that_is_no_text_and_no_key_is_survived(tmp_path: Path) -> None:
    with OnTerminal(COUNTING, str(tmp_path)) as terminal:
        terminal.read("ready ●".encode())
        # It is told to go on, and was not suspended.
        terminal.process.send_signal(signal.SIGCONT)
        for count, sent in enumerate((*NOT_UTF8, *NO_KEYS), 1):
            os.write(terminal.master, sent + b"q")
            said = f"read {count} times".encode()
            assert said in terminal.read(said), sent
        os.write(terminal.master, b"\x11")
        assert terminal.wait() == 0
        for sequence in (b"\x1b[?1049h", b"\x1b[?1049l"):
            assert terminal.output.count(sequence) == 1, "it was drawn from the start again"
    assert list(tmp_path.iterdir()) == []


def test_a_crash_of_what_reads_the_terminal_is_told_by_the_exit_code(tmp_path: Path) -> None:
    with OnTerminal(NO_MEMORY + APP, str(tmp_path)) as terminal:
        terminal.read("ready ●".encode())
        os.write(terminal.master, b"x")
        assert terminal.wait() == 1
        assert b"stopped by a defect (MemoryError)" in terminal.output


@pytest.mark.long
@pytest.mark.server
@pytest.mark.parametrize("command", ["viewer", "demo", "replay"])
def test_every_crash_of_the_screen_is_told_by_the_exit_code(
    command: str, account: Account, tmp_path: Path
) -> None:
    words = {
        "viewer": ["--server", account.url],
        "demo": ["demo"],
        "replay": ["replay", str(made(tmp_path / "sessions", [])), "--paused"],
    }[command]
    with OnTerminal(NO_MEMORY + MAIN, *words, width=120, height=40) as terminal:
        assert b"\x1b[?1049h" in terminal.read(b"\x1b[?1049h", within_s=60)
        os.write(terminal.master, b"x")
        assert terminal.wait() == 1
        assert b"stopped by a defect (MemoryError)" in terminal.output
