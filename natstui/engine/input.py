"""Commands as lines on stdin; its end is the end of the engine."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable

_LONGEST_LINE_BYTES = 64 * 1024 * 1024


def read_lines(fd: int, on_line: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
    """Call back in the running loop for every line, and once at the end.

    A thread reads with os.read: it works for pipes, terminals and files alike, and a reader
    blocked in it does not keep the interpreter from ending.
    """
    loop = asyncio.get_running_loop()

    def call(callback: Callable[..., None], *words: bytes) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(callback, *words)

    def run() -> None:
        rest = b""
        while (data := os.read(fd, 65536)) and len(rest) < _LONGEST_LINE_BYTES:
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                call(on_line, line)
        call(on_end)

    threading.Thread(target=run, name="stdin", daemon=True).start()
