"""Settings, NATS CLI contexts, NATS_* variables and flags → the one `Connection` they mean.

Lowest first: the context or profile that was chosen, `[connection]` of config.toml, NATS_*,
NATSTUI_CONNECTION_*, --server. Whatever names a target by flag or variable leaves out where the
file says to connect, and who to be there: a password must not go to a server somebody typed. For
the same reason the NATS CLI's selected context counts only when nothing else names a target.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from natstui.config import Connection
from natstui.config.load import Loaded
from natstui.errors import UsageError
from natstui.jetstream.contexts import load_context, selected_context
from natstui.jetstream.layers import Layer, lay_over, own_layers, part_layer, variables
from natstui.jetstream.looked_up import look_up


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What the command line says about where to connect."""

    server: str | None = None
    context: str | None = None
    profile: str | None = None


@dataclass(frozen=True, slots=True)
class Resolved:
    """A connection, and where each of its settings came from."""

    connection: Connection
    layer: Layer
    """Every setting of a connection that is set, as it is written: references not looked up."""


@dataclass(frozen=True, slots=True)
class _Choice:
    layer: Layer
    label: str | None
    keeps_file: bool = False
    """Whether `[connection]` of the file counts on top."""


def resolve(loaded: Loaded, named: Named) -> Resolved:
    """Return the one connection that all sources together mean.

    Raises UsageError when something named does not exist, contradicts itself or cannot be read.
    """
    if named.context and named.profile:
        raise UsageError("--context and --profile both say where to connect: use one of them")
    file, ours = own_layers(loaded)
    theirs = variables()
    flags: Layer = {"server": (named.server, "--server")} if named.server else {}
    typed = any("server" in layer for layer in (theirs, ours, flags))
    choice = _choice(loaded, named, typed)
    # Care is never left out: a file that says read_only means every target.
    merged: Layer = {name: file[name] for name in ("read_only", "production") if name in file}
    for layer in (choice.layer, file if choice.keeps_file else {}, theirs, ours, flags):
        lay_over(merged, layer)
    values = {name: value for name, (value, _) in merged.items()}
    connection = look_up(values, loaded, choice.label)
    return Resolved(connection, merged)


def _choice(loaded: Loaded, named: Named, typed: bool) -> _Choice:
    """Choose the context or profile that everything else is laid over."""
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


def _file_says_where(loaded: Loaded) -> bool:
    """Return whether the file names a target of its own."""
    keys = ("connection.server", "connection.context", "connection.profile")
    return any(loaded.origins.get(key) == str(loaded.file) for key in keys)


def _context(name: str, why: str) -> _Choice:
    context = load_context(name)
    origin = f"context {context.name}"
    layer: Layer = {name: (value, origin) for name, value in context.fields.items()}
    return _Choice(layer | {"context": (context.name, why)}, context.name)


def _profile(loaded: Loaded, name: str, why: str) -> _Choice:
    """Return a profile over the context it names."""
    profiles = loaded.settings.profiles
    if name not in profiles:
        known = ", ".join(sorted(profiles)) or "none at all"
        raise UsageError(f"{loaded.file} has no profile {name!r}; there is {known}")
    profile = profiles[name]
    layer: Layer = {}
    if profile.context:
        layer = _context(profile.context, f"profile {name}").layer
    lay_over(layer, part_layer(profile, f"profile {name}"))
    return _Choice(layer | {"profile": (name, why)}, profile.label or name)
