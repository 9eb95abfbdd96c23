"""A server that dies, freezes and returns, and a killed engine, while somebody watches."""

from __future__ import annotations

import os
import signal
import time

import nats
import pytest

from natstui.clock import steady_us
from natstui.jetstream.testbed.broker import Broker
from tests.tui.viewer import Viewer, viewing

pytestmark = pytest.mark.server

SAID_WITHIN_S = 10.0
BACK_WITHIN_S = 2.0
AGE_WITHIN_S = 3.0
SLOW_MACHINE = 5.0
"""Two busy cores, and others at work; `benchmarks.engine_faults` measures what is promised."""


async def with_a_stream(server: Broker) -> None:
    nc = await nats.connect(server.url)
    await nc.jetstream().add_stream(name="S", subjects=["s"])
    await nc.jetstream().publish("s", b"x")
    await nc.close()


async def seconds_until(viewer: Viewer, text: str) -> float:
    start = time.monotonic()
    await viewer.until(lambda: text in viewer.text, text)
    return time.monotonic() - start


async def test_a_killed_server_is_said_values_stay_stale_and_all_recovers(
    nats_server: Broker,
) -> None:
    await with_a_stream(nats_server)
    async with viewing(nats_server.url, size=(120, 40)) as viewer:
        await viewer.becomes("S", msgs="1")
        nats_server.kill()
        assert await seconds_until(viewer, "reconnecting") < SAID_WITHIN_S
        await viewer.until(
            lambda: viewer.table.rows and viewer.table.rows.view.stale_s(0), "stale"
        )
        assert viewer.rows()["S"]["msgs"] == "1"
        assert viewer.rows()["S"]["status"].startswith("stale ")
        nats_server.restart()
        assert await seconds_until(viewer, "● connected") < BACK_WITHIN_S * SLOW_MACHINE
        await viewer.until(
            lambda: viewer.table.rows and viewer.table.rows.view.stale_s(0) is None, "fresh"
        )


async def test_a_frozen_server_is_said_within_ten_seconds_and_recovers(
    nats_server: Broker,
) -> None:
    await with_a_stream(nats_server)
    async with viewing(nats_server.url, size=(120, 40)) as viewer:
        await viewer.becomes("S", msgs="1")
        nats_server.freeze()
        start = time.monotonic()
        words = ("nothing new", "reconnecting", "no reply")
        await viewer.until(lambda: any(word in viewer.text for word in words), "said")
        assert time.monotonic() - start < SAID_WITHIN_S
        await viewer.press("2", "1")
        assert viewer.rows()["S"]["msgs"] == "1"
        nats_server.thaw()
        thawed = time.monotonic()
        await viewer.until(
            lambda: not any(w in viewer.text for w in words) and "● connected" in viewer.words,
            "recovered",
        )
        assert time.monotonic() - thawed < BACK_WITHIN_S * SLOW_MACHINE + 1


async def test_the_age_of_a_row_is_its_own_whatever_else_happens(nats_server: Broker) -> None:
    await with_a_stream(nats_server)
    async with viewing(nats_server.url, size=(120, 40)) as viewer:
        await viewer.becomes("S", msgs="1")
        nats_server.freeze()
        # Meanwhile a time-out and the loss are told: newer records, but no newer row.
        await viewer.until(lambda: "reconnecting" in viewer.text, "the loss is said")
        before = viewer.table.rows.view
        await viewer.until(lambda: viewer.table.rows.view is not before, "drawn again")
        view = viewer.table.rows.view
        shown_s = view.stale_s(0)
        true_s = (steady_us() - view.columns.sampled_mono_us[0]) / 1e6
        assert shown_s is not None
        assert true_s - AGE_WITHIN_S < shown_s <= true_s
        assert viewer.rows()["S"]["status"].startswith("stale ")
        nats_server.thaw()


async def test_a_server_that_is_not_there_is_named_and_its_start_is_noticed(
    nats_server: Broker,
) -> None:
    nats_server.kill()
    async with viewing(nats_server.url, size=(100, 30), polled=False) as viewer:
        await viewer.until(lambda: "nothing listens" in viewer.words, "the reason")
        nats_server.restart()
        await viewer.until(lambda: "● connected" in viewer.words, "connected")


async def test_an_engine_that_is_killed_is_replaced_and_the_screen_goes_on(
    nats_server: Broker,
) -> None:
    await with_a_stream(nats_server)
    async with viewing(nats_server.url, size=(120, 40)) as viewer:
        await viewer.becomes("S", msgs="1")
        first = viewer.app.link.pid
        os.kill(first, signal.SIGKILL)
        await viewer.until(lambda: viewer.app.link.pid != first, "another engine")
        await with_a_message(nats_server)
        await viewer.becomes("S", msgs="2")


async def with_a_message(server: Broker) -> None:
    nc = await nats.connect(server.url)
    await nc.jetstream().publish("s", b"x")
    await nc.close()
