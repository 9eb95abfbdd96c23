"""Timers of Textual fire although they are overdue."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from textual.notifications import Notification
from textual.widgets._toast import Toast

from natstui.tui.app.guarded import GuardedApp


@contextmanager
def interrupted(after_s: int) -> Iterator[None]:
    """Raise after a while also where nothing gives way to anything else."""

    def fail(_number: int, _frame: object) -> None:
        raise AssertionError(f"not done in {after_s} s")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(after_s)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("delay_s", [-0.5, 0.0, 1e-9])
async def test_a_timer_that_is_due_already_rings(delay_s: float) -> None:
    app, rung = GuardedApp(), asyncio.Event()
    with interrupted(30):
        async with app.run_test(size=(80, 24)):
            app.set_timer(delay_s, rung.set)
            async with asyncio.timeout(35):
                await rung.wait()


async def test_a_toast_that_ran_out_while_it_was_made_is_taken_away() -> None:
    app = GuardedApp()
    with interrupted(30):
        async with app.run_test(size=(80, 24)) as pilot:
            late = Toast(Notification("it is back", timeout=5, raised_at=time.time() - 6))
            await app.screen.mount(late)
            async with asyncio.timeout(35):
                while late.is_attached:
                    await pilot.pause()
