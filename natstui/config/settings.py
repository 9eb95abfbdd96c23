"""Every setting: one frozen part per room, each with its default, unit and meaning."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

_COLOUR = r"^(#[0-9a-fA-F]{6}|red|orange|yellow|green|cyan|blue|magenta|white)$"


class Part(BaseModel):
    """A frozen group of settings that refuses keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


class ConnectionPart(Part):
    """Settings of a connection: addresses, identity, encryption, prefixes and marks.

    None is not set: the context or profile decides, else the default that the example shows.
    Secrets may be references: `env://NAME`, `file://PATH`, `data:;base64,…`, `op://…`, `nsc://…`.
    """

    server: str | None = Field(default=None, examples=["nats://127.0.0.1:4222"])
    """Addresses, separated by commas; without any, the selected context of the NATS CLI counts."""
    context: str | None = Field(default=None, examples=["production"])
    """A context of the NATS CLI: its name, or a path to its .json file."""
    user: str | None = Field(default=None, examples=["ann"])
    """User name."""
    password: SecretStr | None = Field(default=None, examples=["env://ANN_PASSWORD"])
    """Password of the user."""
    token: SecretStr | None = Field(default=None, examples=["op://vault/nats/token"])
    """Token instead of a user."""
    creds: str | None = Field(default=None, examples=["~/nats/ann.creds"])
    """Creds file with a user JWT and its seed."""
    nkey: str | None = Field(default=None, examples=["~/nats/ann.nk"])
    """File with the seed of an nkey."""
    user_jwt: SecretStr | None = Field(default=None, examples=["env://ANN_JWT"])
    """A user JWT itself."""
    user_seed: SecretStr | None = Field(default=None, examples=["env://ANN_SEED"])
    """The seed that belongs to user_jwt; a bearer JWT needs none."""
    ca: str | None = Field(default=None, examples=["~/nats/ca.pem"])
    """File with the authorities that may have signed the server's certificate."""
    cert: str | None = Field(default=None, examples=["~/nats/ann.pem"])
    """File with our certificate."""
    key: str | None = Field(default=None, examples=["~/nats/ann.key"])
    """File with the key of our certificate."""
    tls: bool | None = Field(default=None, examples=[False])
    """Send nothing unless the connection is encrypted."""
    tls_first: bool | None = Field(default=None, examples=[False])
    """Start with the TLS handshake, before the server says anything."""
    inbox_prefix: str | None = Field(default=None, examples=["_INBOX"])
    """Where answers come back to; the user must be allowed to subscribe below it."""
    domain: str | None = Field(default=None, examples=["hub"])
    """JetStream domain."""
    api_prefix: str | None = Field(default=None, examples=["$JS.hub.API"])
    """Where the JetStream API listens, when it is not $JS.API."""
    event_prefix: str | None = Field(default=None, examples=["$JS.hub.EVENT"])
    """Where advisories and metrics come from, when it is not $JS.EVENT."""
    read_only: bool | None = Field(default=None, examples=[False])
    """Refuse everything that changes the server."""
    production: bool | None = Field(default=None, examples=[False])
    """Ask twice before anything that changes the server."""
    colour: str | None = Field(default=None, examples=["red"], pattern=_COLOUR)
    """Colour that marks this system on the screen, as red or #ff8800."""
    monitoring: str | None = Field(
        default=None, examples=["http://n1:8222,http://n2:8222"], pattern=r"^https?://"
    )
    """Monitoring ports of all servers, for the servers screen of who has no system account."""


class DefaultConnection(ConnectionPart):
    """The connection of commands that name no other, with timeouts."""

    profile: str | None = Field(default=None, examples=["staging"])
    """The profile to use when none is named."""
    connect_timeout_s: float = Field(default=8.0, gt=0, le=600)
    """Until the connection is usable, over all addresses."""
    request_timeout_s: float = Field(default=5.0, gt=0.5, le=600)
    """Until a request must be answered; below 0.6 s real errors arrive too late."""


class System(Part):
    """The identity for requests of the system account: [system], [profiles.NAME.system].

    Addresses and encryption are those of the connection, unless a context or server is named.
    """

    context: str | None = Field(default=None, examples=["production-system"])
    """A context of the NATS CLI, with its own addresses."""
    server: str | None = Field(default=None, examples=["nats://127.0.0.1:4222"])
    """Addresses, when they are not those of the connection."""
    user: str | None = Field(default=None, examples=["sys"])
    """User name in the system account."""
    password: SecretStr | None = Field(default=None, examples=["env://SYS_PASSWORD"])
    """Password of the user."""
    creds: str | None = Field(default=None, examples=["~/nats/sys.creds"])
    """Creds file of a user of the system account."""
    nkey: str | None = Field(default=None, examples=["~/nats/sys.nk"])
    """File with the seed of an nkey."""


