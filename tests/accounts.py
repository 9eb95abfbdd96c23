"""Accounts of servers that several tests use: each test gets one that nobody used before."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

ACCOUNTS_COUNT = 300


class Account(Struct, frozen=True):
    """One account with JetStream, and the server it is on; user and password are its name."""

    name: str
    server_url: str

    @property
    def url(self) -> str:
        """Where its user connects."""
        return _with_user(self.server_url, self.name)

    @property
    def system_url(self) -> str:
        """Where the user of the system account connects."""
        return _with_user(self.server_url, "sys")


class ClusterAccount(Struct, frozen=True):
    """One account with JetStream on a cluster; user and password are its name."""

    name: str
    server_urls: tuple[str, ...]

    @property
    def urls(self) -> tuple[str, ...]:
        """Where its user connects, one address per node."""
        return tuple(_with_user(url, self.name) for url in self.server_urls)

    @property
    def url(self) -> str:
        """The first of the addresses."""
        return self.urls[0]


def through(port: int, url: str) -> str:
    """Return the address of a proxy on a port of this machine, for the user of a url."""
    user, at, _ = url.partition("://")[2].rpartition("@")
    return f"nats://{user}{at}127.0.0.1:{port}"


def _with_user(url: str, name: str) -> str:
    scheme, _, address = url.partition("://")
    return f"{scheme}://{name}:{name}@{address}"


def account_names() -> Iterator[str]:
    """Return the names of the accounts that `accounts_config` prepares."""
    return (f"T{i:03}" for i in range(1, ACCOUNTS_COUNT + 1))


def accounts_config() -> str:
    """Return the part of a server's configuration that prepares the accounts."""
    accounts = "\n".join(
        f"  {name}: {{ jetstream: enabled, users: [{{ user: {name}, password: {name} }}] }}"
        for name in account_names()
    )
    system = "  $SYS: { users: [{ user: sys, password: sys }] }"
    # Else the maximum follows what is free on the disk, and a stream of 2 GB may be refused.
    return f"jetstream {{ max_file_store: 64GB }}\naccounts {{\n{system}\n{accounts}\n}}\n"
