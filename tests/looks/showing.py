"""Shows every screen of the recording at two held moments, and says what each looks like.

`python -m tests.looks.showing` makes all pictures anew; with a folder behind it, SVGs there too.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
import textual

from natstui.model.records.recording import SeekTo
from natstui.tui.bench.screen import BenchmarkScreen
from natstui.tui.frame.messages import Open
from natstui.tui.kit.chart.chart import Chart
from natstui.tui.streams.screen import StreamsScreen
from tests.conftest import keep_apart
from tests.tui.svg_pictures import rows_of
from tests.tui.viewer import Viewer, replaying

RECORDING = Path(__file__).parent / "recording"
PICTURES = Path(__file__).parent / "pictures"
MAKE_ANEW = "python -m tests.looks.showing"
SIZES = ((80, 24), (120, 40), (200, 60))

Step = Callable[[Viewer], Awaitable[object]]


def _press(*keys: str) -> Step:
    return lambda viewer: viewer.press(*keys)


def _open(what: str, stream: str, consumer: str | None = None) -> Step:
    async def opened(viewer: Viewer) -> None:
        viewer.app.post_message(Open(what, stream, consumer))
        await viewer.until(lambda: len(viewer.app.screen_stack) > 1)

    return opened


async def _crossed(viewer: Viewer) -> None:
    await viewer.press("escape", "escape")
    await viewer.until(lambda: len(viewer.app.screen_stack) == 1)
    await _open("consumer", "PAYMENTS", "risk-score")(viewer)
    await at_rest(viewer)
    await viewer.press("z")
    await at_rest(viewer)
    await viewer.press(*["left"] * 12)


async def _help(viewer: Viewer) -> None:
    await viewer.press("escape", "1")
    # On a busy machine the list comes later than the next key would.
    await viewer.until(lambda: isinstance(viewer.app.screen, StreamsScreen))
    await viewer.press("question_mark")


RUNNING_S, OVER_S = 20.0, 30.0
"""Seconds after the beginning of the recording: in the middle of the load, and after it."""
SCREENS: dict[str, tuple[float, Step]] = {
    "benchmark-running": (RUNNING_S, _press("b")),
    "overview": (OVER_S, _press("0")),
    "streams": (OVER_S, _press("1")),
    "consumers": (OVER_S, _press("2")),
    "events": (OVER_S, _press("3")),
    "servers": (OVER_S, _press("4")),
    "findings": (OVER_S, _press("5")),
    "finding": (OVER_S, _press("d")),
    "connections": (OVER_S, _press("escape", "6")),
    "buckets": (OVER_S, _press("7")),
    "benchmark-over": (OVER_S, _press("b")),
    "stream": (OVER_S, _open("stream", "ORDERS")),
    "consumer": (OVER_S, _open("consumer", "RETURNS", "fraud-check")),
    "chart": (OVER_S, _crossed),
    "help": (OVER_S, _help),
    "panel-elsewhere": (OVER_S, _press("escape", "2", "v")),
}
"""Picture → when it is, and how one gets there from the picture before it."""


@contextmanager
def fixed() -> Iterator[None]:
    """Write clock times in UTC, and read nobody's settings."""
    with pytest.MonkeyPatch.context() as environ, tempfile.TemporaryDirectory() as home:
        keep_apart(environ, Path(home))
        environ.setenv("TZ", "UTC")
        time.tzset()
        try:
            yield
        finally:
            environ.undo()
            time.tzset()


async def at_rest(viewer: Viewer) -> None:
    """Wait until nothing moves any more."""
    before, times = "", 0
    for _ in range(600):
        await viewer.pilot.pause(0.1)
        screen = viewer.app.screen
        charts = screen.query(Chart)
        moving = any(chart.is_frame_pending for chart in charts)
        if isinstance(screen, BenchmarkScreen):
            moving = moving or screen._pending_refresh is not None
        times = times + 1 if not moving and viewer.text == before else 0
        if times == 2:
            return
        before = viewer.text
    raise AssertionError("the picture never comes to rest")


@asynccontextmanager
async def shown(size: tuple[int, int]) -> AsyncIterator[Viewer]:
    """Show the recording in a terminal of a size."""
    async with replaying(RECORDING, size=size, panel=True) as viewer:
        yield viewer


async def goes_to(viewer: Viewer, at_s: float) -> None:
    """Go to a moment of the recording, and stay there."""
    replay = viewer.app.state.replay
    assert replay is not None
    at_us = replay.start_at_us + round(at_s * 1e6)
    viewer.app.parts.engines.send(SeekTo(1, at_us))
    await viewer.until(lambda: viewer.app.state.replay.at_us == at_us)  # type: ignore[union-attr]


def drawn(viewer: Viewer) -> str:
    """Return the screen as text, and what each row's colours and styles come to at its end.

    Those are of the SVG, and compared only with the Textual that made the picture.
    """
    lines = viewer.text.split("\n")
    rows = rows_of(viewer.app)
    whole = [f"Textual {textual.__version__}"]
    for row, text in enumerate(lines):
        looks = hashlib.sha256("\n".join(rows.get(row, [])).encode()).hexdigest()[:4]
        whole.append(f"{text}│{looks}")
    return "\n".join(whole) + "\n"


def same_picture(kept: str, now: str) -> bool:
    """Tell whether a picture is the one that is kept; another Textual may paint otherwise."""
    (by_kept, *old), (by_now, *new) = kept.split("\n"), now.split("\n")
    if by_kept == by_now:
        return old == new
    return [row.rpartition("│")[0] for row in old] == [row.rpartition("│")[0] for row in new]


async def every_picture(size: tuple[int, int], svgs: Path | None = None) -> dict[str, str]:
    """Return what every screen looks like in a size."""
    pictures, at_s = {}, 0.0
    async with shown(size) as viewer:
        for name, (moment_s, step) in SCREENS.items():
            if moment_s != at_s:
                await goes_to(viewer, moment_s)
                at_s = moment_s
            await step(viewer)
            await at_rest(viewer)
            pictures[name] = drawn(viewer)
            if svgs is not None:
                svg = viewer.app.export_screenshot(title=f"natstui {name}", simplify=True)
                (svgs / f"{name}-{size[0]}x{size[1]}.svg").write_text(svg, encoding="utf-8")
    return pictures


def file_of(name: str, size: tuple[int, int]) -> Path:
    """Return where a picture is kept."""
    return PICTURES / f"{name}-{size[0]}x{size[1]}.txt"


def main(svgs: Path | None) -> None:
    """Make every picture anew."""
    PICTURES.mkdir(exist_ok=True)
    for size in SIZES:
        # A place of its own for each, as in the test: what a user chose is remembered.
        with fixed():
            pictures = asyncio.run(every_picture(size, svgs))
        for name, text in pictures.items():
            file_of(name, size).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    os.umask(0o022)
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
