"""The engine process: its start, its end, and why it ended.

It is started before the screen is imported, so that both start in parallel.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from typing import IO

from natstui.errors import NatstuiError, UsageError

_PIPE_BYTES = 1 << 20
STOP_TIMEOUT_S = 3.0
_MAX_STDERR_READ_BYTES = 1 << 16
"""Maximum size of the read end of an engine's stderr: over ssh it may write any amount."""


class EngineFailed(NatstuiError):
    """The engine could not be started, or ended with an error before its first record."""

    def __init__(self, sentence: str, exit_code: int) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


class EngineProcess:
    """An engine process with its pipes, and the temporary file that receives its stderr."""

    def __init__(self, process: subprocess.Popen[bytes], stderr: IO[bytes]) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.process, self.stdin, self.stdout = process, process.stdin, process.stdout
        self._stderr = stderr
        self._final_stderr_line = ""
        """The last line on stderr, set when its file is closed."""
        self._was_killed_by_viewer = False

    def wait_for_end(self) -> int | None:
        """Return the exit code; None if the process does not end within 3 s."""
        try:
            return self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return None

    def end(self) -> int:
        """Close stdin, and kill the process if it does not end within 3 s; return its exit
        code.
        """
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()
        exit_code = self.wait_for_end()
        if exit_code is None:
            self._was_killed_by_viewer = True
            self.process.kill()
            exit_code = self.process.wait()
        return exit_code

    def end_reason(self) -> str:
        """Return why the process ended: the kill or the signal that ended it, else the last line
        on its stderr, else its exit code.
        """
        exit_code = self.process.wait()
        if self._was_killed_by_viewer:
            return f"natstui killed the engine: it did not end within {STOP_TIMEOUT_S:g} s"
        if exit_code < 0:
            return f"the engine was ended by {_signal_text(-exit_code)}"
        return self.last_stderr_line() or f"the engine ended unexpectedly (exit code {exit_code})"

    def last_stderr_line(self) -> str:
        """Return the last line on stderr, without `natstui: `; empty without one."""
        if self._stderr.closed:
            return self._final_stderr_line
        size_bytes = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size_bytes - _MAX_STDERR_READ_BYTES))
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1].removeprefix("natstui: ") if lines else ""

    def close_stderr(self) -> None:
        """Close the file of stderr; `last_stderr_line` still returns its last line."""
        self._final_stderr_line = self.last_stderr_line()
        self._stderr.close()


def _signal_text(number: int) -> str:
    """Return the name of a signal, or its number if it is a real-time one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def start_engine(argv: Sequence[str]) -> EngineProcess:
    """Start an engine on pipes; raises EngineFailed if the program does not exist."""
    # Whoever gets the process closes the file.
    stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )
    except OSError as error:
        stderr.close()
        reason = f"the engine cannot be started with {argv[0]}: {error.strerror}"
        raise EngineFailed(reason, UsageError.exit_code) from error
    engine_process = EngineProcess(process, stderr)
    _widen_pipe(engine_process.stdout)
    return engine_process


def _widen_pipe(pipe: IO[bytes]) -> None:
    """Enlarge a pipe to `_PIPE_BYTES` where the system allows it, so that the engine can write
    while the viewer is busy.
    """
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
