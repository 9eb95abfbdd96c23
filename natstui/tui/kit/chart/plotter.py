"""The viewer's side of the drawing process: starts it when needed, and again when it died."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import asdict

from natstui.children import kill, own_program
from natstui.tui.kit.chart.frame import PlotFrame
from natstui.tui.kit.chart.legend import Runs

_LONGEST_ANSWER_BYTES = 8 * 1024 * 1024
_ANSWER_WITHIN_S = 10.0
_GIVES_UP_AFTER = 5
_COMMAND = tuple(own_program("natstui.tui.kit.chart.process"))
_SGR = re.compile(r"\x1b\[([0-9;]*)m")


class Plotter:
    """Draws frames one after the other; one for the whole app, shared by all charts."""

    def __init__(self, command: Sequence[str] = _COMMAND) -> None:
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._last_id = 0
        self._failures = 0

    @property
    def pid(self) -> int | None:
        """Return the process's number, None while there is none."""
        return self._process.pid if self._process else None

    async def draw(self, frame: PlotFrame) -> list[Runs] | None:
        """Return the frame's lines; None when the process failed, then try again later.

        After several failures in a row it is not started any more.
        """
        async with self._turn:
            if self._failures >= _GIVES_UP_AFTER:
                return None
            try:
                async with asyncio.timeout(_ANSWER_WITHIN_S):
                    text = await self._ask(frame)
            except (OSError, ValueError, EOFError, TimeoutError):
                self._failures += 1
                await self._stop()
                return None
            self._failures = 0
            return [parse_line(line) for line in text.split("\n")[: frame.height]]

    async def close(self) -> None:
        """End the process."""
        async with self._turn:
            await self._stop()

    async def _ask(self, frame: PlotFrame) -> str:
        """Send one frame and wait for its answer; answers nobody waits for are skipped."""
        process = self._process
        if process is None or process.returncode is not None:
            process = self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=_LONGEST_ANSWER_BYTES,
            )
        if process.stdin is None or process.stdout is None:
            raise EOFError
        self._last_id += 1
        wanted = self._last_id
        process.stdin.write(json.dumps({"id": wanted, **asdict(frame)}).encode() + b"\n")
        await process.stdin.drain()
        while line := await process.stdout.readline():
            answer = json.loads(line)
            if answer["id"] == wanted:
                return str(answer["text"])
        raise EOFError

    async def _stop(self) -> None:
        """Close the process's stdin, which ends it; kill it if it does not end."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(2):
                await process.wait()
        except TimeoutError:
            kill(process)
            await process.wait()


def parse_line(line: str) -> Runs:
    """Return a line's texts with their palette numbers; any other escape stays and is filtered."""
    found: Runs = []
    role = 0
    at = 0
    for match in _SGR.finditer(line):
        if match.start() > at:
            found.append((line[at : match.start()], role))
        at = match.end()
        code = match[1]
        role = int(code[5:]) if code.startswith("38;5;") and code[5:].isdigit() else 0
    if at < len(line):
        found.append((line[at:], role))
    return found
