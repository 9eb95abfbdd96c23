"""Settings of a connection, as they are written → the connection, every reference looked up."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr

from natstui.config import Connection, Secret
from natstui.config.load import Loaded
from natstui.errors import UsageError
from natstui.jetstream.layers import IDENTITIES
from natstui.jetstream.secrets import expand, file_of, resolve_secret
from natstui.jetstream.servers import parse_servers
from natstui.units import parse_duration_ns

SECRETS = ("password", "token", "user_jwt", "user_seed")
_PLAIN = (
    *("user", "tls_first", "inbox_prefix", "domain", "api_prefix", "event_prefix"),
    *("read_only", "production", "colour"),
)


def look_up(values: Mapping[str, Any], loaded: Loaded, label: str | None) -> Connection:
    """Return the connection with every reference looked up."""
    settings = loaded.settings
    found: dict[str, Any] = {name: values[name] for name in _PLAIN if name in values}
    for name in SECRETS:
        if name in values:
            found[name] = Secret(resolve_secret(_revealed(values[name])))
    for name in ("creds", "nkey"):
        if name in values:
            file = file_of(values[name])
            found[f"{name}_file"] = file
            found[name] = None if file else Secret(resolve_secret(values[name]))
    for name in ("ca", "cert", "key"):
        if name in values:
            found[name] = expand(values[name])
    if "server" in values:
        found |= _addresses(values["server"], no_identity=not _identity_of(values))
    return Connection(
        **found,
        tls_required=bool(values.get("tls")),
        connect_timeout_s=settings.connection.connect_timeout_s,
        request_timeout_s=_request_timeout_s(loaded),
        list_timeout_s=settings.monitor.list_timeout_s,
        label=label,
    )


def _identity_of(values: Mapping[str, Any]) -> set[str]:
    """Return which settings that say who we are have a value."""
    return set().union(*IDENTITIES) & values.keys()


def _addresses(server: str, *, no_identity: bool) -> dict[str, Any]:
    """Return the addresses without users, and the user they name when nothing else does."""
    addresses = parse_servers((server,))
    found: dict[str, Any] = {"servers": tuple(address.url for address in addresses)}
    named = next((address for address in addresses if address.user is not None), None)
    if named is not None and no_identity:
        if named.password is None:
            return found | {"token": Secret(named.user or "")}
        return found | {"user": named.user, "password": Secret(named.password)}
    return found


def _revealed(value: str | SecretStr) -> str:
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def _request_timeout_s(loaded: Loaded) -> float:
    """Return our own setting, or NATS_TIMEOUT when only that is set."""
    text = os.environ.get("NATS_TIMEOUT")
    if text is None or "connection.request_timeout_s" in loaded.origins:
        return loaded.settings.connection.request_timeout_s
    try:
        return parse_duration_ns(text) / 1e9
    except ValueError as error:
        raise UsageError(f"NATS_TIMEOUT is {text!r}; write it as 5s") from error
