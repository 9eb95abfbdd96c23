"""The flags of every command that connects: `--server --context --profile --config`."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from natstui.cli.offering import contexts
from natstui.cli.open_viewer import ACCOUNTS_OF_ONE_TEXT, FROM_STDIN, refuse_server_variables
from natstui.cli.sections import CONNECTION, option_in
from natstui.errors import UsageError
from natstui.files import MOST_LINE_BYTES
from natstui.units import LARGEST, LARGEST_UNSIGNED, parse_duration_ns, parse_whole_number

if TYPE_CHECKING:
    from natstui.config import Connection
    from natstui.config.load import LoadedSettings
    from natstui.config.settings import Settings
    from natstui.config.target import ConnectionNames

SHORTEST_INTERVAL_S, LONGEST_INTERVAL_S = 0.1, 3600
"""As in the settings, which do not check the flag of `watch`."""
LONGEST_READING_S = 300.0
LONGEST_WAIT_S = 365 * 86_400.0
"""Limit of all times that a command waits, listens or runs."""


class WholeNumber(click.ParamType[int]):
    """The type of an option with an integer in the range of the server."""

    name = "integer"

    def __init__(self, least: int, greatest: int) -> None:
        self._least, self._most = least, greatest

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number; raises click.BadParameter if it is none or out of range."""
        try:
            return parse_whole_number(str(value), self._least, self._most)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class WrittenPath(click.Path):
    """The type of an option or argument with a file or folder to write."""

    def __init__(self, path_type: type[Any] | None = None, *, file_okay: bool = True) -> None:
        super().__init__(readable=False, file_okay=file_okay, path_type=path_type)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; raises click.BadParameter for -, which means stdout elsewhere."""
        if os.fspath(value) == "-":
            self.fail(
                "- is not stdout here: for a file or folder of that name, write ./-", param, ctx
            )
        return super().convert(value, param, ctx)


COUNT, COUNT_OR_ZERO = WholeNumber(1, LARGEST), WholeNumber(0, LARGEST)
"""Types of options that count."""
SEQUENCE, SEQUENCE_OR_ZERO = WholeNumber(1, LARGEST_UNSIGNED), WholeNumber(0, LARGEST_UNSIGNED)
"""Types of options that name a message or a revision."""


_FLAG_NAMES = (
    "server", "context", "profile", "config", "account", "js_domain", "js_api_prefix",
)  # fmt: skip
_connection_option = option_in(CONNECTION)
as_json = click.option("--json", "-j", "as_json", is_flag=True, help="Answer in JSON.")
"""The --json option that most commands have."""
_SERVER_HELP = "Server address; separate several with commas, or repeat."


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionFlags:
    """The connection flags of a command line, before they are resolved."""

    server: str | None = None
    context: str | None = None
    profile: str | None = None
    config: str | None = None
    account: str | None = None
    """Other accounts of the same servers to watch."""
    js_domain: str | None = None
    js_api_prefix: str | None = None

    def arguments(self) -> list[str]:
        """Return the flags as arguments for the command line of an engine."""
        return [
            argument
            for name in _FLAG_NAMES
            if (value := getattr(self, name)) is not None
            for argument in (f"--{name.replace('_', '-')}", value)
        ]

    @property
    def are_several(self) -> bool:
        """Return whether `--context`, `--profile` or `--account` names several systems."""
        values = (self.context, self.profile, self.account)
        return any("," in name for name in values if name is not None)

    def each(self) -> dict[str, ConnectionFlags]:
        """Return the flags of each system by its name, in the typed order.

        Resolves all of them once. Raises UsageError for an invalid combination or an unknown name.
        """
        flag = self.naming_flag
        names = (self.account or self.context or self.profile or "").split(",")
        if "" in names:
            raise UsageError(f"--{flag}: a name is empty")
        if flag != "account":
            refuse_server_variables()
            if self.server is not None:
                raise UsageError("--server names one system: leave it out for several")
        by_name = {name: replace(self, **{flag: name}) for name in dict.fromkeys(names)}
        for system_flags in by_name.values():
            system_flags.resolve()
        return by_name

    @property
    def naming_flag(self) -> Literal["context", "profile", "account"]:
        """Return which flag names the systems; `profile` if none does.

        Raises UsageError if several flags do.
        """
        if self.account is not None:
            if replace(self, account=None).are_several:
                raise UsageError(ACCOUNTS_OF_ONE_TEXT)
            return "account"
        if self.context is not None and self.profile is not None:
            raise UsageError("--context and --profile: give one of them for several systems")
        return "context" if self.context is not None else "profile"

    def resolve(self, overrides: Mapping[str, Any] | None = None) -> tuple[Settings, Connection]:
        """Return the settings, and the connection that they and the flags name; connects to
        nothing.

        `overrides` are nested like `config.toml`, and win over it. Raises UsageError for missing
        or invalid settings.
        """
        from natstui.config.target import resolve

        loaded_settings = self.load(overrides)
        connection = resolve(loaded_settings, self.connection_names()).connection
        if self.js_api_prefix is not None:
            connection = replace(connection, domain=None, api_prefix=self.js_api_prefix)
        if self.js_domain is not None:
            connection = replace(connection, domain=self.js_domain)
        return loaded_settings.settings, connection

    def load(self, overrides: Mapping[str, Any] | None = None) -> LoadedSettings:
        """Return the settings with their origins, without resolving a connection.

        `overrides` are nested like `config.toml`, and win over it. Raises UsageError for invalid
        settings.
        """
        # Imported here, so that a command that only passes its flags on does not pay for pydantic.
        from natstui.config.load import load

        return load(Path(self.config) if self.config else None, overrides)

    def connection_names(self) -> ConnectionNames:
        """Return the names of server, context, profile and account in the flags."""
        from natstui.config.target import ConnectionNames

        return ConnectionNames(
            server=self.server,
            context=self.context,
            profile=self.profile,
            account=self.account,
        )


def connection_flags(
    command: Callable[..., Any], settings: Sequence[str] = ("--config", "--settings")
) -> Callable[..., Any]:
    """Add the connection flags to a command, which gets them as `flags: ConnectionFlags`.

    `settings` are the names of the flag for the configuration file. Credential flags of the NATS
    CLI raise UsageError with a hint.
    """

    @_refuse_credentials
    @_connection_option("--server", "-s", metavar="URL", multiple=True, help=_SERVER_HELP)
    @_connection_option(
        "--context",
        metavar="NAME",
        help="NATS CLI context: its name or its file.",
        shell_complete=contexts,
    )
    @_connection_option("--profile", metavar="NAME", help="Profile of the configuration.")
    @_connection_option(*settings, "config", metavar="FILE", help="Configuration file.")
    @_connection_option(
        "--js-domain", metavar="NAME", help="JetStream domain, instead of that of the context."
    )
    @_connection_option(
        "--js-api-prefix", metavar="SUBJECT", help="Subject prefix of the JetStream API."
    )
    @functools.wraps(command)
    def with_flags(
        *,
        server: tuple[str, ...],
        context: str | None,
        profile: str | None,
        config: str | None,
        js_domain: str | None,
        js_api_prefix: str | None,
        **options: Any,
    ) -> Any:
        flags = ConnectionFlags(
            server=",".join(server) or None,
            context=context,
            profile=profile,
            config=config,
            js_domain=js_domain,
            js_api_prefix=js_api_prefix,
        )
        return command(flags=flags, **options)

    return with_flags


def _refuse_credentials(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the credential flags of the NATS CLI, which raise an error that names the equivalent."""

    def refuse(context: click.Context, option: click.Parameter, value: str | None) -> None:
        if value is not None:
            flag = option.opts[0]
            raise UsageError(
                f"{flag} can only be set in a context: natstui context add NAME --server URL "
                f"{flag} …, then --context NAME; for once, --server nats://USER:PASSWORD@HOST"
            )

    for name in ("user", "password", "creds", "nkey", "tlscert", "tlskey", "tlsca"):
        command = click.option(
            f"--{name}", hidden=True, expose_value=False, callback=refuse, metavar="TEXT"
        )(command)
    return command


