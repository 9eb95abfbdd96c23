"""Start of natstui's own modules as processes, output of other programs, and the end of a
process.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    import subprocess

_READ_CHUNK_BYTES = 2**16
MAX_OUTPUT_BYTES = 1024 * 1024
"""Limit of the output of a program of another vendor: a secret, a profile, a version."""


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command line that runs a Python module, of natstui or any installed one.

    `-P` keeps the current folder off the module search path: else a `natstui.py` or `json.py`
    there would run in place of the real module.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


def run_program(command: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[bytes]:
    """Run a program of another vendor without input, and return its exit code and its output.

    Raises OSError if it does not start, TimeoutError if it does not end within `timeout_s`, and
    OSError if it prints more than `MAX_OUTPUT_BYTES`; the program is killed then.
    """
    import selectors
    import subprocess

    deadline_s = time.monotonic() + timeout_s
    pipe = subprocess.PIPE
    with (
        selectors.DefaultSelector() as selector,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe) as process,
    ):
        assert process.stdout is not None and process.stderr is not None
        output_by_fd = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
        for descriptor in output_by_fd:
            selector.register(descriptor, selectors.EVENT_READ)
        try:
            while selector.get_map():
                ready_keys = selector.select(max(0.0, deadline_s - time.monotonic()))
                if not ready_keys:
                    raise subprocess.TimeoutExpired(command, timeout_s)
                for key, _ in ready_keys:
                    chunk = os.read(key.fd, _READ_CHUNK_BYTES)
                    if not chunk:
                        selector.unregister(key.fd)
                    output_by_fd[key.fd] += chunk
                    if len(output_by_fd[key.fd]) > MAX_OUTPUT_BYTES:
                        reason = f"it printed more than {MAX_OUTPUT_BYTES:,} bytes"
                        raise OSError(errno.EFBIG, reason)
            exit_code = process.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            verb_before_duration = "took"
            if process.poll() is not None:
                verb_before_duration = "ended, but what it has started kept its output open for"
            process.kill()
            reason = f"it {verb_before_duration} longer than {timeout_s:g} s"
            raise TimeoutError(errno.ETIMEDOUT, reason) from error
        except BaseException:
            process.kill()
            raise
        stdout, stderr = map(bytes, output_by_fd.values())
    return subprocess.CompletedProcess(command, exit_code, stdout, stderr)


def kill(process: asyncio.subprocess.Process) -> None:
    """Kill a process, or do nothing if it has ended already."""
    with suppress(ProcessLookupError):
        process.kill()


async def start_process_session(
    command: Sequence[str], *, stdout: int, stderr: int | None, env: Mapping[bytes, bytes] | None
) -> tuple[asyncio.SubprocessTransport, asyncio.subprocess.Process]:
    """Start a program as the leader of a POSIX session, with a pipe to its stdin.

    Returns its process, and the transport, which asyncio's own function does not return: only the
    transport can close the pipes. Raises OSError if the program cannot be started.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_exec(
        lambda: asyncio.subprocess.SubprocessStreamProtocol(limit=_READ_CHUNK_BYTES, loop=loop),
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        env=env,
        start_new_session=True,
    )
    return transport, asyncio.subprocess.Process(transport, protocol, loop)


async def end_process_session(
    transport: asyncio.SubprocessTransport, process: asyncio.subprocess.Process
) -> None:
    """Kill the leader of a POSIX session and its children, and wait until the leader has ended.

    The pipes are closed, too: a descendant outside the session may keep their other ends open.
    """
    import asyncio

    with suppress(ProcessLookupError, PermissionError):  # macOS: only what has ended is left
        os.killpg(process.pid, signal.SIGKILL)
    for descriptor in (0, 1, 2):
        pipe = transport.get_pipe_transport(descriptor)
        if isinstance(pipe, asyncio.WriteTransport) and pipe.get_write_buffer_size():
            pipe.abort()  # closing it would wait for a reader
        elif pipe is not None:
            pipe.close()
    await process.wait()
    transport.close()
