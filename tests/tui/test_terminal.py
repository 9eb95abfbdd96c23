"""The terminal is as it was before, whatever ended the viewer, and a crash tells no secrets."""

from __future__ import annotations

import os
import pty
import re
import signal
import stat
import sys
from pathlib import Path

import pytest

from natstui.errors import UsageError
from natstui.tui.app.terminal_driver import CloseTolerantFile
from natstui.tui.kit.terminal import RESET_SEQUENCES, needs_ascii, require_terminal
from tests.tui.terminals import OnTerminal

pytestmark = pytest.mark.terminal

APP = """
import sys
from pathlib import Path
from textual.widgets import Static
from natstui.tui.app.guarded import GuardedApp
from natstui.tui.kit.text import safe

class Probe(GuardedApp):
    BINDINGS = [("y", "break_it", "Break")]
    def compose(self):
        yield Static(safe("ready ●"))
    def key_x(self):
        self.action_break_it()
    def action_break_it(self):
        password = "".join(["hunter", "2"])
        raise ValueError(f"cannot use {password[:0]}\\x1b]2;PWNED\\x07")

sys.exit(Probe(crash_log_folder=Path(sys.argv[1]), ascii_only=len(sys.argv) > 2).run_guarded())
"""
EDITING = """
import os, sys
from textual.widgets import Static
from natstui.errors import UsageError
from natstui.tui.app.guarded import GuardedApp
from natstui.tui.stores.put import edit_in_terminal

class Probe(GuardedApp):
    def compose(self):
        yield Static("ready to edit")
    def key_e(self):
        os.environ["VISUAL"] = sys.argv.pop(1)
        try:
            text = edit_in_terminal(self, "before")
        except UsageError as error:
            text = str(error)
        self.query_one(Static).update(f"{len(sys.argv) - 1} left: {text}")

sys.exit(Probe().run_guarded())
"""
LEFT = (b"\x1b[?1049l", b"\x1b[?1000l", b"\x1b[?1003l", b"\x1b[?2004l", b"\x1b[?25h")


def test_a_terminal_that_is_closed_ends_it_in_order(tmp_path: Path) -> None:
    with OnTerminal(APP, str(tmp_path)) as terminal:
        terminal.read("ready ●".encode())
        terminal.hang_up()
        assert terminal.process.wait(60) == 129
    assert list(tmp_path.iterdir()) == [], "no report of a crash"


def test_a_terminal_that_is_gone_is_noticed_once_and_takes_what_is_still_written() -> None:
    master, slave = pty.openpty()
    os.close(master)
    numbers: list[int] = []
    before = signal.signal(signal.SIGHUP, lambda number, _frame: numbers.append(number))
    try:
        with open(slave, "w", encoding="utf-8") as file:
            vanishing = CloseTolerantFile(file)
            for text in ("first", "second"):
                assert vanishing.write(text) == len(text)
                vanishing.flush()
                assert numbers == [signal.SIGHUP]
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_screen_is_drawn_again_however_an_editor_ends() -> None:
    ends = {
        "true": "before",
        "false": "false ended with 1: the text was not changed",
        "rm": "rm removed the file: the text was not changed",
        "/nonexistent/editor": "/nonexistent/editor: No such file or directory",
        "sh -c 'kill -9 $$'": "sh ended with -9: the text was not changed",
    }
    with OnTerminal(EDITING, *ends) as terminal:
        terminal.read(b"ready to edit")
        for count, (editor, text) in enumerate(ends.items(), 1):
            terminal.type("e")
            shown = f"{len(ends) - count} left: {text}".encode()
            assert shown in terminal.read(shown), editor
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.wait() == 143


def test_a_crash_leaves_one_line_and_a_private_report(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    with OnTerminal(APP, str(folder)) as terminal:
        terminal.read("ready ●".encode())
        terminal.type("x")
        assert terminal.wait() == 1
        output = terminal.output
    (log,) = folder.iterdir()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    report = log.read_text()
    assert "ValueError" in report
    assert "action_break_it" in report
    assert "hunter2" not in report + output.decode()
    assert "\x1b" not in report
    after = output[output.rindex(b"\x1b[?1049l") :]
    assert f"stopped by a defect (ValueError); the report is in {log}" in after.decode()
    assert b"PWNED" not in output
    for sequence in LEFT:
        assert sequence in output


def test_ascii_mode_draws_ascii_only_no_color_only_greys_and_a_signal_ends_it_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    with OnTerminal(APP, str(tmp_path), "ascii") as terminal:
        terminal.read(b"ready o")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.wait() == 143
        for sequence in LEFT:
            assert sequence in terminal.output
        assert terminal.output.isascii()
        colors = re.findall(rb"[34]8;2;(\d+);(\d+);(\d+)", terminal.output)
        assert colors
        assert all(red == green == blue for red, green, blue in colors)


def test_no_terminal_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        with pytest.raises(UsageError, match="natstui watch"):
            require_terminal({"TERM": "xterm"})


def test_a_dumb_terminal_is_refused() -> None:
    code = "from natstui.tui.kit.terminal import require_terminal as r; r({'TERM': 'dumb'})"
    with OnTerminal(code) as terminal:
        assert terminal.wait() == 1
        assert b"TERM is 'dumb'; run `natstui watch`" in terminal.output


def test_the_linux_console_gets_ascii() -> None:
    assert needs_ascii({"TERM": "linux"})


def test_reset_undoes_what_the_viewer_switches_on() -> None:
    code = """
import sys, termios, tty
before = termios.tcgetattr(0)
tty.setraw(0)
from natstui.tui.kit.terminal import reset_terminal
reset_terminal()
after = termios.tcgetattr(0)
flags = termios.ICANON | termios.ECHO | termios.ISIG
print("cooked", after[3] & flags == flags, "textual" in sys.modules)
"""
    with OnTerminal(code) as terminal:
        assert terminal.wait() == 0
        assert RESET_SEQUENCES.encode() in terminal.output
        assert b"cooked True False" in terminal.output
