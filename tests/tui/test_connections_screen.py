"""The connections screen on a real server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nats
import pytest
from nats.js.api import ConsumerConfig

from natstui.jetstream.testbed.broker import Broker
from natstui.model.clients.connection import Connections, busiest_connections
from natstui.model.records.messages import Answered
from natstui.model.records.system import ReadConnections
from natstui.tui.connections import screen as connections_screen
from natstui.tui.connections.clients import ClientsScreen
from natstui.tui.connections.screen import ConnectionsScreen
from tests.jetstream.flushing import flushed
from tests.jetstream.test_connections import APP, as_user, look
from tests.session.making import made
from tests.session.scenario import Scenario
from tests.tui.engine_records import engine_records
from tests.tui.viewer import Viewer, fed, replaying, viewing

pytestmark = pytest.mark.server

HOSTILE = "evil\x1b]0;title\x07\x1b[31m[bold]\u202ename"


async def test_who_comes_is_shown_whole_with_rates_and_who_goes_with_the_reason(
    nats_server_factory: Callable[..., Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections_screen, "_REREAD_INTERVAL_S", 2.0)
    url = as_user(nats_server_factory(APP).url, "app")
    busy = await nats.connect(url, name="busy")
    evil = await nats.connect(url, name=HOSTILE)
    js = evil.jetstream()
    await js.add_stream(name="ORDERS", subjects=["orders.>"])
    # Nothing is delivered again, however long a busy machine takes.
    config = ConsumerConfig(durable_name="pushed", ack_wait=3600)
    await js.subscribe("orders.>", durable="pushed", config=config)
    await evil.subscribe("work.*", "team")
    for number in range(30):
        await js.publish(f"orders.{number}", b"x" * 1000)
    async with viewing(url, size=(200, 60)) as viewer:
        await viewer.until(lambda: viewer.app.state.consumer_configurations, "the consumer")
        await viewer.press("6")
        await viewer.until(lambda: {"busy", "natstui"} <= viewer.rows().keys(), "who is there")
        assert viewer.rows()["busy"]["user"] == "app"
        assert viewer.rows()["busy"]["server"] == "server1"
        assert any(name.startswith("evil") and "[bold]" in name for name in viewer.rows())
        assert "\x1b" not in viewer.text and "\u202e" not in viewer.text
        for _ in range(100):
            await busy.publish("elsewhere", b"x")
        await flushed(busy)
        await viewer.until(lambda: _rate(viewer, "busy") > 0, "a rate")
        # The first look at it may have come between two messages.
        await viewer.becomes("busy", **{"in": "100"})
        await busy.close()
        await viewer.until(lambda: "busy" not in viewer.rows(), "that it went")
        await viewer.press("o")
        await viewer.becomes("busy", state="Client Closed")
        await viewer.until(lambda: "closed connection" in viewer.words, "what is listed")
        await viewer.press("o")
        await viewer.becomes("natstui", state="open")

        await viewer.press("p")
        await viewer.until(lambda: "paused (p)" in viewer.words, "that it is paused")
        late = await nats.connect(url, name="late")
        screen = viewer.app.screen
        assert isinstance(screen, ConnectionsScreen)
        repeated = screen._repeated_request
        # As if the time between two looks were over.
        repeated._replied_at_s -= repeated._interval_s
        repeated.send_if_due()
        assert repeated._task is None
        assert "late" not in viewer.rows()
        await viewer.press("p")
        await viewer.becomes("late", state="open")
        assert "paused (p)" not in viewer.words
        await late.close()

        await viewer.press("slash")
        await viewer.type("evil")
        await viewer.press("enter")
        await viewer.until(lambda: len(viewer.rows()) == 1, "it alone")
        await viewer.press("enter")
        await viewer.until(
            lambda: "work.* in team, 0 delivered" in viewer.words, "what it asks for"
        )
        await viewer.until(lambda: "ORDERS › pushed, 30 delivered" in viewer.words, "all of them")
        assert "servers do not list who pulls" in viewer.words
        assert "servers count messages, pulls and acks, but not by subject" in viewer.words
        assert "server1, number" in viewer.words and "python3" in viewer.words
        assert "\x1b" not in viewer.text and "\u202e" not in viewer.text
        for _ in range(100):
            await evil.publish("elsewhere", b"x")
        await viewer.until(lambda: "sends 0 msgs/s" not in viewer.words, "a rate")
        await evil.close()
        await viewer.until(lambda: "ended: Client Closed" in viewer.words, "why it ended")
        await viewer.press("escape")
        await viewer.until(lambda: isinstance(viewer.app.screen, ConnectionsScreen), "the list")
        await viewer.until(lambda: viewer.rows() == {}, "that it is gone from the list")


def _rate(viewer: Viewer, name: str) -> float:
    text = viewer.rows().get(name, {}).get("in_s", "0")
    return float(text) if text.replace(".", "").isdigit() else 0.0


async def test_what_is_not_allowed_is_said_on_the_screen() -> None:
    async with fed(*engine_records()) as viewer:
        await viewer.press("6")
        await viewer.until(lambda: viewer.sent(ReadConnections), "the request")
        (request,) = viewer.sent(ReadConnections)
        reason = 'no permission to publish to "$SYS.REQ.ACCOUNT.PING.CONNZ": an operator adds it'
        await viewer.feed(Answered(1, request.command_id, "failed", reason))
        await viewer.until(lambda: reason in viewer.words, "the reason")


async def test_a_recording_has_nobody_to_ask_and_says_how_connections_are_recorded(
    tmp_path: Path,
) -> None:
    scenario = Scenario(streams=1, consumers=1)
    folder = made(tmp_path, [*scenario.beginning(), scenario.poll(1)])
    async with replaying(folder, first="consumers") as viewer:
        await viewer.press("right_square_bracket")
        await viewer.until(lambda: viewer.rows(), "a consumer")
        await viewer.press("home", "W")
        await viewer.settle()
        assert not isinstance(viewer.app.screen, ClientsScreen)
        await viewer.press("6")
        told = "connections = true in [session] records them"
        await viewer.until(lambda: told in viewer.words, "the reason")


async def test_of_too_many_the_busiest_are_kept(nats_server: Broker) -> None:
    idle = [await nats.connect(nats_server.url) for _ in range(3)]
    busy = await nats.connect(nats_server.url, name="busy")
    for _ in range(50):
        await busy.publish("elsewhere", b"x")
    await flushed(busy)
    seen: Connections = await look(nats_server.url)
    for nc in (*idle, busy):
        await nc.close()
    kept = busiest_connections(seen, 1)
    assert [one.name for one in kept.rows] == ["busy"]
    assert kept.left_out_count == len(seen.rows) - 1
    assert busiest_connections(seen, 100) is seen
