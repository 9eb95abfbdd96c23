"""How natstui starts its own modules as processes, and ends a process at once."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

_PIPES_S = 5
"""A descendant that left the session of a killed command keeps its pipes open: not for longer."""
_READ_BYTES = 2**16


def own_program(module: str, *words: str) -> list[str]:
    """Return the command line that runs a module of natstui, or any other installed one.

    `-P` keeps the current folder off the module search path: a `natstui.py` or `json.py` that
    lies there would else run in place of the real one.
    """
    return [sys.executable, "-P", "-m", module, *words]


def kill(process: asyncio.subprocess.Process) -> None:
    """Kill a process; asyncio raises for one that ended by itself in the same moment."""
    with suppress(ProcessLookupError):
        process.kill()


async def end_session(process: asyncio.subprocess.Process) -> None:
    """Kill a process that leads a session, with what it started; wait until it is gone.

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
