"""Real terminals for tests: a program on a pty, and all it wrote."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path
from types import TracebackType


class OnTerminal:
    """Runs Python code on a terminal of its own; what it writes is collected in `output`."""

    def __init__(self, code: str, *arguments: str, width: int = 80, height: int = 24) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        environ = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        # Else they would be believed in place of the size that this terminal has.
        environ = {name: it for name, it in environ.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environ,
            start_new_session=True,
            # Only to its own terminal's programs does the system tell that it hung up.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self.output = b""

    def __enter__(self) -> OnTerminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.hang_up()

    def read(self, until: bytes, within_s: float = 30) -> bytes:
        """Read until the output contains `until`, the program ends, or time is up."""
        end = time.monotonic() + within_s
        while until not in self.output and time.monotonic() < end:
            if not select.select([self.master], [], [], 0.2)[0]:
                continue
            try:
                self.output += os.read(self.master, 65536)
            except OSError:  # the other side is closed
                break
        return self.output

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self.master, keys.encode())

    def hang_up(self) -> None:
        """Close the terminal, as somebody who closes its window."""
        if self.master >= 0:
            os.close(self.master)
            self.master = -1

    def wait(self) -> int:
        """Read to the end and return the exit code."""
        self.read(b"\0never\0")
        return self.process.wait(30)


class Reader:
    """Takes what the viewer draws, so that it never waits for us; keeps the newest of it."""

    def __init__(self, terminal: OnTerminal) -> None:
        self.terminal = terminal
        self.newest = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self.terminal.master, 65536)
            except OSError:  # the viewer is gone
                return
            self.newest = (self.newest + data)[-500_000:]

    def wait_for_picture(self) -> None:
        end = time.monotonic() + 40
        while len(self.newest) < 500:
            if time.monotonic() > end:
                # Where it stands, as its last words on the terminal.
                self.terminal.process.send_signal(signal.SIGUSR1)
                time.sleep(2)
                raise AssertionError(self.newest.decode(errors="replace"))
            time.sleep(0.05)

    def join(self) -> None:
        self._thread.join(20)


def rss_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024
