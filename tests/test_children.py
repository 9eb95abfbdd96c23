"""Processes of natstui end, whatever they do meanwhile."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
import time
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from natstui.children import end_process_session, kill, run_program, start_process_session
from natstui.cli.alerts.sending import run_command
from natstui.errors import RequestFailed

pytestmark = pytest.mark.slow


async def test_one_that_ended_by_itself_is_ended_all_the_same() -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await process.wait()
    with pytest.raises(ProcessLookupError):
        process.kill()  # what asyncio does, and why there is a function
    kill(process)
    assert process.returncode == 0


async def test_one_that_runs_is_killed() -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=-1)
    kill(process)
    assert await process.wait() == -9


async def started(script: str) -> tuple[asyncio.SubprocessTransport, asyncio.subprocess.Process]:
    return await start_process_session(["sh", "-c", script], stdout=PIPE, stderr=None, env=None)


async def test_one_whose_children_hold_its_pipes_is_ended_with_them() -> None:
    transport, process = await started("cat /dev/zero; true")
    assert process.stdout is not None
    assert await process.stdout.read(1) == b"\0"
    async with asyncio.timeout(30):
        await end_process_session(transport, process)
    assert process.returncode == -9


async def test_pipes_of_one_that_ended_are_closed_though_others_hold_them(tmp_path: Path) -> None:
    # Out of the session, where no signal to it arrives.
    transport, process = await started(
        f"exec 3<&0; setsid sleep 600 <&3 & echo $! >{tmp_path}/pid"
    )
    assert process.stdin is not None
    process.stdin.write(b"x" * 1_000_000)  # which nobody reads
    await process_ended(process)
    try:
        async with asyncio.timeout(30):
            await end_process_session(transport, process)
        for descriptor in (0, 1):
            pipe = transport.get_pipe_transport(descriptor)
            assert pipe is not None and pipe.is_closing(), descriptor
        assert transport.is_closing() and process.returncode == 0
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


async def process_ended(process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(30):
        while process.returncode is None:
            await asyncio.sleep(0.01)


async def test_a_command_of_an_alert_is_ended_with_what_it_started() -> None:
    # More than a pipe holds: asyncio waits until somebody reads it or nobody can.
    with pytest.raises(RequestFailed, match="was stopped after"):
        async with asyncio.timeout(30):
            await run_command("sh -c 'sleep 600; true'", b"x" * 1_000_000, timeout_s=0.2)


def test_a_program_that_ended_is_not_said_to_run(tmp_path: Path) -> None:
    with pytest.raises(
        TimeoutError, match="it ended, but what it has started kept its output open"
    ):
        run_program(["sh", "-c", f"sleep 600 & echo $! >{tmp_path}/pid"], 1.0)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


ENDLESS = "import os\nwhile True: os.write({}, b'x' * 65536)"


@pytest.mark.parametrize("descriptor", [1, 2])
def test_a_program_that_prints_without_end_is_killed_before_it_fills_the_memory(
    descriptor: int,
) -> None:
    before_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    with pytest.raises(OSError, match="it printed more than 1,048,576 bytes"):
        run_program([sys.executable, "-c", ENDLESS.format(descriptor)], 60.0)
    grown_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before_bytes
    assert grown_bytes < 16 * 2**20


def test_a_program_that_does_not_end_is_killed_at_its_deadline() -> None:
    began_s = time.monotonic()
    with pytest.raises(TimeoutError, match=r"it took longer than 0\.5 s"):
        run_program(["sh", "-c", "while :; do echo x; sleep 0.05; done"], 0.5)
    with pytest.raises(TimeoutError, match=r"it took longer than 0\.5 s"):
        # It prints nothing more, and goes on.
        run_program(["sh", "-c", "exec >&- 2>&-; exec sleep 600"], 0.5)
    assert time.monotonic() - began_s < 30


def test_what_a_program_prints_is_returned_with_its_exit_code() -> None:
    result = run_program(["sh", "-c", "cat; echo out; echo err >&2; exit 3"], 60.0)
    assert (result.returncode, result.stdout, result.stderr) == (3, b"out\n", b"err\n")
