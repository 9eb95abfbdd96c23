"""What each source says about a connection, and how one is laid over another."""

from __future__ import annotations

import os
from typing import Any

from natstui.config.load import Loaded
from natstui.config.settings import ConnectionPart
from natstui.errors import UsageError
from natstui.jetstream.servers import parse_servers

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


def own_layers(loaded: Loaded) -> tuple[Layer, Layer]:
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


def lay_over(lower: Layer, higher: Layer) -> None:
    """Put one layer over another; who it says we are replaces who the lower one said."""
    groups = [group for group in IDENTITIES if group & higher.keys()]
    server = higher.get("server", ("", ""))[0]
    if groups or (server and parse_servers((server,))[0].user is not None):
        for group in IDENTITIES:
            if group not in groups:
                for name in group:
                    lower.pop(name, None)
    lower.update(higher)
