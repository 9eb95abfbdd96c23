"""Several embedded nats-servers that form one cluster, for faults that only a cluster has."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import nats
from nats.errors import TimeoutError as NoAnswer
from nats.js.errors import APIError

from natstui.errors import BrokerFailed
from natstui.jetstream.testbed.broker import Broker, HeldPorts

_ELECTION_S = 30.0
_PLACING_S = 60.0
"""Timeout of placement; usually two seconds are enough."""
_ANSWER_S = 2.0
_LOOK_AGAIN_S = 0.05
_TRIAL = "NATSTUI_TRIAL"
_MOST_REPLICAS_COUNT = 5

_CONFIG = """
server_tags: ["{name}"]
cluster {{ name: {cluster}, listen: "127.0.0.1:{own}", routes: [{routes}] }}
{accounts}
"""
_ACCOUNTS = """
accounts {
  $SYS: { users: [{ user: sys, password: sys }] }
  APP: { jetstream: enabled, users: [{ user: app, password: app }] }
}
"""
_JOINING = {"user": "app", "password": "app"}


class Cluster:
    """Nodes n1, n2, … of one cluster, usable with `with` and with `async with`.

    User `app` has JetStream, user `sys` is the system's. Each node's name is its tag too, so that
    a stream can be placed on it.
    """

    def __init__(
        self,
        size_count: int = 3,
        accounts: str = _ACCOUNTS,
        joining: Mapping[str, Any] = _JOINING,
        *,
        name: str = "LAB",
        store: Path | None = None,
    ) -> None:
        """Start the nodes; `accounts` configures in the servers' own language who may connect.

        `joining` are nats-py's options of an account with JetStream. In `store` each node has a
        folder of its name; without it each has a temporary one.
        """
        self._joining = joining
        self._held_ports = HeldPorts(size_count)
        ports = self._held_ports.numbers
        self.routes = tuple(f"nats-route://127.0.0.1:{port}" for port in ports)
        routes = ", ".join(f'"{route}"' for route in self.routes)
        self.nodes = [
            Broker(
                name=f"n{i}",
                store=store / f"n{i}" if store else None,
                config_text=_CONFIG.format(
                    name=f"n{i}", cluster=name, own=port, routes=routes, accounts=accounts
                ),
            )
            for i, port in enumerate(ports, start=1)
        ]

    @property
    def urls(self) -> tuple[str, ...]:
        """Where clients connect, one address per node."""
        return tuple(node.url for node in self.nodes)

    def node(self, name: str) -> Broker:
        """Return the node of a name in `cluster.leader`."""
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
                await node.until_ready()
            give_up_at = time.monotonic() + _ELECTION_S
            while not self._has_leaders(give_up_at):  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_AGAIN_S)
            await self.until_placing()
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        for node in self.nodes:
            node.start()
        give_up_at = time.monotonic() + _ELECTION_S
        while not self._has_leaders(give_up_at):
            time.sleep(_LOOK_AGAIN_S)
        # Where a loop runs already, only another thread can have its own.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, self.until_placing()).result()

    def _has_leaders(self, give_up_at: float) -> bool:
        """Return whether every node knows all leaders; raises BrokerFailed after the deadline."""
        if all(node.is_healthy() for node in self.nodes):
            missing_nodes = self._left_out()
            for node in missing_nodes:
                node.stop()
                node.spawn()
            return not missing_nodes
        if time.monotonic() > give_up_at:
            problem = "the meta group or a stream has no leader"
            raise BrokerFailed(f"the cluster is not ready after {_ELECTION_S:g} s: {problem}")
        return False

    def _left_out(self) -> list[Broker]:
        """Return the nodes that a new meta group was formed without; it adds them at a restart.

        Server 2.10 takes the size of a new group from its routes, less the one to itself if it has
        noticed that one already: sometimes that is a node too few, and nothing ever adds it.
        """
        groups = [node.meta_group() for node in self.nodes]
        led = next((group for group in groups if group.get("replicas")), None)
        if led is None or led["cluster_size"] >= len(self.nodes):
            return []
        members = {led["leader"], *(replica["name"] for replica in led["replicas"])}
        return [node for node in self.nodes if node.name not in members]

    async def until_placing(self, within_s: float = _PLACING_S) -> None:
        """Wait until a stream can be placed on every node; raises BrokerFailed.

        A meta leader knows its peers a second before it knows their storage, and until then calls
        them offline; no monitoring port shows it.
        """
        replicas_count = min(len(self.nodes), _MOST_REPLICAS_COUNT)
        nc = await nats.connect(list(self.urls), **self._joining)
        try:
            jetstream, give_up_at = nc.jetstream(timeout=_ANSWER_S), time.monotonic() + within_s
            while True:
                try:
                    await jetstream.add_stream(
                        name=_TRIAL, subjects=[_TRIAL], num_replicas=replicas_count
                    )
                    await jetstream.delete_stream(_TRIAL)
                except (APIError, NoAnswer) as error:
                    if time.monotonic() > give_up_at:
                        raise BrokerFailed(
                            f"the cluster places no stream after {within_s:g} s: {error}"
                        ) from error
                    await asyncio.sleep(_LOOK_AGAIN_S)
                else:
                    return
        finally:
            await nc.close()

    def close(self) -> None:
        """Stop every node and remove what was temporary."""
        for node in self.nodes:
            node.terminate()
        for node in self.nodes:
            node.close()
        self._held_ports.close()
