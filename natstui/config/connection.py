"""A connection to a NATS system: its addresses, identity, encryption and timeouts."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from natstui.values import replace


class Secret:
    """A text that is never printed: `str()` shows stars, `reveal()` returns the text."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the secret text."""
        return self._text

    def __repr__(self) -> str:
        return "'********'"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


class Connection(Struct, frozen=True, kw_only=True):
    """A connection to a NATS system, with all references resolved and at most one kind of
    identity.
    """

    servers: tuple[str, ...] = ("nats://127.0.0.1:4222",)
    """Addresses, tried in order."""

    user: str | None = None
    password: Secret | None = None
    token: Secret | None = None
    creds: Secret | None = None
    """The text of a creds file."""
    creds_file: str | None = None
    """A creds file, read at every (re)connect so that a renewed one is used."""
    nkey: Secret | None = None
    """The seed of an nkey."""
    nkey_file: str | None = None
    user_jwt: Secret | None = None
    """A user JWT; without `user_seed` it is a bearer JWT."""
    user_seed: Secret | None = None

    ca: str | None = None
    """File with the certificate authorities that may have signed the server's certificate."""
    cert: str | None = None
    key: str | None = None
    tls_required: bool = False
    """Send nothing unless the connection is encrypted."""
    tls_first: bool = False
    """Start with the TLS handshake, before the server's INFO."""

    inbox_prefix: str = "_INBOX"
    domain: str | None = None
    """JetStream domain; wins over `api_prefix`."""
    api_prefix: str | None = None
    event_prefix: str | None = None
    """Prefix of advisories and metrics, if it is not `$JS.EVENT`."""

    client_name: str = "natstui"
    """The name that the server's list of connections shows."""
    connect_timeout_s: float = 8.0
    """Timeout for connecting, all addresses together."""
    request_timeout_s: float = 5.0
    list_timeout_s: float = 6.0
    """Timeout of STREAM.LIST and CONSUMER.LIST: with a node down, the reply comes after 4 s."""

    label: str | None = None
    """Name of its context or profile, shown to people."""
    read_only: bool = False
    """Refuse everything that changes the server."""
    production: bool = False
    """Require a confirmation before anything that changes the server."""
    account: str | None = None
    """Another account, watched through the system account or monitoring ports."""
    colour: str | None = None
    """Colour that marks this system on the screen."""
    system: Connection | None = None
    """The same servers as a user of the system account; never passed to a child process."""
    monitoring: tuple[str, ...] = ()
    """Addresses of the servers' monitoring ports."""

    @property
    def js_api_prefix(self) -> str:
        """Return the prefix of the JetStream API, as `$JS.API`."""
        if self.domain:
            return f"$JS.{self.domain}.API"
        return self.api_prefix or "$JS.API"

    @property
    def js_event_prefix(self) -> str:
        """Return the prefix of JetStream events, as `$JS.EVENT`."""
        return self.event_prefix or "$JS.EVENT"

    @property
    def has_servers_source(self) -> bool:
        """Return whether [system] or monitoring ports are set, which the servers are read from."""
        return self.system is not None or bool(self.monitoring)

    @property
    def requires_tls(self) -> bool:
        """Return whether an unencrypted connection must be refused."""
        is_required = self.tls_required or self.tls_first or bool(self.ca or self.cert)
        return is_required or any(
            server.startswith(("tls://", "wss://")) for server in self.servers
        )

    @property
    def target(self) -> str:
        """Return the label and the first address of the connection, without any secret."""
        first_server, *other_servers = [
            server.rpartition("@")[2] or server for server in self.servers
        ]
        address = first_server.partition("://")[2] or first_server
        address = f"{address} (+{len(other_servers)})" if other_servers else address
        return f"{self.label} · {address}" if self.label else address

    def to_json_line(self) -> str:
        """Return a line of JSON *with* the secrets but without [system], for the stdin of a child
        process.
        """
        values: dict[str, Any] = {}
        # What works for the user needs no more rights than the user has.
        without_system = replace(self, system=None)
        for name, value in asdict(without_system).items():
            values[name] = {"secret": value.reveal()} if isinstance(value, Secret) else value
        return json.dumps(values)

    @classmethod
    def from_json_line(cls, json_line: str) -> Connection:
        """Return the connection in a line that `to_json_line` wrote."""
        values: dict[str, Any] = json.loads(json_line)
        for name, value in values.items():
            if isinstance(value, dict):
                values[name] = Secret(value["secret"])
        values["servers"] = tuple(values["servers"])
        values["monitoring"] = tuple(values["monitoring"])
        return cls(**values)
