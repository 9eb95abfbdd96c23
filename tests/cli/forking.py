"""Processes of natstui that are forked from the one that tests, where all of it is loaded already.

They are processes as any other: with a standard input and output, an environment, signals and an
exit code of their own. To start Python, and natstui in it, takes ten times as long.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import gc
import importlib
import os
import pkgutil
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from threading import Thread
from typing import IO, NoReturn, Self

import coverage

import natstui.cli
import natstui.jetstream
from natstui.__main__ import main

_MOST_FILES = 4096
"""No file has a higher number."""


class Forked:
    """`natstui WORDS` as a process; of what `subprocess.Popen` has, what tests use."""

    def __init__(
        self,
        *words: str,
        environment: Mapping[str, str] = {},
        stdin: int | None = None,
        before: Callable[[], object] = int,
    ) -> None:
        """Start it; `before` is called in it first, and may limit what it can do."""
        _load()
        out, err = os.pipe(), os.pipe()
        stdin_fd = os.open(os.devnull, os.O_RDONLY) if stdin is None else os.dup(stdin)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        with warnings.catch_warnings():
            # Python warns of threads, which do not go on in the new process: it needs none.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if not self.pid:
            before()
            _become(words, {**os.environ, **environment}, (stdin_fd, out[1], err[1]))
        for fd in (stdin_fd, out[1], err[1]):
            os.close(fd)
        self.stdout: IO[bytes] = os.fdopen(out[0], "rb")
        self.stderr: IO[bytes] = os.fdopen(err[0], "rb")
        self.returncode: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stdout.close()
        self.stderr.close()
        self.wait()

    def poll(self) -> int | None:
        """Return the exit code, or minus the signal that ended it; None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float = 60.0) -> int:
        """Return the exit code once it has ended."""
        give_up_at = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > give_up_at:
                raise subprocess.TimeoutExpired("natstui", timeout)
            time.sleep(0.005)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float = 60.0) -> tuple[str, str]:
        """Return what it prints and says until it has ended."""
        read: dict[IO[bytes], bytes] = {}
        readers = [
            Thread(target=lambda stream=stream: read.update({stream: stream.read()}), daemon=True)
            for stream in (self.stdout, self.stderr)
        ]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:
            reader.join()
        with self:
            return read[self.stdout].decode(), read[self.stderr].decode()


class ForkedBeside:
    """The same, beside a test that waits for it with asyncio."""

    def __init__(self, process: Forked) -> None:
        self._process = process
        self._transports: list[asyncio.ReadTransport] = []
        self.pid, self.send_signal = process.pid, process.send_signal
        self.terminate, self.kill = process.terminate, process.kill

    @classmethod
    async def started(cls, *words: str, environment: Mapping[str, str]) -> Self:
        """Start it."""
        self = cls(Forked(*words, environment=environment))
        self.stdout = await self._reader(self._process.stdout)
        self.stderr = await self._reader(self._process.stderr)
        return self

    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader

    async def _reader(self, file: IO[bytes]) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit=1 << 24)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), file
        )
        self._transports.append(transport)
        return reader

    @property
    def returncode(self) -> int | None:
        """The exit code, or minus the signal that ended it; None while it runs."""
        return self._process.poll()

    def close_stdout(self) -> None:
        """Let nobody read on what it prints."""
        self._transports[0].close()

    async def wait(self) -> int:
        """Return the exit code once it has ended."""
        return await asyncio.to_thread(self._process.wait, 120)

    async def communicate(self) -> tuple[bytes, bytes]:
        """Return what it prints and says until it has ended."""
        out, err = await asyncio.gather(self.stdout.read(), self.stderr.read())
        await self.wait()
        return out, err


@functools.cache
def _load() -> None:
    """Load what each process would load for itself."""
    for room in (natstui.cli, natstui.jetstream):
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            importlib.import_module(module.name)


def _become(
    words: tuple[str, ...], environment: Mapping[str, str], fds: tuple[int, ...]
) -> NoReturn:
    """Be a new process of natstui."""
    code: object = 1
    try:
        # What is there stays there: nothing of it is ended or written here.
        gc.freeze()
        atexit._clear()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for place, fd in enumerate(fds):
            os.dup2(fd, place)
        os.closerange(len(fds), _MOST_FILES)
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
        sys.argv = ["natstui", *words]
        os.environ.clear()
        os.environ.update(environment)
        code = _code_of_main()
        # As Python does before it ends: what has threads that do not end does not end.
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
    finally:
        measured = coverage.Coverage.current()
        if measured is not None:
            measured.stop()
            measured.save()
        os._exit(code if isinstance(code, int) else 1)


def _code_of_main() -> object:
    try:
        main()
    except SystemExit as ended:
        return ended.code or 0
    finally:
        sys.stdout.flush()
    return 0
