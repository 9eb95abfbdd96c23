"""`natstui watch --json` of several systems: a process for each, whose lines are passed on.

Each has its own process, so that a hanging or failing one does not affect the others.
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


@dataclass(frozen=True, slots=True)
class WatchedSystem:
    """One of several systems: its name, and the flag that selects it."""

    name: str
    flag: Literal["context", "profile", "account"]


Write = Callable[[str], None]


async def watch_several(
    systems: Sequence[WatchedSystem],
    arguments: Sequence[str],
    write: Write,
    print_failure: Write,
    *,
    is_once: bool,
) -> int:
    """Write the JSON lines of several systems, each with its name, until a signal; return the exit
    code.

    `arguments` are for the `natstui watch` of each system, which is restarted when it ends. With
    `is_once`, it returns when all have ended: `print_failure` gets a sentence for each failure,
    and the code is that of the first one. Raises what `write` raises.
    """
    stop = stopped_by_signal()
    stop_task = asyncio.ensure_future(stop.wait())
    follow_tasks = [
        asyncio.ensure_future(_follow_system(watched_system, arguments, write, is_once=is_once))
        for watched_system in systems
    ]
    try:
        pending = {stop_task, *follow_tasks}
        while pending != {stop_task}:
            finished, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in finished:
                # A reader that has closed the pipe ends it all.
                task.result()
            if stop_task in finished:
                return 128 + stop.signal_number if is_once else 0
        results = [follow_task.result() for follow_task in follow_tasks]
    finally:
        tasks = {stop_task, *follow_tasks}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for system, (code, message) in zip(systems, results, strict=True):
        if code:
            print_failure(f"{system.name}: {message or f'ended with exit code {code}'}")
    return next((code for code, _ in results if code), 0)


async def _follow_system(
    system: WatchedSystem, arguments: Sequence[str], write: Write, *, is_once: bool
) -> tuple[int, str | None]:
    """Pass on the lines of a system's process; restart it when it ends, unless `is_once`."""
    while True:
        process = await asyncio.create_subprocess_exec(
            *own_program("natstui", "watch", "--json", "--until-stdin-ends", *arguments),
            f"--{system.flag}",
            system.name,
            # Open for as long as we are: also one that writes nothing ends with us.
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # Ctrl-C is for us: we end it.
            start_new_session=True,
        )
        if not is_once:
            write(_system_line(system, "started"))
        code, message = await _pass_lines(system, process, write)
        if is_once:
            return code, message
        write(_system_line(system, "ended", message, code))
        await asyncio.sleep(_RESTART_S)


async def _pass_lines(
    system: WatchedSystem, process: asyncio.subprocess.Process, write: Write
) -> tuple[int, str | None]:
    """Pass on every line until the process ends; return its exit code and last message."""
    assert process.stdout is not None and process.stderr is not None
    message_task = asyncio.ensure_future(_read_last_message(process.stderr))
    name_json = msgspec.json.encode(system.name).decode()
    try:
        async for line in _lines(process.stdout):
            # Every line is an object with at least its schema and kind.
            write(f'{{"system":{name_json},{line[1:].decode()}\n')
        return await process.wait(), await message_task
    finally:
        message_task.cancel()
        if process.returncode is None:
            await _terminate(process)


async def _terminate(process: asyncio.subprocess.Process) -> None:
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
    """Yield complete lines of any length; one that a killed process has torn is left out."""
    parts: list[bytes] = []
    while chunk := await reader.read(_READ_BYTES):
        *complete_lines, rest_bytes = chunk.split(b"\n")
        for line in complete_lines:
            yield b"".join((*parts, line))
            parts.clear()
        parts.append(rest_bytes)


async def _read_last_message(reader: asyncio.StreamReader) -> str | None:
    last_line: deque[bytes] = deque(maxlen=1)
    async for line in _lines(reader):
        last_line.append(line)
    if not last_line:
        return None
    try:
        # Where JSON was asked for, a command says it so.
        message = decoder_of(_JsonError).decode(last_line[0]).error
    except (msgspec.DecodeError, RecursionError):
        message = last_line[0].decode(errors="replace").removeprefix("natstui: ")
    return clean_line(message) or None


class _JsonError(msgspec.Struct):
    error: str


def _system_line(
    system: WatchedSystem,
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
