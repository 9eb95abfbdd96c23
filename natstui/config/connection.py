"""One connection to a NATS system: its addresses, identity, encryption and time-outs."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any


class Secret:
    """A text that nothing prints: it shows stars until `reveal()` is called."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text itself."""
        return self._text

    def __repr__(self) -> str:
        return "'********'"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """One way to one NATS system, all references resolved; at most one kind of identity is set."""

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
    """Start with the TLS handshake, before the server says anything."""

    inbox_prefix: str = "_INBOX"
    domain: str | None = None
    """JetStream domain; wins over `api_prefix`."""
    api_prefix: str | None = None
    event_prefix: str | None = None
    """Where advisories and metrics come from, when it is not `$JS.EVENT`."""

    client_name: str = "natstui"
    """The name that the server's list of connections shows."""
    connect_timeout_s: float = 8.0
    """Until the connection is usable, all addresses together."""
    request_timeout_s: float = 5.0
    list_timeout_s: float = 6.0
    """For STREAM.LIST and CONSUMER.LIST, which a server with a node down answers after 4 s."""

    label: str | None = None
    """Name of the context or profile it came from, shown to people."""
    read_only: bool = False
    """Refuse everything that changes the server."""
    production: bool = False
    """Ask twice before anything that changes the server."""
    account: str | None = None
    """Another account, which is only watched: as the system account or the ports tell of it."""
    colour: str | None = None
    """Colour that marks this system on the screen."""
    system: Connection | None = None
    """The same servers as a user of the system account; never handed to a child process."""
    monitoring: tuple[str, ...] = ()
    """Addresses of the servers' monitoring ports."""

    @property
    def js_api_prefix(self) -> str:
        """Return where the JetStream API listens, as `$JS.API`."""
        if self.domain:
            return f"$JS.{self.domain}.API"
        return self.api_prefix or "$JS.API"

    @property
    def js_event_prefix(self) -> str:
        """Return where JetStream announces, as `$JS.EVENT`."""
        return self.event_prefix or "$JS.EVENT"

    @property
    def wants_tls(self) -> bool:
        """Return whether an unencrypted connection must be refused."""
        asked = self.tls_required or self.tls_first or bool(self.ca or self.cert)
        return asked or any(server.startswith(("tls://", "wss://")) for server in self.servers)

    @property
    def target(self) -> str:
        """Return what this connects to, for people, without any secret."""
        first, *others = [server.rpartition("@")[2] or server for server in self.servers]
        place = first.partition("://")[2] or first
        place = f"{place} (+{len(others)})" if others else place
        return f"{self.label} · {place}" if self.label else place

    def to_line(self) -> str:
        """Return one line of JSON *with* the secrets, for the stdin of our own child process."""
        values: dict[str, Any] = {}
        # What works for the user needs no more rights than the user has.
        alone = dataclasses.replace(self, system=None)
        for field in dataclasses.fields(self):
            value = getattr(alone, field.name)
            values[field.name] = {"secret": value.reveal()} if isinstance(value, Secret) else value
        return json.dumps(values)

    @classmethod
    def from_line(cls, line: str) -> Connection:
        """Return the connection that `to_line` wrote."""
        values: dict[str, Any] = json.loads(line)
        for name, value in values.items():
            if isinstance(value, dict):
                values[name] = Secret(value["secret"])
        values["servers"] = tuple(values["servers"])
        values["monitoring"] = tuple(values["monitoring"])
        return cls(**values)
