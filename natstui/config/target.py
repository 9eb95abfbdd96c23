"""Settings, NATS CLI contexts, NATS_* variables and flags → one `Connection`.

Each source is a layer; a higher layer overrides a lower one, then references are resolved.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import SecretStr

from natstui.config import Connection, Secret
from natstui.config.contexts import context_name, context_servers, load_context, selected_context
from natstui.config.load import LoadedSettings
from natstui.config.references import expand, file_or_secret, resolve_secret
from natstui.config.servers import Address, cluster_addresses, parse_servers, same_systems
from natstui.config.settings import ConnectionPart, Profile, System
from natstui.errors import UsageError
from natstui.units import parse_duration_ns

Layer = dict[str, tuple[Any, str]]
"""Setting of a connection → its value and origin."""

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


def own_layers(loaded_settings: LoadedSettings) -> tuple[Layer, Layer]:
    """Return `[connection]` of the file, and of NATSTUI_CONNECTION_* or flags."""
    file: Layer = {}
    above: Layer = {}
    for name, (value, _) in part_layer(loaded_settings.settings.connection, "").items():
        origin = loaded_settings.origins.get(f"connection.{name}", "")
        layer = file if origin == str(loaded_settings.file) else above
        layer[name] = (value, origin)
    return file, above


def part_layer(part: ConnectionPart, origin: str) -> Layer:
    """Return the settings of a part that are set."""
    names = [name for name in ConnectionPart.model_fields if name in part.model_fields_set]
    values = {name: getattr(part, name) for name in names}
    return {name: (value, origin) for name, value in values.items() if value is not None}


def variables() -> Layer:
    """Return the settings of the NATS CLI's variables; a user without a password is a token."""
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
    """Override one layer by a higher one; an identity replaces the entire other identity."""
    groups = [group for group in IDENTITIES if group & higher.keys()]
    server = higher.get("server", ("", ""))[0]
    if groups or (server and parse_servers((server,))[0].user is not None):
        for group in IDENTITIES:
            if group not in groups:
                for name in group:
                    lower.pop(name, None)
    lower.update(higher)


_MARKS = ("read_only", "production")
SECRETS = ("password", "token", "user_jwt", "user_seed")
_PLAIN = (
    *("user", "tls_first", "inbox_prefix", "domain", "api_prefix", "event_prefix"),
    *("read_only", "production", "colour"),
)


def connection_of(
    values: Mapping[str, Any], loaded_settings: LoadedSettings, label: str | None
) -> Connection:
    """Return the connection with every reference resolved."""
    settings = loaded_settings.settings
    options: dict[str, Any] = {name: values[name] for name in _PLAIN if name in values}
    for name in SECRETS:
        if name in values:
            options[name] = Secret(resolve_secret(_revealed(values[name])))
    for name in ("creds", "nkey"):
        if name in values:
            options[f"{name}_file"], secret = file_or_secret(values[name])
            options[name] = None if secret is None else Secret(secret)
    for name in ("ca", "cert", "key"):
        if name in values:
            options[name] = expand(values[name])
    if "server" in values:
        options |= _addresses(values["server"], no_identity=not _identity_of(values))
    if "monitoring" in values:
        options["monitoring"] = tuple(filter(None, values["monitoring"].split(",")))
    return Connection(
        **options,
        tls_required=bool(values.get("tls")),
        connect_timeout_s=settings.connection.connect_timeout_s,
        request_timeout_s=_request_timeout_s(loaded_settings),
        list_timeout_s=settings.monitor.list_timeout_s,
        label=label,
    )


def _identity_of(values: Mapping[str, Any]) -> set[str]:
    """Return which identity settings have a value."""
    return set().union(*IDENTITIES) & values.keys()


def _addresses(server: str, *, no_identity: bool) -> dict[str, Any]:
    """Return the addresses without users, and the user in them if there is no other identity."""
    addresses = parse_servers((server,))
    options: dict[str, Any] = {"servers": tuple(address.url for address in addresses)}
    with_user = next((address for address in addresses if address.user is not None), None)
    if with_user is not None and no_identity:
        if with_user.password is None:
            return options | {"token": Secret(with_user.user or "")}
        return options | {"user": with_user.user, "password": Secret(with_user.password)}
    return options


def _revealed(value: str | SecretStr) -> str:
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def _request_timeout_s(loaded_settings: LoadedSettings) -> float:
    """Return natstui's own setting, or NATS_TIMEOUT when only that is set."""
    text = os.environ.get("NATS_TIMEOUT")
    if text is None or "connection.request_timeout_s" in loaded_settings.origins:
        return loaded_settings.settings.connection.request_timeout_s
    try:
        return parse_duration_ns(text) / 1e9
    except ValueError as error:
        raise UsageError(f"NATS_TIMEOUT is {text!r}; write it as 5s") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionNames:
    """The names of context, profile and account on the command line."""

    server: str | None = None
    context: str | None = None
    profile: str | None = None
    account: str | None = None
    """Another account to watch."""


