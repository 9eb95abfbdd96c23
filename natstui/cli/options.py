"""The flags of every command that connects: `--server --context --profile --config`."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
from msgspec import Struct

from natstui.cli.local_completion import complete_contexts
from natstui.cli.open_viewer import (
    ACCOUNTS_NEED_ONE_SYSTEM_TEXT,
    STDIN_ADDRESS_PLACEHOLDER,
    refuse_server_variables,
)
from natstui.cli.sections import CONNECTION_SECTION, section_option_factory
from natstui.errors import UsageError
from natstui.files import MAX_LINE_BYTES
from natstui.units import MAX_INT64, MAX_UINT64, parse_duration_ns, parse_integer
from natstui.values import replace

if TYPE_CHECKING:
    from natstui.config import Connection
    from natstui.config.load import LoadedSettings
    from natstui.config.resolve import ConnectionNames
    from natstui.config.settings import Settings

MIN_POLL_INTERVAL_S, MAX_POLL_INTERVAL_S = 0.2, 3600
"""The limits of the setting, which is not checked for the flag of `watch`."""
MAX_SERVER_READING_S = 300.0
MAX_DURATION_S = 365 * 86_400.0
"""Limit of every time that a command waits or runs."""


class WholeNumber(click.ParamType[int]):
    """The type of an option with an integer from `min_value` to `max_value`."""

    name = "integer"

    def __init__(self, min_value: int, max_value: int) -> None:
        self._min_value, self._max_value = min_value, max_value

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number; raises click.BadParameter for a text that is no integer or out of
        range.
        """
        try:
            return parse_integer(str(value), self._min_value, self._max_value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class OutputPath(click.Path):
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


COUNT, COUNT_OR_ZERO = WholeNumber(1, MAX_INT64), WholeNumber(0, MAX_INT64)
"""Types of options that count."""
SEQUENCE, SEQUENCE_OR_ZERO = WholeNumber(1, MAX_UINT64), WholeNumber(0, MAX_UINT64)
"""Types of options that name a message or a revision."""


_CONNECTION_FLAG_NAMES = (
    "server", "context", "profile", "config", "account", "js_domain", "js_api_prefix",
)  # fmt: skip
_connection_option = section_option_factory(CONNECTION_SECTION)
json_flag = click.option("--json", "-j", "as_json", is_flag=True, help="Print JSON.")
"""The --json option that most commands have."""
_SERVER_HELP = "Server address; separate several with commas, or repeat."


class ConnectionFlags(Struct, frozen=True, kw_only=True):
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
            for name in _CONNECTION_FLAG_NAMES
            if (value := getattr(self, name)) is not None
            for argument in (f"--{name.replace('_', '-')}", value)
        ]

    @property
    def names_several_systems(self) -> bool:
        """Return whether `--context`, `--profile` or `--account` names several systems."""
        values = (self.context, self.profile, self.account)
        return any("," in name for name in values if name is not None)

    def flags_by_system(self) -> dict[str, ConnectionFlags]:
        """Return the flags of each system by its name, in the typed order.

        Raises UsageError for an invalid combination of flags or an unknown name.
        """
        flag = self.system_flag
        names = (self.account or self.context or self.profile or "").split(",")
        if "" in names:
            raise UsageError(f"--{flag}: a name is empty")
        if flag != "account":
            refuse_server_variables()
            if self.server is not None:
                raise UsageError("--server names one system: leave it out for several")
        flags_by_name = {name: replace(self, **{flag: name}) for name in dict.fromkeys(names)}
        for system_flags in flags_by_name.values():
            system_flags.resolve()
        return flags_by_name

    @property
    def system_flag(self) -> Literal["context", "profile", "account"]:
        """Return which flag names the systems; `profile` if no flag does.

        Raises UsageError if several flags name systems.
        """
        if self.account is not None:
            if replace(self, account=None).names_several_systems:
                raise UsageError(ACCOUNTS_NEED_ONE_SYSTEM_TEXT)
            return "account"
        if self.context is not None and self.profile is not None:
            raise UsageError("--context and --profile: give one of them for several systems")
        return "context" if self.context is not None else "profile"

    def resolve(self, overrides: Mapping[str, Any] | None = None) -> tuple[Settings, Connection]:
        """Return the settings, and the connection that they and the flags name, without
        connecting.

        `overrides` are nested like `config.toml`, and override it. Raises UsageError for missing
        or invalid settings.
        """
        from natstui.config.resolve import resolve

        loaded_settings = self.load(overrides)
        connection = resolve(loaded_settings, self.connection_names()).connection
        if self.js_api_prefix is not None:
            connection = replace(connection, domain=None, api_prefix=self.js_api_prefix)
        if self.js_domain is not None:
            connection = replace(connection, domain=self.js_domain)
        return loaded_settings.settings, connection

    def load(self, overrides: Mapping[str, Any] | None = None) -> LoadedSettings:
        """Return the settings with their origins, without resolving a connection.

        `overrides` are nested like `config.toml`, and override it. Raises UsageError for invalid
        settings.
        """
        # Imported here, so that a command that only passes its flags on does not pay for pydantic.
        from natstui.config.load import load

        return load(Path(self.config) if self.config else None, overrides)

    def connection_names(self) -> ConnectionNames:
        """Return the names of server, context, profile and account in the flags."""
        from natstui.config.resolve import ConnectionNames

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
        shell_complete=complete_contexts,
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
    def run_with_flags(
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

    return run_with_flags


def _refuse_credentials(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the credential flags of the NATS CLI, which raise UsageError with the equivalent."""

    def refuse_credential_flag(
        context: click.Context, option: click.Parameter, value: str | None
    ) -> None:
        if value is not None:
            flag = option.opts[0]
            raise UsageError(
                f"{flag} can only be set in a context: natstui context add NAME --server URL "
                f"{flag} …, then --context NAME; for once, --server nats://USER:PASSWORD@HOST"
            )

    for name in ("user", "password", "creds", "nkey", "tlscert", "tlskey", "tlsca"):
        command = click.option(
            f"--{name}",
            hidden=True,
            expose_value=False,
            callback=refuse_credential_flag,
            metavar="TEXT",
        )(command)
    return command


def several_accounts_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the connection flags and `--account`, which may name several other accounts.

    The command gets them as `flags: ConnectionFlags`.
    """
    return _add_account_flag(command, "Other accounts, separated by commas")


def one_account_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the connection flags and `--account`, which names one other account.

    The command gets them as `flags: ConnectionFlags`; several accounts raise UsageError.
    """

    @functools.wraps(command)
    def run_with_one_account(*, flags: ConnectionFlags, **options: Any) -> Any:
        if flags.account is not None and "," in flags.account:
            raise UsageError("--account names one account here: start a command for each")
        return command(flags=flags, **options)

    return _add_account_flag(run_with_one_account, "Another account than that of the user")


def _add_account_flag(command: Callable[..., Any], help_text: str) -> Callable[..., Any]:
    @connection_flags
    @_connection_option(
        "--account", metavar="NAME", help=f"{help_text}: seen through the system account."
    )
    @functools.wraps(command)
    def run_with_account(*, flags: ConnectionFlags, account: str | None, **options: Any) -> Any:
        return command(flags=replace(flags, account=account), **options)

    return run_with_account


def connection_options(
    command: Callable[..., Any], settings: Sequence[str] = ("--config", "--settings")
) -> Callable[..., Any]:
    """Add the connection flags to a command, which gets what they name.

    The command gets `settings: Settings` and `connection: Connection`, which is not connected yet.
    The argument `settings` has the names of the flag for the configuration file.
    """

    @functools.wraps(command)
    def run_with_connection(*, flags: ConnectionFlags, **options: Any) -> Any:
        settings, connection = flags.resolve()
        return command(settings=settings, connection=connection, **options)

    return connection_flags(run_with_connection, settings)


def connection_options_without_config(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the connection flags to a command whose `--config` is the configuration of an asset.

    The configuration file of natstui is only `--settings`; otherwise as `connection_options`.
    """
    return connection_options(command, ("--settings",))


_VIEWER_FLAGS = (
    click.option("--interval", metavar="TIME", help="Interval of polls: 500ms, 2s."),
    click.option("--theme", metavar="NAME", help="Colour theme of the screen."),
    click.option("--ascii", is_flag=True, default=None, help="Draw with ASCII characters only."),
    click.option("--read-only", is_flag=True, default=None, help="Refuse every change."),
)


class ViewerFlags(Struct, frozen=True):
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

        With the address `-`, reads the address from the first line on stdin, a JSON string. Raises
        UsageError for an invalid line or flag.
        """
        overrides: dict[str, dict[str, Any]] = {}
        if self.interval is not None:
            overrides["monitor"] = {"interval_s": parse_interval_seconds(self.interval)}
        typed_values = {"theme": self.theme, "ascii": self.ascii or None}
        if viewer_settings := {
            name: value for name, value in typed_values.items() if value is not None
        }:
            overrides["viewer"] = viewer_settings
        if self.read_only:
            overrides["connection"] = {"read_only": True}
        flags = self.flags
        if flags.server == STDIN_ADDRESS_PLACEHOLDER:
            flags = replace(flags, server=_read_address_line())
        return flags.resolve(overrides)


def viewer_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the viewer's flags to a command, which gets them as `viewer: ViewerFlags`."""

    @several_accounts_flags
    @functools.wraps(command)
    def run_with_viewer_flags(
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
        run_with_viewer_flags = option(run_with_viewer_flags)
    return run_with_viewer_flags


def engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the viewer's flags to the engine command.

    The command gets `settings: Settings`, with the flags applied, and `connection: Connection`.
    """

    @functools.wraps(command)
    def run_with_settings(*, viewer: ViewerFlags, **options: Any) -> Any:
        settings, connection = viewer.resolve()
        return command(settings=settings, connection=connection, **options)

    return viewer_flags(run_with_settings)


def _read_address_line() -> str:
    """Return the JSON string in the first line on stdin; raises UsageError for another line."""
    line = bytearray()
    while not line.endswith(b"\n") and (byte := os.read(0, 1)):
        line += byte
        if len(line) > MAX_LINE_BYTES:
            raise UsageError(
                f"--server -: the first line on stdin is longer than {MAX_LINE_BYTES:,} bytes"
            )
    import msgspec

    from natstui.decoding import decoder_of

    try:
        return decoder_of(str).decode(bytes(line))
    except msgspec.DecodeError as error:
        raise UsageError("--server -: the first line on stdin has no address") from error


def parse_seconds(text: str, option: str) -> float:
    """Return the seconds of `500ms` or `2s`.

    Raises UsageError that names `option` for an invalid duration, and above a year.
    """
    try:
        duration_s = parse_duration_ns(text) / 1e9
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error
    if duration_s > MAX_DURATION_S:
        raise UsageError(f"{option}: {text} is longer than a year")
    return duration_s


def parse_reading_seconds(text: str, option: str) -> float:
    """Return for how many seconds a command reads: those of `500ms` or `30s`.

    Raises UsageError that names `option` for 0, and above 5 minutes.
    """
    reading_s = parse_seconds(text, option)
    if not 0 < reading_s <= MAX_SERVER_READING_S:
        max_reading_text = f"{MAX_SERVER_READING_S:.0f}s"
        raise UsageError(
            f"{option} {text}: it must be longer than 0 and at most {max_reading_text}"
        )
    return reading_s


def parse_interval_seconds(text: str) -> float:
    """Return the seconds between two polls, of `500ms`, `2s` or a plain number of seconds.

    Raises UsageError below 200 ms and above 1 h.
    """
    is_plain_number = text.replace(".", "", 1).isdecimal()
    interval_s = float(text) if is_plain_number else parse_seconds(text, "--interval")
    if not MIN_POLL_INTERVAL_S <= interval_s <= MAX_POLL_INTERVAL_S:
        raise UsageError(f"--interval: {text!r} is not between 200ms and 1h")
    return interval_s


YES_HELP = "Do not prompt for confirmation; in production, use --confirm instead."


def change_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--read-only`, `--yes`, `--confirm` and `--json` to a command.

    The command gets them as `read_only`, `yes`, `confirm` and `as_json`.
    """
    for option in (
        click.option("--json", "-j", "as_json", is_flag=True, help="Print JSON."),
        click.option(
            "--confirm", metavar="NAME", help="The name of the changed object, to confirm."
        ),
        click.option("--yes", "--force", "-f", is_flag=True, help=YES_HELP),
        click.option("--read-only", is_flag=True, help="Refuse every change."),
    ):
        command = option(command)
    return command
