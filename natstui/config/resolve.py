"""Settings, NATS CLI contexts, NATS_* variables and flags → one `Connection`.

Each source is a layer; a higher layer overrides a lower one, then references are resolved.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from msgspec import Struct
from pydantic import SecretStr

from natstui.config import Connection, Secret
from natstui.config.contexts import (
    context_servers,
    load_context,
    parse_context_name,
    selected_context,
)
from natstui.config.load import LoadedSettings
from natstui.config.references import expand_path, file_or_secret, resolve_secret
from natstui.config.servers import (
    Address,
    find_same_systems,
    parse_servers,
    read_cluster_addresses,
)
from natstui.config.settings import ConnectionPart, Profile, System
from natstui.errors import UsageError
from natstui.units import parse_duration_ns
from natstui.values import replace

ValueAndOriginBySetting = dict[str, tuple[Any, str]]
"""Setting of a connection → its value and origin."""

IDENTITY_GROUPS = (
    {"user", "password"},
    {"token"},
    {"creds"},
    {"nkey"},
    {"user_jwt", "user_seed"},
)
_SETTING_BY_VARIABLE = {
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


def split_connection_layer(
    loaded_settings: LoadedSettings,
) -> tuple[ValueAndOriginBySetting, ValueAndOriginBySetting]:
    """Return two layers of natstui's own settings of the connection.

    The first has those of `[connection]` in the file, the second those of the variables
    NATSTUI_CONNECTION_* and of flags.
    """
    file_layer: ValueAndOriginBySetting = {}
    override_values_layer: ValueAndOriginBySetting = {}
    for name, (value, _) in part_layer(loaded_settings.settings.connection, "").items():
        origin = loaded_settings.origins.get(f"connection.{name}", "")
        layer = file_layer if origin == str(loaded_settings.file) else override_values_layer
        layer[name] = (value, origin)
    return file_layer, override_values_layer


def part_layer(part: ConnectionPart, origin: str) -> ValueAndOriginBySetting:
    """Return setting → (value, `origin`) for those settings of `part` that are set."""
    names = [name for name in ConnectionPart.model_fields if name in part.model_fields_set]
    values = {name: getattr(part, name) for name in names}
    return {name: (value, origin) for name, value in values.items() if value is not None}


def nats_variables_layer() -> ValueAndOriginBySetting:
    """Return the settings of the NATS CLI's variables; a user without a password becomes a token.
    Raises UsageError for NATS_SOCKS_PROXY.
    """
    if os.environ.get("NATS_SOCKS_PROXY"):
        raise UsageError("NATS_SOCKS_PROXY is set, and natstui has no SOCKS proxy")
    layer: ValueAndOriginBySetting = {}
    for variable, name in _SETTING_BY_VARIABLE.items():
        if value := os.environ.get(variable):
            layer[name] = (value, variable)
    if "user" in layer and "password" not in layer:
        layer["token"] = layer.pop("user")
    return layer


def override_layer(
    lower_layer: ValueAndOriginBySetting, higher_layer: ValueAndOriginBySetting
) -> None:
    """Update `lower_layer` with the settings of `higher_layer`.

    An identity in `higher_layer` replaces every other identity.
    """
    replacing_groups = [group for group in IDENTITY_GROUPS if group & higher_layer.keys()]
    server = higher_layer.get("server", ("", ""))[0]
    if replacing_groups or (server and parse_servers((server,))[0].user is not None):
        for group in IDENTITY_GROUPS:
            if group not in replacing_groups:
                for name in group:
                    lower_layer.pop(name, None)
    lower_layer.update(higher_layer)


_PROTECTION_SETTINGS = ("read_only", "production")
SECRET_SETTINGS = ("password", "token", "user_jwt", "user_seed")
_SETTINGS_WITHOUT_REFERENCES = (
    *("user", "tls_first", "inbox_prefix", "domain", "api_prefix", "event_prefix"),
    *("read_only", "production", "colour"),
)


def build_connection(
    values: Mapping[str, Any], loaded_settings: LoadedSettings, label: str | None
) -> Connection:
    """Return the connection with these `values` by setting, and every reference resolved.

    Raises UsageError for a reference that cannot be read, and for an invalid address.
    """
    settings = loaded_settings.settings
    options: dict[str, Any] = {
        name: values[name] for name in _SETTINGS_WITHOUT_REFERENCES if name in values
    }
    for name in SECRET_SETTINGS:
        if name in values:
            options[name] = Secret(resolve_secret(_reveal_secret(values[name])))
    for name in ("creds", "nkey"):
        if name in values:
            options[f"{name}_file"], secret = file_or_secret(values[name])
            options[name] = None if secret is None else Secret(secret)
    for name in ("ca", "cert", "key"):
        if name in values:
            options[name] = expand_path(values[name])
    if "server" in values:
        options |= _server_options(
            values["server"], has_no_identity=not _present_identity_names(values)
        )
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


def _present_identity_names(values: Mapping[str, Any]) -> set[str]:
    """Return the names of the identity settings that have a value."""
    return set().union(*IDENTITY_GROUPS) & values.keys()


def _server_options(server: str, *, has_no_identity: bool) -> dict[str, Any]:
    """Return the options of a `Connection` to the addresses in `server`, a list with commas.

    With `has_no_identity` the user and password, or token, of an address are among them.
    """
    addresses = parse_servers((server,))
    options: dict[str, Any] = {"servers": tuple(address.url for address in addresses)}
    address_with_user = next((address for address in addresses if address.user is not None), None)
    if address_with_user is not None and has_no_identity:
        if address_with_user.password is None:
            return options | {"token": Secret(address_with_user.user or "")}
        return options | {
            "user": address_with_user.user,
            "password": Secret(address_with_user.password),
        }
    return options


def _reveal_secret(value: str | SecretStr) -> str:
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def _request_timeout_s(loaded_settings: LoadedSettings) -> float:
    """Return the request timeout in s: natstui's setting, or NATS_TIMEOUT if only that is set."""
    text = os.environ.get("NATS_TIMEOUT")
    if text is None or "connection.request_timeout_s" in loaded_settings.origins:
        return loaded_settings.settings.connection.request_timeout_s
    try:
        return parse_duration_ns(text) / 1e9
    except ValueError as error:
        raise UsageError(f"NATS_TIMEOUT is {text!r}; write it as 5s") from error


