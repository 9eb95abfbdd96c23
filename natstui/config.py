"""Settings: config.toml < environment NATSTUI_* < flags; one frozen part per room."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, SecretStr


class Part(BaseModel):
    """A frozen group of settings that refuses keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Connection(Part):
    """How to reach a server and who to be there, all references resolved."""

    servers: tuple[str, ...] = ("nats://127.0.0.1:4222",)
    """Addresses, tried in order."""
    user: str | None = None
    password: SecretStr | None = None
    connect_timeout_s: float = 8.0
    request_timeout_s: float = 5.0
    js_api_prefix: str = "$JS.API"
    """Where the JetStream API listens; a domain makes it `$JS.<domain>.API`."""
