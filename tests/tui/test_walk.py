"""The counts of a consumer in its row on the screen; the life of messages, step by step."""

from __future__ import annotations

import nats
import pytest
from nats.aio.msg import Msg

from tests.accounts import Account
from tests.model.builders import snapshot
from tests.tui.engine_records import BORN_US, engine_records
from tests.tui.viewer import Viewer, fed, viewing


async def shows(
    viewer: Viewer, pending: int, ack_pending: int, redelivered: int, at: str, floor: str
) -> None:
    """Wait for the row; `at` and `floor` as stream/consumer sequence."""
    await viewer.becomes(
        "C",
        pending=str(pending),
        ack_pending=f"{ack_pending}/1000",
        redelivered=str(redelivered),
        delivered=at,
        floor=floor,
    )


async def test_every_count_of_a_consumer_stands_in_its_row() -> None:
    row = {
        "stream": "S", "name": "C", "created_at_us": BORN_US, "pending_msgs": 3,
        "ack_pending_msgs": 2, "redelivered_msgs": 1, "waiting_pulls_count": 8,
        "delivered_stream_seq": 7, "delivered_consumer_seq": 6,
        "ack_floor_stream_seq": 5, "ack_floor_consumer_seq": 4,
    }  # fmt: skip
    async with fed(*engine_records({"S": ("C",)}), first="consumers") as viewer:
        await viewer.becomes("C", pending="0")
        await viewer.feed(snapshot(2, [{"name": "S", "created_at_us": BORN_US}], [row]))
        await viewer.becomes("C", pending="3")
        ack_pending, limit = viewer.rows()["C"].pop("ack_pending").split("/")
        assert ack_pending == "2" and int(limit) > 2
        await viewer.becomes("C", redelivered="1", waiting="8", delivered="7/6", floor="5/4")


@pytest.mark.long
@pytest.mark.server
async def test_publish_fetch_ack_hole_nak_term_redelivery_max_deliver_and_purge_show_in_the_row(
    account: Account,
) -> None:
    nc = await nats.connect(account.url)
    js = nc.jetstream()
    await js.add_stream(name="S", subjects=["s"])

    async def waits_for_acks(seconds: float, most_pending: int = 1000) -> None:
        await js.add_consumer(
            "S",
            durable_name="C",
            ack_policy="explicit",
            ack_wait=seconds,
            max_deliver=3,
            max_ack_pending=most_pending,
        )

    await waits_for_acks(600)
    pull = await js.pull_subscribe("s", durable="C", stream="S")

    async def fetch_one() -> Msg:
        (message,) = await pull.fetch(1, timeout=30)
        return message

    async with viewing(account.url, "--interval", "250ms", panel=True) as viewer:
        await viewer.press("2")
        for _ in range(6):
            await js.publish("s", b"x")
        await shows(viewer, 6, 0, 0, "0/0", "0/0")
        first, second, third = await pull.fetch(3, timeout=10)
        await shows(viewer, 3, 3, 0, "3/3", "0/0")
        await first.ack_sync(timeout=30)
        await shows(viewer, 3, 2, 0, "3/3", "1/1")
        await third.ack_sync(timeout=30)
        await shows(viewer, 3, 1, 0, "3/3", "1/1")
        await second.in_progress()
        # No other message comes while one is unacknowledged.
        await waits_for_acks(0.5, most_pending=1)
        second = await fetch_one()
        assert second.metadata.num_delivered == 2
        await waits_for_acks(600)
        await second.nak()
        await shows(viewer, 3, 1, 1, "3/4", "1/1")
        assert (await fetch_one()).metadata.num_delivered == 3
        await shows(viewer, 3, 1, 1, "3/5", "1/1")
        # The fourth one comes once this one is given up.
        await waits_for_acks(2.0, most_pending=1)
        fourth = await fetch_one()
        await waits_for_acks(600)
        await fourth.nak(delay=60)
        await shows(viewer, 2, 1, 1, "4/6", "1/1")
        await (await fetch_one()).term()
        await shows(viewer, 1, 1, 1, "5/7", "1/1")
        await js.purge_stream("S")
        await shows(viewer, 0, 0, 0, "6/7", "6/7")
    await nc.close()
