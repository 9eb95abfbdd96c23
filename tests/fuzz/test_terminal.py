"""Ten thousand inputs of every kind while the viewer shows a server on which much happens.

The memory of viewer and engine is compared twice: after some thousand inputs with what they needed
when every room was entered once, and from then on with that. In between the caches of Textual and
Rich fill, which are bounded.

Minutes of work: `make fuzz`, not `make check`.
"""

from __future__ import annotations

import array
import asyncio
import fcntl
import itertools
import json
import os
import select
import signal
import struct
import termios
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import nats
import pytest
from nats.js.errors import APIError

from natstui.jetstream.testbed.broker import Broker
from tests.fuzz.any_input import ESCAPE, PASTED, AnyInput, Input, Size
from tests.tui.terminals import OnTerminal, rss_mb
from tests.tui.test_viewer_process import MAIN

pytestmark = [pytest.mark.server, pytest.mark.terminal]

SEEDS = (1, 2, 7)
WARMING_COUNT = 10_000
INPUTS_COUNT = 10_000
"""After those that warm it up."""
WARMING_MB = 60
"""For what is bounded: the `functools.lru_cache` of Textual and Rich hold 1,835 entries with the
first picture, 45,325 after 5,000 inputs, 47,809 after 10,000 and 58,474 after 25,000, of 171,264
at most; that of `Strip.render_ansi` is filled last, with 4,669, 9,974 and at most 16,384. Polls
of the last hour are kept as well. The viewer needs 51 MB, 94 MB after every room, 129 MB after
5,000 inputs, 136 after 10,000, 146 after 15,000 and 151 after 25,000, with as many objects as it
had after 12,500."""
MORE_MB = 20
"""After that, whatever comes."""
PATIENCE_S = 600.0
"""Nothing at all moves for so long: it hangs. The viewer reads 4 KiB at once: hundreds of keys, of
which a busy machine handles ten a second."""
TOLD_COUNT = 50
TELLS = """
import asyncio, faulthandler, pathlib, signal, textual.app, traceback
faulthandler.register(signal.SIGUSR1)
def waits(task):
    coroutine = task.get_coro()
    yield f"{task.get_name()}:"
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        if frame is None:
            yield f"  {coroutine!r:.200}"
        else:
            code, of = frame.f_code, frame.f_locals.get("self")
            yield f"  {code.co_filename}:{frame.f_lineno} {code.co_qualname} of {of!r:.80}"
        awaited = getattr(coroutine, "cr_await", None)
        coroutine = awaited or getattr(coroutine, "gi_yieldfrom", None)
def tell_tasks(*_):
    lines = [line for task in asyncio.all_tasks() for line in waits(task)]
    pathlib.Path("tasks.part").write_text("\\n".join(lines))
    pathlib.Path("tasks.part").rename("tasks")
signal.signal(signal.SIGUSR2, tell_tasks)
leave = textual.app.App.exit
def stay(app, *words, **names):
    if names.get("return_code"):
        leave(app, *words, **names)
    else:
        with pathlib.Path("wishes").open("a") as file:
            file.writelines(["\\n", *traceback.format_stack(limit=12)])
textual.app.App.exit = stay
"""
"""Who finds the way out by chance, in a palette or a menu, stays: another end is a crash or a
signal. What asked for it is written down."""
ROOMS = (
    *(
        "2",
        "3",
        "4",
        "5",
        "6\r",
        "\x1b",
        "1\r",
        "\x1b",
        "m",
        "\x1b",
        "y",
        "\x1b",
        "c",
        "\x1b",
        "e",
        "\x1b",
    ),
    *("2e", "\x1b", "2\r", "\x1b", "7", "b", "b", "\x0f", "\r", "\x1b", "\x1b", "?", "\x1b"),
    *(":sessions\r", "\x1b", ":journal\r", "\x1b", "1"),
)
"""Keys that enter every room once."""
ROOM_S = 1.0
AT_ONCE_COUNT = 20
"""So many inputs may come in one go."""
KEPT = ("KEPT1", "KEPT2", "KEPT3", "KEPT4", "KEPT5", "KEPT6")


class Stuck(AssertionError):
    """The viewer neither ended nor went on."""


