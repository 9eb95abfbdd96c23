"""Settings, NATS CLI contexts, NATS_* variables and flags → one `Connection`.

Each source is a layer; a higher layer overrides a lower one, then references are resolved.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import SecretStr

from natstui.config import Connection, Secret
from natstui.config.contexts import context_name, context_servers, load_context, selected_context
from natstui.config.load import LoadedSettings
from natstui.config.references import expand, file_of, resolve_secret
from natstui.config.servers import parse_servers
from natstui.config.settings import ConnectionPart, Profile, System
from natstui.errors import UsageError
from natstui.units import parse_duration_ns

Layer = dict[str, tuple[Any, str]]
"""Setting of a connection → its value and where it came from."""

IDENTITIES = (
    {"user", "password"},
    {"token"},
    {"creds"},
    {"nkey"},
    {"user_jwt", "user_seed"},
)
_VARIABLES = {
    "NATS_URL": "server",
    "NATS_USER": "user",
    "NATS_PASSWORD": "password",
    "NATS_TOKEN": "token",
    "NATS_CREDS": "creds",
    "NATS_NKEY": "nkey",
    "NATS_JWT": "user_jwt",
    "NATS_SEED": "user_seed",
    "NATS_CERT": "cert",
    "NATS_KEY": "key",
    "NATS_CA": "ca",
}


def own_layers(loaded: LoadedSettings) -> tuple[Layer, Layer]:
    """Return `[connection]` as the file has it, and as NATSTUI_CONNECTION_* or flags have it."""
    file: Layer = {}
    above: Layer = {}
    for name, (value, _) in part_layer(loaded.settings.connection, "").items():
        origin = loaded.origins.get(f"connection.{name}", "")
        layer = file if origin == str(loaded.file) else above
        layer[name] = (value, origin)
    return file, above


def part_layer(part: ConnectionPart, origin: str) -> Layer:
    """Return what a part of the settings sets itself."""
    names = [name for name in ConnectionPart.model_fields if name in part.model_fields_set]
    values = {name: getattr(part, name) for name in names}
    return {name: (value, origin) for name, value in values.items() if value is not None}


def variables() -> Layer:
    """Return what the NATS CLI's variables set; a user without a password is a token."""
    if os.environ.get("NATS_SOCKS_PROXY"):
        raise UsageError("NATS_SOCKS_PROXY is set, and natstui has no SOCKS proxy")
    layer: Layer = {}
    for variable, name in _VARIABLES.items():
        if value := os.environ.get(variable):
            layer[name] = (value, variable)
    if "user" in layer and "password" not in layer:
        layer["token"] = layer.pop("user")
    return layer


def override(lower: Layer, higher: Layer) -> None:
    """Override one layer by a higher one; an identity replaces the whole other identity."""
    groups = [group for group in IDENTITIES if group & higher.keys()]
    server = higher.get("server", ("", ""))[0]
    if groups or (server and parse_servers((server,))[0].user is not None):
        for group in IDENTITIES:
            if group not in groups:
                for name in group:
                    lower.pop(name, None)
    lower.update(higher)


SECRETS = ("password", "token", "user_jwt", "user_seed")
_PLAIN = (
    *("user", "tls_first", "inbox_prefix", "domain", "api_prefix", "event_prefix"),
    *("read_only", "production", "colour"),
)


def connection_of(
    values: Mapping[str, Any], loaded: LoadedSettings, label: str | None
) -> Connection:
    """Return the connection with every reference resolved."""
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
    if "monitoring" in values:
        found["monitoring"] = tuple(filter(None, values["monitoring"].split(",")))
    return Connection(
        **found,
        tls_required=bool(values.get("tls")),
        connect_timeout_s=settings.connection.connect_timeout_s,
        request_timeout_s=_request_timeout_s(loaded),
        list_timeout_s=settings.monitor.list_timeout_s,
        label=label,
    )


def _identity_of(values: Mapping[str, Any]) -> set[str]:
    """Return which settings of an identity have a value."""
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


