"""Running what needs a connection: connect, do it, close; whoever waits for long sees it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from natstui.cli.terminal_line import TerminalLine
from natstui.config import Connection
from natstui.jetstream.connection.client import Client, connect

T = TypeVar("T")

_UNTIL_SHOWN_S = 1.0
"""So long a person does not ask what is going on."""


def run_connected(
    connection: Connection, work: Callable[[Client], Awaitable[T]], *, prints: bool = False
) -> T:
    """Connect, do the work, close; raises what connecting and the work raise.

    `prints`: the work itself writes to the terminal, so only connecting shows how long it takes.
    """

    async def run() -> T:
        async with waiting():
            client = await connect(connection)
        try:
            async with waiting(shown=not prints):
                return await work(client)
        finally:
            await client.close()

    return asyncio.run(run())


async def waited_for(work: Awaitable[T]) -> T:
    """Await the work, and show how long it takes."""
    async with waiting():
        return await work


@asynccontextmanager
async def waiting(*, shown: bool = True) -> AsyncIterator[None]:
    """Show on a terminal at stderr how long the block takes, from the first second on."""
    if not (shown and sys.stderr.isatty()):
        yield
        return
    line = asyncio.create_task(_show_waiting())
    try:
        yield
    finally:
        line.cancel()
        await asyncio.wait([line])


async def _show_waiting() -> None:
    """Count seconds on one line until it is cancelled, then clear the line."""
    await asyncio.sleep(_UNTIL_SHOWN_S)
    begun = asyncio.get_running_loop().time() - _UNTIL_SHOWN_S
    with TerminalLine() as line:
        while True:
            waited_s = asyncio.get_running_loop().time() - begun
            line.show(f"waiting for the server: {waited_s:.0f} s (Ctrl-C stops)")
            await asyncio.sleep(1.0)
