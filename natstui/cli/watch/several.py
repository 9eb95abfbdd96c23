"""`natstui watch --json` of several systems: a process for each, whose lines are passed on.

A process of its own for each, so that one that hangs or dies disturbs no other.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import msgspec

from natstui.children import own_program
from natstui.clean import clean_line
from natstui.cli.watch.happened import SystemRow
from natstui.cli.watch.lines import json_line
from natstui.decoding import decoder_of
from natstui.engine.stopping import stopped_by_signal

_RESTART_S = 2.0
_END_S = 3.0
_READ_BYTES = 1 << 16
INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class System:
    """One of several: what it is called, and the flag that names it to a command."""

    name: str
    flag: Literal["context", "profile", "account"]


Write = Callable[[str], None]


async def watch_several(
    systems: Sequence[System], words: Sequence[str], write: Write, complain: Write, *, once: bool
) -> int:
    """Write the lines of all until a signal comes; return the exit code.

    `words` are those of every command. With `once`, until all have ended: `complain` gets a
    sentence for each that failed, and the code is the first one's.
    """
    stopping = asyncio.ensure_future(stopped_by_signal().wait())
    follows = [asyncio.ensure_future(_follow(it, words, write, once=once)) for it in systems]
    try:
        left = {stopping, *follows}
        while left != {stopping}:
            done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                # A reader that has closed the pipe ends it all.
                one.result()
            if stopping in done:
                return INTERRUPTED if once else 0
        ended = [follow.result() for follow in follows]
    finally:
        everything = {stopping, *follows}
        for one in everything:
            one.cancel()
        await asyncio.wait(everything)
    for system, (code, said) in zip(systems, ended, strict=True):
        if code:
            complain(f"{system.name}: {said or f'ended with exit code {code}'}")
    return next((code for code, _ in ended if code), 0)


async def _follow(
    system: System, words: Sequence[str], write: Write, *, once: bool
) -> tuple[int, str | None]:
    """Pass on what a system's process writes; start another when it ends, unless it is `once`."""
    while True:
        process = await asyncio.create_subprocess_exec(
            *own_program("natstui", "watch", "--json", "--until-stdin-ends", *words),
            f"--{system.flag}",
            system.name,
            # Open for as long as we are: also one that writes nothing ends with us.
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # Ctrl-C is for us: we end it.
            start_new_session=True,
        )
        if not once:
            write(_told(system, "started"))
        code, said = await _passed_on(system, process, write)
        if once:
            return code, said
        write(_told(system, "ended", said, code))
        await asyncio.sleep(_RESTART_S)


async def _passed_on(
    system: System, process: asyncio.subprocess.Process, write: Write
) -> tuple[int, str | None]:
    """Pass on every line until the process ends; return its exit code, and what it said last."""
    assert process.stdout is not None and process.stderr is not None
    complaints = asyncio.ensure_future(_last_of(process.stderr))
    head = msgspec.json.encode(system.name).decode()
    try:
        async for line in _lines(process.stdout):
            # Every line is an object with at least its schema and kind.
            write(f'{{"system":{head},{line[1:].decode()}\n')
        return await process.wait(), await complaints
    finally:
        complaints.cancel()
        if process.returncode is None:
            await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
        try:
            async with asyncio.timeout(_END_S):
                await process.wait()
        except TimeoutError:
            # One that is stopped does not hear the other signal.
            process.kill()
            await process.wait()


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield whole lines, however long they are; one that a killed process tore is left out."""
    parts: list[bytes] = []
    while chunk := await reader.read(_READ_BYTES):
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            yield b"".join((*parts, line))
            parts.clear()
        parts.append(rest)


async def _last_of(reader: asyncio.StreamReader) -> str | None:
    last: deque[bytes] = deque(maxlen=1)
    async for line in _lines(reader):
        last.append(line)
    if not last:
        return None
    try:
        # Where JSON was asked for, a command says it so.
        said = decoder_of(_Failure).decode(last[0]).error
    except (msgspec.DecodeError, RecursionError):
        said = last[0].decode(errors="replace").removeprefix("natstui: ")
    return clean_line(said) or None


class _Failure(msgspec.Struct):
    error: str


def _told(
    system: System,
    state: Literal["started", "ended"],
    reason: str | None = None,
    exit_code: int | None = None,
) -> str:
    row = SystemRow(
        system=system.name,
        at_us=time.time_ns() // 1000,
        state=state,
        reason=reason,
        exit_code=exit_code,
    )
    return json_line(row) + "\n"
