"""A command in this process, and somebody else who does something meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

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
        done = run_here(*words, environment=environment)
        has_ended.set()
        working.result()
    return done


def stop(number: signal.Signals = signal.SIGTERM) -> None:
    """Send a signal to the command, which listens for it."""
    os.kill(os.getpid(), number)
