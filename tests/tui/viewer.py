"""The app, driven by a pilot: on records that a test gives it, an engine, or a replay."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest
from rich.console import RenderableType
from textual import events
from textual._compositor import Compositor
from textual._context import visible_screen_stack
from textual.keys import _character_to_key
from textual.message import Message
from textual.message_pump import MessagePump
from textual.notifications import Notify
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input

from natstui.lines import decode_command, encode_record
from natstui.model.records.record import Command, Record
from natstui.output import write_all
from natstui.tui.app import live_system
from natstui.tui.app.app import NatstuiApp
from natstui.tui.app.link import Link
from natstui.tui.bench.form import BenchmarkDraft, BenchmarkForm
from natstui.tui.bench.scenarios import ScenariosScreen
from natstui.tui.frame.detail.peek import PEEK_STATE_KEY
from natstui.tui.frame.stored_settings import store_view_setting
from natstui.tui.frame.table_screen import TableScreen
from tests.tui.preloaded import make_ready, start_preloaded

C = TypeVar("C")
PATIENCE_S = 60.0
"""Where ten others want the processor, a reply of an engine may take half of it."""
LOOK_AGAIN_S, LOOK_SELDOM_S = 0.1, 0.3
"""To read a whole screen takes 10 to 20 ms of the processor."""
AT_ONCE_S = 0.005
"""For what follows a key at once, where what it draws is of no interest."""
FIRST = "streams"
"""Most tests are about a table; the app itself opens with the overview."""
NATSTUI = (sys.executable, "-P", "-m", "natstui")


FRAME_S = 1 / 60
"""Textual draws, and calls what waits for a drawing, after this."""
IDLE_WITHIN_S = 1.0
_TURNS_OF_A_KEY = 3
"""Of the event loop, until a key that the driver sends is in the app's queue."""


async def until_idle() -> None:
    """Wait for a frame, and then until every task waits for something from outside.

    Textual's own pilot waits until the process has used no processor for a while, and an app that
    is polled and drawn all the time does.
    """
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + IDLE_WITHIN_S
    await asyncio.sleep(FRAME_S)
    while loop._ready and loop.time() < give_up_at:  # type: ignore[attr-defined]
        await asyncio.sleep(0)


