"""How natstui starts its own modules as processes, reads what other programs print, and ends a
process at once.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    import subprocess

_PIPES_S = 5
"""How long to wait for the pipes of a killed command: a descendant outside its session keeps them
open.
"""
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
            process.kill()
            reason = f"it did not end within {limit_s:g} s"
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


async def end_session(process: asyncio.subprocess.Process) -> None:
    """Kill a process that leads a session, with its children; wait until it has ended.

    asyncio's `wait` returns only when the pipes are closed too: what is left in them is read.
    """
    import asyncio

    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.stdin is not None:
        process.stdin.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(_PIPES_S):
            while process.stdout is not None and await process.stdout.read(_READ_BYTES):
                pass
            await process.wait()
