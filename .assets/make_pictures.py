"""Make the pictures of the README from a real run: `python .assets/make_pictures.py`.

A demo of its own is started, the viewer driven by its keys, and what it draws kept as SVG. The
first picture is animated: its scenes are the lines of SCENES, one after the other.
"""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import Awaitable, Callable
from html import escape
from pathlib import Path

from msgspec import Struct
from textual.pilot import Pilot

from natstui.cli.demo import run_shop
from natstui.cli.open_viewer import ENGINE_COMMAND, replay_engine_command
from natstui.tui.analysis.screen import AnalysisScreen
from natstui.tui.app.app import NatstuiApp
from natstui.tui.app.link import Link
from natstui.tui.bench.screen import BenchmarkScreen
from natstui.tui.frame.messages import RunScenario
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.chart.chart import Chart

HERE = Path(__file__).parent
SIZE = (124, 36)
SETTLED_S = 30.0
"""So long the demo runs until its faults are named."""
DRAWN_S = 10
"""So long is waited for a chart."""
SCENE_S = 4.0
LOAD = """
title = "work behind a stream"
duration = "20s"
[stream]
name = "LOAD"
subjects = ["load.>"]
[[role]]
name = "publishers"
pattern = "js-publish-async"
subject = "load.x"
workers = 2
rate = 4000
[[role]]
name = "workers"
pattern = "js-consume"
workers = 3
"""


class Stage(Struct, frozen=True):
    """The running viewer."""

    app: NatstuiApp
    pilot: Pilot[int]

    async def press(self, *keys: str, then_s: float = 2.0) -> None:
        """Press keys, and wait until what they lead to is drawn."""
        await self.pilot.press(*keys)
        await self.pilot.pause(then_s)
        await self.still()

    async def still(self) -> None:
        """Wait until every chart is drawn: on a busy machine it takes a while."""
        for _ in range(DRAWN_S * 10):
            charts = self.app.screen.query(Chart)
            if not any(chart._is_frame_outdated for chart in charts):
                return
            await self.pilot.pause(0.1)

    async def type(self, text: str, then_s: float = 1.0) -> None:
        """Type text where the cursor is."""
        names = {" ": "space", ".": "full_stop", ">": "greater_than_sign", ":": "colon"}
        await self.press(*(names.get(one, one) for one in text), then_s=then_s)

    async def until(self, holds: Callable[[], object], s: float = 120.0) -> None:
        """Wait until something holds."""
        for _ in range(round(s * 10)):
            if holds():
                return
            await self.pilot.pause(0.1)
        raise TimeoutError

    async def go_to(self, name: str) -> None:
        """Put the cursor of the table on the row with this name."""
        screen = self.app.screen
        assert isinstance(screen, TableScreen) and screen.rows is not None
        keys = [str(screen.rows.key(row)) for row in screen.rows.order]
        at = next(at for at, key in enumerate(keys) if f"'{name}'" in key)
        screen.table.move(at)
        await self.pilot.pause(2.0)
        await self.still()

    def drawn(self) -> str:
        """Return what is on the screen, as SVG."""
        return self.app.export_screenshot(title="natstui", simplify=True)


async def overview(stage: Stage) -> None:
    """Where it begins."""
    await stage.press("0")


async def consumers(stage: Stage) -> None:
    """The worst first."""
    await stage.press("2")


async def cursor(stage: Stage) -> None:
    """The panel follows the cursor."""
    await stage.go_to("fraud-check")


async def detail(stage: Stage) -> None:
    """All of one."""
    await stage.press("enter")


async def advice(stage: Stage) -> None:
    """What is wrong everywhere, and what to do about it."""
    await stage.press("escape", "5")
    screen = stage.app.screen
    assert isinstance(screen, TableScreen) and screen.rows is not None
    rows = screen.rows
    at = next(
        at
        for at, row in enumerate(rows.order)
        if any("fraud-check" in cell.text for cell in rows.cells(row))
    )
    screen.table.move(at)
    await stage.pilot.pause(2.0)


SCENES: tuple[tuple[str, Callable[[Stage], Awaitable[None]]], ...] = (
    ("What is wrong, the servers, what moves: the first screen, without a key", overview),
    ("2: every consumer, the worst first, and what holds it back", consumers),
    ("fraud-check: 64 messages wait for an ack, its limit is reached", cursor),
    ("enter: all of it, with charts of the last minute", detail),
    ("5: what is wrong, since when, on what evidence, and what to do", advice),
)


async def watch(stage: Stage) -> None:
    """Every stream, and what lies on its consumers."""
    await stage.press("escape", "1")
    await stage.go_to("ORDERS")


