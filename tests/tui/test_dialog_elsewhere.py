"""A dialog that is open while another server takes the address: nothing is changed there."""

from __future__ import annotations

from typing import TypeVar

import nats
import pytest

from natstui.jetstream.testbed.broker import Broker
from natstui.tui.frame.action_keys import Target
from natstui.tui.frame.form.screen import FormScreen
from natstui.tui.frame.messages import Manage
from natstui.tui.managing.action import ActionScreen
from natstui.tui.messages.publish import PublishScreen
from natstui.tui.stores.put import PutScreen
from tests.tui.test_forms import fill
from tests.tui.viewer import Viewer, viewing

pytestmark = pytest.mark.server

S = TypeVar("S", ActionScreen, FormScreen)
REFUSED = "not the server and account that you confirmed for"


def link_of(viewer: Viewer) -> str:
    return viewer.app.state.link.state if viewer.app.state.link else ""


async def is_replaced(viewer: Viewer, server: Broker) -> None:
    """Start another server with a copy of the disk: its creation times are the same."""
    server.stop()
    await viewer.until(lambda: link_of(viewer) == "reconnecting", "the loss")
    server.name = "other"
    server.start()
    await viewer.until(lambda: link_of(viewer) == "connected", "another")
    assert viewer.app.state.link.server_name == "other"


async def state(server: Broker, stream: str) -> tuple[int, int, str | None]:
    async with await nats.connect(server.url) as nc:
        info = await nc.jetstream().stream_info(stream)
        return info.state.messages, info.state.last_seq, info.config.description


async def prepare(server: Broker) -> None:
    async with await nats.connect(server.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s"])
        await js.publish("s", b"x")
        await (await js.create_key_value(bucket="B")).put("k", b"1")


async def opened(viewer: Viewer, what: str, kind: type[S]) -> S:
    """Open a dialog for stream S over what is there, and wait until it knows where it is."""
    viewer.app.post_message(Manage(what, (Target("S"),)))
    await viewer.until(lambda: isinstance(viewer.app.screen, kind), what)
    screen = viewer.app.screen
    assert isinstance(screen, kind)
    return screen


@pytest.mark.long
async def test_a_dialog_is_sent_after_a_restart_of_its_server(nats_server: Broker) -> None:
    await prepare(nats_server)
    async with viewing(nats_server.url, size=(80, 24)) as viewer:
        await viewer.becomes("S", msgs="1")
        restarted = PublishScreen("S", "s", None)
        await viewer.app.push_screen(restarted)
        await viewer.until(lambda: restarted._form_server.identity, "where it is")
        nats_server.stop()
        await viewer.until(lambda: link_of(viewer) == "reconnecting", "the loss")
        nats_server.start()
        await viewer.until(lambda: link_of(viewer) == "connected", "it is back")
        await viewer.press("ctrl+s")
        await viewer.until(lambda: "stored as 2 in S" in viewer.words, "it is sent")


async def test_no_dialog_is_sent_to_another_server_than_it_was_opened_for(
    nats_server: Broker,
) -> None:
    await prepare(nats_server)
    async with viewing(nats_server.url, size=(80, 24)) as viewer:
        await viewer.becomes("S", msgs="1")
        confirmation = await opened(viewer, "delete_stream", ActionScreen)
        await viewer.until(lambda: "press enter to confirm" in viewer.words, "it is counted")
        confirmation.typed_text = "S"
        form = await opened(viewer, "edit-stream", FormScreen)
        await viewer.until(lambda: form.sending.form_server.identity, "where it is")
        await fill(viewer, description="edited")
        for screen in (PublishScreen("S", "s", None), PutScreen("B", "k")):
            await viewer.app.push_screen(screen)
            await viewer.until(lambda screen=screen: screen._form_server.identity, "where it is")
        before = {name: await state(nats_server, name) for name in ("S", "KV_B")}
        await is_replaced(viewer, nats_server)
        for kind in (PutScreen, PublishScreen, FormScreen, ActionScreen):
            assert isinstance(viewer.app.screen, kind)
            viewer.toasts.clear()
            await viewer.press("ctrl+s")
            await viewer.until(lambda: REFUSED in viewer.said, f"{kind.__name__} is refused")
            viewer.app.pop_screen()
            await viewer.settle()
    assert {name: await state(nats_server, name) for name in ("S", "KV_B")} == before
