"""Messages as they arrive, a few times a second, with an honest count of what was left out."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from nats.aio.msg import Msg

from natstui.jetstream.client import Client
from natstui.jetstream.sending import arrived
from natstui.model.tail import StartTail, Tailed

_TELL_S = 0.2
_AT_ONCE_MSGS = 100


async def tail(client: Client, asked: StartTail, tell: Callable[[Tailed], None]) -> None:
    """Subscribe and tell what comes until cancelled; the newest 100 of each fifth of a second.

    Raises ServerGone when there is no connection.
    """
    newest: deque[Msg] = deque(maxlen=_AT_ONCE_MSGS)
    arrived_msgs = told_msgs = 0

    async def take(msg: Msg) -> None:
        nonlocal arrived_msgs
        arrived_msgs += 1
        newest.append(msg)

    subscriptions = [await client.subscribe(subject, take) for subject in asked.subjects]
    try:
        while True:
            messages = tuple(arrived(msg, asked.preview_bytes) for msg in newest)
            newest.clear()
            told_msgs += len(messages)
            dropped = arrived_msgs - told_msgs
            now_us = time.time_ns() // 1000
            tell(Tailed(now_us, asked.command_id, messages, arrived_msgs, dropped))
            await asyncio.sleep(_TELL_S)
    finally:
        for subscription in subscriptions:
            await subscription.unsubscribe()
