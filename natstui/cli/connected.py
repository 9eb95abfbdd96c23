"""Runs the work of a command on a connection, with a progress line if it lasts."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from natstui.cli.terminal_line import TerminalLine
from natstui.config import Connection
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.connection.link import OnLink

T = TypeVar("T")

_PROGRESS_LINE_DELAY_S = 1.0
"""How long a command waits before it shows a progress line."""


def run_connected(
    connection: Connection,
    work: Callable[[Client], Awaitable[T]],
    *,
    work_prints: bool = False,
    on_link: OnLink | None = None,
) -> T:
    """Connect, return the result of the work, and close.

    `work_prints`: the work itself writes to the terminal, so only connecting shows a progress
    line. `on_link` is called for every change of the connection. Raises ConnectionFailed, and the
    errors of the work.
    """

    async def run() -> T:
        async with show_waiting_time():
            client = await connect(connection, on_link=on_link)
        try:
            async with show_waiting_time(is_shown=not work_prints):
                return await work(client)
        finally:
            await client.close()

    return asyncio.run(run())


async def await_with_progress(work: Awaitable[T]) -> T:
    """Return the result of the work; after a second, a terminal shows for how long it runs."""
    async with show_waiting_time():
        return await work


@asynccontextmanager
async def show_waiting_time(*, is_shown: bool = True) -> AsyncIterator[None]:
    """Show on a terminal at stderr for how long the block has been running, from 1 s on.

    Nothing is shown without `is_shown`, or if stderr is no terminal.
    """
    if not (is_shown and sys.stderr.isatty()):
        yield
        return
    progress_line_task = asyncio.create_task(_show_seconds())
    try:
        yield
    finally:
        progress_line_task.cancel()
        await asyncio.wait([progress_line_task])


async def _show_seconds() -> None:
    """Count seconds on one line until cancelled, then clear the line."""
    await asyncio.sleep(_PROGRESS_LINE_DELAY_S)
    start_s = asyncio.get_running_loop().time() - _PROGRESS_LINE_DELAY_S
    with TerminalLine() as line:
        while True:
            waited_s = asyncio.get_running_loop().time() - start_s
            line.show(f"waiting for the server: {waited_s:.0f} s (Ctrl-C stops)")
            await asyncio.sleep(1.0)