@dataclass(frozen=True, slots=True)
class ResolvedConnection:
    """The chosen context or profile, with the origin of each setting."""

    connection: Connection
    layer: Layer
    """Every connection setting that is set, with unresolved references."""


@dataclass(frozen=True, slots=True)
class _Choice:
    layer: Layer
    label: str | None
    keeps_file: bool = False
    """Whether `[connection]` of the file overrides this layer."""


def resolve(
    loaded_settings: LoadedSettings, connection_names: ConnectionNames
) -> ResolvedConnection:
    """Return the one connection that all sources together describe.

    Raises UsageError when something named does not exist, contradicts itself or cannot be read.
    """
    if connection_names.context and connection_names.profile:
        raise UsageError("--context and --profile both say where to connect: use one of them")
    file, ours = own_layers(loaded_settings)
    theirs = variables()
    flags: Layer = (
        {"server": (connection_names.server, "--server")} if connection_names.server else {}
    )
    has_typed_server = any("server" in layer for layer in (theirs, ours, flags))
    choice = _choice(loaded_settings, connection_names, has_typed_server)
    if (connection_names.context or connection_names.profile) and not flags:
        _refuse_other_server(choice, (theirs, ours))
    # The marks in the file hold for every target.
    merged_layer: Layer = {name: file[name] for name in _MARKS if name in file}
    for layer in (choice.layer, file if choice.keeps_file else {}, theirs, ours, flags):
        override(merged_layer, layer)
    values = {name: value for name, (value, _) in merged_layer.items()}
    connection = connection_of(values, loaded_settings, choice.label)
    # An explicit "false" for this target alone is an exception.
    false_in_file = (False, str(loaded_settings.file))
    open_marks = [m for m in _MARKS if merged_layer.get(m, false_in_file) == false_in_file]
    marks = _marks(loaded_settings, values, connection, open_marks)
    merged_layer |= {mark: (True, f"profile {name}") for mark, name in marks.items()}
    connection = _with_marks(connection, marks)
    system_settings = _system_settings(loaded_settings, choice)
    if system_settings is not None:
        connection = replace(
            connection, system=_system_connection(loaded_settings, connection, system_settings)
        )
    if connection_names.account is not None:
        connection = of_account(connection, connection_names.account)
    return ResolvedConnection(connection, merged_layer)


def _refuse_other_server(choice: _Choice, layers: Iterable[Layer]) -> None:
    """Raise UsageError where a variable names another server than the chosen system.

    It would override it, so that another system is shown and changed than the one that was named.
    """
    chosen_server, _ = choice.layer.get("server", (None, ""))
    for layer in layers:
        server, variable = layer.get("server", (chosen_server, ""))
        if chosen_server is not None and server != chosen_server:
            raise UsageError(
                f"{variable} is set, and names another server than {choice.label}: unset it, or "
                "name the server with --server"
            )


def _marks(
    loaded_settings: LoadedSettings,
    values: Mapping[str, Any],
    connection: Connection,
    open_marks: Collection[str],
) -> dict[str, str]:
    """Return the open marks that profiles set on this system, and the profile that sets each.

    It is the same system if the profile names the same context, or one of the addresses, also by
    another name of its host, or another server of the same cluster.
    """
    marking = {
        name: profile
        for name, profile in loaded_settings.settings.profiles.items()
        if any(getattr(profile, mark) for mark in open_marks)
    }
    same = {
        name
        for name, profile in marking.items()
        if profile.context and context_name(profile.context) == values.get("context")
    }
    others = {name: _addresses_of(marking[name]) for name in marking.keys() - same}
    own = parse_servers(connection.servers)
    same |= same_systems(own, others)
    elsewhere = {name: others[name] for name in others.keys() - same if others[name]}
    if elsewhere:
        same |= same_systems(cluster_addresses(own), elsewhere)
    return {
        mark: name
        for mark in open_marks
        for name in reversed(marking)
        if name in same and getattr(marking[name], mark)
    }


def _with_marks(connection: Connection, marks: Collection[str]) -> Connection:
    return replace(
        connection,
        read_only=connection.read_only or "read_only" in marks,
        production=connection.production or "production" in marks,
    )


def _addresses_of(profile: Profile) -> tuple[Address, ...]:
    """Return the addresses of a profile; empty for a context that cannot be read."""
    try:
        servers = profile.server or (context_servers(profile.context) if profile.context else "")
        return parse_servers((servers,)) if servers else ()
    except UsageError:
        return ()


def of_account(connection: Connection, account: str) -> Connection:
    """Return a connection that watches another account of the same servers read-only.

    It uses the system account of [system], or the monitoring ports; without both, the connection
    itself is assumed to be one of the system account.
    """
    if not account:
        raise UsageError("--account: a name is empty")
    system_connection = connection.system or (None if connection.monitoring else connection)
    return replace(
        connection,
        account=account,
        label=f"{account} of {connection.label}" if connection.label else account,
        read_only=True,
        system=system_connection,
        domain=None,
        api_prefix=None,
    )


