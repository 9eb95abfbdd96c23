"""How signals end watching, listening and changes: in order, keeping the results so far."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from natstui.errors import Interrupted, NatstuiError
from natstui.output import asked_to_end


class StopEvent(asyncio.Event):
    """An event that knows the signal that set it."""

    signal_number: int = signal.SIGINT

    def set_by(self, signal_number: int) -> None:
        """Set the event because of a signal."""
        asked_to_end.set()
        self.signal_number = signal_number
        self.set()

    def check(self, work: str) -> None:
        """Raise Interrupted if it is set: the `work` was not done to its end."""
        if self.is_set():
            raise Interrupted(f"{work} was stopped", self.signal_number)


def ending_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that end a command: Ctrl-C, SIGTERM, and SIGHUP of a closed terminal.

    SIGHUP is left out where it is ignored, as under nohup.
    """
    numbers = (signal.SIGTERM, signal.SIGINT)
    is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return numbers if is_ignored else (*numbers, signal.SIGHUP)


def stopped_by_signal() -> StopEvent:
    """Return an event that an ending signal sets; outside the main thread nothing sets it."""
    stop = StopEvent()
    if threading.current_thread() is threading.main_thread():
        for number in ending_signals():
            asyncio.get_running_loop().add_signal_handler(number, stop.set_by, number)
    return stop


def stopped_after(duration_s: float | None) -> StopEvent:
    """Return an event that an ending signal, and the end of `duration_s` if given, set."""
    stop = stopped_by_signal()
    if duration_s is not None:
        asyncio.get_running_loop().call_later(duration_s, stop.set)
    return stop


@contextmanager
def cancelled_by_signal(work: str) -> Iterator[None]:
    """Let an ending signal cancel the current task, which then cleans up.

    Raises Interrupted; its text names the `work`, and any error of the clean-up.
    """
    task, signals = asyncio.current_task(), list[int]()
    if task is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    loop, numbers = asyncio.get_running_loop(), ending_signals()

    def stop(number: int) -> None:
        asked_to_end.set()
        signals.append(number)
        task.cancel()

    for number in numbers:
        loop.add_signal_handler(number, stop, number)
    try:
        yield
    except (asyncio.CancelledError, NatstuiError) as error:
        if not signals:
            raise
        failure_text = f": {error}" if isinstance(error, NatstuiError) else ""
        raise Interrupted(f"{work} was stopped{failure_text}", signals[0]) from error
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
