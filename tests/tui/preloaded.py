"""Engines whose Python has imported already what they need.

`multiprocessing` keeps a process that has imported it, and forks engines from that: starting a new
Python costs a second of the processor each time. What starts with one: `test_viewer_process.py`.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from typing import IO

from natstui.__main__ import main
from natstui.tui.app.engine_process import EngineProcess

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([
    "natstui.cli.complete", "natstui.cli.root",
    "natstui.cli.sessions.replay", "natstui.config.contexts", "natstui.config.load",
    "natstui.config.resolve", "natstui.engine.analyzing", "natstui.engine.benchmarking",
    "natstui.engine.commands", "natstui.engine.live", "natstui.engine.process",
    "natstui.engine.recording", "natstui.engine.replay", "natstui.engine.stopping",
    "natstui.session.write.settings", __name__,
])  # fmt: skip


def make_ready() -> None:
    """Start what forks engines: it cannot be started beside an app, whose stderr is no file."""
    forkserver.ensure_running()


class PreloadedProcess:
    """`natstui WORDS` on pipes, with the members of `subprocess.Popen` that a link uses."""

    def __init__(self, words: Sequence[str], stderr: str) -> None:
        """Start it; `stderr` is the file that it appends to."""
        self.args = ["natstui", *words]
        stdin, to_child = FORKS.Pipe(duplex=False)
        from_child, stdout = FORKS.Pipe(duplex=False)
        self._process = FORKS.Process(
            target=_run, args=(self.args, dict(os.environ), stdin, stdout, stderr)
        )
        self._process.start()
        self.stdin = open(os.dup(to_child.fileno()), "wb")  # noqa: SIM115
        self.stdout = open(os.dup(from_child.fileno()), "rb")  # noqa: SIM115
        for connection in (stdin, to_child, from_child, stdout):
            connection.close()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code; raises TimeoutExpired."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return the exit code; None while it runs."""
        return self._process.exitcode

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)


def _run(
    argv: list[str],
    environment: Mapping[str, str],
    stdin: Connection,
    stdout: Connection,
    stderr: str,
) -> None:
    """Run the words as a new process would."""
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    errors = os.open(stderr, os.O_WRONLY | os.O_APPEND)
    for target, descriptor in enumerate((stdin.fileno(), stdout.fileno(), errors)):
        os.dup2(descriptor, target)
    os.close(errors)
    stdin.close()
    stdout.close()
    # Open until the process ends.
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.argv = argv
    main()


def start_preloaded(words: Sequence[str]) -> EngineProcess:
    """Start `natstui` with these words on pipes, as `start_engine` does."""
    # Whoever takes the process closes it.
    stderr: IO[bytes] = tempfile.NamedTemporaryFile()  # noqa: SIM115
    return EngineProcess(PreloadedProcess(words, stderr.name), stderr)
