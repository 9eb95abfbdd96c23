"""Every setting there is: one frozen part per room, each with its default, unit and meaning."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Part(BaseModel):
    """A frozen group of settings that refuses keys it does not know."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, validate_default=True
    )


class ConnectionPart(Part):
    """Where to connect and who to be; values may be `file://` or `env://` references."""

    server: str | None = None
    """Addresses, separated by commas; without any, the selected context of the NATS CLI counts."""
    context: str | None = None
    """A context of the NATS CLI: its name, or a path to its .json file."""
    user: str | None = None
    """User name."""
    password: SecretStr | None = None
    """Password of the user."""
    token: SecretStr | None = None
    """Token instead of a user."""
    creds: str | None = None
    """Creds file with a user JWT and its seed."""
    nkey: str | None = None
    """File with the seed of an nkey."""
    user_jwt: SecretStr | None = None
    """A user JWT itself."""
    user_seed: SecretStr | None = None
    """The seed that belongs to user_jwt; a bearer JWT needs none."""
    ca: str | None = None
    """File with the authorities that may have signed the server's certificate."""
    cert: str | None = None
    """File with our certificate."""
    key: str | None = None
    """File with the key of our certificate."""
    tls: bool = False
    """Send nothing unless the connection is encrypted."""
    tls_first: bool = False
    """Start with the TLS handshake, before the server says anything."""
    inbox_prefix: str = "_INBOX"
    """Where answers come back to; the user must be allowed to subscribe below it."""
    domain: str | None = None
    """JetStream domain."""
    api_prefix: str | None = None
    """Where the JetStream API listens, when it is not $JS.API."""
    event_prefix: str | None = None
    """Where advisories and metrics come from, when it is not $JS.EVENT."""
    read_only: bool = False
    """Refuse everything that changes the server."""
    production: bool = False
    """Ask twice before anything that changes the server."""
    colour: str | None = None
    """Colour that marks this system on the screen, as red or #ff8800."""


class DefaultConnection(ConnectionPart):
    """The connection of every command that names no other, and how long to wait."""

    profile: str | None = None
    """The profile to use when none is named."""
    connect_timeout_s: float = Field(default=8.0, gt=0, le=600)
    """Until the connection is usable, over all addresses."""
    request_timeout_s: float = Field(default=5.0, gt=0.5, le=600)
    """Until a request must be answered; below 0.6 s real errors arrive too late."""


class Profile(ConnectionPart):
    """A named connection: `[profiles.NAME]`."""

    label: str | None = None
    """What the screen calls it; the name, when there is none."""


class Monitor(Part):
    """How often the server is asked, and how hard."""

    interval_s: float = Field(default=1.0, ge=0.1, le=3600)
    """From one poll to the next."""
    max_requests_per_s: float = Field(default=15.0, gt=0)
    """The most API requests polling may make."""
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
    keys: dict[str, str] = Field(default_factory=dict)
    """Action → its keys, separated by commas, for actions that shall have others."""


class Session(Part):
    """Where recordings are kept."""

    folder: str | None = None
    """Folder of the recordings; without it, natstui's data folder of this platform."""


class Settings(BaseSettings):
    """All settings; the file `config.toml` has one table per part."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        validate_default=True,
        env_prefix="NATSTUI_",
        env_nested_delimiter="_",
        env_nested_max_split=1,
    )

    connection: DefaultConnection = DefaultConnection()
    """Where to connect and who to be, when the command line does not say."""
    profiles: dict[str, Profile] = Field(default_factory=dict)
    """Named connections, for `--profile NAME`."""
    monitor: Monitor = Monitor()
    """How often the server is asked, and how hard."""
    viewer: Viewer = Viewer()
    """How the screen looks and behaves."""
    session: Session = Session()
    """Where recordings are kept."""
