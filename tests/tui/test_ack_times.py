"""How long acknowledgements take, on the detail of a consumer."""

from __future__ import annotations

import asyncio

import nats
from nats.js.api import ConsumerConfig, StreamConfig

from natstui.jetstream.testbed.broker import Broker
from natstui.tui.consumers.detail import ConsumerDetail
from tests.tui.viewer import viewing

HELD_S = 0.25


async def test_the_detail_shows_sampled_times_with_their_count_and_window(
    nats_server: Broker,
) -> None:
    nc = await nats.connect(nats_server.url)
    js = nc.jetstream()
    await js.add_stream(StreamConfig(name="S", subjects=["s"]))
    config = ConsumerConfig(durable_name="C", ack_policy="explicit", sample_freq="100")
    await js.add_consumer("S", config)
    pull = await js.pull_subscribe("s", durable="C", stream="S")
    async with viewing(nats_server.url) as viewer:
        await viewer.press("2")
        await viewer.becomes("C", pending="0")
        await viewer.press("d")
        await viewer.until(lambda: isinstance(viewer.app.screen, ConsumerDetail), "the detail")
        for _ in range(12):
            await js.publish("s", b"x")
        messages = await pull.fetch(12)
        await asyncio.sleep(HELD_S)
        for message in messages:
            await message.ack()
        await viewer.until(lambda: "of 12 samples in" in viewer.words, "twelve samples")
        shown = viewer.words.partition("of 12 samples in")[0].rpartition("ack time")[2]
        assert "p50 " in shown and "p99 " in shown and "most " in shown
        window = viewer.app.state.evidence.of["S", "C"].acks.until(viewer.app.state.now_at_us)
        assert (window.times.percentile_ns(50) or 0) >= HELD_S * 0.99e9
    await nc.close()
