"""Mouse events faster than any app can look at them: the viewer stays as small as it was."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from textual.events import MouseMove, MouseScrollUp

from natstui.tui.app.terminal_driver import TerminalInput
from tests.accounts import Account
from tests.tui.terminals import OnTerminal, Reader, rss_mb
from tests.tui.test_viewer_process import MAIN

pytestmark = pytest.mark.terminal

EVENTS_COUNT = 20_000
MORE_MB = 20
TURN = b"\x1b[<64;5;5M"
BUSY = """
import array, fcntl, sys, termios, time
from pathlib import Path
from textual.widgets import Static
from natstui.tui.app.guarded import GuardedApp

class Busy(GuardedApp):
    def compose(self):
        yield Static("ready")
    def key_x(self):
        self._driver.write("busy")
        self._driver.flush()
        while not Path(sys.argv[2]).exists():
            time.sleep(0.05)
        # Whoever reads meanwhile has read by now.
        time.sleep(1)
        unread = array.array("i", [0])
        fcntl.ioctl(0, termios.FIONREAD, unread)
        self.exit(return_code=7 if unread[0] else 0)

sys.exit(Busy(crash_log_folder=Path(sys.argv[1])).run_guarded())
"""


def storm(count: int) -> Iterator[bytes]:
    """Moves everywhere, and turns of the wheel between them, so that not all are the same."""
    for number in range(count):
        button = 35 if number % 10 else 64 + number % 20 // 10
        yield b"\x1b[<%d;%d;%dM" % (button, number % 119 + 1, number % 39 + 1)


def test_of_successive_moves_the_last_is_kept_and_nothing_else_is_dropped() -> None:
    moved = b"\x1b[<35;%d;5M"
    events = TerminalInput().events(moved % 1 + moved % 2 + TURN + TURN + moved % 3 + moved % 4)
    assert [type(event) for event in events] == [
        MouseMove, MouseScrollUp, MouseScrollUp, MouseMove,
    ]  # fmt: skip
    assert [event.x for event in events if isinstance(event, MouseMove)] == [1, 3]


@pytest.mark.server
@pytest.mark.long
def test_a_storm_of_the_mouse_does_not_swell_a_viewer(account: Account) -> None:
    with OnTerminal(MAIN, "--server", account.url, width=120, height=40) as terminal:
        assert b"connected" in terminal.read(b"connected", within_s=60)
        reader = Reader(terminal)
        write(terminal, b"".join(storm(500)))
        answer(terminal, reader)
        before_mb, most_mb = rss_mb(terminal.process.pid), 0.0
        for number, event in enumerate(storm(EVENTS_COUNT)):
            write(terminal, event)
            if number % 500 == 0:
                most_mb = max(most_mb, rss_mb(terminal.process.pid))
        answer(terminal, reader)
        after_mb = rss_mb(terminal.process.pid)
        print(f"{before_mb:.1f} MB before, {most_mb:.1f} MB at most, {after_mb:.1f} MB after")
        terminal.type("q")
        reader.join()
        assert terminal.process.wait(60) == 0
    assert max(most_mb, after_mb) - before_mb < MORE_MB


def test_input_waits_in_the_terminal_while_the_app_can_look_at_none(tmp_path: Path) -> None:
    written = tmp_path / "written"
    with OnTerminal(BUSY, str(tmp_path), str(written)) as terminal:
        terminal.read(b"ready")
        terminal.type("x")
        assert b"busy" in terminal.read(b"busy")
        # As much as there is room for.
        os.set_blocking(terminal.master, False)
        with suppress(BlockingIOError):
            write(terminal, TURN * 2_000)
        os.set_blocking(terminal.master, True)
        written.touch()
        assert terminal.wait() == 7, "nothing was left unread"


def write(terminal: OnTerminal, data: bytes) -> None:
    while data:
        data = data[os.write(terminal.master, data) :]


def answer(terminal: OnTerminal, reader: Reader) -> None:
    """Wait until everything sent was looked at: the help opens behind it, and closes."""
    for key, awaited in (("?", b"KEYS"), ("\x1b", b"connected")):
        reader.newest = b""
        terminal.type(key)
        end = time.monotonic() + 60
        while awaited not in reader.newest:
            assert time.monotonic() < end, reader.newest[-2000:]
            time.sleep(0.05)
        time.sleep(0.5)
