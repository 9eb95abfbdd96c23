"""A quick publisher and its worker in a process of their own: beside ninety others they would lag.

`python -m tests.faults.apart KEY URL USER PER_S`, until it is killed or its input ends.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial

import nats

from tests.faults.site import Site


async def work_apart(site: Site, key: str, per_s: int) -> None:
    """Publish to a site's stream and work it off in another process, until cancelled."""
    url, user = site.client.connected_url, site.client.options["user"]
    assert url is not None
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.faults.apart", key, url.geturl(), user, str(per_s),
        stdin=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
    raise AssertionError(f"the process of {key} ended with {process.returncode}")


async def _main(key: str, url: str, user: str, per_s: float) -> None:
    connect = partial(nats.connect, url, user=user, password=user, name="lab")
    site = Site(key, await connect(), connect)
    site.publishing(per_s)
    site.work(batch=500)
    # Of a parent that was killed nothing else tells.
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])))
