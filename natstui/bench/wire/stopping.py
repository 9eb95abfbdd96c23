"""How receivers end: when they are told to, and with all that was sent to them until then."""

from __future__ import annotations

import asyncio
from typing import Any

from natstui.bench.job.job import Job
from natstui.bench.wire.link import WireLink
from natstui.errors import ServerGone

_HEAR_OUT_S = 2.0


async def until_stopped(job: Job, link: WireLink) -> None:
    """Wait until the job stops; raise what failed on the link meanwhile."""
    stopping = asyncio.ensure_future(job.stopping.wait())
    both: set[asyncio.Future[Any]] = {stopping, link.failure}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if link.failure.done():
        raise link.failure.result()


async def hear_out(link: WireLink) -> None:
    """Take what the server has sent us until now, however busy this machine is.

    Its answer to a PING comes behind all of it. Nobody is waited for longer than 2 s: then the
    account says what is missing.
    """
    if link.is_held or not link.nc.is_connected:
        return
    try:
        async with asyncio.timeout(_HEAR_OUT_S):
            await link.flush(_HEAR_OUT_S)
    except (ServerGone, TimeoutError):
        return