def _system_settings(loaded_settings: LoadedSettings, choice: _Choice) -> System | None:
    """Return the identity in the system account; None if not set."""
    name = choice.layer.get("profile", ("", ""))[0]
    if name and (profile_system := loaded_settings.settings.profiles[name].system) is not None:
        return profile_system
    part = loaded_settings.settings.system
    # The file's system account belongs to the file's target: no other server gets its secrets.
    set_names = [
        key for key in part.model_fields_set
        if choice.keeps_file
        or loaded_settings.origins.get(f"system.{key}") != str(loaded_settings.file)
    ]  # fmt: skip
    return System(**{key: getattr(part, key) for key in set_names}) if set_names else None


def _system_connection(
    loaded_settings: LoadedSettings, main: Connection, system_settings: System
) -> Connection:
    """Return the connection of the system account to the servers of the main one."""
    layer: Layer = (
        _context(system_settings.context, "system").layer if system_settings.context else {}
    )
    values_by_name = {name: getattr(system_settings, name) for name in System.model_fields}
    override(
        layer,
        {
            name: (setting, "system")
            for name, setting in values_by_name.items()
            if setting is not None
        },
    )
    values = {name: value for name, (value, _) in layer.items()}
    if not _identity_of(values):
        raise UsageError("[system] names no user: set context, creds, nkey, or user and password")
    system_connection = connection_of(values, loaded_settings, main.label)
    if "server" in values:
        return replace(system_connection, read_only=main.read_only, production=main.production)
    inherited = ("servers", "ca", "cert", "key", "tls_required", "tls_first", "inbox_prefix",
            "read_only", "production")  # fmt: skip
    return replace(system_connection, **{name: getattr(main, name) for name in inherited})


def _choice(
    loaded_settings: LoadedSettings, connection_names: ConnectionNames, has_typed_server: bool
) -> _Choice:
    """Return the context or profile that all other sources override."""
    own_settings, origins = loaded_settings.settings.connection, loaded_settings.origins
    if connection_names.profile:
        return _profile(loaded_settings, connection_names.profile, "--profile")
    if connection_names.context:
        return _context(connection_names.context, "--context")
    from_profile, from_context = (
        origins.get(f"connection.{n}", "") for n in ("profile", "context")
    )
    file = ("", str(loaded_settings.file))
    if own_settings.profile and from_profile not in file:
        return _profile(loaded_settings, own_settings.profile, from_profile)
    if own_settings.context and from_context not in file:
        return _context(own_settings.context, from_context)
    if by_variable := os.environ.get("NATS_CONTEXT"):
        return _context(by_variable, "NATS_CONTEXT")
    if has_typed_server:
        return _Choice({}, None, keeps_file=not _file_says_where(loaded_settings))
    if own_settings.profile:
        return replace(
            _profile(loaded_settings, own_settings.profile, from_profile), keeps_file=True
        )
    if own_settings.context:
        return replace(_context(own_settings.context, from_context), keeps_file=True)
    selected_name = None if own_settings.server else selected_context()
    if selected_name:
        return replace(_context(selected_name, "selected in the NATS CLI"), keeps_file=True)
    return _Choice({}, None, keeps_file=True)


def _file_says_where(loaded_settings: LoadedSettings) -> bool:
    """Return whether the file names its own target."""
    keys = ("connection.server", "connection.context", "connection.profile")
    return any(loaded_settings.origins.get(key) == str(loaded_settings.file) for key in keys)


def _context(name: str, why: str) -> _Choice:
    context = load_context(name)
    origin = f"context {context.name}"
    layer: Layer = {name: (value, origin) for name, value in context.fields.items()}
    return _Choice(layer | {"context": (context.name, why)}, context.name)


def context_alone(loaded_settings: LoadedSettings, name: str) -> Connection:
    """Return the connection of a context without the environment, which names another system.

    Raises UsageError.
    """
    part, choice = loaded_settings.settings.connection, _context(name, "--to-context")
    values = {name: value for name, (value, _) in choice.layer.items()}
    connection_found = connection_of(values, loaded_settings, choice.label)
    # The marks of every target, and of this system under another name, hold for this one too.
    marks = {mark for mark in _MARKS if getattr(part, mark)}
    marks |= _marks(loaded_settings, values, connection_found, _MARKS).keys()
    return _with_marks(connection_found, marks)


def _profile(loaded_settings: LoadedSettings, name: str, origin: str) -> _Choice:
    """Return a profile, which overrides the context it names."""
    profiles = loaded_settings.settings.profiles
    if name not in profiles:
        profile_names = ", ".join(sorted(profiles)) or "none at all"
        raise UsageError(
            f"{loaded_settings.file} has no profile {name!r}; there is {profile_names}"
        )
    profile = profiles[name]
    layer: Layer = {}
    if profile.context:
        layer = _context(profile.context, f"profile {name}").layer
    override(layer, part_layer(profile, f"profile {name}"))
    return _Choice(layer | {"profile": (name, origin)}, profile.label or name)
