"""The flags of every command that connects: `--server --context --profile --config`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from natstui.config import Connection
    from natstui.config.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionFlags:
    """Where to connect, as the command line says it, not looked up yet."""

    server: str | None = None
    context: str | None = None
    profile: str | None = None
    config: str | None = None

    def arguments(self) -> list[str]:
        """Return the flags again, for the command line of our own engine."""
        return [
            argument
            for name in ("server", "context", "profile", "config")
            if (value := getattr(self, name)) is not None
            for argument in (f"--{name}", value)
        ]

    def resolve(self) -> tuple[Settings, Connection]:
        """Read the settings and look everything up.

        Raises UsageError for what does not exist or is wrong.
        """
        # Imported here, so that a command that only passes its flags on does not pay for pydantic.
        from natstui.config.load import load
        from natstui.jetstream.target import Named, resolve

        loaded = load(Path(self.config) if self.config else None)
        named = Named(server=self.server, context=self.context, profile=self.profile)
        return loaded.settings, resolve(loaded, named).connection


def connection_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the four flags as one argument, `flags: ConnectionFlags`."""

    @click.option("--server", metavar="URL", help="Server address, or several with commas.")
    @click.option("--context", metavar="NAME", help="NATS CLI context: its name or its file.")
    @click.option("--profile", metavar="NAME", help="Profile of the configuration.")
    @click.option("--config", metavar="FILE", help="Configuration file.")
    @functools.wraps(command)
    def with_flags(
        *,
        server: str | None,
        context: str | None,
        profile: str | None,
        config: str | None,
        **others: Any,
    ) -> Any:
        flags = ConnectionFlags(server=server, context=context, profile=profile, config=config)
        return command(flags=flags, **others)

    return with_flags


def connection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `settings: Settings` and `connection: Connection`, all looked up."""

    @connection_flags
    @functools.wraps(command)
    def with_connection(*, flags: ConnectionFlags, **others: Any) -> Any:
        settings, connection = flags.resolve()
        return command(settings=settings, connection=connection, **others)

    return with_connection