def _request_timeout_s(loaded: LoadedSettings) -> float:
    """Return our own setting, or NATS_TIMEOUT when only that is set."""
    text = os.environ.get("NATS_TIMEOUT")
    if text is None or "connection.request_timeout_s" in loaded.origins:
        return loaded.settings.connection.request_timeout_s
    try:
        return parse_duration_ns(text) / 1e9
    except ValueError as error:
        raise UsageError(f"NATS_TIMEOUT is {text!r}; write it as 5s") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionNames:
    """What the command line says about where to connect."""

    server: str | None = None
    context: str | None = None
    profile: str | None = None
    account: str | None = None
    """Another account than one's own, to be watched."""


@dataclass(frozen=True, slots=True)
class ResolvedConnection:
    """A connection, and where each of its settings came from."""

    connection: Connection
    layer: Layer
    """Every setting of a connection that is set, as it is written: references are not resolved."""


@dataclass(frozen=True, slots=True)
class _Choice:
    layer: Layer
    label: str | None
    keeps_file: bool = False
    """Whether `[connection]` of the file overrides this layer."""


def resolve(loaded: LoadedSettings, named: ConnectionNames) -> ResolvedConnection:
    """Return the one connection that all sources together describe.

    Raises UsageError when something named does not exist, contradicts itself or cannot be read.
    """
    if named.context and named.profile:
        raise UsageError("--context and --profile both say where to connect: use one of them")
    file, ours = own_layers(loaded)
    theirs = variables()
    flags: Layer = {"server": (named.server, "--server")} if named.server else {}
    typed = any("server" in layer for layer in (theirs, ours, flags))
    choice = _choice(loaded, named, typed)
    # `read_only` and `production` in the file hold for every target.
    merged: Layer = {name: file[name] for name in ("read_only", "production") if name in file}
    for layer in (choice.layer, file if choice.keeps_file else {}, theirs, ours, flags):
        override(merged, layer)
    values = {name: value for name, (value, _) in merged.items()}
    connection = connection_of(values, loaded, choice.label)
    if "production" not in merged and (marked_by := _marking_profile(loaded, values, connection)):
        merged["production"] = (True, f"profile {marked_by}")
        connection = replace(connection, production=True)
    asked = _system_settings(loaded, choice)
    if asked is not None:
        connection = replace(connection, system=_system_connection(loaded, connection, asked))
    if named.account is not None:
        connection = of_account(connection, named.account)
    return ResolvedConnection(connection, merged)


def _marking_profile(
    loaded: LoadedSettings, values: Mapping[str, Any], connection: Connection
) -> str | None:
    """Return a profile that marks this system as production, whatever names the system.

    It is the same system where the profile names the same context, or one of the addresses.
    """
    places = {address.place for address in parse_servers(connection.servers)}
    for name, profile in loaded.settings.profiles.items():
        if not profile.production:
            continue
        if profile.context and context_name(profile.context) == values.get("context"):
            return name
        if not places.isdisjoint(_places_of(profile)):
            return name
    return None


def _places_of(profile: Profile) -> set[str]:
    """Return the addresses that a profile leads to; none of a context that cannot be read."""
    try:
        servers = profile.server or (context_servers(profile.context) if profile.context else "")
        return {address.place for address in parse_servers((servers,))} if servers else set()
    except UsageError:
        return set()


def of_account(connection: Connection, account: str) -> Connection:
    """Return how another account of the same servers is watched: it can only be read.

    The system account of [system] tells of it, or the monitoring ports; where neither is named,
    the connection itself is taken for one of the system account.
    """
    if not account:
        raise UsageError("--account: a name is empty")
    own = connection.system or (None if connection.monitoring else connection)
    return replace(
        connection,
        account=account,
        label=f"{account} of {connection.label}" if connection.label else account,
        read_only=True,
        system=own,
        domain=None,
        api_prefix=None,
    )


def _system_settings(loaded: LoadedSettings, choice: _Choice) -> System | None:
    """Return who to be in the system account; None where nobody said it."""
    name = choice.layer.get("profile", ("", ""))[0]
    if name and (own := loaded.settings.profiles[name].system) is not None:
        return own
    part = loaded.settings.system
    # The file's system account belongs to the file's target: no other server gets its secrets.
    said = [
        key for key in part.model_fields_set
        if choice.keeps_file or loaded.origins.get(f"system.{key}") != str(loaded.file)
    ]  # fmt: skip
    return System(**{key: getattr(part, key) for key in said}) if said else None


