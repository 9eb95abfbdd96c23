"""Processes of natstui end, whatever they do meanwhile."""

from __future__ import annotations

import asyncio
import sys

import pytest

from natstui.children import kill

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