class ConnectionNames(Struct, frozen=True, kw_only=True):
    """The names of server, context, profile and account on the command line."""

    server: str | None = None
    context: str | None = None
    profile: str | None = None
    account: str | None = None
    """Another account to watch."""


class ResolvedConnection(Struct, frozen=True):
    """The connection to the chosen context or profile, with the origin of each setting."""

    connection: Connection
    layer: ValueAndOriginBySetting
    """Every connection setting that is set, with unresolved references."""


class _ChosenSystem(Struct, frozen=True):
    layer: ValueAndOriginBySetting
    label: str | None
    is_overridden_by_file: bool = False
    """Whether `[connection]` of the file overrides this layer."""


def resolve(
    loaded_settings: LoadedSettings, connection_names: ConnectionNames
) -> ResolvedConnection:
    """Return the connection that all sources together describe.

    Raises UsageError if a context or profile does not exist, or if the settings are contradictory
    or cannot be read.
    """
    if connection_names.context and connection_names.profile:
        raise UsageError("--context and --profile both name a system: use one of them")
    file_layer, variables_and_flags_layer = split_connection_layer(loaded_settings)
    nats_cli_variables_layer = nats_variables_layer()
    flags: ValueAndOriginBySetting = (
        {"server": (connection_names.server, "--server")} if connection_names.server else {}
    )
    has_explicit_server = any(
        "server" in layer for layer in (nats_cli_variables_layer, variables_and_flags_layer, flags)
    )
    chosen_system = _choose_system(loaded_settings, connection_names, has_explicit_server)
    if (connection_names.context or connection_names.profile) and not flags:
        _refuse_other_server(chosen_system, (nats_cli_variables_layer, variables_and_flags_layer))
    # Read-only and production in the file are valid for every target.
    merged_layer: ValueAndOriginBySetting = {
        name: file_layer[name] for name in _PROTECTION_SETTINGS if name in file_layer
    }
    for layer in (
        chosen_system.layer,
        file_layer if chosen_system.is_overridden_by_file else {},
        nats_cli_variables_layer,
        variables_and_flags_layer,
        flags,
    ):
        override_layer(merged_layer, layer)
    values = {name: value for name, (value, _) in merged_layer.items()}
    connection = build_connection(values, loaded_settings, chosen_system.label)
    # An explicit "false" for this target alone is an exception.
    false_with_file_origin = (False, str(loaded_settings.file))
    unset_protection = [
        name
        for name in _PROTECTION_SETTINGS
        if merged_layer.get(name, false_with_file_origin) == false_with_file_origin
    ]
    profile_by_protection = _find_profile_protection(
        loaded_settings, values, connection, unset_protection
    )
    merged_layer |= {
        setting: (True, f"profile {name}") for setting, name in profile_by_protection.items()
    }
    connection = _add_protection(connection, profile_by_protection)
    system_settings = _system_settings(loaded_settings, chosen_system)
    if system_settings is not None:
        connection = replace(
            connection, system=_system_connection(loaded_settings, connection, system_settings)
        )
    if connection_names.account is not None:
        connection = watch_account(connection, connection_names.account)
    return ResolvedConnection(connection, merged_layer)


