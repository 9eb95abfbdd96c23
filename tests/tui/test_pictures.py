"""What a recording shows is what was on the screen: every screen, there and back."""

from __future__ import annotations

import re

import nats
import pytest

from natstui.jetstream.broker import Broker
from natstui.model.recording import SeekTo, Step
from natstui.tui.messages import Open
from natstui.tui.widgets.chart import Chart
from tests.tui.viewer import Viewer, replaying, viewing

WIDTH, HEIGHT = 120, 40
TIMELINE_LINES = 2
Picture = list[list[tuple[str, str]]]
SCREENS = ("1", "2", "3", "4", "stream", "consumer")


async def traffic(server: Broker, msgs: int) -> None:
    """Publish, and acknowledge half of it."""
    nc = await nats.connect(server.url)
    js = nc.jetstream()
    await js.add_stream(name="ORDERS", subjects=["orders.>"])
    for number in range(msgs):
        await js.publish(f"orders.{number}", b"x" * number)
    puller = await js.pull_subscribe("orders.>", durable="billing", stream="ORDERS")
    for message in await puller.fetch(msgs // 2):
        await message.ack()
    await nc.close()


def lines(viewer: Viewer) -> Picture:
    """Strip and body, as text with its style; without that it records, and below the body."""
    drawn = viewer.app.screen._compositor.render_strips()[: HEIGHT - 1]
    kept = [[(s.text, str(s.style)) for s in strip.simplify()] for strip in drawn]
    recording = re.compile(r"● REC \S+ \S+  ")
    first = recording.sub("", "".join(text for text, _ in kept[0])).rstrip()
    return [[(first, "")], *kept[1:]]


async def picture(viewer: Viewer) -> Picture:
    """Wait until nothing moves any more."""
    before: Picture = []
    for _ in range(200):
        await viewer.pilot.pause(0.15)
        now = lines(viewer)
        drawing = any(chart._drawing or chart._timer for chart in viewer.app.screen.query(Chart))
        if now == before and not drawing:
            return now
        before = now
    raise AssertionError("the picture never comes to rest")


async def pictures(viewer: Viewer) -> dict[str, Picture]:
    """Return the picture of every screen at this moment."""
    taken = {}
    for name in SCREENS:
        if len(name) == 1:
            await viewer.press(name)
        else:
            consumer = "billing" if name == "consumer" else None
            viewer.app.post_message(Open(name, "ORDERS", consumer))
            await viewer.until(lambda: len(viewer.app.screen_stack) > 1)
        taken[name] = await picture(viewer)
        if len(name) > 1:
            await viewer.press("escape")
    await viewer.press("1")
    return taken


def same(one: dict[str, Picture], other: dict[str, Picture]) -> None:
    for name in SCREENS:
        for at, (left, right) in enumerate(zip(one[name], other[name], strict=True)):
            assert left == right, f"screen {name}, line {at}"


async def test_a_recording_shows_what_was_shown_live_on_every_screen_there_and_back(
    nats_server: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATSTUI_SESSION_RECORD", "true")
    live: list[tuple[int, dict[str, Picture]]] = []
    size = (WIDTH, HEIGHT)
    await traffic(nats_server, 10)
    async with viewing(nats_server.url, "--interval", "60s", size=size) as viewer:
        for msgs in (20, 60):
            await traffic(nats_server, msgs)
            polls = len(viewer.app.state.costs)
            await viewer.type_command("note more")
            await viewer.press("ctrl+r")
            await viewer.until(lambda polls=polls: len(viewer.app.state.costs) > polls)
            await viewer.pilot.pause(0.5)
            live.append((viewer.app.state.now_at_us, await pictures(viewer)))
            assert viewer.app.state.now_at_us == live[-1][0]
        recording = viewer.app.state.recording
        assert recording is not None and recording.on and recording.folder
    assert live[0][1] != live[1][1]
    async with replaying(recording.folder, size=(WIDTH, HEIGHT + TIMELINE_LINES)) as viewer:

        async def goes_to(at_us: int) -> None:
            viewer.app.send(SeekTo(1, at_us))
            await viewer.until(lambda: viewer.app.state.replay.at_us == at_us)  # type: ignore[union-attr]

        for at_us, taken in (*live, live[0]):
            await goes_to(at_us)
            same(taken, await pictures(viewer))
        viewer.app.send(Step(2, 1))
        await viewer.until(lambda: viewer.app.state.replay.at_us > live[0][0])  # type: ignore[union-attr]
        viewer.app.send(Step(3, -1))
        await viewer.until(lambda: viewer.app.state.replay.at_us <= live[0][0])  # type: ignore[union-attr]
        await goes_to(live[0][0])
        same(live[0][1], await pictures(viewer))
