"""Ending what a test runs beside itself."""

from __future__ import annotations

import asyncio
from typing import Any


async def ended(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks until they end.

    Once is not always enough: `asyncio.wait_for` of Python 3.11, in each request of nats-py, loses
    a cancellation that comes in the same moment as the answer.
    """
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=1)
