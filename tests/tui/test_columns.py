"""Each column of both tables against what plain nats-py says."""

from __future__ import annotations

from itertools import pairwise

import nats
import pytest
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, ConsumerInfo, StreamConfig, StreamInfo

from natstui.units import bytes_text, count_text
from tests.accounts import Account
from tests.tui.viewer import viewing

pytestmark = pytest.mark.server


async def test_every_column_of_both_tables_says_what_the_server_says(account: Account) -> None:
    nc = await nats.connect(account.url)
    js = nc.jetstream()
    await js.add_stream(
        StreamConfig(
            name="ORDERS",
            subjects=["orders.>", "returns.*"],
            max_msgs=100,
            max_bytes=1 << 20,
            max_age=3600,
        )
    )
    await js.create_key_value(bucket="carts", history=3)
    await js.create_object_store("receipts")
    await js.add_stream(StreamConfig(name="COPY", mirror=nats.js.api.StreamSource(name="ORDERS")))
    for n in range(60):
        await js.publish(f"orders.{n}", b"x" * 100)
    await js.delete_msg("ORDERS", 30)
    await js.add_consumer("ORDERS", ConsumerConfig(durable_name="c", ack_policy="explicit"))
    await js.add_stream(StreamConfig(name="FULL", subjects=["full"], max_msgs=10))
    await js.add_stream(StreamConfig(name="S", subjects=["s"]))
    pull = await with_consumers(js)
    async with viewing(account.url, "--interval", "300ms") as viewer:
        info: StreamInfo = await js.stream_info("ORDERS")
        await viewer.becomes("ORDERS", consumers="1", msgs="59")
        await viewer.until(lambda: len(viewer.rows()) == 6, "six streams")
        row = viewer.rows()["ORDERS"]
        assert row["kind"] == "stream"
        assert row["subjects"] == "orders.>, returns.*"
        assert row["storage"] == info.config.storage == "file"
        assert row["retention"] == info.config.retention == "limits"
        assert row["msgs"] == count_text(info.state.messages)
        assert row["bytes"] == bytes_text(info.state.bytes)
        assert row["first_seq"] == str(info.state.first_seq) == "1"
        assert row["last_seq"] == str(info.state.last_seq) == "60"
        assert row["holes"] == str(info.state.num_deleted) == "1"
        assert row["msgs_used"] == "59%"
        assert row["bytes_used"] == f"{100 * info.state.bytes / (1 << 20):.0f}%"
        assert row["age_used"] == "0%"
        assert row["leader"] == "server1"
        assert row["first_age"].rstrip("smh0123456789") == ""
        rows = viewer.rows()
        assert rows["KV_carts"]["kind"] == "KV"
        assert rows["OBJ_receipts"]["kind"] == "object"
        assert rows["COPY"]["kind"] == "mirror"
        assert rows["COPY"]["subjects"] == "mirror of ORDERS"
        await viewer.becomes("ORDERS", **{"in": "0", "removed": "0", "full": "–"})

        before = viewer.app.state.stream_history.recent[-1]
        for _ in range(50):
            await js.publish("full", b"x" * 10)
        await viewer.becomes("FULL", msgs="10", last_seq="50")
        names = [key[0] for key in viewer.app.state.streams.roster.keys]
        at = names.index("FULL")
        history = viewer.app.state.stream_history.recent
        after = next(s for s in history if s.columns["last_seq"][at] == 50)
        total = sum(
            (b.columns["last_seq"][at] - a.columns["last_seq"][at])
            for a, b in pairwise(history)
            if before.mono_us <= a.mono_us <= after.mono_us
        )
        assert total == 50
        assert viewer.rows()["FULL"]["msgs_used"] == "100%"
        assert viewer.rows()["FULL"]["full"] == "full"
        assert "█" in viewer.rows()["FULL"]["trend"]

        await viewer.press("2")
        await viewer.becomes("worker", pending="13", ack_pending="5/7")
        worker: ConsumerInfo = await js.consumer_info("S", "worker")
        row = viewer.rows()["worker"]
        assert (row["stream"], row["mode"], row["life"]) == ("S", "pull", "durable")
        assert row["ack"] == "explicit"
        assert row["pending"] == str(worker.num_pending)
        assert row["ack_pending"] == f"{worker.num_ack_pending}/7"
        assert row["redelivered"] == str(worker.num_redelivered)
        assert row["waiting"] == str(worker.num_waiting)
        assert worker.ack_floor is not None and worker.delivered is not None
        floor, delivered = worker.ack_floor, worker.delivered
        assert row["floor"] == f"{floor.stream_seq}/{floor.consumer_seq}" == "1/1"
        assert row["delivered"] == f"{delivered.stream_seq}/{delivered.consumer_seq}" == "7/7"
        rows = viewer.rows()
        assert rows["passing"]["life"] == "ephem"
        assert rows["pushed"]["mode"] == "push"
        assert rows["pushed"]["waiting"] == "unbound"
        await viewer.becomes("pushed", status="✖ no subscriber")
        await js.pause_consumer("S", "worker", "2100-01-01T00:00:00Z")
        await viewer.becomes("worker", status="▲ paused")
        await js.resume_consumer("S", "worker")
        for message in await pull.fetch(2):
            await message.in_progress()
        await viewer.becomes("worker", ack_pending="7/7", status="✖ max ack pending reached")
        await viewer.until(lambda: viewer.rows()["worker"]["lag"] not in ("–", "0s"), "a lag")
    await nc.close()


async def with_consumers(js: JetStreamContext) -> JetStreamContext.PullSubscription:
    """Make three consumers of S; the one that is pulled from has acknowledged two of seven."""
    await js.add_consumer(
        "S",
        ConsumerConfig(
            durable_name="worker", ack_policy="explicit", max_ack_pending=7, ack_wait=600
        ),
    )
    await js.add_consumer("S", ConsumerConfig(name="passing", inactive_threshold=300))
    await js.add_consumer("S", ConsumerConfig(durable_name="pushed", deliver_subject="to.me"))
    pull = await js.pull_subscribe("s", durable="worker", stream="S")
    for _ in range(20):
        await js.publish("s", b"x")
    messages = await pull.fetch(7)
    await messages[0].ack_sync(timeout=30)
    await messages[2].ack_sync(timeout=30)
    return pull
