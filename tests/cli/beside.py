"""A command in this process, and somebody else who does something meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from io import BytesIO
from typing import IO, Any, TextIO

from tests.cli.test_manage import Done, run_here

PATIENCE_S = 120.0
Begin = Callable[[], None]
Work = Callable[[Begin], Coroutine[Any, Any, None]]
"""Done in a thread with a loop of its own; the command begins when `Begin` is called."""


def run_beside(
    work: Work,
    *words: str,
    environment: Mapping[str, str] | None = None,
    ended: threading.Event | None = None,
    stdin: IO[bytes] | None = None,
) -> Done:
    """Run `natstui WORDS` here to its end while `work` goes on, which may send it a signal.

    `ended` is set when the command has ended.
    """
    begun, has_ended = threading.Event(), ended or threading.Event()

    def do() -> None:
        asyncio.run(asyncio.wait_for(work(begun.set), PATIENCE_S))

    def give_up(working: Future[None]) -> None:
        if working.exception() is not None and begun.is_set() and not has_ended.is_set():
            stop()
        begun.set()

    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(do)
        working.add_done_callback(give_up)
        assert begun.wait(PATIENCE_S)
        if working.done():
            working.result()
        done = run_here(*words, environment=environment, stdin=stdin)
        has_ended.set()
        working.result()
    return done


def written_to(stream: TextIO) -> str:
    """Return what the command has written so far to `sys.stdout` or `sys.stderr`."""
    # Before it begins, these are not its own.
    return stream.buffer.getvalue().decode() if isinstance(stream.buffer, BytesIO) else ""


async def until_said(text: str) -> None:
    """Wait until the command has written something to stderr."""
    while text not in written_to(sys.stderr):
        await asyncio.sleep(0.02)


async def until_printed(text: str) -> None:
    """Wait until the command has written something to stdout."""
    while text not in written_to(sys.stdout):
        await asyncio.sleep(0.02)


@contextmanager
def standard_input(descriptor: int) -> Iterator[None]:
    """Make a file the standard input of this process, as a command reads that by its number."""
    own = os.dup(0)
    os.dup2(descriptor, 0)
    try:
        yield
    finally:
        os.dup2(own, 0)
        os.close(own)


def stop(number: signal.Signals = signal.SIGTERM) -> None:
    """Send a signal to the command, which listens for it."""
    os.kill(os.getpid(), number)
