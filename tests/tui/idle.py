"""How long the pilot waits after a key: until nothing in the loop can go on by itself.

Textual (8.2) waits until the process has used no processor for a while, and a second at most: what
an app does that is polled and drawn all the time delayed each key, and made none more certain.
"""

from __future__ import annotations

import asyncio

import textual.app
import textual.pilot

FRAME_S = 1 / 60
"""Textual draws, and calls what waits for a drawing, after this."""
MAX_S = 1.0


async def until_idle(min_sleep: float = 0.0, max_sleep: float = MAX_S) -> None:
    """Wait for a frame, and then until every task waits for something from outside."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + max_sleep
    await asyncio.sleep(max(FRAME_S, min_sleep))
    while loop._ready and loop.time() < give_up_at:  # type: ignore[attr-defined]
        await asyncio.sleep(0)


textual.app.wait_for_idle = until_idle  # type: ignore[attr-defined]
textual.pilot.wait_for_idle = until_idle  # type: ignore[attr-defined]