class Typist:
    """Types at a terminal and reads what it draws, in turns, so that neither waits for us."""

    def __init__(self, terminal: OnTerminal) -> None:
        self._terminal = terminal
        self.drawn = b""
        """The newest of what was drawn."""
        self.drawn_bytes = 0
        self.count = 0
        self.sent: deque[Input] = deque(maxlen=TOLD_COUNT)
        os.set_blocking(terminal.master, False)

    def give(self, inputs: Iterable[Input]) -> None:
        """Type bytes, as they come in one go; resize the window, and wait until it is drawn."""
        typed = b""
        for one in inputs:
            self.sent.append(one)
            self.count += 1
            if isinstance(one, bytes):
                typed += one
            else:
                self.type(typed)
                self._drag(one)
                typed = b""
        self.type(typed)

    def _drag(self, sizes: list[Size]) -> None:
        self.rest()
        before = self.drawn_bytes
        for size in sizes:
            self.resize(size)
        self._until(lambda: self.drawn_bytes > before, lambda: 0, "nothing was drawn anew")

    def rest(self) -> None:
        """Wait until everything typed was taken."""
        self._until(lambda: self._untaken() == 0, self._untaken, "keys are not taken")

    def resize(self, size: Size) -> None:
        """Change the size of the window, of which the system tells the viewer."""
        packed = struct.pack("HHHH", size[1], size[0], 0, 0)
        fcntl.ioctl(self._terminal.master, termios.TIOCSWINSZ, packed)

    def look(self, for_s: float = 0.01) -> None:
        """Take what was drawn meanwhile; fail when the viewer has ended."""
        assert self._terminal.process.poll() is None, "the viewer has ended"
        if select.select([self._terminal.master], [], [], for_s)[0]:
            try:
                data = os.read(self._terminal.master, 65536)
            except OSError as error:
                code = self._terminal.process.wait(PATIENCE_S)
                raise AssertionError(f"the viewer has ended with {code}") from error
            self.drawn_bytes += len(data)
            self.drawn = (self.drawn + data)[-300_000:]

    def sees(self, *words: bytes, s: float) -> bool:
        """Tell whether words are drawn within some time."""
        end = time.monotonic() + s
        while not all(word in self.drawn for word in words) and time.monotonic() < end:
            self.look()
        return all(word in self.drawn for word in words)

    def type(self, data: bytes) -> None:
        """Write as much at once as the terminal takes."""
        while data:
            moved_at = time.monotonic()
            while not select.select([], [self._terminal.master], [], 0)[1]:
                self.look()
                if time.monotonic() - moved_at > PATIENCE_S:
                    raise Stuck("keys are not taken")
            try:
                data = data[os.write(self._terminal.master, data) :]
            except BlockingIOError:
                self.look()
            self.look(0)

    def _untaken(self) -> int:
        """Return how many bytes wait in the terminal."""
        slave = os.open(f"/proc/{self._terminal.process.pid}/fd/0", os.O_RDWR | os.O_NOCTTY)
        try:
            unread = array.array("i", [0])
            fcntl.ioctl(slave, termios.FIONREAD, unread)
            return unread[0]
        finally:
            os.close(slave)

    def _until(self, holds: Callable[[], bool], left: Callable[[], int], what: str) -> None:
        """Wait until something holds; give up only when nothing has moved for long."""
        before, moved_at = left(), time.monotonic()
        while not holds():
            self.look()
            if (now := left()) != before:
                before, moved_at = now, time.monotonic()
            elif time.monotonic() - moved_at > PATIENCE_S:
                raise Stuck(what)


async def keep(url: str, over: threading.Event) -> None:
    """Publish to streams with consumers, and make again whatever of them was deleted."""
    nc = await nats.connect(url)
    # However busy the machine is: its end would look like a lost connection of the viewer.
    js = nc.jetstream(timeout=PATIENCE_S)
    number = 0
    while not over.is_set():
        for name in KEPT:
            number += 1
            try:
                await js.add_stream(name=name, subjects=[f"{name}.>"], max_msgs=1_000)
                for consumer in ("one", "two"):
                    await js.add_consumer(name, durable_name=consumer, ack_policy="explicit")
            except APIError as error:
                # Somebody has edited it, or deleted it just now.
                assert error.code in (400, 404), error
            await nc.publish(f"{name}.x", b'{"number": %d}' % number)
        await nc.flush(timeout=round(PATIENCE_S))
        await asyncio.sleep(0.25)
    await nc.close()


@contextmanager
def kept_streams(url: str) -> Iterator[None]:
    """Have live data on a server until the end of the block."""
    over = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        keeping = pool.submit(asyncio.run, keep(url, over))
        try:
            yield
        finally:
            over.set()
        keeping.result()


def connections(server: Broker) -> set[int]:
    """Return the connections that are open now."""
    with urllib.request.urlopen(f"{server.monitoring_url}/connz?limit=10000") as answer:
        return {one["cid"] for one in json.load(answer)["connections"]}


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def build_command(pid: int) -> list[bytes]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


class Sizes:
    """What viewer and engine needed with every room, and when warm, and the most since."""

    def __init__(self, pids: dict[str, int]) -> None:
        self._pids = pids
        self.start_mb = self._now()
        self.rooms_mb = self.warm_mb = self.most_mb = self.start_mb

    def enter(self) -> None:
        """Take this moment as the one after every room."""
        self.rooms_mb = self.most_mb = self._now()

    def warm(self) -> None:
        """Take the most until now as what is needed with full caches."""
        self.look()
        self.warm_mb = self.most_mb

    def look(self) -> dict[str, float]:
        now = self._now()
        self.most_mb = {name: max(now[name], self.most_mb[name]) for name in now}
        return now

    def _now(self) -> dict[str, float]:
        return {name: rss_mb(pid) for name, pid in self._pids.items()}

    def __str__(self) -> str:
        return ", ".join(
            f"{name} {self.start_mb[name]:.1f} MB with the first picture, "
            f"{self.rooms_mb[name]:.1f} after every room, {self.warm_mb[name]:.1f} when warm, "
            f"then at most {self.most_mb[name]:.1f}"
            for name in self._pids
        )


