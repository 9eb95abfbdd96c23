"""The effective settings: every value with its origin, secrets masked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import SecretStr

from natstui.config.load import LoadedSettings
from natstui.config.settings import NAMED, ConnectionPart, DefaultConnection, Settings, System
from natstui.config.target import SECRETS, ConnectionNames, resolve

STARS = "********"
_DEFAULT = "default"
_REFERENCES = ("file://", "env://", "op://", "nsc://")

Row = tuple[str, Any, str]
"""Key, value without any secret (None is not set), origin."""


def effective(loaded: LoadedSettings, named: ConnectionNames) -> Iterator[Row]:
    """Yield every effective setting; the connection is the one that `named` selects."""
    layer = resolve(loaded, named).layer
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
            value = getattr(loaded.settings.connection, name)
            yield key, value, loaded.origins.get(key, _DEFAULT)
    for part in Settings.model_fields:
        if part != "connection":
            yield from _part_rows(part, loaded)


_HAVE_DEFAULTS = ("server", "tls", "tls_first", "inbox_prefix", "read_only", "production")


def _part_rows(part: str, loaded: LoadedSettings) -> Iterator[Row]:
    if part in NAMED:
        for table, settings in getattr(loaded.settings, part).items():
            for name in settings.model_fields_set:
                key = f"{part}.{table}.{name}"
                value = getattr(settings, name)
                if isinstance(value, System):
                    yield from _system_rows(key, value, loaded)
                else:
                    yield key, _shown(name, value), loaded.origins.get(key, _DEFAULT)
        return
    if part == "system":
        yield from _system_rows(part, loaded.settings.system, loaded)
        return
    for name, value in getattr(loaded.settings, part):
        key = f"{part}.{name}"
        origins = (of for at, of in loaded.origins.items() if f"{at}.".startswith(f"{key}."))
        yield key, value, next(origins, _DEFAULT)


def _system_rows(prefix: str, system: System, loaded: LoadedSettings) -> Iterator[Row]:
    for name, value in system:
        key = f"{prefix}.{name}"
        shown = None if value is None else _shown(name, value)
        yield key, shown, loaded.origins.get(key, _DEFAULT)


def _shown(name: str, value: Any) -> Any:
    """Return a value for people: references stay, secrets do not."""
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    if name in SECRETS:
        return text if text.startswith(_REFERENCES) else STARS
    if name in ("creds", "nkey") and text.startswith("data:"):
        return STARS
    if name == "webhook":
        return _host_of(text)
    if name == "server":
        return ",".join(_without_user(part) for part in text.split(","))
    return text


def _host_of(url: str) -> str:
    """Return a URL up to its host: of webhooks all that follows may be the secret."""
    scheme, mark, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    shown = _without_user(f"{scheme}{mark}{place.partition('?')[0]}")
    return f"{shown}/{STARS}" if (slash and path) or "?" in place else shown


def _without_user(address: str) -> str:
    """Return an address with stars for its user and password."""
    scheme, mark, rest = address.rpartition("://")
    _, at, place = rest.rpartition("@")
    return f"{scheme}{mark}{STARS}@{place}" if at else address
