"""The process that `natstui demo` starts: it runs a cluster and the demo's shop until stdin ends.

Usage: `python -m natstui.jetstream.testbed.shop.process SCRATCH [STORE]`. It prints one line of
JSON: `{"url": …}` with the system account's user when the shop runs, or `{"error": …}`. It removes
the folder SCRATCH at its end, also if its parent process was killed.
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
from natstui.errors import EmbeddedServerError, NatstuiError
from natstui.files import open_lock
from natstui.jetstream.connection.client import connect
from natstui.jetstream.testbed.broker import Broker
from natstui.jetstream.testbed.cluster import Cluster
from natstui.jetstream.testbed.shop.traffic import open_shop, run_shop

if sys.platform != "win32":
    import fcntl


_CHECK_INTERVAL_S = 1.0
_RESTART_DELAY_S = 20.0
"""Time until a killed node is restarted, so that the user can see natstui's findings."""

_SYSTEM_USER = "admin"
"""User and password of the system account; this server is reachable only from this machine."""
_ACCOUNTS_CONFIG = f"""
accounts {{
  SHOP {{
    jetstream {{ max_memory: 64MB, max_file: 512MB, max_streams: 50, max_consumers: 200 }}
    users: [ {{ user: shop, password: shop }} ]
  }}
  SYS {{ users: [ {{ user: {_SYSTEM_USER}, password: {_SYSTEM_USER} }} ] }}
}}
system_account: SYS
no_auth_user: shop
"""


def main() -> None:
    """Run the demo until stdin ends."""
    scratch_folder = Path(sys.argv[1])
    store = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    # The servers should collect garbage sooner, instead of using more of the machine's memory.
    os.environ.setdefault("GOMEMLIMIT", "128MiB")
    try:
        with lock_folder(store or scratch_folder):
            asyncio.run(_serve(store))
    except (NatstuiError, OSError) as error:
        _print_line({"error": str(error)})
    # Not after a crash: the folder contains the traceback, and the parent process removes it.
    shutil.rmtree(scratch_folder, ignore_errors=True)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder for this process, because two servers would destroy each other's store.

    Raises EmbeddedServerError if another process has the lock, or the folder is not writable.
    """
    name = folder / "natstui-demo.lock"
    try:
        descriptor = open_lock(name)
    except OSError as error:
        raise EmbeddedServerError(f"{name} cannot be locked: {error.strerror}") from error
    try:
        if sys.platform != "win32":
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise EmbeddedServerError(f"{folder} is in use by another `natstui demo`") from error
    finally:
        os.close(descriptor)


async def _serve(store: Path | None) -> None:
    """Run the cluster and the shop until stdin ends or a signal arrives."""
    stdin_end_task = asyncio.ensure_future(_wait_for_stdin_end())
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signal_number, stdin_end_task.cancel)
    async with Cluster(
        accounts=_ACCOUNTS_CONFIG, connect_options={}, name="demo", store=store
    ) as cluster:
        client = await connect(Connection(servers=cluster.urls, client_name="demo shop"))
        try:
            await open_shop(client)
            _print_line(
                {
                    "url": cluster.urls[0],
                    "system_user": _SYSTEM_USER,
                    "system_password": _SYSTEM_USER,
                }
            )
            restart_tasks = map(_restart_killed_node, cluster.nodes)
            all_tasks = {
                stdin_end_task,
                *map(asyncio.ensure_future, (run_shop(client), *restart_tasks)),
            }
            finished_tasks, pending_tasks = await asyncio.wait(
                all_tasks, return_when=asyncio.FIRST_COMPLETED
            )
            for task in pending_tasks:
                task.cancel()
            await asyncio.wait(pending_tasks)
            for task in finished_tasks - {stdin_end_task}:
                task.result()
        finally:
            await client.close()


async def _wait_for_stdin_end() -> None:
    """Wait until stdin is closed."""
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin.buffer)
    while await reader.read(65536):
        pass


async def _restart_killed_node(node: Broker) -> None:
    """Restart a node some time after it was killed, each time."""
    while True:
        await asyncio.sleep(_CHECK_INTERVAL_S)
        if not node.is_running:
            await asyncio.sleep(_RESTART_DELAY_S)
            node.spawn()
            await node.wait_until_ready()


def _print_line(line: dict[str, str]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
