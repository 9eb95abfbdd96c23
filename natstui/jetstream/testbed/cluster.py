"""Runs several nats-servers as a cluster, for the demo and for tests of what only clusters do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import nats
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js.errors import APIError

from natstui.errors import EmbeddedServerError
from natstui.jetstream.testbed.broker import Broker, ReservedPorts

_ELECTION_TIMEOUT_S = 30.0
_PLACING_TIMEOUT_S = 60.0
"""Timeout until a stream can be placed; usually two seconds are enough."""
_REPLY_TIMEOUT_S = 2.0
_CHECK_INTERVAL_S = 0.05
_TRIAL_STREAM = "NATSTUI_TRIAL"
_MAX_REPLICAS_COUNT = 5

_CONFIG_TEMPLATE = """
server_tags: ["{name}"]
cluster {{ name: {cluster}, listen: "127.0.0.1:{own}", routes: [{routes}] }}
{accounts}
"""
_ACCOUNTS_CONFIG = """
accounts {
  $SYS: { users: [{ user: sys, password: sys }] }
  APP: { jetstream: enabled, users: [{ user: app, password: app }] }
}
"""
_CONNECT_OPTIONS = {"user": "app", "password": "app"}


class Cluster:
    """The nodes n1, n2, … of a cluster; use it with `with` or `async with`.

    The user `app` is of an account with JetStream, and `sys` of the system account. Each node has
    its name as a tag, so that a stream can be placed on it.
    """

    def __init__(
        self,
        nodes_count: int = 3,
        accounts: str = _ACCOUNTS_CONFIG,
        connect_options: Mapping[str, Any] = _CONNECT_OPTIONS,
        *,
        name: str = "LAB",
        store: Path | None = None,
    ) -> None:
        """Prepare the nodes, without starting them.

        `accounts` is the part of the servers' configuration with the accounts, and
        `connect_options` are the options with which nats-py connects to one that has JetStream. In
        `store`, each node has a folder with its name; without it, a temporary folder.
        """
        self._connect_options = connect_options
        self._reserved_ports = ReservedPorts(nodes_count)
        ports = self._reserved_ports.numbers
        self.routes = tuple(f"nats-route://127.0.0.1:{port}" for port in ports)
        routes = ", ".join(f'"{route}"' for route in self.routes)
        self.nodes = [
            Broker(
                name=f"n{node_number}",
                store=store / f"n{node_number}" if store else None,
                config_text=_CONFIG_TEMPLATE.format(
                    name=f"n{node_number}",
                    cluster=name,
                    own=port,
                    routes=routes,
                    accounts=accounts,
                ),
            )
            for node_number, port in enumerate(ports, start=1)
        ]

    @property
    def urls(self) -> tuple[str, ...]:
        """Return the address of each node for clients."""
        return tuple(node.url for node in self.nodes)

    def node(self, name: str) -> Broker:
        """Return the node of this name."""
        return next(node for node in self.nodes if node.name == name)

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        try:
            for node in self.nodes:
                node.spawn()
            for node in self.nodes:
                await node.wait_until_ready()
            deadline_s = time.monotonic() + _ELECTION_TIMEOUT_S
            while not self._has_leaders(deadline_s):  # noqa: ASYNC110
                await asyncio.sleep(_CHECK_INTERVAL_S)
            await self.wait_until_placing()
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        for node in self.nodes:
            node.start()
        deadline_s = time.monotonic() + _ELECTION_TIMEOUT_S
        while not self._has_leaders(deadline_s):
            time.sleep(_CHECK_INTERVAL_S)
        # In another thread, because this thread may already run an event loop.
        with ThreadPoolExecutor(1) as executor:
            executor.submit(asyncio.run, self.wait_until_placing()).result()

    def _has_leaders(self, deadline_s: float) -> bool:
        """Return whether every node knows all leaders; restart nodes that the meta group lacks.

        Raises EmbeddedServerError after the deadline.
        """
        if all(node.is_healthy() for node in self.nodes):
            missing_nodes = self._find_missing_nodes()
            for node in missing_nodes:
                node.stop()
                node.spawn()
            return not missing_nodes
        if time.monotonic() > deadline_s:
            problem = "the meta group or a stream has no leader"
            raise EmbeddedServerError(
                f"the cluster is not ready after {_ELECTION_TIMEOUT_S:g} s: {problem}"
            )
        return False

    def _find_missing_nodes(self) -> list[Broker]:
        """Return the nodes that are not in the meta group; after a restart they join it.

        Server 2.10 calculates the size of a new meta group from its routes, without the one to
        itself if it has already noticed that one. The result is sometimes one node too few.
        """
        groups = [node.meta_group() for node in self.nodes]
        leader_group = next((group for group in groups if group.get("replicas")), None)
        if leader_group is None or leader_group["cluster_size"] >= len(self.nodes):
            return []
        members = {
            leader_group["leader"],
            *(replica["name"] for replica in leader_group["replicas"]),
        }
        return [node for node in self.nodes if node.name not in members]

    async def wait_until_placing(self, within_s: float = _PLACING_TIMEOUT_S) -> None:
        """Wait until a stream can be placed on every node.

        Raises EmbeddedServerError if that takes longer than `within_s`.
        The meta leader knows its peers a second before it knows their storage. Until then it
        treats them as offline, which no monitoring endpoint shows, so a stream is created.
        """
        replicas_count = min(len(self.nodes), _MAX_REPLICAS_COUNT)
        nc = await nats.connect(list(self.urls), **self._connect_options)
        try:
            jetstream, deadline_s = (
                nc.jetstream(timeout=_REPLY_TIMEOUT_S),
                time.monotonic() + within_s,
            )
            while True:
                try:
                    await jetstream.add_stream(
                        name=_TRIAL_STREAM, subjects=[_TRIAL_STREAM], num_replicas=replicas_count
                    )
                    await jetstream.delete_stream(_TRIAL_STREAM)
                except (APIError, NatsTimeoutError) as error:
                    if time.monotonic() > deadline_s:
                        raise EmbeddedServerError(
                            f"the cluster places no stream after {within_s:g} s: {error}"
                        ) from error
                    await asyncio.sleep(_CHECK_INTERVAL_S)
                else:
                    return
        finally:
            await nc.close()

    def close(self) -> None:
        """Stop every node, and delete temporary files."""
        for node in self.nodes:
            node.terminate()
        for node in self.nodes:
            node.close()
        self._reserved_ports.close()
