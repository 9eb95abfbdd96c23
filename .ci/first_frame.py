"""Look at what natstui shows on a terminal, on every Python from 3.11 on that this machine has.

`python3 .ci/first_frame.py list` prints them, the newest first, one a line.
`python3 .ci/first_frame.py run COMMAND…` runs a command on a terminal, waits for the first frame
of a connected cockpit, and leaves by `q`.
Ends with 1 and a sentence where something is wrong.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path

OLDEST = (3, 11)
INSTALLED_WITHIN_S = 600.0
SHOWN_WITHIN_S = 60.0
ENDED_WITHIN_S = 30.0
SIZE = struct.pack("HHHH", 40, 150, 0, 0)
SCREEN = b"\x1b[?1049h"
"""What the viewer writes when it begins; an installation before it takes its own time."""
VERSION = "import sys; print(*sys.version_info[:2], sys.executable)"


def candidates() -> Iterator[str]:
    """Yield every program that may be a Python: those of the PATH, then those of pyenv."""
    names = ["python3", *(f"python3.{minor}" for minor in range(OLDEST[1], 30))]
    yield from filter(None, map(shutil.which, names))
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from map(str, sorted(pyenv.glob("versions/*/bin/python3")))


def pythons() -> list[str]:
    """Return one program for each version that runs, the newest first."""
    found: dict[tuple[int, int], str] = {}
    for program in candidates():
        # A shim of pyenv exists also where the version that it stands for is not active.
        probe = subprocess.run(
            [program, "-c", VERSION], capture_output=True, text=True, check=False
        )
        if probe.returncode == 0:
            major, minor, path = probe.stdout.strip().split(" ", 2)
            found.setdefault((int(major), int(minor)), path)
    return [path for version, path in sorted(found.items(), reverse=True) if version >= OLDEST]


class Terminal:
    """Runs a command on a terminal of its own; `output` is what it wrote."""

    def __init__(self, command: list[str], scratch: str, files: str) -> None:
        """`scratch` is for temporary files, `files` for what natstui keeps."""
        self.output = b""
        self._scratch = scratch
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            os.environ.update(TERM="xterm-256color", TMPDIR=scratch)
            for kind in ("CONFIG", "STATE", "DATA"):
                os.environ[f"XDG_{kind}_HOME"] = files
            fcntl.ioctl(0, termios.TIOCSWINSZ, SIZE)
            os.execvp(command[0], command)

    def wait_for(self, text: bytes, within_s: float) -> None:
        """Read until the output has a text; exit with the last lines where it does not come."""
        end = time.monotonic() + within_s
        while text not in self.output:
            if time.monotonic() > end or not self._read():
                os.kill(self._pid, signal.SIGTERM)
                plain = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b" ", self.output[-4000:])
                sys.exit(f"no {text!r} on the terminal: {plain.decode(errors='replace')}")

    def leave(self) -> None:
        """Press `q`; exit with a sentence where it does not end well or leaves anything behind."""
        os.write(self._fd, b"q")
        end = time.monotonic() + ENDED_WITHIN_S
        while self._read():
            if time.monotonic() > end:
                sys.exit("the cockpit does not end")
        code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        if code:
            sys.exit(f"the cockpit ended with {code}")
        while left := [*os.listdir(self._scratch), *self._processes()]:
            if time.monotonic() > end:
                sys.exit(f"the cockpit left behind: {left}")
            time.sleep(0.1)

    def _read(self) -> bool:
        """Read what there is within a moment; return False at the end."""
        try:
            if select.select([self._fd], [], [], 0.2)[0]:
                self.output += os.read(self._fd, 1 << 16)
        except OSError:  # the other side is closed
            return False
        return True

    def _processes(self) -> Iterator[str]:
        """Yield the processes that were started with the scratch folder of this terminal."""
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if f"TMPDIR={self._scratch}".encode() in (folder / "environ").read_bytes():
                    yield (folder / "cmdline").read_text().replace("\0", " ")
            except OSError:  # it ended meanwhile, or is another user's
                continue


def run(command: list[str]) -> None:
    """Run a command on a terminal, look at its first frame, and leave."""
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory() as files:
        terminal = Terminal(command, scratch, files)
        terminal.wait_for(SCREEN, INSTALLED_WITHIN_S)
        started_s = time.monotonic()
        terminal.wait_for(b"connected", SHOWN_WITHIN_S)
        terminal.wait_for(b"ORDERS", SHOWN_WITHIN_S)
        print(f"connected and shown after {time.monotonic() - started_s:.1f} s", flush=True)
        terminal.leave()


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    if what == "list":
        print(*pythons(), sep="\n")
    else:
        run(words)
