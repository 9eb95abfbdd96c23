"""What a recording shows is what was on the screen: every screen, there and back."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from msgspec import Struct
from textual.strip import Strip

from natstui.cli.demo import run_shop
from natstui.model.bench.view import BenchmarkView
from natstui.model.live.age import time_since_poll_us
from natstui.model.live.state import State
from natstui.model.records.recording import SeekTo, Step
from natstui.tui.bench.screen import BenchmarkScreen
from natstui.tui.frame.detail.peek import PEEK_STATE_KEY
from natstui.tui.frame.messages import Open, RunScenario
from natstui.tui.frame.stored_settings import store_view_setting
from natstui.tui.kit.chart.chart import Chart
from natstui.tui.servers.screen import ServerScreen
from tests.tui.svg_pictures import Picture, picture
from tests.tui.viewer import Viewer, replaying, viewing

pytestmark = pytest.mark.slow

SIZE = (120, 40)
TIMELINE_LINES = 2
SCREENS = ("1", "2", "3", "4", "stream", "consumer", "b")
OF_A_LOAD = ("1", "stream", "b")
"""Those that show a load while it runs."""
BACK_AGAIN = ("1", "3", "consumer")
"""Those that a moment which was shown since could have left something on."""
LOAD = """
title = "work behind a stream"
duration = "10m"
warmup = "0s"
[stream]
name = "LOAD"
subjects = ["load.>"]
[[role]]
name = "publishers"
pattern = "js-publish-async"
subject = "load.x"
rate = 100
[[role]]
name = "workers"
pattern = "js-consume"
workers = 2
"""


class Look(Struct, frozen=True):
    """What every screen showed at one moment."""

    at_us: int
    pictures: dict[str, Picture]


async def rest(viewer: Viewer) -> Picture:
    """Wait until nothing moves any more."""
    before: list[Strip] = []
    for _ in range(300):
        await viewer.pilot.pause(0.1)
        screen = viewer.app.screen
        now = screen._compositor.render_strips()
        drawing = any(chart.is_frame_pending for chart in screen.query(Chart))
        later = isinstance(screen, BenchmarkScreen) and screen._pending_refresh
        if now == before and not drawing and not later:
            return picture(viewer.app, SIZE[1] - 1)
        before = now
    raise AssertionError("the picture never comes to rest")


async def pictures(viewer: Viewer, *screens: str) -> dict[str, Picture]:
    """Return the pictures of screens at this moment."""
    taken = {}
    for name in screens:
        if len(name) == 1:
            await viewer.press(name)
        else:
            consumer = "billing" if name == "consumer" else None
            viewer.app.post_message(Open(name, "ORDERS", consumer))
            await viewer.until(lambda: len(viewer.app.screen_stack) > 1)
        taken[name] = await rest(viewer)
        if isinstance(viewer.app.screen, ServerScreen):
            # Its servers are in no recording; what stands beside them is.
            texts = viewer.app.screen.server, viewer.app.screen.monitor
            taken[name] = [[str(one._sections) for one in texts]]
        if len(name) > 1:
            await viewer.press("escape")
    await viewer.press("1")
    return taken


def running(state: State) -> BenchmarkView:
    return state.benchmark or BenchmarkView()


def running_text(taken: Picture) -> bool:
    """Tell whether a picture shows the load in its middle."""
    text = " ".join(part for row in taken for part in row)
    return "steady" in text and "left" in text and "workers" in text


def words(row: list[str]) -> str:
    """Return what can be read in a row."""
    texts = (part.partition(" at ")[0] for part in row if " wide" not in part)
    return " ".join(texts).replace("&#160;", " ")


def same(one: dict[str, Picture], other: dict[str, Picture]) -> None:
    """Compare a live picture with a replayed one."""
    assert one.keys() == other.keys()
    for name in one:
        for at, (left, right) in enumerate(zip(one[name], other[name], strict=True)):
            said = f"{name}, row {at}:\n{words(left)}\n{words(right)}"
            if at == 0:
                assert tabs(left) == tabs(right), said
            elif at == 1:
                # The recorder's mark takes room: where that is short, a live first row says less.
                assert head(right).startswith(head(left)), said
            else:
                assert left == right, said


def tabs(row: list[str]) -> str:
    """Return the words of the tabs without the counts of what is in no recording."""
    text = " ".join(words(row).split())
    text = re.sub(r"(Servers|Connections) \d+ (?=\d )", r"\1 ", text)
    return re.sub(r"\b([46]) · \d+ ", r"\1 ", text)


def head(row: list[str]) -> str:
    """Return the words of the second row without those on the connection, which is over."""
    text = words(row).replace("○ was connected", "● connected")
    text = re.sub(r"● REC \S+ \S+ ", "", " ".join(text.split()))
    return " ".join(re.sub(r"\brtt \S+", "", text).split())


@contextmanager
def held(viewer: Viewer) -> Iterator[None]:
    """Hold the engine and the clock, so that a moment in the middle of something stays."""

    def newest_record_s() -> float:
        return (
            viewer.app.parts.engines.acting_system.follower._polled_at_s
            + time_since_poll_us(viewer.app.state) / 1e6
        )

    os.kill(viewer.app.link.pid, signal.SIGSTOP)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("natstui.tui.app.follower.steady_s", newest_record_s)
            yield
    finally:
        os.kill(viewer.app.link.pid, signal.SIGCONT)


async def looked(viewer: Viewer, *screens: str) -> Look:
    """Poll, and look at what there is then; the shop goes on, and the engine hears it later."""
    polls = len(viewer.app.state.costs)
    await viewer.press("ctrl+r")
    await viewer.until(lambda: len(viewer.app.state.costs) > polls)
    # The findings of a poll are written after it: stopped in between, the engine would have
    # recorded what it has not sent.
    await viewer.pilot.pause(0.5)
    with held(viewer):
        at_us = 0
        while at_us != viewer.app.state.now_at_us:
            # What the engine wrote before it was stopped is still to be read.
            at_us = viewer.app.state.now_at_us
            await viewer.pilot.pause(0.5)
        look = Look(at_us, await pictures(viewer, *screens))
        assert viewer.app.state.now_at_us == at_us, "something happened meanwhile"
    return look


async def looked_at_a_load(viewer: Viewer) -> list[Look]:
    """Run a load, and look at it in its middle and after its end."""
    viewer.app.screen.post_message(RunScenario(LOAD))
    await viewer.until(lambda: len(running(viewer.app.state).seconds) > 3, "the load runs", 90)
    await viewer.press("1")
    middle = await looked(viewer, *OF_A_LOAD)
    # However long the looks took, they were in the middle of it.
    await viewer.press("b", "ctrl+x")
    await viewer.until(lambda: running(viewer.app.state).summed, "the load is over", s=60)
    await viewer.press("1")
    after = await looked(viewer, "b")
    assert running_text(middle.pictures["b"])
    assert middle.pictures["b"] != after.pictures["b"]
    return [middle, after]


async def replayed(folder: str, before: Look, *more: Look) -> None:
    """Go there and back, by seeking and by steps, and find the same pictures."""
    async with replaying(folder, size=(SIZE[0], SIZE[1] + TIMELINE_LINES)) as viewer:

        async def goes_to(at_us: int) -> None:
            viewer.app.parts.engines.send(SeekTo(1, at_us))
            await viewer.until(lambda: viewer.app.state.replay.at_us == at_us)  # type: ignore[union-attr]

        async def finds(look: Look) -> None:
            await goes_to(look.at_us)
            same(look.pictures, await pictures(viewer, *look.pictures))

        for look in (before, *more):
            await finds(look)
        await goes_to(before.at_us)
        viewer.app.parts.engines.send(Step(2, 1))
        await viewer.until(lambda: viewer.app.state.replay.at_us > before.at_us)  # type: ignore[union-attr]
        viewer.app.parts.engines.send(Step(3, -1))
        await viewer.until(lambda: viewer.app.state.replay.at_us <= before.at_us)  # type: ignore[union-attr]
        await finds(Look(before.at_us, {name: before.pictures[name] for name in BACK_AGAIN}))


@pytest.mark.long
@pytest.mark.parametrize("with_a_load", [False, True])
async def test_a_recording_of_the_demo_shows_what_was_shown_live_on_every_screen_there_and_back(
    monkeypatch: pytest.MonkeyPatch, with_a_load: bool
) -> None:
    monkeypatch.setenv("NATSTUI_SESSION_RECORD", "true")
    # It tells findings, and what an open one tells is recorded again every 30 s only.
    store_view_setting(PEEK_STATE_KEY, "none")
    with run_shop(None) as shop:
        async with viewing(shop.url, "--interval", "60s", size=SIZE) as viewer:
            await viewer.type_command("note more")
            before = await looked(viewer, *SCREENS)
            if with_a_load:
                later = await looked_at_a_load(viewer)
            else:
                later = [await looked(viewer, *BACK_AGAIN)]
            recording = viewer.app.state.recording
            assert recording is not None and recording.on and recording.folder
    for look in later:
        assert look.pictures != {name: before.pictures[name] for name in look.pictures}
    await replayed(recording.folder, before, *later)
