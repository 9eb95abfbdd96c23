"""Keys and revisions of a bucket, read with nats-py.

nats-py takes a bucket for empty if the server tells it that nothing is pending before the messages
arrive: such a read is repeated until it finds a key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from nats.js.errors import NoKeysError
from nats.js.kv import KeyValue

T = TypeVar("T")
_FOUND_S = 30


async def keys_of(bucket: KeyValue) -> list[str]:
    """Return the keys of a bucket that has some, sorted."""
    return sorted(await _until_found(bucket.keys))


async def history_of(bucket: KeyValue, key: str) -> list[KeyValue.Entry]:
    """Return the revisions of a key that has some."""
    return await _until_found(lambda: bucket.history(key))


async def _until_found(read: Callable[[], Awaitable[T]]) -> T:
    async with asyncio.timeout(_FOUND_S):
        while True:
            try:
                return await read()
            except NoKeysError:
                await asyncio.sleep(0.01)
