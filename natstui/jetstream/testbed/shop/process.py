"""The process behind `natstui demo`: a cluster and its shop, running until stdin ends.

Usage: `python -m natstui.jetstream.testbed.shop.process SCRATCH [STORE]`. It prints one line of
JSON, `{"url": …}` with the system account's user when the shop is open or `{"error": …}`, and
removes SCRATCH at its end, also when its parent process was killed.
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
"""How long a killed node stays down, so that natstui's findings can be seen."""

_SYSTEM = "admin"
"""User and password of the system account: it is on this machine only, and deleted with
the demo.
"""
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
    """Lock a folder for this process: two servers would destroy each other's store.

    Raises BrokerFailed when another process has it, or it cannot be written.
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
    stdin_end = asyncio.ensure_future(_end_of_stdin())
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stdin_end.cancel)
    async with Cluster(accounts=_ACCOUNTS, joining={}, name="demo", store=store) as cluster:
        client = await connect(Connection(servers=cluster.urls, client_name="demo shop"))
        try:
            await open_shop(client)
            _say({"url": cluster.urls[0], "system_user": _SYSTEM, "system_password": _SYSTEM})
            keeping = map(_keep_alive, cluster.nodes)
            work = {stdin_end, *map(asyncio.ensure_future, (run_shop(client), *keeping))}
            finished, pending = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            for task in pending:
                task.cancel()
            await asyncio.wait(pending)
            for task in finished - {stdin_end}:
                task.result()
        finally:
            await client.close()


async def _end_of_stdin() -> None:
    """Return when stdin is closed."""
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin.buffer)
    while await reader.read(65536):
        pass


async def _keep_alive(node: Broker) -> None:
    """Restart a node after it was killed, with a delay."""
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