def watching_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the connection flags and `--account`, which may name several other accounts.

    The command gets them as `flags: ConnectionFlags`.
    """
    return _account_flag(command, "Other accounts, separated by commas")


def one_account_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the connection flags and `--account`, which names one other account.

    The command gets them as `flags: ConnectionFlags`; several accounts raise UsageError.
    """

    @functools.wraps(command)
    def with_one(*, flags: ConnectionFlags, **options: Any) -> Any:
        if flags.account is not None and "," in flags.account:
            raise UsageError("--account names one account here: start a command for each")
        return command(flags=flags, **options)

    return _account_flag(with_one, "Another account than that of the user")


def _account_flag(command: Callable[..., Any], help_text: str) -> Callable[..., Any]:
    @connection_flags
    @_connection_option(
        "--account", metavar="NAME", help=f"{help_text}: seen through the system account."
    )
    @functools.wraps(command)
    def with_account(*, flags: ConnectionFlags, account: str | None, **options: Any) -> Any:
        return command(flags=replace(flags, account=account), **options)

    return with_account


def connection_options(
    command: Callable[..., Any], settings: Sequence[str] = ("--config", "--settings")
) -> Callable[..., Any]:
    """Add the connection flags to a command, resolved.

    The command gets `settings: Settings` and `connection: Connection`, which is not connected yet.
    The argument `settings` has the names of the flag for the configuration file.
    """

    @functools.wraps(command)
    def with_connection(*, flags: ConnectionFlags, **options: Any) -> Any:
        settings, connection = flags.resolve()
        return command(settings=settings, connection=connection, **options)

    return connection_flags(with_connection, settings)


