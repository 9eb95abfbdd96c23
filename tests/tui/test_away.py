"""The tables of streams and consumers name what has no row: it is away, or not run."""

from __future__ import annotations

import nats
import pytest
from nats.js.api import ConsumerConfig, StreamConfig

from tests.accounts import Account
from tests.cli.test_away import away
from tests.hostile_server import lying
from tests.tui.viewer import viewing

pytestmark = pytest.mark.server


async def test_consumers_without_a_row_are_named_above_the_table(account: Account) -> None:
    nc = await nats.connect(account.url)
    js = nc.jetstream()
    for stream in ("S", "T"):
        await js.add_stream(StreamConfig(name=stream, subjects=[stream]))
        for consumer in ("stays", "newer"):
            await js.add_consumer(stream, ConsumerConfig(durable_name=consumer))
    await nc.close()
    with lying(account.url) as wire:
        wire.lie = away("consumers", "newer", refused=True)
        async with viewing(wire.url) as viewer:
            await viewer.press("2")
            await viewer.until(
                lambda: "2 not reachable: S newer, T newer" in viewer.text, "both names"
            )
            await viewer.press("1")
            await viewer.until(lambda: "S" in viewer.rows(), "the streams")
            await viewer.press("enter")
            await viewer.until(lambda: "1 not reachable: newer" in viewer.text, "its consumer")
