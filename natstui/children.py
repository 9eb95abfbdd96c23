"""How natstui starts its own modules as processes, reads what other programs print, and ends a
process at once.
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

_READ_BYTES = 2**16
MOST_OUTPUT_BYTES = 1024 * 1024
"""Limit of what a program of somebody else prints: a secret, a profile, a version."""


def own_program(module: str, *arguments: str) -> list[str]:
    """Return the command line that runs a Python module, of natstui or any installed one.

    `-P` keeps the current folder off the module search path: a `natstui.py` or `json.py` there
    would else run in place of the real one.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


def output_of(command: Sequence[str], limit_s: float) -> subprocess.CompletedProcess[bytes]:
    """Run a program of somebody else without input; return its exit code and what it printed.

    Raises OSError if it does not start, TimeoutError if it does not end within `limit_s`, and
    OSError if it prints more than `MOST_OUTPUT_BYTES`; in both cases it is killed.
    """
    import selectors
    import subprocess

    end_s = time.monotonic() + limit_s
    pipe = subprocess.PIPE
    with (
        selectors.DefaultSelector() as selector,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe) as process,
    ):
        assert process.stdout is not None and process.stderr is not None
        printed = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
        for descriptor in printed:
            selector.register(descriptor, selectors.EVENT_READ)
        try:
            while selector.get_map():
                ready = selector.select(max(0.0, end_s - time.monotonic()))
                if not ready:
                    raise subprocess.TimeoutExpired(command, limit_s)
                for key, _ in ready:
                    part = os.read(key.fd, _READ_BYTES)
                    if not part:
                        selector.unregister(key.fd)
                    printed[key.fd] += part
                    if len(printed[key.fd]) > MOST_OUTPUT_BYTES:
                        reason = f"it printed more than {MOST_OUTPUT_BYTES:,} bytes"
                        raise OSError(errno.EFBIG, reason)
            code = process.wait(max(0.0, end_s - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            problem = "took"
            if process.poll() is not None:
                problem = "ended, but what it has started kept its output open for"
            process.kill()
            reason = f"it {problem} longer than {limit_s:g} s"
            raise TimeoutError(errno.ETIMEDOUT, reason) from error
        except BaseException:
            process.kill()
            raise
        stdout, stderr = map(bytes, printed.values())
    return subprocess.CompletedProcess(command, code, stdout, stderr)


def kill(process: asyncio.subprocess.Process) -> None:
    """Kill a process; asyncio raises for one that ended by itself in the same moment."""
    with suppress(ProcessLookupError):
        process.kill()


async def start_session(
    command: Sequence[str], *, stdout: int, stderr: int | None, env: Mapping[bytes, bytes] | None
) -> tuple[asyncio.SubprocessTransport, asyncio.subprocess.Process]:
    """Start a program that leads a session, with a pipe to its stdin; raises OSError.

    asyncio's own function does not return the transport, which closes the pipes.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_exec(
        lambda: asyncio.subprocess.SubprocessStreamProtocol(limit=_READ_BYTES, loop=loop),
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        env=env,
        start_new_session=True,
    )
    return transport, asyncio.subprocess.Process(transport, protocol, loop)


async def end_session(
    transport: asyncio.SubprocessTransport, process: asyncio.subprocess.Process
) -> None:
    """Kill a process that leads a session, with its children; wait until it has ended.

    The pipes are closed, too: a descendant outside the session may keep their other ends open.
    """
    import asyncio

    with suppress(ProcessLookupError, PermissionError):  # macOS: only what has ended is left
        os.killpg(process.pid, signal.SIGKILL)
    for descriptor in (0, 1, 2):
        pipe = transport.get_pipe_transport(descriptor)
        if isinstance(pipe, asyncio.WriteTransport) and pipe.get_write_buffer_size():
            pipe.abort()  # closing it waits until somebody reads what was written
        elif pipe is not None:
            pipe.close()
    await process.wait()
    transport.close()
