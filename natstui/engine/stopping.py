"""How Ctrl-C and SIGTERM end what watches or listens: in order, with what there is until then."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from natstui.errors import Interrupted


def stopped_by_signal() -> asyncio.Event:
    """Return what Ctrl-C and SIGTERM set from now on; outside the main thread nothing sets it."""
    stop = asyncio.Event()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def stopped_after(duration_s: float | None) -> asyncio.Event:
    """Return what Ctrl-C and SIGTERM set, and the end of a time if there is one."""
    stop = stopped_by_signal()
    if duration_s is not None:
        asyncio.get_running_loop().call_later(duration_s, stop.set)
    return stop


@contextmanager
def cancelled_by_signal(what: str) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM cancel what runs in this task, which cleans up behind itself.

    Raises Interrupted then.
    """
    task, seen = asyncio.current_task(), list[int]()
    if task is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        seen.append(number)
        task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    try:
        yield
    except asyncio.CancelledError as error:
        if not seen:
            raise
        raise Interrupted(f"{what} was stopped", seen[0]) from error
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