def enter_rooms(typist: Typist) -> None:
    """Enter every room once, as somebody does who looks around."""
    for keys in ROOMS:
        typist.type(keys.encode())
        typist.rest()
        end = time.monotonic() + ROOM_S
        while time.monotonic() < end:
            typist.look(0.1)


def fuzz(typist: Typist, chance: AnyInput, count: int, sizes: Sizes) -> None:
    """Give so many inputs, in goes of any number."""
    left = count
    while left:
        together = min(left, chance.number(AT_ONCE_COUNT))
        typist.give(chance.next() for _ in range(together))
        left -= together
        sizes.look()


def come_home(typist: Typist) -> None:
    """Close whatever is open, and see the live list."""
    typist.type(PASTED)
    end = time.monotonic() + 2 * PATIENCE_S
    for number in itertools.count():
        # A form asks whether its text may be lost: `drop` is the second answer. An even number
        # of escapes would ask and take it back for ever.
        typist.type(ESCAPE * (1 + number % 4) + b"\x1b[B\r" + ESCAPE * (number % 3) + b"1")
        typist.rest()
        typist.drawn = b""
        typist.resize((150 + number % 2, 40))
        if typist.sees(b"connected", b"Streams", *map(str.encode, KEPT), s=3):
            return
        assert time.monotonic() < end, "the list does not come back"


@contextmanager
def told(seed: int, typist: Typist, terminal: OnTerminal, folder: Path) -> Iterator[None]:
    """Say of a failure what it takes to see it again; crashes are reported below `folder`."""
    try:
        yield
    except Exception:
        # Whatever it was: it is raised again below.
        for log in (*folder.rglob("crash-*.log"), *folder.rglob("wishes")):
            print(log.read_text()[-10_000:])
        print(f"seed {seed}, input {typist.count}; the last {len(typist.sent)}:")
        for one in typist.sent:
            print(f"  {one!r:.300}")
        print("drawn last:", typist.drawn[-20_000:])
        typist.drawn = b""
        # Where it stands, as its last words on the terminal, if it can still say it.
        terminal.process.send_signal(signal.SIGUSR1)
        typist.sees(b"Current thread", s=5)
        print(typist.drawn[-5_000:])
        print_tasks(terminal)
        raise


def print_tasks(terminal: OnTerminal) -> None:
    """Print what every task of the viewer waits for, if it can still say it."""
    tasks = Path("tasks")
    terminal.process.send_signal(signal.SIGUSR2)
    end = time.monotonic() + 10
    while not tasks.exists() and time.monotonic() < end:
        time.sleep(0.1)
    print(tasks.read_text()[-60_000:] if tasks.exists() else "its tasks are not known")


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", SEEDS)
def test_ten_thousand_inputs_neither_end_nor_hold_up_nor_swell_the_viewer(
    seed: int, nats_server: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Files are saved where somebody types it.
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NATSTUI_SESSION_FOLDER", str(tmp_path / "sessions"))
    monkeypatch.chdir(tmp_path)
    with (
        kept_streams(nats_server.url),
        OnTerminal(TELLS + MAIN, "--server", nats_server.url, width=120, height=40) as terminal,
    ):
        assert b"KEPT1" in terminal.read(b"KEPT1", within_s=60)
        viewer = terminal.process.pid
        (engine,) = [pid for pid in children(viewer) if b"engine" in build_command(pid)]
        typist, chance = Typist(terminal), AnyInput(seed)
        sizes = Sizes({"viewer": viewer, "engine": engine})
        began = connections(nats_server)
        with told(seed, typist, terminal, tmp_path):
            enter_rooms(typist)
            sizes.enter()
            fuzz(typist, chance, WARMING_COUNT, sizes)
            sizes.warm()
            fuzz(typist, chance, INPUTS_COUNT, sizes)
            come_home(typist)
        sizes.look()
        wishes = Path("wishes").read_text().count("\n\n") if Path("wishes").exists() else 0
        print(f"seed {seed}: {sizes}; asked to leave {wishes} times")
        assert began <= connections(nats_server)
        assert engine in children(viewer)
        terminal.process.terminate()
        os.set_blocking(terminal.master, True)
        assert terminal.wait() == 143
    assert [log.read_text() for log in tmp_path.rglob("crash-*.log")] == []
    for name in sizes.most_mb:
        assert sizes.warm_mb[name] - sizes.rooms_mb[name] < WARMING_MB, str(sizes)
        assert sizes.most_mb[name] - sizes.warm_mb[name] < MORE_MB, str(sizes)
