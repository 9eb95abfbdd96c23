"""Server addresses as users write them: lists with commas, user and password in the URL, port left
out.
"""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from threading import Thread
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.errors import UsageError

_DEFAULT_PORTS = {"nats": 4222, "tls": 4222, "ws": 80, "wss": 443}


class Address(Struct, frozen=True):
    """The address of a server, and the user that its URL names (decoded)."""

    host: str
    port: int
    tls: bool
    user: str | None = None
    password: str | None = None
    """None with a user means that the user is a token."""
    websocket: bool = False
    path: str = ""
    """Path of a WebSocket behind a proxy, as `/nats`."""

    @property
    def url(self) -> str:
        """Return the address without user and password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        schemes = ("ws", "wss") if self.websocket else ("nats", "tls")
        return f"{schemes[self.tls]}://{host}:{self.port}{self.path}"

    @property
    def host_port(self) -> str:
        """Return the address as `host:port`, without scheme and path."""
        return self.url.partition("://")[2].removesuffix(self.path)


def parse_servers(servers: tuple[str, ...]) -> tuple[Address, ...]:
    """Return the addresses of a list whose entries may themselves be lists with commas.

    Raises UsageError that names the entry that is not an address, without its password.
    """
    entries = [entry.strip() for text in servers for entry in text.split(",")]
    addresses = tuple(parse_server(entry) for entry in entries if entry)
    if not addresses:
        raise UsageError("no server address is given; write one as nats://host:4222")
    user_password_pairs = {
        (address.user, address.password) for address in addresses if address.user is not None
    }
    if len(user_password_pairs) > 1:
        raise UsageError(
            "the server addresses name different users; set user and password once, as settings"
        )
    return addresses


def parse_server(entry: str) -> Address:
    """Return the address in a text, in which scheme and port may be left out.

    Raises UsageError for a text that is not an address.
    """
    safe_address = clean_line(without_secrets(entry))
    try:
        url = urlsplit(entry if "://" in entry else f"nats://{entry}")
        host, port = url.hostname, url.port
    except ValueError:
        # Without the error of Python: it shows a part of the text, which may be the password.
        reason = "the port is not a number"
        if "@" in entry:
            reason += (
                "; in a user and a password / is written as %2F, # as %23, ? as %3F, : as %3A"
            )
        raise UsageError(f"the server address {safe_address!r} is not valid: {reason}") from None
    if url.scheme not in _DEFAULT_PORTS:
        raise UsageError(
            f"{safe_address!r}: an address starts with nats://, tls://, ws:// or wss://"
        )
    if not host or any(character.isspace() for character in host):
        raise UsageError(f"the server address {safe_address!r} names no host")
    websocket = url.scheme in ("ws", "wss")
    return Address(
        host=host,
        port=port or _DEFAULT_PORTS[url.scheme],
        tls=url.scheme in ("tls", "wss"),
        user=unquote(url.username) if url.username else None,
        password=unquote(url.password) if url.password is not None else None,
        websocket=websocket,
        path=url.path.rstrip("/") if websocket else "",
    )


_RESOLVE_TIMEOUT_S = 2.0
"""Timeout for resolving names; without an address by then, a name counts as another host."""


def find_same_systems(
    own_addresses: Collection[Address], addresses_by_name: Mapping[str, Collection[Address]]
) -> set[str]:
    """Return the names in `addresses_by_name` that share a server with `own_addresses`: host and
    port.

    Hosts with different names are the same if they resolve to a common IP address.
    """
    own_ports = {address.port for address in own_addresses}
    candidate_addresses = {
        name: [address for address in addresses if address.port in own_ports]
        for name, addresses in addresses_by_name.items()
    }
    hosts = {address.host for addresses in candidate_addresses.values() for address in addresses}
    ips_by_host = (
        _resolve_hosts(hosts | {address.host for address in own_addresses}) if hosts else {}
    )
    own_endpoints = {
        (ip, address.port) for address in own_addresses for ip in ips_by_host.get(address.host, ())
    }
    return {
        name
        for name, addresses in candidate_addresses.items()
        if any(
            (ip, address.port) in own_endpoints
            for address in addresses
            for ip in ips_by_host[address.host]
        )
    }


def _resolve_hosts(hosts: Collection[str]) -> dict[str, set[str]]:
    """Return host → its name, and the IP addresses that it resolves to within 2 s."""
    ips_by_host = {host: {host} for host in hosts}

    def resolve_host(host: str) -> None:
        with suppress(OSError, UnicodeError):
            address_infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            ips_by_host[host] |= {
                _normalize_ip(str(socket_address[0])) for *_, socket_address in address_infos
            }

    # In threads: a name server that does not reply delays no other host.
    threads = [Thread(target=resolve_host, args=(host,), daemon=True) for host in hosts]
    for thread in threads:
        thread.start()
    deadline_s = time.monotonic() + _RESOLVE_TIMEOUT_S
    for thread in threads:
        thread.join(max(0.0, deadline_s - time.monotonic()))
    return {host: set(addresses) for host, addresses in ips_by_host.items()}


def _normalize_ip(text: str) -> str:
    """Return an IP address in its normal form; `this machine` for every address of this
    machine.
    """
    ip = ipaddress.ip_address(text.partition("%")[0])
    ip = getattr(ip, "ipv4_mapped", None) or ip
    is_local = ip.is_loopback or ip.is_unspecified or _is_local_ip(str(ip))
    return "this machine" if is_local else str(ip)


def _is_local_ip(ip: str) -> bool:
    """Return whether an IP address is one of this machine: a socket can be bound to it."""
    try:
        with socket.socket(
            socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_DGRAM
        ) as udp_socket:
            udp_socket.bind((ip, 0))
    except OSError:
        return False
    return True


_INFO_TIMEOUT_S = 2.0
"""Timeout for the INFO of all addresses together."""
_MAX_INFO_BYTES = 1 << 20


class _ServerInfo(msgspec.Struct):
    connect_urls: tuple[str, ...] = ()


def read_cluster_addresses(own_addresses: Collection[Address]) -> tuple[Address, ...]:
    """Return the addresses that the first replying server of `own_addresses` advertises in its
    INFO.

    Empty if that server advertises none, or sends no INFO before TLS. A WebSocket is not read.
    """
    deadline_s = time.monotonic() + _INFO_TIMEOUT_S
    for address in own_addresses:
        if address.websocket:
            continue
        with suppress(OSError, UnicodeError, msgspec.DecodeError, RecursionError):
            line = _read_first_line(address, deadline_s)
            if not line.startswith(b"INFO "):
                continue
            addresses = []
            for url in decoder_of(_ServerInfo).decode(line.removeprefix(b"INFO ")).connect_urls:
                with suppress(UsageError):
                    addresses.append(parse_server(url))
            return tuple(addresses)
    return ()


def _read_first_line(address: Address, deadline_s: float) -> bytes:
    """Return the first line that a server sends; raises OSError, also after the deadline.

    `deadline_s` is a time of `time.monotonic`.
    """
    line = b""
    timeout_s = max(deadline_s - time.monotonic(), 0.001)
    with socket.create_connection((address.host, address.port), timeout_s) as connection:
        while not line.endswith(b"\n") and len(line) < _MAX_INFO_BYTES:
            connection.settimeout(max(deadline_s - time.monotonic(), 0.001))
            received_bytes = connection.recv(1 << 16)
            if not received_bytes:
                break
            line += received_bytes
    return line


def without_secrets(entry: str) -> str:
    """Return an address without user and password: without the text before its last `@`."""
    scheme, separator, host = entry.rpartition("://")
    return scheme + separator + host.rpartition("@")[2]