def _refuse_other_server(
    chosen_system: _ChosenSystem, layers: Iterable[ValueAndOriginBySetting]
) -> None:
    """Raise UsageError where a variable names another server than the chosen system.

    The variable would override the choice, so natstui would show and change another system.
    """
    chosen_server, _ = chosen_system.layer.get("server", (None, ""))
    for layer in layers:
        server, variable = layer.get("server", (chosen_server, ""))
        if chosen_server is not None and server != chosen_server:
            raise UsageError(
                f"{variable} is set, and names another server than {chosen_system.label}: unset "
                "it, or name the server with --server"
            )


def _find_profile_protection(
    loaded_settings: LoadedSettings,
    values: Mapping[str, Any],
    connection: Connection,
    unset_protection: Collection[str],
) -> dict[str, str]:
    """Return the settings in `unset_protection` that a profile for this system sets: setting →
    name of the profile.

    A profile is for the same system if it names the same context, or one of the addresses, also by
    another name of its host, or another server of the same cluster.
    """
    protecting_profiles = {
        name: profile
        for name, profile in loaded_settings.settings.profiles.items()
        if any(getattr(profile, setting) for setting in unset_protection)
    }
    profiles_of_same_system = {
        name
        for name, profile in protecting_profiles.items()
        if profile.context and parse_context_name(profile.context) == values.get("context")
    }
    addresses_by_name = {
        name: _read_profile_addresses(protecting_profiles[name])
        for name in protecting_profiles.keys() - profiles_of_same_system
    }
    own_addresses = parse_servers(connection.servers)
    profiles_of_same_system |= find_same_systems(own_addresses, addresses_by_name)
    other_addresses = {
        name: addresses_by_name[name]
        for name in addresses_by_name.keys() - profiles_of_same_system
        if addresses_by_name[name]
    }
    if other_addresses:
        profiles_of_same_system |= find_same_systems(
            read_cluster_addresses(own_addresses), other_addresses
        )
    return {
        setting: name
        for setting in unset_protection
        for name in reversed(protecting_profiles)
        if name in profiles_of_same_system and getattr(protecting_profiles[name], setting)
    }


def _add_protection(connection: Connection, protection_settings: Collection[str]) -> Connection:
    return replace(
        connection,
        read_only=connection.read_only or "read_only" in protection_settings,
        production=connection.production or "production" in protection_settings,
    )


def _read_profile_addresses(profile: Profile) -> tuple[Address, ...]:
    """Return the addresses of a profile; empty if its context cannot be read."""
    try:
        servers = profile.server or (context_servers(profile.context) if profile.context else "")
        return parse_servers((servers,)) if servers else ()
    except UsageError:
        return ()


