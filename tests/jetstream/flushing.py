"""When a server knows what a nats-py client has sent."""

from __future__ import annotations

from nats.aio.client import Client


async def flushed(nc: Client) -> None:
    """Wait until the server has taken everything: the first PING of nats-py overtakes it."""
    await nc.flush()
    await nc.flush()
