"""Who holds a consumer and who publishes, on the screen, of a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from nats.aio.client import Client as NatsClient

from natstui.jetstream.testbed.broker import Broker
from natstui.model.records.messages import Answered
from natstui.model.records.system import ReadClients
from natstui.tui.connections.clients import (
    ClientsScreen,
    ListenersScreen,
    PublishersScreen,
    PullersScreen,
)
from natstui.tui.connections.detail import ConnectionDetail
from natstui.units import UNKNOWN
from tests.jetstream.test_connections import APP, as_user
from tests.jetstream.test_holders import at_work, consumer, people, pull
from tests.tui.engine_records import engine_records
from tests.tui.viewer import Viewer, fed, viewing

pytestmark = pytest.mark.server

SIZE = (160, 40)


async def opened(viewer: Viewer, kind: type[ClientsScreen], row: str = "home") -> None:
    await viewer.press(row, "W")
    await viewer.until(lambda: type(viewer.app.screen) is kind, kind.__name__)


async def heard(viewer: Viewer, nc: NatsClient, *names: str) -> None:
    """End the reading once these were heard, with their shares of what was sent meanwhile.

    Those are of what comes after a client is found: where a machine is busy that takes some more.
    """
    screen = viewer.app.screen
    assert isinstance(screen, ClientsScreen)
    for reading_s in (2, 4, 8, 16):
        for _ in range(20 * reading_s):
            await nc.jetstream().publish("s.a", b"x")
            await asyncio.sleep(0.05)
        await viewer.press("ctrl+x")
        await viewer.until(lambda: not screen.asking.is_running, "what was heard")
        rows = viewer.rows()
        if all(name in rows and rows[name].get("share") != UNKNOWN for name in names):
            return
        await viewer.press("W")
        await viewer.until(lambda: screen.asking.is_running, "it reads again")
    raise AssertionError(f"not all of {names}:\n{viewer.text}")


async def test_who_pulls_listens_and_publishes_is_named_with_the_share_of_each(
    nats_server_factory: Callable[..., Broker],
) -> None:
    url = as_user(nats_server_factory(APP).url, "app")
    async with people([url], "red", "blue", "ears", "mouth") as (red, blue, ears, mouth):
        await consumer(red)
        await red.jetstream().add_consumer(
            "S", durable_name="P", ack_policy="explicit",
            deliver_subject="to.them", deliver_group="team",
        )  # fmt: skip
        await ears.subscribe("to.them", "team")
        async with viewing(url, size=SIZE, first="consumers") as viewer:
            await viewer.until(lambda: {"C", "P"} <= viewer.rows().keys(), "the consumers")
            await opened(viewer, ListenersScreen, "end")
            await viewer.until(lambda: "ears" in viewer.rows(), "who listens")
            assert 'subscribers of "to.them" in the group team' in viewer.words
            assert viewer.rows()["ears"]["subject"] == "to.them"
            await viewer.press("escape")

            pulls = (asyncio.ensure_future(pull(nc, 5)) for nc in (red, blue))
            async with at_work(*pulls):
                await opened(viewer, PullersScreen)
                await viewer.until(lambda: "reading its pulls: " in viewer.words, "that it reads")
                assert "natstui receives a copy of each one" in viewer.words
                await heard(viewer, red, "red", "blue")
                rows = viewer.rows()
                assert int(rows["red"]["pulls"]) > 0 and rows["red"]["batch"].startswith("5")
                shares = [int(rows[name]["share"].rstrip("%") or 0) for name in ("red", "blue")]
                assert sum(shares) in (99, 100, 101)
                assert "an idle client is listed only once its pull expires" in viewer.words
                assert "it cost" in viewer.words
                await viewer.press("home", "enter")
                await viewer.until(lambda: isinstance(viewer.app.screen, ConnectionDetail), "all")
                await viewer.until(lambda: "blue" in viewer.words, "who it is")
                await viewer.press("escape", "escape", "1")

            async def publish() -> None:
                while True:
                    await mouth.jetstream().publish("s.a", b"y" * 100)
                    await mouth.publish("s.b", b"nobody waits")
                    await asyncio.sleep(0.05)

            async with at_work(asyncio.ensure_future(publish())):
                await viewer.until(lambda: "S" in viewer.rows(), "the stream")
                await opened(viewer, PublishersScreen)
                await heard(viewer, mouth, "mouth")
                assert viewer.rows()["mouth"]["subjects"] == "s.a"
                assert "no reply subject (plain publishes have none)" in viewer.words


async def test_what_is_not_allowed_is_said() -> None:
    async with fed(*engine_records({"S": ["C"]}), first="consumers") as viewer:
        await viewer.until(lambda: viewer.rows().get("C"), "the consumer")
        await opened(viewer, PullersScreen)
        await viewer.until(lambda: viewer.sent(ReadClients), "the request")
        (request,) = viewer.sent(ReadClients)
        reason = 'no permission to subscribe to "$JS.API.CONSUMER.MSG.NEXT.S.C"'
        await viewer.feed(Answered(1, request.command_id, "failed", reason))
        await viewer.until(lambda: reason in viewer.words, "what is missing")
