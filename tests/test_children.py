"""Processes of natstui end, whatever they do meanwhile."""

from __future__ import annotations

import asyncio
import sys

import pytest

from natstui.children import end_session, kill
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


async def test_one_whose_children_hold_its_pipes_is_ended_with_them() -> None:
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", "cat /dev/zero; true", stdin=-1, stdout=-1, start_new_session=True
    )
    assert process.stdout is not None
    assert await process.stdout.read(1) == b"\0"
    async with asyncio.timeout(30):
        await end_session(process)
    assert process.returncode == -9


async def test_a_command_of_an_alert_is_ended_with_what_it_started() -> None:
    # More than a pipe holds: asyncio waits until somebody reads it or nobody can.
    with pytest.raises(RequestFailed, match="was stopped after"):
        async with asyncio.timeout(30):
            await run_command("sh -c 'sleep 600; true'", b"x" * 1_000_000, limit_s=0.2)
