"""Server addresses as people write them: comma lists, user and password inside, no port."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from natstui.clean import clean_line
from natstui.errors import UsageError

_DEFAULT_PORTS = {"nats": 4222, "tls": 4222, "ws": 80, "wss": 443}


@dataclass(frozen=True, slots=True)
class Address:
    """One server: its address, and the user that its URL names (decoded)."""

    host: str
    port: int
    tls: bool
    user: str | None = None
    password: str | None = None
    """None with a user: the user is a token."""
    websocket: bool = False
    path: str = ""
    """Of a WebSocket behind a proxy, as `/nats`."""

    @property
    def url(self) -> str:
        """Return the address without user and password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        schemes = ("ws", "wss") if self.websocket else ("nats", "tls")
        return f"{schemes[self.tls]}://{host}:{self.port}{self.path}"

    @property
    def place(self) -> str:
        """Return `host:port`."""
        return self.url.partition("://")[2].removesuffix(self.path)


def parse_servers(servers: tuple[str, ...]) -> tuple[Address, ...]:
    """Return the addresses of a list whose entries may themselves be comma lists.

    Raises UsageError naming the entry that is not an address; never shows its password.
    """
    entries = [entry.strip() for text in servers for entry in text.split(",")]
    addresses = tuple(parse_server(entry) for entry in entries if entry)
    if not addresses:
        raise UsageError("no server address is given; write one as nats://host:4222")
    who = {(a.user, a.password) for a in addresses if a.user is not None}
    if len(who) > 1:
        raise UsageError(
            "the server addresses name different users; give user and password once, as settings"
        )
    return addresses


def parse_server(entry: str) -> Address:
    """Return one address; the scheme and the port may be left out."""
    shown = clean_line(without_secrets(entry))
    try:
        url = urlsplit(entry if "://" in entry else f"nats://{entry}")
        host, port = url.hostname, url.port
    except ValueError:
        # Not what Python says, which shows a piece: it may be one of the password.
        why = "the port is not a number"
        if "@" in entry:
            why += "; in a user and a password / is written as %2F, # as %23, ? as %3F, : as %3A"
        raise UsageError(f"the server address {shown!r} is not valid: {why}") from None
    if url.scheme not in _DEFAULT_PORTS:
        raise UsageError(f"{shown!r}: an address starts with nats://, tls://, ws:// or wss://")
    if not host or any(character.isspace() for character in host):
        raise UsageError(f"the server address {shown!r} names no host")
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


def without_secrets(entry: str) -> str:
    """Return an address without what stands before its last `@`."""
    scheme, mark, rest = entry.rpartition("://")
    return scheme + mark + rest.rpartition("@")[2]
