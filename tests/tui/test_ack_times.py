"""How long acknowledgements take, on the detail of a consumer."""

from __future__ import annotations

import asyncio

import nats
import pytest
from nats.js.api import ConsumerConfig, StreamConfig

from natstui.model.records.tap import StartTap, StopTap
from natstui.tui.consumers.detail import ConsumerDetail
from natstui.tui.consumers.tap import TapScreen
from tests.accounts import Account
from tests.tui.engine_records import engine_records
from tests.tui.viewer import fed, viewing

pytestmark = pytest.mark.server

HELD_S = 0.25


async def test_sampled_times_and_a_tap_show_answers_with_their_count_window_and_cost(
    account: Account,
) -> None:
    nc = await nats.connect(account.url)
    js = nc.jetstream()
    await js.add_stream(StreamConfig(name="S", subjects=["s"]))
    config = ConsumerConfig(durable_name="A", ack_policy="explicit", sample_freq="100")
    await js.add_consumer("S", config)
    await js.add_consumer("S", ConsumerConfig(durable_name="C", ack_policy="explicit"))
    sampled = await js.pull_subscribe("s", durable="A", stream="S")
    tapped = await js.pull_subscribe("s", durable="C", stream="S")
    async with viewing(account.url, first="consumers") as viewer:
        await viewer.becomes("A", pending="0")
        await viewer.press("home", "d")
        await viewer.until(lambda: isinstance(viewer.app.screen, ConsumerDetail), "the detail")
        for _ in range(12):
            await js.publish("s", b"x")
        messages = await sampled.fetch(12)
        await asyncio.sleep(HELD_S)
        for message in messages:
            await message.ack()
        # Long times wrap, and a chart stands beside them.
        await viewer.until(
            lambda: "of 12" in viewer.words and "samples in" in viewer.words, "twelve samples"
        )
        shown = viewer.words.partition("of 12")[0].rpartition("ack time")[2]
        assert "p50 " in shown and "p99 " in shown and "most " in shown
        window = viewer.app.state.evidence.entries["S", "A"].acks.until(viewer.app.state.now_at_us)
        assert (window.times.percentile_ns(50) or 0) >= HELD_S * 0.99e9

        await viewer.press("escape", "end", "T")
        await viewer.until(lambda: isinstance(viewer.app.screen, TapScreen), "the tap")
        await viewer.until(lambda: "reading, " in viewer.words, "that it reads")
        messages = await tapped.fetch(5)
        for message in messages[:3]:
            await message.ack()
        await messages[3].nak(delay=3600)
        await viewer.until(lambda: "read 4 messages" in viewer.words, "four answers")
        assert "acks 3, " in viewer.words and "naks 1, " in viewer.words
        assert "stored to acked p50 " in viewer.words
        assert "4 nak " in viewer.words and "at delivery 1; stored " in viewer.words
        await viewer.press("space")
        await viewer.until(lambda: "ended: reading was stopped" in viewer.words, "the end")
        await viewer.press("T")
        await viewer.until(lambda: "read 0 messages" in viewer.words, "a new tap")
        await viewer.press("escape")
        await viewer.until(lambda: not isinstance(viewer.app.screen, TapScreen), "the table")
    await nc.close()


async def test_a_tap_ends_with_its_screen() -> None:
    async with fed(*engine_records({"S": ["C"]})) as viewer:
        await viewer.press("2")
        await viewer.until(lambda: "C" in viewer.rows(), "the consumer")
        await viewer.press("T")
        await viewer.until(lambda: viewer.sent(StartTap), "the tap")
        assert not viewer.sent(StopTap)
        await viewer.press("escape")
        await viewer.until(lambda: viewer.sent(StopTap), "its end")
