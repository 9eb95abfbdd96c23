"""Browsing through the screen: from the key that asks to the page drawn, by the real app."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from textual.pilot import Pilot

from natstui.model.records.messages import MessagePage
from natstui.tui.app.app import NatstuiApp
from natstui.tui.app.link import Link
from natstui.tui.messages.screen import MessagePages

_PATIENCE_S = 10.0
_KEYS = {
    "/": "slash",
    "[": "left_square_bracket",
    "]": "right_square_bracket",
}


class Walker:
    """Presses keys, and knows when the page they ask for stands on the screen."""

    def __init__(self, app: NatstuiApp, pilot: Pilot[int]) -> None:
        self.app, self.pilot = app, pilot
        self._drawn = asyncio.Event()
        draw = MessagePages._draw

        def drawn(pages: MessagePages, page: MessagePage) -> None:
            draw(pages, page)
            pages.call_after_refresh(self._render, pages)

        MessagePages._draw = drawn  # type: ignore[method-assign]

    def _render(self, pages: MessagePages) -> None:
        # Without a terminal Textual lays out only: make the lines it would write, too.
        pages.screen._compositor.render_strips()
        self._drawn.set()

    async def until_rows(self) -> None:
        """Wait until the table of streams has its row."""
        async with asyncio.timeout(_PATIENCE_S):
            while not self.app.state.streams.roster.keys:
                await asyncio.sleep(0.05)
        await self.pilot.pause(0.5)

    async def page_ms(self, way: Sequence[str], last: str) -> float:
        """Press the keys of a way, then `last`; return the milliseconds until the page stands."""
        await self.pilot.press(*way)
        await self.pilot.pause(0.2)
        self._drawn.clear()
        started = time.perf_counter()
        self.app.simulate_key(_KEYS.get(last, last))
        async with asyncio.timeout(_PATIENCE_S):
            await self._drawn.wait()
        return 1000 * (time.perf_counter() - started)


def jumps(count: int, middle_time: str) -> dict[str, tuple[tuple[str, ...], str]]:
    """Return the keys of each jump: those that lead there, and the one that asks."""
    return {
        "oldest": ((), "G"),
        "next page": ((), "]"),
        "newest": ((), "g"),
        "page before": ((), "["),
        "sequence in the middle": (("s", *str(count // 2)), "enter"),
        "page before the middle": ((), "["),
        "time of the middle": (("t", *middle_time), "enter"),
        "newest of one subject in 100": (("/", "ctrl+u", *"w.7"), "enter"),
        "its page before": ((), "["),
        "no filter": (("/", "ctrl+u"), "enter"),
        "last of each subject": ((), "l"),
        "first not acknowledged": (("o", "C", "enter"), "enter"),
        "ack floor": (("o", "C", "enter", "down"), "enter"),
        "next to deliver": (("o", "C", "enter", "down", "down"), "enter"),
    }


def resident_bytes(pid: int | str) -> int:
    """Return how much memory a process holds (VmRSS)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


async def measure_screen(url: str, count: int, middle_time: str, rounds: int = 5) -> None:
    """Print what each jump takes, five times each, and what memory both processes gain."""
    argv = (sys.executable, "-P", "-m", "natstui", "engine", "--server", url)
    link = Link(argv)
    app = NatstuiApp(link.wait_started(), lambda *words: Link((*argv, *words)), link)
    try:
        async with app.run_test(size=(120, 40), notifications=True) as pilot:
            walker = Walker(app, pilot)
            await walker.until_rows()
            await _measured(walker, jumps(count, middle_time), rounds, link.pid)
    finally:
        link.close()


async def _measured(
    walker: Walker, ways: dict[str, tuple[tuple[str, ...], str]], rounds: int, engine: int
) -> None:
    firsts = []
    for _ in range(rounds):
        firsts.append(await walker.page_ms((), "m"))
        await walker.pilot.press("escape")
    await walker.page_ms((), "m")
    took: dict[str, list[float]] = {"first page": firsts, **{name: [] for name in ways}}
    held = []
    for _ in range(rounds):
        for name, (way, last) in ways.items():
            took[name].append(await walker.page_ms(way, last))
        held.append((resident_bytes("self"), resident_bytes(engine)))
    for name, times in took.items():
        shown = f"median {statistics.median(times):6.1f} ms, most {max(times):6.1f} ms"
        print(f"  screen: {name:32}{shown}")
    viewer, own = ((held[-1][at] - held[0][at]) / 1048576 for at in (0, 1))
    pages = (rounds - 1) * len(ways)
    print(f"  memory over {pages} pages: viewer {viewer:+.1f} MiB, engine {own:+.1f} MiB")