@dataclass
class Viewer:
    """A running app and its pilot."""

    app: NatstuiApp
    pilot: Pilot[int]
    toasts: list[str]
    """What toasts have said: they are seen for seconds, which a busy machine may miss."""
    _waits: bool = field(default=False, init=False)

    _drawn: tuple[int, Screen[object], str] | None = field(default=None, init=False)
    """What was drawn while something is waited for: after how many changes, and which screen."""

    @property
    def text(self) -> str:
        """Everything on the screen, line by line."""
        screen, changes = self.app.screen, _changes.count
        if self._waits and self._drawn is not None and self._drawn[:2] == (changes, screen):
            return self._drawn[2]
        self._drawn = changes, screen, self._draw()
        return self._drawn[2]

    def _draw(self) -> str:
        # Otherwise a dialog is over what lay below another one that was drawn for this test.
        visible_screen_stack.set(self.app._background_screens)
        return "\n".join(strip.text for strip in self.app.screen._compositor.render_strips())

    def line(self, number: int) -> str:
        """Return a line of the screen, from 0; empty where nothing is drawn yet."""
        lines = self.text.splitlines()
        return lines[number] if number < len(lines) else ""

    @property
    def words(self) -> str:
        """What is on the screen as one line: a sentence is found wherever it was wrapped."""
        return re.sub(r"[\s│]+", " ", self.text)

    @property
    def said(self) -> str:
        """What is on the screen, and what toasts have said: those go while a machine is busy."""
        return " ".join((*self.toasts, self.words))

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
            texts = {s.id: c.text for s, c in zip(source.specs, cells, strict=True)}
            found[texts[self.table.SPECS[0].id]] = texts
        return found

    async def until(
        self,
        holds: Callable[[], object],
        what: str = "",
        s: float = PATIENCE_S,
        every_s: float = LOOK_AGAIN_S,
    ) -> None:
        """Wait until something holds and is drawn; fail with what is on the screen otherwise.

        What is looked at more often than usual passes: then this returns at once.
        """
        began_s = time.monotonic()
        self._drawn = None
        while (waited_s := time.monotonic() - began_s) < s:
            self._waits = True
            try:
                is_so = holds()
            finally:
                self._waits = False
            if is_so:
                if every_s >= LOOK_AGAIN_S:
                    await until_idle()
                return
            # What has taken long comes no sooner when it is looked at more often.
            seldom_s = LOOK_SELDOM_S if every_s >= LOOK_AGAIN_S else every_s
            await asyncio.sleep(max(every_s, min(waited_s / 5, seldom_s)))
        raise AssertionError(f"still not so after {s:g} s: {what}\n{self.text}")

    async def becomes(self, name: str, **expected: str) -> None:
        """Wait until a row of the table in view shows these texts."""
        await self.until(
            lambda: expected.items() <= self.rows().get(name, {}).items(),
            f"{name} {expected}, but {self.rows().get(name)}",
        )

    async def press(self, *keys: str) -> None:
        """Press keys, one after the other, each when what the one before began is over."""
        for key in keys:
            self.send(key)
            await until_idle()
            if not self.app.animator._idle_event.is_set():
                await self.app.animator.wait_for_idle()
                await until_idle()
        await self.settle()

    async def type(self, text: str) -> None:
        """Type text into what has the focus, quicker than the screen is drawn."""
        for character in text:
            self.send(character)
        await self.settle()

    async def settle(self) -> None:
        """Wait until everything on the screen is done and drawn, unless the keys ended the app."""
        for _ in range(_TURNS_OF_A_KEY):
            await asyncio.sleep(0)
        # The app hands its keys on to what has the focus. To wait for each widget of the screen
        # costs more than the key: what they do without waiting is done when the loop is idle.
        await self._handled(self.app)
        if self.app.screen_stack:
            screen = self.app.screen
            await self._handled(screen, *([screen.focused] if screen.focused is not None else []))
            await until_idle()
            self.app.screen._on_timer_update()

    async def _handled(self, *nodes: MessagePump) -> None:
        """Wait until each of the nodes has handled what had come to it.

        Textual's own pilot waits also for those that are removed meanwhile, which handle nothing
        any more, and fails after half a minute.
        """
        waiting = set(nodes)
        all_done = asyncio.Event()

        def done(node: MessagePump) -> None:
            waiting.discard(node)
            if not waiting:
                all_done.set()

        give_up_at = time.monotonic() + PATIENCE_S
        while not self.app._exception_event.is_set():
            # Again and again: Textual drops what comes while the app has no screen. Of an app that
            # has ended nobody answers.
            waiting = {node for node in waiting if node.call_later(done, node)}
            if not waiting or self.app._closing or self.app._closed:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(all_done.wait(), LOOK_AGAIN_S)
            assert time.monotonic() < give_up_at, f"busy for {PATIENCE_S:g} s: {waiting}"

    def send(self, key: str) -> None:
        """Send a key, by its name or as a character, as a terminal does."""
        driver = self.app._driver
        assert driver is not None
        name = key if len(key) > 1 or key.isalnum() else _character_to_key(key)
        event = events.Key(name, key if len(key) == 1 else _CHARACTERS.get(key))
        event.set_sender(self.app)
        driver.send_message(event)

    async def type_command(self, line: str) -> None:
        """Enter a command line, at once: each key of it would be completed anew."""
        await self.press("colon")
        field = self.app.focused
        assert isinstance(field, Input), field
        field.insert_text_at_cursor(line)
        await self.press("enter")


_CHARACTERS = {
    character: chr(code) for code in range(32, 127) if (character := _character_to_key(chr(code)))
}
"""The characters of keys that have a name."""


