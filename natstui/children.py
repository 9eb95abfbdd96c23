"""How natstui starts its own modules as processes, and ends a process at once."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio


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
