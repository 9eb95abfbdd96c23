"""Every setting: a frozen part per table of the file, each setting with its default, unit and
meaning.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

_COLOUR_PATTERN = r"^(#[0-9a-fA-F]{6}|red|orange|yellow|green|cyan|blue|magenta|white)$"


class SettingsPart(BaseModel):
    """A frozen group of settings; an unknown key raises ValidationError."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


class ConnectionPart(SettingsPart):
    """Settings of a connection: addresses, identity, encryption, prefixes and protection.

    A setting that is None is not set: its value comes from the context or profile, else it is the
    default that `config.example.toml` shows.
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
    """Start with the TLS handshake, before the server's INFO."""
    inbox_prefix: str | None = Field(default=None, examples=["_INBOX"])
    """Prefix of reply subjects; the user must have permission to subscribe to PREFIX.>."""
    domain: str | None = Field(default=None, examples=["hub"])
    """JetStream domain."""
    api_prefix: str | None = Field(default=None, examples=["$JS.hub.API"])
    """Prefix of the JetStream API, if it is not $JS.API."""
    event_prefix: str | None = Field(default=None, examples=["$JS.hub.EVENT"])
    """Prefix of advisories and metrics, if it is not $JS.EVENT."""
    read_only: bool | None = Field(default=None, examples=[False])
    """Refuse everything that changes the server."""
    production: bool | None = Field(default=None, examples=[False])
    """Require a confirmation before anything that changes the server."""
    colour: str | None = Field(default=None, examples=["red"], pattern=_COLOUR_PATTERN)
    """Colour that marks this system on the screen, as red or #ff8800."""
    monitoring: str | None = Field(
        default=None, examples=["http://n1:8222,http://n2:8222"], pattern=r"^https?://"
    )
    """Monitoring ports of all servers, for the servers screen without a system account."""


class DefaultConnection(ConnectionPart):
    """The connection of a command that names no other, with its timeouts."""

    profile: str | None = Field(default=None, examples=["staging"])
    """The profile to use when none is named."""
    connect_timeout_s: float = Field(default=8.0, gt=0, le=600)
    """Timeout for connecting, all addresses together."""
    request_timeout_s: float = Field(default=5.0, gt=0.5, le=600)
    """Timeout of a request; it must be above 0.5, or errors of the server come too late."""


class System(SettingsPart):
    """The identity for requests of the system account: [system], [profiles.NAME.system].

    Addresses and encryption are those of the connection, unless a context or server is named.
    """

    context: str | None = Field(default=None, examples=["production-system"])
    """A context of the NATS CLI, with its own addresses."""
    server: str | None = Field(default=None, examples=["nats://127.0.0.1:4222"])
    """Addresses, if they are not those of the connection."""
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
    """Name of the system on the screen; without it, the name of the profile."""
    system: System | None = Field(default=None, examples=[{"creds": "~/nats/sys.creds"}])
    """Its system account, as in [system]."""


class Monitor(SettingsPart):
    """Settings of polling: interval, limit of requests, timeout of lists."""

    interval_s: float = Field(default=1.0, ge=0.2, le=3600)
    """From one poll to the next."""
    max_requests_per_s: float | None = Field(default=None, ge=1, examples=[15.0])
    """Additional limit of API requests of polling."""
    list_timeout_s: float = Field(default=6.0, ge=4.5, le=600)
    """Timeout of lists; with a node down, the reply comes after 4 s."""


class Viewer(SettingsPart):
    """Appearance and input of the screen."""

    theme: str = "natstui"
    """Name of the colour theme."""
    ascii: bool = False
    """Draw with ASCII characters only."""
    mouse: bool = True
    """React to the mouse."""
    keys: dict[str, str] = Field(default_factory=dict, examples=[{"quit": "q,ctrl+q"}])
    """Action → its keys, separated by commas; they replace the default keys."""


class Session(SettingsPart):
    """Settings of recordings: their folder, and what is recorded."""

    folder: str | None = Field(default=None, examples=["~/nats-sessions"])
    """Folder of the recordings; without it, natstui's data folder of this platform."""
    record: bool = False
    """Record what the viewer watches, from its start on."""
    connections: bool = False
    """Record the account's connections, too, every 30 s or more: they have users and addresses."""


class BenchmarkLibrary(SettingsPart):
    """Settings of saved benchmarks: their folder."""

    folder: str | None = Field(default=None, examples=["~/nats-benchmarks"])
    """Folder of the saved runs; without it, natstui's data folder of this platform."""


class Alert(SettingsPart):
    """A target of findings, and which findings are sent to it: `[alerts.NAME]`, for `natstui
    alert`.
    """

    codes: list[str] = Field(default_factory=list, examples=[["NT-C07", "NT-C09"]])
    """Codes of findings, as `natstui health --list` prints them; without any, every code. A
    retired code means its successor."""
    min_severity: Literal["info", "warning", "critical"] = "warning"
    """The minimum severity of a finding that is sent."""
    entity: str | None = Field(default=None, examples=["ORDERS/*"])
    """STREAM or STREAM/CONSUMER, with * and ? as in file names; without it, everything."""
    hold_s: float = Field(default=30.0, ge=0, le=86_400)
    """How long a finding is open before it is sent."""
    bell: bool = False
    """Ring the bell of the terminal."""
    command: str | None = Field(default=None, examples=["notify-send natstui"])
    """A command that reads the finding as JSON from its standard input; no shell is involved."""
    webhook: str | None = Field(default=None, examples=["https://example.org/hook"])
    """An address to which the finding is posted as JSON."""
    subject: str | None = Field(default=None, examples=["alerts.natstui"])
    """A NATS subject to which the finding is published as JSON."""

    @field_validator("codes")
    @classmethod
    def _check_codes(cls, codes: list[str]) -> list[str]:
        """Return the codes of findings, each retired code replaced by its successor; raises
        ValueError for an unknown code.
        """
        from natstui.model.findings.catalogue.every import KINDS, successor_of

        for code in codes:
            if successor_of(code) not in KINDS:
                raise ValueError(f"{code} is not the code of a finding: see natstui health --list")
        return [successor_of(code) for code in codes]


NAMED_TABLES: dict[str, tuple[str, type[SettingsPart]]] = {
    "profiles": ("staging", Profile),
    "alerts": ("orders", Alert),
}
"""Tables of the file with names of the user: an example name, and the type of their entries."""


class Settings(BaseSettings):
    """All settings; the file `config.toml` has a table per part."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,
        env_prefix="NATSTUI_",
        env_nested_delimiter="_",
        env_nested_max_split=1,
    )

    connection: DefaultConnection = DefaultConnection()
    """Address and identity of the connection, if the command line names no other."""
    system: System = System()
    """Identity for requests of the system account to the servers of [connection]; addresses and
    encryption are those of the connection, unless a context or server is named."""
    profiles: dict[str, Profile] = Field(default_factory=dict)
    """Named connections, for `--profile NAME`; each may have every key of [connection] but
    profile and the timeouts, a label, and a table [profiles.NAME.system]."""
    monitor: Monitor = Monitor()
    """How often the server is polled; less often where polling would use more than its share of
    the server or of the link.
    """
    viewer: Viewer = Viewer()
    """Appearance and input of the screen."""
    session: Session = Session()
    """Settings of recordings."""
    benchmark: BenchmarkLibrary = BenchmarkLibrary()
    """Settings of saved benchmarks."""
    alerts: dict[str, Alert] = Field(default_factory=dict)
    """Targets of findings, while `natstui alert` runs."""
