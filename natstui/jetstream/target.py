"""Settings, NATS CLI contexts, NATS_* variables and flags → the one `Connection` they mean."""

from __future__ import annotations

from dataclasses import dataclass

from natstui.config import Connection, Secret
from natstui.config.settings import ConnectionPart, Settings
from natstui.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What the command line says about where to connect."""

    server: str | None = None
    context: str | None = None
    profile: str | None = None


def resolve(settings: Settings, named: Named) -> Connection:
    """Return the connection; raises UsageError when something named does not exist or is wrong."""
    part: ConnectionPart = settings.connection
    label = None
    profile = named.profile or settings.connection.profile
    if profile is not None:
        if profile not in settings.profiles:
            raise UsageError(f"there is no profile {profile!r} in the configuration")
        part, label = settings.profiles[profile], settings.profiles[profile].label or profile
    server = named.server or part.server
    return Connection(
        servers=(server,) if server else ("nats://127.0.0.1:4222",),
        user=part.user,
        password=Secret(part.password.get_secret_value()) if part.password else None,
        token=Secret(part.token.get_secret_value()) if part.token else None,
        creds_file=part.creds,
        nkey_file=part.nkey,
        user_jwt=Secret(part.user_jwt.get_secret_value()) if part.user_jwt else None,
        user_seed=Secret(part.user_seed.get_secret_value()) if part.user_seed else None,
        ca=part.ca,
        cert=part.cert,
        key=part.key,
        tls_required=part.tls,
        tls_first=part.tls_first,
        inbox_prefix=part.inbox_prefix,
        domain=part.domain,
        api_prefix=part.api_prefix,
        connect_timeout_s=settings.connection.connect_timeout_s,
        request_timeout_s=settings.connection.request_timeout_s,
        list_timeout_s=settings.monitor.list_timeout_s,
        label=label,
        read_only=part.read_only,
        production=part.production,
        colour=part.colour,
    )
