"""`natstui` as a process of its own, and the processes that it starts.

Those are told from all others by a folder in their environment.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

NATSTUI = (sys.executable, "-P", "-m", "natstui")
LONGEST_LINE_BYTES = 1 << 24
PATIENCE_S = 60.0
_PS = [shutil.which("ps") or "ps", "axwwe" if sys.platform == "linux" else "-axwwE"]


class NatstuiProcess(subprocess.Popen[str]):
    """`natstui WORDS`."""

    stdout: IO[str]
    stderr: IO[str]

    def __init__(
        self,
        *words: str,
        environment: Mapping[str, str] = {},
        stdin: int = subprocess.DEVNULL,
        before: Callable[[], object] | None = None,
    ) -> None:
        """Start it; `before` is called in it first, and may limit what it can do."""
        super().__init__(
            [*NATSTUI, *words],
            env={**os.environ, **environment},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=before,
            text=True,
        )


async def start_beside(
    *words: str, environment: Mapping[str, str], stdout: int = subprocess.PIPE
) -> Process:
    """Start `natstui WORDS` beside a test that waits for it with asyncio."""
    return await asyncio.create_subprocess_exec(
        *NATSTUI,
        *words,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        limit=LONGEST_LINE_BYTES,
    )


def close_stdout(process: Process) -> None:
    """Let nobody read on what it prints."""
    process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]


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


def is_running(pid: int) -> bool:
    """Return whether a process works; one that has ended may wait for whoever reaps it."""
    listing = subprocess.run(
        [_PS[0], "-o", "stat=", "-p", str(pid)], capture_output=True, check=False
    )
    state = listing.stdout.strip()
    return bool(state) and not state.startswith(b"Z")


def wait_until_ended(pid: int) -> None:
    """Wait for the end of a process that is no child: one that was killed ends a moment later."""
    give_up_at = time.monotonic() + PATIENCE_S
    while is_running(pid):
        assert time.monotonic() < give_up_at, f"{pid} runs"
        time.sleep(0.05)


def assert_nothing_is_left(folder: Path) -> None:
    """Wait until neither a process nor a file is left."""
    give_up_at = time.monotonic() + PATIENCE_S
    while pids_of(folder) or list(folder.iterdir()):
        assert time.monotonic() < give_up_at, (pids_of(folder), list(folder.iterdir()))
        time.sleep(0.05)
