"""What a recording shows is what was on the screen: every screen, there and back."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import nats
import pytest

from natstui.jetstream.broker import Broker
from natstui.model.benchmark_view import BenchmarkView
from natstui.model.recording import SeekTo, Step
from natstui.model.state import State
from natstui.tui.messages import Open, RunScenario
from natstui.tui.widgets.chart import Chart
from tests.tui.svg_pictures import Picture, picture
from tests.tui.viewer import Viewer, replaying, viewing

WIDTH, HEIGHT = 120, 40
TIMELINE_LINES = 2
SCREENS = ("1", "2", "3", "4", "stream", "consumer", "b")
LOAD = """
title = "work behind a stream"
duration = "12s"
warmup = "0s"
[stream]
name = "LOAD"
subjects = ["load.>"]
[[role]]
name = "publishers"
pattern = "js-publish-async"
subject = "load.x"
rate = 500
[[role]]
name = "workers"
pattern = "js-consume"
workers = 2
"""


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


async def rest(viewer: Viewer) -> Picture:
    """Wait until nothing moves any more."""
    before: Picture = []
    for _ in range(200):
        await viewer.pilot.pause(0.15)
        now = picture(viewer.app, HEIGHT - 1)
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
        taken[name] = await rest(viewer)
        if len(name) > 1:
            await viewer.press("escape")
    await viewer.press("1")
    return taken


def running(state: State) -> BenchmarkView:
    return state.benchmark or BenchmarkView()


def running_text(taken: Picture) -> bool:
    """Tell whether a picture shows the load in its middle."""
    text = " ".join(part for row in taken for part in row)
    return "steady" in text and "left" in text and "PUBLISHERS" in text


def same(one: dict[str, Picture], other: dict[str, Picture]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        for at, (left, right) in enumerate(zip(one[name], other[name], strict=True)):
            assert left == right, f"screen {name}, row {at}"


@contextmanager
def held(viewer: Viewer) -> Iterator[None]:
    """Hold the engine, so that a moment in the middle of something stays on the screen."""
    os.kill(viewer.app.link.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(viewer.app.link.pid, signal.SIGCONT)


Moments = list[tuple[int, dict[str, Picture]]]


async def replayed(folder: str, live: Moments) -> None:
    """Go there and back, by seeking and by steps, and find the same pictures."""
    async with replaying(folder, size=(WIDTH, HEIGHT + TIMELINE_LINES)) as viewer:

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


async def test_a_recording_shows_what_was_shown_live_on_every_screen_there_and_back(
    nats_server: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATSTUI_SESSION_RECORD", "true")
    live: Moments = []

    async def look() -> None:
        live.append((viewer.app.state.now_at_us, await pictures(viewer)))
        assert viewer.app.state.now_at_us == live[-1][0], "something happened meanwhile"

    async def poll() -> None:
        polls = len(viewer.app.state.costs)
        await viewer.press("ctrl+r")
        await viewer.until(lambda: len(viewer.app.state.costs) > polls)
        await viewer.pilot.pause(0.5)

    await traffic(nats_server, 10)
    size = (WIDTH, HEIGHT)
    async with viewing(nats_server.url, "--interval", "60s", size=size) as viewer:
        await traffic(nats_server, 20)
        await viewer.type_command("note more")
        await poll()
        await look()
        viewer.app.screen.post_message(RunScenario(LOAD))
        await viewer.until(lambda: len(running(viewer.app.state).seconds) > 3, "the load runs")
        await viewer.press("1")
        await poll()
        with held(viewer):
            await viewer.pilot.pause(0.5)
            await look()
        await viewer.until(lambda: running(viewer.app.state).summed, "the load is over", s=60)
        await traffic(nats_server, 60)
        await poll()
        await look()
        recording = viewer.app.state.recording
        assert recording is not None and recording.on and recording.folder
    assert running_text(live[1][1]["b"]) and live[0][1] != live[1][1] != live[2][1]
    await replayed(recording.folder, live)
