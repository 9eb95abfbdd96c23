"""A dialog that is open while another server takes the address: nothing is changed there."""

from __future__ import annotations

from collections.abc import Callable

import nats
import pytest

from natstui.jetstream.testbed.broker import Broker
from natstui.tui.frame.form.screen import FormScreen
from natstui.tui.managing.action import ActionScreen
from natstui.tui.messages.publish import PublishScreen
from natstui.tui.stores.put import PutScreen
from tests.tui.test_forms import fill
from tests.tui.viewer import Viewer, viewing

pytestmark = pytest.mark.server

REFUSED = "not the server and account that you confirmed for"


async def is_replaced(viewer: Viewer, server: Broker) -> None:
    """Start another server with a copy of the disk: its creation times are the same."""
    server.stop()
    await viewer.until(lambda: "reconnecting" in viewer.text, "the loss is said")
    server.name = "other"
    server.start()
    await viewer.until(lambda: "other" in viewer.text and "● connected" in viewer.text, "another")


async def last_seq(server: Broker, stream: str) -> int:
    async with await nats.connect(server.url) as nc:
        return (await nc.jetstream().stream_info(stream)).state.last_seq


async def prepare(server: Broker) -> None:
    async with await nats.connect(server.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s"])
        await js.publish("s", b"x")


@pytest.mark.parametrize("key", ["ctrl+d", "P"])
async def test_a_removal_is_not_done_on_another_server(nats_server: Broker, key: str) -> None:
    await prepare(nats_server)
    async with viewing(nats_server.url) as viewer:
        await viewer.becomes("S", msgs="1")
        await viewer.press(key)
        await viewer.until(lambda: isinstance(viewer.app.screen, ActionScreen))
        await viewer.until(lambda: "press enter to confirm" in viewer.words, "it is counted")
        await is_replaced(viewer, nats_server)
        screen = viewer.app.screen
        assert isinstance(screen, ActionScreen)
        screen.typed = "S"
        await viewer.press("ctrl+s")
        await viewer.until(lambda: REFUSED in viewer.said, "the refusal")
    async with await nats.connect(nats_server.url) as nc:
        assert (await nc.jetstream().stream_info("S")).state.messages == 1


async def test_a_form_is_not_sent_to_another_server(nats_server: Broker) -> None:
    await prepare(nats_server)
    async with viewing(nats_server.url) as viewer:
        await viewer.becomes("S", msgs="1")
        await viewer.press("e")
        await viewer.until(lambda: isinstance(viewer.app.screen, FormScreen))
        screen = viewer.app.screen
        assert isinstance(screen, FormScreen)
        await viewer.until(lambda: screen.sending.opening.place, "where it is")
        await fill(viewer, description="edited")
        await is_replaced(viewer, nats_server)
        await viewer.press("ctrl+s")
        await viewer.until(lambda: REFUSED in viewer.said, "the refusal")
    async with await nats.connect(nats_server.url) as nc:
        assert not (await nc.jetstream().stream_info("S")).config.description


@pytest.mark.parametrize(
    ("stream", "make"),
    [
        ("S", lambda: PublishScreen("S", "s", None)),
        ("KV_B", lambda: PutScreen("B", "k")),
    ],
)
async def test_what_was_typed_is_not_stored_on_another_server(
    nats_server: Broker, stream: str, make: Callable[[], PublishScreen | PutScreen]
) -> None:
    await prepare(nats_server)
    async with await nats.connect(nats_server.url) as nc:
        await (await nc.jetstream().create_key_value(bucket="B")).put("k", b"1")
    async with viewing(nats_server.url) as viewer:
        await viewer.becomes("S", msgs="1")
        screen = make()
        await viewer.app.push_screen(screen)
        await viewer.until(lambda: screen._opening.place, "where it is")
        await is_replaced(viewer, nats_server)
        await viewer.press("ctrl+s")
        await viewer.until(lambda: REFUSED in viewer.said, "the refusal")
    assert await last_seq(nats_server, stream) == 1


async def test_a_form_is_sent_after_a_restart_of_its_server(nats_server: Broker) -> None:
    await prepare(nats_server)
    async with viewing(nats_server.url) as viewer:
        await viewer.becomes("S", msgs="1")
        screen = PublishScreen("S", "s", None)
        await viewer.app.push_screen(screen)
        await viewer.until(lambda: screen._opening.place, "where it is")
        nats_server.stop()
        await viewer.until(lambda: "reconnecting" in viewer.text, "the loss is said")
        nats_server.start()
        await viewer.until(lambda: "● connected" in viewer.text, "it is back")
        await viewer.press("ctrl+s")
        await viewer.until(lambda: "stored as 2 in S" in viewer.words, "it is sent")