def _system_connection(loaded: LoadedSettings, main: Connection, asked: System) -> Connection:
    """Return the connection of the system account to the servers of the main one."""
    layer: Layer = _context(asked.context, "system").layer if asked.context else {}
    own = {name: getattr(asked, name) for name in System.model_fields}
    override(layer, {name: (it, "system") for name, it in own.items() if it is not None})
    values = {name: value for name, (value, _) in layer.items()}
    if not _identity_of(values):
        raise UsageError("[system] names no user: set context, creds, nkey, or user and password")
    found = connection_of(values, loaded, main.label)
    if "server" in values:
        return replace(found, read_only=main.read_only, production=main.production)
    kept = ("servers", "ca", "cert", "key", "tls_required", "tls_first", "inbox_prefix",
            "read_only", "production")  # fmt: skip
    return replace(found, **{name: getattr(main, name) for name in kept})


def _choice(loaded: LoadedSettings, named: ConnectionNames, typed: bool) -> _Choice:
    """Choose the context or profile that all other sources override."""
    own, origins = loaded.settings.connection, loaded.origins
    if named.profile:
        return _profile(loaded, named.profile, "--profile")
    if named.context:
        return _context(named.context, "--context")
    from_profile, from_context = (
        origins.get(f"connection.{n}", "") for n in ("profile", "context")
    )
    file = ("", str(loaded.file))
    if own.profile and from_profile not in file:
        return _profile(loaded, own.profile, from_profile)
    if own.context and from_context not in file:
        return _context(own.context, from_context)
    if by_variable := os.environ.get("NATS_CONTEXT"):
        return _context(by_variable, "NATS_CONTEXT")
    if typed:
        return _Choice({}, None, keeps_file=not _file_says_where(loaded))
    if own.profile:
        return replace(_profile(loaded, own.profile, from_profile), keeps_file=True)
    if own.context:
        return replace(_context(own.context, from_context), keeps_file=True)
    selected = None if own.server else selected_context()
    if selected:
        return replace(_context(selected, "selected in the NATS CLI"), keeps_file=True)
    return _Choice({}, None, keeps_file=True)


def _file_says_where(loaded: LoadedSettings) -> bool:
    """Return whether the file names a target of its own."""
    keys = ("connection.server", "connection.context", "connection.profile")
    return any(loaded.origins.get(key) == str(loaded.file) for key in keys)


def _context(name: str, why: str) -> _Choice:
    context = load_context(name)
    origin = f"context {context.name}"
    layer: Layer = {name: (value, origin) for name, value in context.fields.items()}
    return _Choice(layer | {"context": (context.name, why)}, context.name)


def context_alone(loaded: LoadedSettings, name: str) -> Connection:
    """Return what a context says, whatever the environment says: it names another system.

    Raises UsageError.
    """
    part, choice = loaded.settings.connection, _context(name, "--to-context")
    values = {one: value for one, (value, _) in choice.layer.items()}
    found = connection_of(values, loaded, choice.label)
    # What was said of every target holds of this one too.
    return replace(
        found,
        read_only=found.read_only or bool(part.read_only),
        production=found.production
        or bool(part.production)
        or _marking_profile(loaded, values, found) is not None,
    )


def _profile(loaded: LoadedSettings, name: str, why: str) -> _Choice:
    """Return a profile, which overrides the context it names."""
    profiles = loaded.settings.profiles
    if name not in profiles:
        known = ", ".join(sorted(profiles)) or "none at all"
        raise UsageError(f"{loaded.file} has no profile {name!r}; there is {known}")
    profile = profiles[name]
    layer: Layer = {}
    if profile.context:
        layer = _context(profile.context, f"profile {name}").layer
    override(layer, part_layer(profile, f"profile {name}"))
    return _Choice(layer | {"profile": (name, why)}, profile.label or name)
