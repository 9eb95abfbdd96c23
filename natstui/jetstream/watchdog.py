"""Looks after a client that says it is connected, or reconnecting, and is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from natstui.jetstream.nats_client import GuardedClient

_LOOK_S = 0.5
_STUCK_S = 30.0


async def watch_over(
    client: GuardedClient, on_fault: Callable[[str], None], stuck_s: float = _STUCK_S
) -> None:
    """Revive the client for ever: dead inner loops at once, stuck reconnecting after `stuck_s`.

    `on_fault` gets one sentence before each revival.
    """
    loop = asyncio.get_running_loop()
    attempts, since = client.attempts_count, loop.time()
    while True:
        await asyncio.sleep(_LOOK_S)
        if client.attempts_count != attempts or not client.is_reconnecting:
            attempts, since = client.attempts_count, loop.time()
        if (name := client.ended_loop) is not None:
            on_fault(f"the {name} loop of the connection ended unexpectedly")
        elif client.reconnect_ended:
            on_fault("reconnecting ended unexpectedly")
        elif client.is_reconnecting and loop.time() - since > stuck_s:
            on_fault("reconnecting was stuck")
        else:
            continue
        await client.reconnect_anew()
        attempts, since = client.attempts_count, loop.time()