def connection_options_beside_config(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the connection flags, resolved, to a command whose `--config` is an asset's
    configuration.

    Its configuration file is only `--settings`, else it is as `connection_options`.
    """
    return connection_options(command, ("--settings",))


_VIEWER_FLAGS = (
    click.option("--interval", metavar="TIME", help="Interval of polls: 500ms, 2s."),
    click.option("--theme", metavar="NAME", help="Colour theme of the screen."),
    click.option("--ascii", is_flag=True, default=None, help="Draw with ASCII characters only."),
    click.option("--read-only", is_flag=True, default=None, help="Refuse every change."),
)


@dataclass(frozen=True, slots=True)
class ViewerFlags:
    """The flags of a viewer: those of the connection, and of the screens."""

    flags: ConnectionFlags
    interval: str | None
    theme: str | None
    ascii: bool | None
    read_only: bool | None

    def arguments(self) -> list[str]:
        """Return the flags as arguments for the command line of an engine."""
        arguments = self.flags.arguments()
        arguments += ["--interval", self.interval] if self.interval else []
        arguments += ["--theme", self.theme] if self.theme else []
        arguments += ["--ascii"] if self.ascii else []
        return [*arguments, *(["--read-only"] if self.read_only else [])]

    def resolve(self) -> tuple[Settings, Connection]:
        """Return the settings with these flags applied, and the connection.

        The address `-` is read from the first line on stdin, a JSON string. Raises UsageError.
        """
        overrides: dict[str, dict[str, Any]] = {}
        if self.interval is not None:
            overrides["monitor"] = {"interval_s": interval_seconds(self.interval)}
        viewer = {"theme": self.theme, "ascii": self.ascii or None}
        if viewer_settings := {name: value for name, value in viewer.items() if value is not None}:
            overrides["viewer"] = viewer_settings
        if self.read_only:
            overrides["connection"] = {"read_only": True}
        flags = self.flags
        if flags.server == FROM_STDIN:
            flags = replace(flags, server=_read_address_line())
        return flags.resolve(overrides)


def viewer_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the viewer's flags to a command, which gets them as `viewer: ViewerFlags`."""

    @watching_flags
    @functools.wraps(command)
    def with_viewer(
        *,
        flags: ConnectionFlags,
        interval: str | None,
        theme: str | None,
        ascii: bool | None,
        read_only: bool | None,
        **options: Any,
    ) -> Any:
        viewer = ViewerFlags(flags, interval, theme, ascii, read_only)
        return command(viewer=viewer, **options)

    for option in reversed(_VIEWER_FLAGS):
        with_viewer = option(with_viewer)
    return with_viewer


def engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the viewer's flags to the engine command, resolved.

    The command gets `settings: Settings`, with the flags applied, and `connection: Connection`.
    """

    @functools.wraps(command)
    def with_settings(*, viewer: ViewerFlags, **options: Any) -> Any:
        settings, connection = viewer.resolve()
        return command(settings=settings, connection=connection, **options)

    return viewer_flags(with_settings)


def _read_address_line() -> str:
    """Return the JSON string in the first line on stdin, without reading beyond it."""
    line = bytearray()
    while not line.endswith(b"\n") and (byte := os.read(0, 1)):
        line += byte
        if len(line) > MOST_LINE_BYTES:
            raise UsageError(
                f"--server -: the first line on stdin is longer than {MOST_LINE_BYTES:,} bytes"
            )
    import msgspec

    from natstui.decoding import decoder_of

    try:
        return decoder_of(str).decode(bytes(line))
    except msgspec.DecodeError as error:
        raise UsageError("--server -: the first line on stdin holds no address") from error


def parse_seconds(text: str, option: str) -> float:
    """Return the seconds of `500ms` or `2s`.

    Raises UsageError that names `option` for an invalid duration, and above a year.
    """
    try:
        duration_s = parse_duration_ns(text) / 1e9
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error
    if duration_s > LONGEST_WAIT_S:
        raise UsageError(f"{option}: {text} is longer than a year")
    return duration_s


def reading_seconds(text: str, option: str) -> float:
    """Return the seconds of the time that something is read for: `500ms`, `30s`.

    Raises UsageError that names `option` for 0, and above 5 minutes.
    """
    reading_s = parse_seconds(text, option)
    if not 0 < reading_s <= LONGEST_READING_S:
        longest_text = f"{LONGEST_READING_S:.0f}s"
        raise UsageError(f"{option} {text}: it must be longer than 0 and at most {longest_text}")
    return reading_s


def interval_seconds(text: str) -> float:
    """Return the seconds between two polls, of `500ms`, `2s` or a plain number of seconds.

    Raises UsageError below 100 ms and above 1 h.
    """
    is_plain = text.replace(".", "", 1).isdecimal()
    interval_s = float(text) if is_plain else parse_seconds(text, "--interval")
    if not SHORTEST_INTERVAL_S <= interval_s <= LONGEST_INTERVAL_S:
        raise UsageError(f"--interval: {text!r} is not between 100ms and 1h")
    return interval_s
