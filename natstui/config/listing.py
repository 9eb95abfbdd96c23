"""The effective settings: every value with its origin, and with its secrets masked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import SecretStr

from natstui.config.contexts import PATH_FIELDS
from natstui.config.load import LoadedSettings
from natstui.config.references import has_secret
from natstui.config.resolve import SECRET_SETTINGS, ConnectionNames, resolve
from natstui.config.settings import (
    NAMED_TABLES,
    ConnectionPart,
    DefaultConnection,
    Settings,
    System,
)

STARS = "********"
_DEFAULT_ORIGIN = "default"
_REFERENCE_SCHEMES = ("file://", "env://", "op://", "nsc://")

KeyValueOrigin = tuple[str, Any, str]
"""Key, value without any secret (None if unset), origin."""


def effective_settings(
    loaded_settings: LoadedSettings, connection_names: ConnectionNames
) -> Iterator[KeyValueOrigin]:
    """Yield (key, value, origin) of every setting, for the connection that `connection_names`
    selects.
    """
    layer = resolve(loaded_settings, connection_names).layer
    for name, field in DefaultConnection.model_fields.items():
        key = f"connection.{name}"
        if name in layer:
            value, origin = layer[name]
            yield key, _mask_secrets(name, value), origin
        elif name in ConnectionPart.model_fields:
            examples = field.examples or [None]
            default = examples[0] if name in _SETTINGS_WITH_DEFAULT else None
            yield key, default, _DEFAULT_ORIGIN
        else:
            value = getattr(loaded_settings.settings.connection, name)
            yield key, value, loaded_settings.origins.get(key, _DEFAULT_ORIGIN)
    for part in Settings.model_fields:
        if part != "connection":
            yield from _part_rows(part, loaded_settings)


_SETTINGS_WITH_DEFAULT = ("server", "tls", "tls_first", "inbox_prefix", "read_only", "production")


def _part_rows(part: str, loaded_settings: LoadedSettings) -> Iterator[KeyValueOrigin]:
    if part in NAMED_TABLES:
        for table_name, settings in getattr(loaded_settings.settings, part).items():
            for name in settings.model_fields_set:
                key = f"{part}.{table_name}.{name}"
                value = getattr(settings, name)
                if isinstance(value, System):
                    yield from _system_rows(key, value, loaded_settings)
                else:
                    yield (
                        key,
                        _mask_secrets(name, value),
                        loaded_settings.origins.get(key, _DEFAULT_ORIGIN),
                    )
        return
    if part == "system":
        yield from _system_rows(part, loaded_settings.settings.system, loaded_settings)
        return
    for name, value in getattr(loaded_settings.settings, part):
        key = f"{part}.{name}"
        origins = (
            origin
            for full_key, origin in loaded_settings.origins.items()
            if f"{full_key}.".startswith(f"{key}.")
        )
        yield key, value, next(origins, _DEFAULT_ORIGIN)


def _system_rows(
    prefix: str, system: System, loaded_settings: LoadedSettings
) -> Iterator[KeyValueOrigin]:
    for name, value in system:
        key = f"{prefix}.{name}"
        shown_value = None if value is None else _mask_secrets(name, value)
        yield key, shown_value, loaded_settings.origins.get(key, _DEFAULT_ORIGIN)


def _mask_secrets(name: str, value: Any) -> Any:
    """Return a value with stars for its secrets; references to secrets stay."""
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    if name in SECRET_SETTINGS:
        return text if text.startswith(_REFERENCE_SCHEMES) else STARS
    if name in PATH_FIELDS and (text.startswith("data:") or has_secret(text)):
        return STARS
    if name == "webhook":
        return _mask_path(text)
    if name in ("server", "monitoring"):
        return ",".join(_mask_user(part) for part in text.split(","))
    return text


def _mask_path(url: str) -> str:
    """Return a URL with stars for its path, because the path of a webhook may be a secret."""
    scheme, separator, rest_of_url = url.partition("://")
    host, slash, path = rest_of_url.partition("/")
    safe_url = _mask_user(f"{scheme}{separator}{host.partition('?')[0]}")
    return f"{safe_url}/{STARS}" if (slash and path) or "?" in host else safe_url


def _mask_user(address: str) -> str:
    """Return an address with stars for its user and password."""
    scheme, separator, rest_of_url = address.rpartition("://")
    _, at_sign, host = rest_of_url.rpartition("@")
    return f"{scheme}{separator}{STARS}@{host}" if at_sign else address
