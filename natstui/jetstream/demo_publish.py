"""What the demo's shop publishes, and how much of it when."""

from __future__ import annotations

import asyncio
import time

from nats.aio.client import Client as Nats

from natstui.jetstream.demo_messages import (
    Say,
    say_invoice,
    say_order,
    say_payment,
    say_pick,
    say_reading,
    say_return,
    say_signup,
)
from natstui.jetstream.demo_waves import Clockwork, Wave

TICK_S = 0.5
NUMBERS_PER_S = 100
"""More than anybody publishes in a second of a burst."""
SPEAKERS: tuple[tuple[Say, Wave], ...] = (
    (say_order, Wave(10, burst_per_s=30, burst_every_s=75, burst_s=6)),
    (say_pick, Wave(12, swing_ratio=0.4, period_s=90)),
    (say_signup, Wave(2, swing_ratio=0.9, period_s=25)),
    (say_payment, Wave(5, period_s=33, burst_per_s=12, burst_every_s=110, burst_s=4)),
    (say_invoice, Wave(2, swing_ratio=0.8, period_s=120)),
    (say_return, Wave(0.5, period_s=60)),
    (say_reading, Wave(16, swing_ratio=0.95, period_s=20)),
)


async def speak(nc: Nats, say: Say, wave: Wave) -> None:
    """Publish along a wave for ever."""
    started_s = time.monotonic()
    clockwork = Clockwork(wave)
    # Numbers go on over restarts on the same store, so that ids are not taken for duplicates:
    # the clock has to run ahead of what was published.
    number = 0 if say is say_payment else int(time.time() * NUMBERS_PER_S)
    while True:
        await asyncio.sleep(TICK_S)
        for _ in range(clockwork.due(time.monotonic() - started_s)):
            number += 1
            await say(nc, number)