class Profile(ConnectionPart):
    """A named connection: `[profiles.NAME]`, with the keys of `[connection]`."""

    label: str | None = Field(default=None, examples=["Staging EU"])
    """What the screen calls it; the name, when there is none."""
    system: System | None = Field(default=None, examples=[{"creds": "~/nats/sys.creds"}])
    """Its system account, as in [system]."""


class Monitor(Part):
    """How often the server is polled, within 5 % of one core of it and half of the link."""

    interval_s: float = Field(default=1.0, ge=0.1, le=3600)
    """From one poll to the next."""
    max_requests_per_s: float | None = Field(default=None, ge=1, examples=[15.0])
    """The most API requests polling may make, besides."""
    list_timeout_s: float = Field(default=6.0, ge=4.5, le=600)
    """For lists; a server that misses a node answers them after 4 s."""


class Viewer(Part):
    """How the screen looks and behaves."""

    theme: str = "natstui"
    """Name of the colour theme."""
    ascii: bool = False
    """Draw with ASCII characters only."""
    mouse: bool = True
    """React to the mouse."""
    keys: dict[str, str] = Field(default_factory=dict, examples=[{"quit": "q,ctrl+q"}])
    """Action → its keys, separated by commas; they replace the default keys."""


class Session(Part):
    """Where recordings are kept."""

    folder: str | None = Field(default=None, examples=["~/nats-sessions"])
    """Folder of the recordings; without it, natstui's data folder of this platform."""
    record: bool = False
    """Record what the viewer watches, from its start on."""
    connections: bool = False
    """Record the account's connections, too, every 30 s or more: they hold users and addresses."""


class BenchmarkLibrary(Part):
    """Where results of benchmarks are kept."""

    folder: str | None = Field(default=None, examples=["~/nats-benchmarks"])
    """Folder of the saved runs; without it, natstui's data folder of this platform."""


class Alert(Part):
    """Who is told of which findings: `[alerts.NAME]`, for `natstui alert`."""

    codes: list[str] = Field(default_factory=list, examples=[["NT-C07", "NT-C09"]])
    """Codes of findings, as `natstui health --list` prints them; without any, every code. A
    retired code means its successor."""
    min_severity: Literal["info", "warning", "critical"] = "warning"
    """The least severity that is told."""
    entity: str | None = Field(default=None, examples=["ORDERS/*"])
    """STREAM or STREAM/CONSUMER, with * and ? as in file names; without it, everything."""
    hold_s: float = Field(default=30.0, ge=0, le=86_400)
    """How long a finding is open before it is told."""
    bell: bool = False
    """Ring the bell of the terminal."""
    command: str | None = Field(default=None, examples=["notify-send natstui"])
    """A command that gets the finding as JSON on its standard input; no shell is involved."""
    webhook: str | None = Field(default=None, examples=["https://example.org/hook"])
    """An address to which the finding is posted as JSON."""
    subject: str | None = Field(default=None, examples=["alerts.natstui"])
    """A NATS subject to which the finding is published as JSON."""

    @field_validator("codes")
    @classmethod
    def _known_codes(cls, codes: list[str]) -> list[str]:
        """Return the codes; raises ValueError for one that never existed."""
        from natstui.model.findings.catalogue.every import KINDS, successor_of

        for code in codes:
            if successor_of(code) not in KINDS:
                raise ValueError(f"{code} is not the code of a finding: see natstui health --list")
        return [successor_of(code) for code in codes]


NAMED: dict[str, tuple[str, type[Part]]] = {
    "profiles": ("staging", Profile),
    "alerts": ("orders", Alert),
}
"""Tables of the file with names of the user: an example name, and the type of their entries."""


class Settings(BaseSettings):
    """All settings; the file `config.toml` has one table per part."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,
        env_prefix="NATSTUI_",
        env_nested_delimiter="_",
        env_nested_max_split=1,
    )

    connection: DefaultConnection = DefaultConnection()
    """Where to connect and who to be, when the command line does not say."""
    system: System = System()
    """Who to be for what only the system account may ask, when [connection] is where we connect;
    addresses and encryption are those of the connection, unless a context or server is named."""
    profiles: dict[str, Profile] = Field(default_factory=dict)
    """Named connections, for `--profile NAME`; each may have every key of [connection] but
    profile and the time-outs, a label, and a table [profiles.NAME.system]."""
    monitor: Monitor = Monitor()
    """How often the server is polled, within 5 % of one core of it and half of the link."""
    viewer: Viewer = Viewer()
    """How the screen looks and behaves."""
    session: Session = Session()
    """Where recordings are kept."""
    benchmark: BenchmarkLibrary = BenchmarkLibrary()
    """Where results of benchmarks are kept."""
    alerts: dict[str, Alert] = Field(default_factory=dict)
    """Who is told when something is wrong, while `natstui alert` runs."""