@contextmanager
def frozen(viewer: Viewer) -> Iterator[subprocess.Popen[bytes]]:
    """Stop the engine of what is shown meanwhile, so that no answer comes."""
    process = viewer.app.link.engine.process
    process.send_signal(signal.SIGSTOP)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)


@asynccontextmanager
async def viewing(
    url: str,
    *flags: str,
    size: tuple[int, int] = (120, 40),
    polled: bool = True,
    environ: dict[str, str] | None = None,
    first: str = FIRST,
    panel: bool = False,
) -> AsyncIterator[Viewer]:
    """Start engine and app on a server; end both. `environ` is the engine's besides ours.

    `first` is the list that is in view then, as the app calls it. With `panel`, tables have the
    panel that tells of the row under the cursor, as when natstui is new.
    """
    os.environ.update(environ or {})
    argv = (*NATSTUI, "engine", "--server", url, *flags)
    try:
        async with _running(argv, size, first, panel=panel) as viewer:
            if polled:
                await viewer.until(lambda: viewer.app.state.costs, "no poll yet")
            yield viewer
    finally:
        for name in environ or {}:
            del os.environ[name]


@asynccontextmanager
async def replaying(
    folder: Path | str,
    *flags: str,
    size: tuple[int, int] = (120, 40),
    first: str = FIRST,
    panel: bool = False,
) -> AsyncIterator[Viewer]:
    """Show a recording, held at its beginning."""
    argv = (*NATSTUI, "replay-engine", str(folder), "--paused", *flags)
    async with _running(argv, size, first, panel=panel) as viewer:
        await viewer.until(lambda: viewer.app.state.replay, "no position yet")
        yield viewer


@dataclass
class FedViewer(Viewer):
    """A viewer that shows the records it is given; no engine runs."""

    commands: list[Command]
    """What the viewer has sent."""
    _records: int

    def sent(self, kind: type[C]) -> list[C]:
        """Return the commands of a kind that the viewer has sent."""
        return [command for command in self.commands if isinstance(command, kind)]

    async def feed(self, *records: Record) -> None:
        """Send records to the viewer, as an engine does."""
        await _write(self._records, records)


async def _write(fd: int, records: Iterable[Record]) -> None:
    data = b"".join(map(encode_record, records))
    # A full pipe blocks, and only the viewer of this loop empties it.
    await asyncio.to_thread(write_all, fd, data)


_PASS_ON = 'cat "$1" & cat > "$2"; kill $!'
"""In the place of an engine: records from one pipe, commands to another."""


@asynccontextmanager
async def fed(
    *records: Record,
    size: tuple[int, int] = (120, 40),
    first: str = FIRST,
    panel: bool = False,
    may_change_host: bool = True,
    is_guided: bool = False,
) -> AsyncIterator[FedViewer]:
    """Show records in the app; the first is the EngineStarted of an engine."""
    options = {"panel": panel, "may_change_host": may_change_host, "is_guided": is_guided}
    with pytest.MonkeyPatch.context() as patch:
        # What comes after one that ended says nothing until the test feeds it.
        patch.setattr(live_system, "_RESTART_DELAY_S", 0.1)
        async with (
            piped(*records) as pipes,
            _running(pipes.argv, size, first, **options) as viewer,
        ):
            yield FedViewer(viewer.app, viewer.pilot, viewer.toasts, pipes.commands, pipes.records)


@dataclass
class Pipes:
    """What stands in the place of an engine."""

    argv: tuple[str, ...]
    commands: list[Command]
    """What came from the viewer."""
    records: int
    """The end of a pipe to the viewer."""

    def sent(self, kind: type[C]) -> list[C]:
        """Return the commands of a kind that came."""
        return [command for command in self.commands if isinstance(command, kind)]

    async def feed(self, *records: Record) -> None:
        """Send records to the viewer, as an engine does."""
        await _write(self.records, records)


