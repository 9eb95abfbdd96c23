"""A server that dies, freezes and returns, and a killed engine, while somebody watches."""

from __future__ import annotations

import os
import signal

import nats
import pytest

from natstui.clock import steady_us
from natstui.jetstream.testbed.broker import Broker
from tests.tui.viewer import viewing

pytestmark = [pytest.mark.server, pytest.mark.long]

AGE_WITHIN_S = 3.0


async def with_a_stream(server: Broker) -> None:
    nc = await nats.connect(server.url)
    await nc.jetstream().add_stream(name="S", subjects=["s"])
    await nc.jetstream().publish("s", b"x")
    await nc.close()


async def test_a_server_that_is_away_freezes_or_is_killed_and_a_killed_engine_are_said_and_recover(
    nats_server: Broker,
) -> None:
    await with_a_stream(nats_server)
    nats_server.kill()
    async with viewing(nats_server.url, size=(120, 40), polled=False) as viewer:
        await viewer.until(lambda: "nothing listens" in viewer.words, "why there is nothing")
        nats_server.restart()
        await viewer.until(lambda: "● connected" in viewer.words, "its start is noticed")
        await viewer.becomes("S", msgs="1")

        nats_server.freeze()
        words = ("nothing new", "reconnecting", "no reply")
        await viewer.until(lambda: any(word in viewer.text for word in words), "frozen")
        await viewer.press("2", "1")
        assert viewer.rows()["S"]["msgs"] == "1"
        # Meanwhile a time-out and the loss are told: newer records, but no newer row.
        await viewer.until(lambda: "reconnecting" in viewer.text, "the loss is said")
        before = viewer.table.rows.view

        def tells_its_own() -> bool:
            view = viewer.table.rows.view
            shown_s = view.stale_s(0)
            true_s = (steady_us() - view.columns.sampled_mono_us[0]) / 1e6
            assert shown_s is None or shown_s <= true_s
            is_late = shown_s is None or shown_s < true_s - AGE_WITHIN_S
            return view is not before and not is_late

        await viewer.until(tells_its_own, "its age, drawn again")
        assert viewer.rows()["S"]["status"].startswith("stale ")
        nats_server.thaw()
        await viewer.until(
            lambda: not any(w in viewer.text for w in words) and "● connected" in viewer.words,
            "thawed",
        )

        nats_server.kill()
        await viewer.until(lambda: "reconnecting" in viewer.text, "killed")
        await viewer.until(
            lambda: viewer.table.rows and viewer.table.rows.view.stale_s(0), "stale"
        )
        assert viewer.rows()["S"]["msgs"] == "1"
        assert viewer.rows()["S"]["status"].startswith("stale ")
        nats_server.restart()
        await viewer.until(lambda: "● connected" in viewer.text, "it is back")
        await viewer.until(
            lambda: viewer.table.rows and viewer.table.rows.view.stale_s(0) is None, "fresh"
        )

        first = viewer.app.link.pid
        os.kill(first, signal.SIGKILL)
        await viewer.until(lambda: viewer.app.link.pid != first, "another engine")
        await with_a_message(nats_server)
        await viewer.becomes("S", msgs="2")


async def with_a_message(server: Broker) -> None:
    nc = await nats.connect(server.url)
    await nc.jetstream().publish("s", b"x")
    await nc.close()
