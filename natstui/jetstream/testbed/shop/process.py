"""The process behind `natstui demo`: a cluster and its shop, alive as long as stdin is open.

Usage: `python -m natstui.jetstream.testbed.shop.process SCRATCH [STORE]`. It prints one line of
JSON, `{"url": …}` with the system account's user when the shop is open or `{"error": …}`, and
removes SCRATCH at its end, also when the process that started it was killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from natstui.config import Connection
from natstui.errors import BrokerFailed, NatstuiError
from natstui.files import open_lock
from natstui.jetstream.connection.client import connect
from natstui.jetstream.testbed.broker import Broker
from natstui.jetstream.testbed.cluster import Cluster
from natstui.jetstream.testbed.shop.traffic import open_shop, run_shop

if sys.platform != "win32":
    import fcntl


_LOOK_AGAIN_S = 1.0
_DOWN_S = 20.0
"""For so long a node that somebody ended stays down: what natstui says of it is to be seen."""

_SYSTEM = "admin"
"""User and password of the system account: it is on this machine alone, and gone with the demo."""
_ACCOUNTS = f"""
accounts {{
  SHOP {{
    jetstream {{ max_memory: 64MB, max_file: 512MB, max_streams: 50, max_consumers: 200 }}
    users: [ {{ user: shop, password: shop }} ]
  }}
  SYS {{ users: [ {{ user: {_SYSTEM}, password: {_SYSTEM} }} ] }}
}}
system_account: SYS
no_auth_user: shop
"""


def main() -> None:
    """Serve until stdin ends."""
    scratch = Path(sys.argv[1])
    store = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    # Of the servers: collect garbage sooner rather than take more of somebody's laptop.
    os.environ.setdefault("GOMEMLIMIT", "128MiB")
    try:
        with lock(store or scratch):
            asyncio.run(_serve(store))
    except (NatstuiError, OSError) as error:
        _say({"error": str(error)})
    # Not after a crash: what its traceback says is in there, and the other process tidies up.
    shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold a folder for this process alone: two servers would ruin each other's store.

    Raises BrokerFailed when another one has it, or it cannot be written.
    """
    name = folder / "natstui-demo.lock"
    try:
        descriptor = open_lock(name)
    except OSError as error:
        raise BrokerFailed(f"{name} cannot be locked: {error.strerror}") from error
    try:
        if sys.platform != "win32":
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise BrokerFailed(f"{folder} is in use by another `natstui demo`") from error
    finally:
        os.close(descriptor)


async def _serve(store: Path | None) -> None:
    """Start the cluster, open the shop, and keep both until the end of stdin or a signal."""
    ended = asyncio.ensure_future(_end_of_stdin())
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.cancel)
    async with Cluster(accounts=_ACCOUNTS, joining={}, name="demo", store=store) as cluster:
        client = await connect(Connection(servers=cluster.urls, client_name="demo shop"))
        try:
            await open_shop(client)
            _say({"url": cluster.urls[0], "system_user": _SYSTEM, "system_password": _SYSTEM})
            keeping = map(_keep_alive, cluster.nodes)
            work = {ended, *map(asyncio.ensure_future, (run_shop(client), *keeping))}
            done, rest = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            for one in rest:
                one.cancel()
            await asyncio.wait(rest)
            for one in done - {ended}:
                one.result()
        finally:
            await client.close()


async def _end_of_stdin() -> None:
    """Return when nobody holds the other end of stdin any more."""
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin.buffer)
    while await reader.read(65536):
        pass


async def _keep_alive(node: Broker) -> None:
    """Start a node again, a while after somebody ended it."""
    while True:
        await asyncio.sleep(_LOOK_AGAIN_S)
        if not node.is_running:
            await asyncio.sleep(_DOWN_S)
            node.spawn()
            await node.until_ready()


def _say(line: dict[str, str]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
