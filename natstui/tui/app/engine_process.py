"""Starts the engine process, before the screen is imported, so that both start in parallel."""

from __future__ import annotations

import contextlib
import fcntl
import subprocess
import tempfile
from collections.abc import Sequence
from typing import IO, NamedTuple

from natstui.errors import NatstuiError, UsageError

_PIPE_BYTES = 1 << 20


class EngineFailed(NatstuiError):
    """The engine could not be started, or ended with an error before its first record."""

    def __init__(self, sentence: str, exit_code: int) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


class EngineProcess(NamedTuple):
    """An engine process, and the temporary file that receives its stderr."""

    process: subprocess.Popen[bytes]
    stderr: IO[bytes]


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
    assert process.stdout is not None
    _widen_pipe(process.stdout)
    return EngineProcess(process, stderr)


def _widen_pipe(pipe: IO[bytes]) -> None:
    """Enlarge a pipe to `_PIPE_BYTES` where the system allows it, so that the engine can write
    while the viewer is busy.
    """
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