def watch_account(connection: Connection, account: str) -> Connection:
    """Return the connection, changed to watch another account of the same servers read-only.

    The other account is read by the system account of [system], or the monitoring ports; without
    both, `connection` itself should be one of the system account. Raises UsageError for an empty
    name.
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


def _system_settings(
    loaded_settings: LoadedSettings, chosen_system: _ChosenSystem
) -> System | None:
    """Return the settings of the system account; None if not set."""
    name = chosen_system.layer.get("profile", ("", ""))[0]
    if name and (profile_system := loaded_settings.settings.profiles[name].system) is not None:
        return profile_system
    part = loaded_settings.settings.system
    # The file's system account belongs to the file's target: no other server gets its secrets.
    applicable_setting_names = [
        key for key in part.model_fields_set
        if chosen_system.is_overridden_by_file
        or loaded_settings.origins.get(f"system.{key}") != str(loaded_settings.file)
    ]  # fmt: skip
    return (
        System(**{key: getattr(part, key) for key in applicable_setting_names})
        if applicable_setting_names
        else None
    )


def _system_connection(
    loaded_settings: LoadedSettings, main_connection: Connection, system_settings: System
) -> Connection:
    """Return the connection of the system account; without own addresses, to those of
    `main_connection`.
    """
    layer: ValueAndOriginBySetting = (
        _choose_context(system_settings.context, "system").layer if system_settings.context else {}
    )
    values_by_name = {name: getattr(system_settings, name) for name in System.model_fields}
    override_layer(
        layer,
        {
            name: (setting, "system")
            for name, setting in values_by_name.items()
            if setting is not None
        },
    )
    values = {name: value for name, (value, _) in layer.items()}
    if not _present_identity_names(values):
        raise UsageError("[system] names no user: set context, creds, nkey, or user and password")
    system_connection = build_connection(values, loaded_settings, main_connection.label)
    if "server" in values:
        return replace(
            system_connection,
            read_only=main_connection.read_only,
            production=main_connection.production,
        )
    inherited_names = ("servers", "ca", "cert", "key", "tls_required", "tls_first", "inbox_prefix",
            "read_only", "production")  # fmt: skip
    return replace(
        system_connection, **{name: getattr(main_connection, name) for name in inherited_names}
    )


def _choose_system(
    loaded_settings: LoadedSettings, connection_names: ConnectionNames, has_explicit_server: bool
) -> _ChosenSystem:
    """Return the context or profile that the first source names; an empty layer if none does.

    The sources are flags, variables, the settings file, and the selection of the NATS CLI. The
    file and the selection are not used with `has_explicit_server`: a flag or a variable names a
    server. The selection is not used if the file names a server.
    """
    connection_settings, origins = loaded_settings.settings.connection, loaded_settings.origins
    if connection_names.profile:
        return _choose_profile(loaded_settings, connection_names.profile, "--profile")
    if connection_names.context:
        return _choose_context(connection_names.context, "--context")
    profile_origin, context_origin = (
        origins.get(f"connection.{name}", "") for name in ("profile", "context")
    )
    file_origins = ("", str(loaded_settings.file))
    if connection_settings.profile and profile_origin not in file_origins:
        return _choose_profile(loaded_settings, connection_settings.profile, profile_origin)
    if connection_settings.context and context_origin not in file_origins:
        return _choose_context(connection_settings.context, context_origin)
    if variable_context := os.environ.get("NATS_CONTEXT"):
        return _choose_context(variable_context, "NATS_CONTEXT")
    if has_explicit_server:
        return _ChosenSystem(
            {}, None, is_overridden_by_file=not _file_names_server(loaded_settings)
        )
    if connection_settings.profile:
        return replace(
            _choose_profile(loaded_settings, connection_settings.profile, profile_origin),
            is_overridden_by_file=True,
        )
    if connection_settings.context:
        return replace(
            _choose_context(connection_settings.context, context_origin),
            is_overridden_by_file=True,
        )
    selected_name = None if connection_settings.server else selected_context()
    if selected_name:
        return replace(
            _choose_context(selected_name, "selected in the NATS CLI"), is_overridden_by_file=True
        )
    return _ChosenSystem({}, None, is_overridden_by_file=True)


def _file_names_server(loaded_settings: LoadedSettings) -> bool:
    """Return whether the file sets a server, context or profile."""
    keys = ("connection.server", "connection.context", "connection.profile")
    return any(loaded_settings.origins.get(key) == str(loaded_settings.file) for key in keys)


def _choose_context(name: str, name_origin: str) -> _ChosenSystem:
    context = load_context(name)
    origin = f"context {context.name}"
    layer: ValueAndOriginBySetting = {
        name: (value, origin) for name, value in context.fields.items()
    }
    return _ChosenSystem(layer | {"context": (context.name, name_origin)}, context.name)


def context_connection(loaded_settings: LoadedSettings, name: str) -> Connection:
    """Return the connection of a context; ignores the environment, which may name another system.

    Raises UsageError if the context cannot be read.
    """
    part, chosen_system = (
        loaded_settings.settings.connection,
        _choose_context(name, "--to-context"),
    )
    values = {name: value for name, (value, _) in chosen_system.layer.items()}
    connection = build_connection(values, loaded_settings, chosen_system.label)
    # The protection of every target, and of this system under another name, is valid for it, too.
    protection_settings = {setting for setting in _PROTECTION_SETTINGS if getattr(part, setting)}
    protection_settings |= _find_profile_protection(
        loaded_settings, values, connection, _PROTECTION_SETTINGS
    ).keys()
    return _add_protection(connection, protection_settings)


def _choose_profile(loaded_settings: LoadedSettings, name: str, origin: str) -> _ChosenSystem:
    """Return a profile, which overrides the context it names; raises UsageError for an unknown
    name.
    """
    profiles = loaded_settings.settings.profiles
    if name not in profiles:
        profile_names = ", ".join(sorted(profiles)) or "none at all"
        raise UsageError(
            f"{loaded_settings.file} has no profile {name!r}; there is {profile_names}"
        )
    profile = profiles[name]
    layer: ValueAndOriginBySetting = {}
    if profile.context:
        layer = _choose_context(profile.context, f"profile {name}").layer
    override_layer(layer, part_layer(profile, f"profile {name}"))
    return _ChosenSystem(layer | {"profile": (name, origin)}, profile.label or name)