async def benchmark(stage: Stage) -> None:
    """A run, in its middle."""

    def is_half_over() -> bool:
        running = stage.app.state.benchmark
        is_shown = isinstance(stage.app.screen, BenchmarkScreen)
        return is_shown and running is not None and len(running.seconds) > 8

    stage.app.screen.post_message(RunScenario(LOAD))
    await stage.until(is_half_over)
    # Its charts are drawn anew all the time.
    await stage.pilot.pause(1.0)


async def form(stage: Stage) -> None:
    """A stream that is being made."""
    await stage.press("escape", "1")
    await stage.press("a")
    await stage.type("INVENTORY")
    await stage.press("tab", "tab")
    await stage.type("inventory.>")


async def replay(stage: Stage) -> None:
    """A recording of the last minute, somewhere in its middle."""
    await stage.press("2", "R", then_s=20.0)
    await stage.press("R", then_s=2.0)
    await stage.press("colon")
    await stage.type("sessions")
    await stage.press("enter", then_s=3.0)
    await stage.press("enter", then_s=5.0)
    await stage.press("2", *["right_square_bracket"] * 6, then_s=3.0)


async def analyse(stage: Stage) -> None:
    """What was worth looking at in that recording."""
    await stage.press("colon")
    await stage.type("analyze")
    await stage.press("enter")
    screen = stage.app.screen
    assert isinstance(screen, AnalysisScreen)
    await stage.until(lambda: screen.result is not None, 600.0)
    await stage.pilot.pause(1.0)


STILLS: tuple[tuple[str, Callable[[Stage], Awaitable[None]]], ...] = (
    ("watch", watch),
    ("benchmark", benchmark),
    ("replay", replay),
    ("analyse", analyse),
    # Last: leaving it would ask whether what was typed may be lost.
    ("form", form),
)


def animated(scenes: list[tuple[str, str]]) -> str:
    """Return one SVG that shows others in turn, each with its caption below."""
    match = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', scenes[0][1])
    assert match is not None
    width, height = float(match[1]), float(match[2])
    parts, rules = [], []
    for at, (caption, svg) in enumerate(scenes):
        inner = svg[svg.index("<svg") :]
        inner = inner.replace("<svg ", f'<svg width="{width}" height="{height}" ', 1)
        parts.append(
            f'<g class="scene s{at}">{inner}'
            f'<text class="caption" x="{width / 2}" y="{height + 30}">{escape(caption)}</text></g>'
        )
        begin, end = (100 * n / len(scenes) for n in (at, at + 1))
        steps = {0: 0, 100: 0, begin: 1, end: 0} if end < 100 else {0: 0, begin: 1, 100: 1}
        frames = "".join(f"{percent:g}%{{opacity:{steps[percent]}}}" for percent in sorted(steps))
        rules.append(f"@keyframes k{at}{{{frames}}}.s{at}{{animation-name:k{at}}}")
    style = (
        f".scene{{opacity:0;animation:{SCENE_S * len(scenes):g}s step-end infinite}}"
        ".caption{font:600 20px sans-serif;fill:#7d8fa9;text-anchor:middle}"
        f"{''.join(rules)}"
        # Who wants nothing to move, or cannot have it, sees the middle of the story.
        f".s{len(scenes) // 2}{{opacity:1}}"
        "@media (prefers-reduced-motion:reduce){.scene{animation:none}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height + 44:g}">'
        f"<style>{style}</style>{''.join(parts)}</svg>\n"
    )


async def make(url: str) -> None:
    """Drive the viewer on a server and write the pictures beside this file."""
    argv = (*ENGINE_COMMAND, "--server", url)
    link = Link(argv)
    app = NatstuiApp(
        await asyncio.to_thread(link.wait_started),
        lambda *words: Link((*argv, *words)),
        link,
        lambda folder: Link(replay_engine_command(folder)),
    )
    try:
        async with app.run_test(size=SIZE) as pilot:
            stage = Stage(app, pilot)
            await pilot.pause(SETTLED_S)
            scenes = []
            for caption, act in SCENES:
                await act(stage)
                scenes.append((caption, stage.drawn()))
            write("why", animated(scenes))
            for name, act in STILLS:
                await act(stage)
                write(name, stage.drawn())
                await stage.press("escape", "escape")
    finally:
        app.link.close()


def write(name: str, svg: str) -> None:
    """Write a picture."""
    (HERE / f"{name}.svg").write_text(svg, "utf-8")
    print(f"{name}.svg {len(svg.encode()) / 1e3:.0f} kB")  # noqa: T201 - a script


def main() -> None:
    """Start a demo and make the pictures of it."""
    with tempfile.TemporaryDirectory() as folder, run_shop(None) as shop:
        for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
            os.environ[f"XDG_{kind}_HOME"] = str(Path(folder, kind.lower()))
        os.environ.update(shop.system_environment)
        asyncio.run(make(shop.url))


if __name__ == "__main__":
    main()
