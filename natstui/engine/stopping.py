"""Handling of the signals that end a command: it stops cleanly, and keeps its results so far."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from natstui.errors import Interrupted, NatstuiError
from natstui.output import end_requested


class StopEvent(asyncio.Event):
    """An event that stops a command, with the signal that set it."""

    signal_number: int = signal.SIGINT

    def set_by_signal(self, signal_number: int) -> None:
        """Set the event, and store the signal."""
        end_requested.set()
        self.signal_number = signal_number
        self.set()

    def check(self, work_name: str) -> None:
        """Raise Interrupted if the event is set; the error states that `work_name` was stopped."""
        if self.is_set():
            raise Interrupted(f"{work_name} was stopped", self.signal_number)


def ending_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that end a command: Ctrl-C, SIGTERM, and SIGHUP of a closed terminal.

    SIGHUP is left out where it is ignored, as under nohup.
    """
    signal_numbers = (signal.SIGTERM, signal.SIGINT)
    is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return signal_numbers if is_ignored else (*signal_numbers, signal.SIGHUP)


def make_stop_event() -> StopEvent:
    """Return an event that an ending signal sets; outside the main thread nothing sets it."""
    stop = StopEvent()
    if threading.current_thread() is threading.main_thread():
        for signal_number in ending_signals():
            asyncio.get_running_loop().add_signal_handler(
                signal_number, stop.set_by_signal, signal_number
            )
    return stop


def remove_signal_handlers() -> None:
    """Remove the handlers of `make_stop_event`: a signal ends the process, also at a prompt."""
    for signal_number in ending_signals():
        asyncio.get_running_loop().remove_signal_handler(signal_number)


def make_timed_stop_event(duration_s: float | None) -> StopEvent:
    """Return an event that is set by an ending signal, or after `duration_s`."""
    stop = make_stop_event()
    if duration_s is not None:
        asyncio.get_running_loop().call_later(duration_s, stop.set)
    return stop


@contextmanager
def cancel_on_signal(work_name: str) -> Iterator[None]:
    """Cancel the current task on an ending signal, and let it clean up.

    Raises Interrupted then; its text has `work_name`, and any error of the clean-up.
    """
    task, received_signals = asyncio.current_task(), list[int]()
    if task is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    loop, signal_numbers = asyncio.get_running_loop(), ending_signals()

    def stop(signal_number: int) -> None:
        end_requested.set()
        received_signals.append(signal_number)
        task.cancel()

    for signal_number in signal_numbers:
        loop.add_signal_handler(signal_number, stop, signal_number)
    try:
        yield
    except (asyncio.CancelledError, NatstuiError) as error:
        if not received_signals:
            raise
        failure_text = f": {error}" if isinstance(error, NatstuiError) else ""
        raise Interrupted(f"{work_name} was stopped{failure_text}", received_signals[0]) from error
    finally:
        for signal_number in signal_numbers:
            loop.remove_signal_handler(signal_number)
