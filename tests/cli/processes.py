"""Processes that a command started, told from all others by a folder in their environment."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

PATIENCE_S = 60.0
_PS = [shutil.which("ps") or "ps", "axwwe" if sys.platform == "linux" else "-axwwE"]


def pids_of(folder: Path, word: str = "") -> list[int]:
    """Return the processes with a folder in words or environment, and a word in their words."""
    listing = subprocess.run(
        # Without an environment, or it would find itself.
        [*_PS, "-o", "pid=,command="],
        capture_output=True,
        check=True,
        env={},
    )
    lines = [
        line.split(maxsplit=1) for line in listing.stdout.decode(errors="replace").split("\n")
    ]
    return [int(pid) for pid, line in filter(None, lines) if str(folder) in line and word in line]


def assert_nothing_is_left(folder: Path) -> None:
    """Wait until neither a process nor a file is left."""
    give_up_at = time.monotonic() + PATIENCE_S
    while pids_of(folder) or list(folder.iterdir()):
        assert time.monotonic() < give_up_at, (pids_of(folder), list(folder.iterdir()))
        time.sleep(0.05)
