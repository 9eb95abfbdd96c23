"""The effective settings: every value with its origin, secrets masked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import SecretStr

from natstui.config.contexts import PATH_FIELDS
from natstui.config.load import LoadedSettings
from natstui.config.references import has_secret
from natstui.config.settings import NAMED, ConnectionPart, DefaultConnection, Settings, System
from natstui.config.target import SECRETS, ConnectionNames, resolve

STARS = "********"
_DEFAULT = "default"
_REFERENCES = ("file://", "env://", "op://", "nsc://")

Row = tuple[str, Any, str]
"""Key, value without any secret (None if unset), origin."""


def effective(loaded_settings: LoadedSettings, connection_names: ConnectionNames) -> Iterator[Row]:
    """Yield every effective setting; the connection is the one that `connection_names` selects."""
    layer = resolve(loaded_settings, connection_names).layer
    for name, field in DefaultConnection.model_fields.items():
        key = f"connection.{name}"
        if name in layer:
            value, origin = layer[name]
            yield key, _shown(name, value), origin
        elif name in ConnectionPart.model_fields:
            examples = field.examples or [None]
            default = examples[0] if name in _HAVE_DEFAULTS else None
            yield key, default, _DEFAULT
        else:
            value = getattr(loaded_settings.settings.connection, name)
            yield key, value, loaded_settings.origins.get(key, _DEFAULT)
    for part in Settings.model_fields:
        if part != "connection":
            yield from _part_rows(part, loaded_settings)


_HAVE_DEFAULTS = ("server", "tls", "tls_first", "inbox_prefix", "read_only", "production")


def _part_rows(part: str, loaded_settings: LoadedSettings) -> Iterator[Row]:
    if part in NAMED:
        for table, settings in getattr(loaded_settings.settings, part).items():
            for name in settings.model_fields_set:
                key = f"{part}.{table}.{name}"
                value = getattr(settings, name)
                if isinstance(value, System):
                    yield from _system_rows(key, value, loaded_settings)
                else:
                    yield key, _shown(name, value), loaded_settings.origins.get(key, _DEFAULT)
        return
    if part == "system":
        yield from _system_rows(part, loaded_settings.settings.system, loaded_settings)
        return
    for name, value in getattr(loaded_settings.settings, part):
        key = f"{part}.{name}"
        origins = (
            of
            for origin, of in loaded_settings.origins.items()
            if f"{origin}.".startswith(f"{key}.")
        )
        yield key, value, next(origins, _DEFAULT)


def _system_rows(prefix: str, system: System, loaded_settings: LoadedSettings) -> Iterator[Row]:
    for name, value in system:
        key = f"{prefix}.{name}"
        shown_value = None if value is None else _shown(name, value)
        yield key, shown_value, loaded_settings.origins.get(key, _DEFAULT)


def _shown(name: str, value: Any) -> Any:
    """Return a value for people, with references but without secrets."""
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    if name in SECRETS:
        return text if text.startswith(_REFERENCES) else STARS
    if name in PATH_FIELDS and (text.startswith("data:") or has_secret(text)):
        return STARS
    if name == "webhook":
        return _host_of(text)
    if name == "server":
        return ",".join(_without_user(part) for part in text.split(","))
    return text


def _host_of(url: str) -> str:
    """Return a URL up to its host: the path of a webhook may be a secret."""
    scheme, mark, rest_of_url = url.partition("://")
    host, slash, path = rest_of_url.partition("/")
    safe_url = _without_user(f"{scheme}{mark}{host.partition('?')[0]}")
    return f"{safe_url}/{STARS}" if (slash and path) or "?" in host else safe_url


def _without_user(address: str) -> str:
    """Return an address with stars for its user and password."""
    scheme, mark, rest_of_url = address.rpartition("://")
    _, at_sign, host = rest_of_url.rpartition("@")
    return f"{scheme}{mark}{STARS}@{host}" if at_sign else address
