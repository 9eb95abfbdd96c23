"""An attempt to connect that is cancelled at any moment ends, and leaves no connection."""

from __future__ import annotations

import asyncio

import pytest

from natstui.config import Connection
from natstui.jetstream.connection.opening import open_client
from tests.accounts import Account

pytestmark = pytest.mark.server

TIMES = 3


async def test_an_attempt_cancelled_at_any_step_ends(account: Account) -> None:
    for _ in range(TIMES):
        steps = 0
        while await cancelled_after(steps, account.url):
            steps += 1
        assert steps > 5


async def cancelled_after(steps: int, url: str) -> bool:
    """Cancel an attempt after so many turns of the loop; return whether it was not done before."""
    attempt = asyncio.ensure_future(open_client(Connection(servers=(url,))))
    for _ in range(steps):
        await asyncio.sleep(0)
    is_cancelled = attempt.cancel()
    await asyncio.wait({attempt})
    assert attempt.cancelled() == is_cancelled, f"cancelled after {steps} turns of the loop"
    if not is_cancelled:
        await (await attempt).close()
    return is_cancelled
