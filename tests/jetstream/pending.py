"""What waits for a consumer: the server counts a message a moment after it acknowledged it."""

from __future__ import annotations

import asyncio
import time

from nats.js import JetStreamContext


async def until_pending(
    js: JetStreamContext, stream: str, wanted_msgs: int, *consumers: str
) -> None:
    """Wait until the server says that so many messages wait for each of the consumers."""
    deadline_s = time.monotonic() + 30
    for consumer in consumers:
        while (info := await js.consumer_info(stream, consumer)).num_pending != wanted_msgs:
            assert time.monotonic() < deadline_s, info
            await asyncio.sleep(0.01)