@asynccontextmanager
async def piped(*records: Record) -> AsyncIterator[Pipes]:
    """Have a program that passes these records on, and what is sent to it, as an engine does."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        up, down = f"{folder}/records", f"{folder}/commands"
        descriptors = []
        for pipe in (up, down):
            os.mkfifo(pipe)
            descriptors.append(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))
            stack.callback(os.close, descriptors[-1])
        writing, reading = descriptors
        os.set_blocking(writing, True)
        commands: list[Command] = []
        await _write(writing, records)
        loop = asyncio.get_running_loop()
        loop.add_reader(reading, _CommandReader(reading, commands).read)
        stack.callback(loop.remove_reader, reading)
        yield Pipes(("sh", "-c", _PASS_ON, "sh", up, down), commands, writing)


class _CommandReader:
    """Adds the commands that come through a pipe to a list."""

    def __init__(self, fd: int, commands: list[Command]) -> None:
        self._fd, self._commands, self._rest = fd, commands, b""

    def read(self) -> None:
        *lines, self._rest = (self._rest + os.read(self._fd, 1 << 16)).split(b"\n")
        self._commands += map(decode_command, lines)


def start(argv: tuple[str, ...]) -> Link:
    """Start an engine; one of natstui has imported already what it needs, which saves a second."""
    return Link(start_preloaded(argv[len(NATSTUI) :]) if _is_of_natstui(argv) else argv)


def _is_of_natstui(argv: tuple[str, ...]) -> bool:
    return argv[: len(NATSTUI)] == NATSTUI


@asynccontextmanager
async def _running(
    argv: tuple[str, ...],
    size: tuple[int, int],
    first: str,
    *,
    panel: bool,
    may_change_host: bool = True,
    is_guided: bool = False,
) -> AsyncIterator[Viewer]:
    # A viewer is a process of its own; here several share one.
    ScenariosScreen.edited_text_by_scenario.clear()
    BenchmarkForm.draft = BenchmarkDraft()
    ScenariosScreen.last_shown_name = ""
    # It opens where it was left: to draw another list before costs as much again.
    store_view_setting("screen", first)
    if not panel:
        # To draw text and charts of a row with each key costs more than all the rest.
        store_view_setting(PEEK_STATE_KEY, "none")
    if _is_of_natstui(argv):
        make_ready()
    link = start(argv)
    started = await asyncio.to_thread(link.wait_started)
    app = NatstuiApp(
        started,
        lambda *words: start((*argv, *words)),
        link,
        lambda folder: start((*NATSTUI, "replay-engine", folder, "--paused")),
        may_change_host=may_change_host,
        is_guided=is_guided,
    )
    try:
        async with shown(app, size) as viewer:
            assert app.current_mode == (app.DEFAULT_MODE if is_guided else first)
            yield viewer
    finally:
        app.link.close()


@dataclass
class _Changes:
    """How often a screen was drawn anew, or would have been."""

    count: int = 0


_changes = _Changes()


@contextmanager
def drawn_when_read() -> Iterator[None]:
    """Lay screens out as ever, but draw no update of them: no terminal is there to show it.

    That is half of what a test of a screen costs. What reads a screen draws the whole of it, as
    `Viewer.text` and pictures do.
    """
    render_update = Compositor.render_update

    def render_nothing(
        self: Compositor,
        full: bool = False,
        screen_stack: list[Screen] | None = None,
        simplify: bool = False,
    ) -> RenderableType | None:
        _changes.count += 1
        if full:
            return render_update(self, full, screen_stack, simplify)
        visible_screen_stack.set(screen_stack or [])
        self._dirty_regions.clear()
        return None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Compositor, "render_update", render_nothing)
        yield


@asynccontextmanager
async def shown(app: NatstuiApp, size: tuple[int, int]) -> AsyncIterator[Viewer]:
    """Run an app on a screen of this size."""
    toasts: list[str] = []

    def keep_toast(message: Message) -> None:
        if isinstance(message, Notify):
            toasts.append(message.notification.message)

    with drawn_when_read():
        async with app.run_test(size=size, notifications=True, message_hook=keep_toast) as pilot:
            yield Viewer(app, pilot, toasts)
