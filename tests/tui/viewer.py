"""The real app on a real engine and server, driven by a pilot."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from textual.pilot import Pilot

from natstui.tui.app.app import NatstuiApp
from natstui.tui.app.link import Link
from natstui.tui.bench.form import new_draft
from natstui.tui.bench.scenarios import ScenariosScreen
from natstui.tui.frame.table_screen import TableScreen
from tests.tui import idle as idle

PATIENCE_S = 20.0
NATSTUI = (sys.executable, "-P", "-m", "natstui")


@dataclass
class Viewer:
    """A running app and its pilot."""

    app: NatstuiApp
    pilot: Pilot[int]

    @property
    def text(self) -> str:
        """Everything on the screen, line by line."""
        return "\n".join(strip.text for strip in self.app.screen._compositor.render_strips())

    @property
    def words(self) -> str:
        """What is on the screen as one line: a sentence is found wherever it was wrapped."""
        return re.sub(r"[\s│]+", " ", self.text)

    @property
    def table(self) -> TableScreen:
        """The table in view."""
        assert isinstance(self.app.screen, TableScreen)
        return self.app.screen

    def rows(self) -> dict[str, dict[str, str]]:
        """The rows of the table in view, as text: by name, then by column; none elsewhere."""
        screen = self.app.screen
        source = screen.rows if isinstance(screen, TableScreen) else None
        if source is None:
            return {}
        found = {}
        for row in source.order:
            cells = source.cells(row)
            texts = {s.id: c.text for s, c in zip(self.table.SPECS, cells, strict=True)}
            found[texts[self.table.SPECS[0].id]] = texts
        return found

    async def until(
        self, holds: Callable[[], object], what: str = "", s: float = PATIENCE_S
    ) -> None:
        """Wait until something holds."""
        for _ in range(int(s / 0.05)):
            if holds():
                return
            await self.pilot.pause(0.05)
        raise AssertionError(f"still not so after {s:g} s: {what}\n{self.text}")

    async def becomes(self, name: str, **expected: str) -> None:
        """Wait until a row of the table in view shows these texts."""
        await self.until(
            lambda: expected.items() <= self.rows().get(name, {}).items(),
            f"{name} {expected}, but {self.rows().get(name)}",
        )

    async def press(self, *keys: str) -> None:
        """Press keys, one after the other; a page down begins where the one before has ended."""
        for key in keys:
            await self.pilot.press(key)
            await self.app.animator.wait_for_idle()
        await self.pilot.pause()

    async def type_command(self, line: str) -> None:
        """Enter a command line."""
        await self.press("colon", *(_KEYS.get(c, c) for c in line), "enter")


_KEYS = {
    " ": "space",
    "_": "underscore",
    "-": "minus",
    ".": "full_stop",
    ":": "colon",
    "[": "left_square_bracket",
    "]": "right_square_bracket",
    "/": "slash",
    "+": "plus",
}


@contextmanager
def frozen(viewer: Viewer) -> Iterator[subprocess.Popen[bytes]]:
    """Stop the engine of what is shown meanwhile, so that no answer comes."""
    process = viewer.app.link._process
    process.send_signal(signal.SIGSTOP)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)


@asynccontextmanager
async def viewing(
    url: str,
    *flags: str,
    size: tuple[int, int] = (200, 60),
    polled: bool = True,
    environ: dict[str, str] | None = None,
) -> AsyncIterator[Viewer]:
    """Start engine and app on a server; end both. `environ` is the engine's besides ours."""
    os.environ.update(environ or {})
    argv = (*NATSTUI, "engine", "--server", url, *flags)
    try:
        async with _running(argv, size) as viewer:
            if polled:
                await viewer.until(lambda: viewer.app.state.costs, "no poll yet")
            yield viewer
    finally:
        for name in environ or {}:
            del os.environ[name]


@asynccontextmanager
async def replaying(
    folder: Path | str, *flags: str, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[Viewer]:
    """Show a recording, held at its beginning."""
    argv = (*NATSTUI, "replay-engine", str(folder), "--paused", *flags)
    async with _running(argv, size) as viewer:
        await viewer.until(lambda: viewer.app.state.replay, "no position yet")
        yield viewer


@asynccontextmanager
async def _running(argv: tuple[str, ...], size: tuple[int, int]) -> AsyncIterator[Viewer]:
    # A viewer is a process of its own; here several share one.
    ScenariosScreen.drafts.clear()
    new_draft()
    ScenariosScreen.last = ""
    link = Link(argv)
    started = await asyncio.to_thread(link.wait_started)
    app = NatstuiApp(
        started,
        lambda *words: Link((*argv, *words)),
        link,
        lambda folder: Link((*NATSTUI, "replay-engine", folder, "--paused")),
    )
    try:
        async with app.run_test(size=size, notifications=True) as pilot:
            yield Viewer(app, pilot)
    finally:
        app.link.close()
