"""Opens the viewer: starts the engine first, so that it starts while the screen is imported."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from msgspec import Struct

from natstui.children import module_command
from natstui.clean import clean_line
from natstui.errors import NatstuiError, SessionError, UsageError
from natstui.values import replace

if TYPE_CHECKING:
    from natstui.model.records.record import EngineStarted
    from natstui.tui.app.app import NatstuiApp
    from natstui.tui.app.engine_process import EngineProcess
    from natstui.tui.app.link import Link
    from natstui.tui.app.live_system import OpenSystem

ENGINE_COMMAND = tuple(module_command("natstui", "engine"))
_SERVER_VARIABLES = ("NATS_URL", "NATSTUI_CONNECTION_SERVER")
_SYSTEM_FLAGS = ("--context", "--profile")
_ACCOUNT_FLAG = "--account"
ACCOUNTS_NEED_ONE_SYSTEM_TEXT = (
    "--account names accounts of one system: give one --context or --profile"
)
ADDRESS_VARIABLE = "_NATSTUI_SERVER"
"""Environment variable with the `--server` of a viewer that `natstui serve` starts."""
STDIN_ADDRESS_PLACEHOLDER = "-"
"""Placeholder of a server address, which is the first line on stdin, a JSON string."""


def replay_engine_command(folder: str) -> tuple[str, ...]:
    """Return the command line of an engine that replays the recording in a folder."""
    return (*ENGINE_COMMAND[:-1], "replay-engine", folder)


def move_secrets_to_stdin(argv: Sequence[str]) -> tuple[list[str], bytes]:
    """Return the command line of an engine without secrets, and the first line of its stdin.

    An address of `--server` with a user or token is passed on stdin, because every user of a
    machine can read the command lines of all processes. The line is empty if there is no secret.
    """
    other_arguments, addresses = [], []
    arguments = iter(argv)
    for argument in arguments:
        flag, equals_sign, address = argument.partition("=")
        if flag != "--server":
            other_arguments.append(argument)
        elif equals_sign or (address := next(arguments, "")):
            addresses.append(address)
        else:
            return list(argv), b""
    if "@" not in "".join(addresses):
        return list(argv), b""
    line = json.dumps(",".join(addresses)).encode() + b"\n"
    return [*other_arguments, "--server", STDIN_ADDRESS_PLACEHOLDER], line


def parse_systems(argv: Sequence[str]) -> tuple[str, list[str], list[str]]:
    """Return the flag that names systems, the names in its value, and the other arguments.

    The flag is `--context`, `--profile` or `--account`; without any, `--context` and no names.
    Raises UsageError if several flags name systems that cannot be combined, or a name is empty.
    """
    accounts_text, argv = _split_flag(_ACCOUNT_FLAG, argv)
    flag, value, other_arguments, has_server = "--context", "", [], False
    arguments = iter(argv)
    for argument in arguments:
        name, equals_sign, text = argument.partition("=")
        if name in _SYSTEM_FLAGS:
            if value:
                other_arguments += [flag, value]
            flag, value = name, text if equals_sign else next(arguments, "")
            continue
        has_server = has_server or name == "--server"
        other_arguments.append(argument)
    names = _split_names(flag, value) if value else []
    if accounts_text and len(names) > 1:
        raise UsageError(ACCOUNTS_NEED_ONE_SYSTEM_TEXT)
    if accounts_text:
        return _ACCOUNT_FLAG, _split_names(_ACCOUNT_FLAG, accounts_text), argv
    if len(names) > 1:
        if has_server:
            raise UsageError("--server names one system: leave it out to watch several")
        if set(_SYSTEM_FLAGS) & set(other_arguments):
            raise UsageError("--context and --profile: give one of them to watch several systems")
        refuse_server_variables()
    return flag, names, other_arguments


def _split_flag(flag: str, argv: Sequence[str]) -> tuple[str, list[str]]:
    """Return the value of a flag, the last one if it is repeated, and the other arguments."""
    value, other_arguments = "", []
    arguments = iter(argv)
    for argument in arguments:
        name, equals_sign, text = argument.partition("=")
        if name == flag:
            value = text if equals_sign else next(arguments, "")
        else:
            other_arguments.append(argument)
    return value, other_arguments


def _split_names(flag: str, value: str) -> list[str]:
    names = list(dict.fromkeys(value.split(",")))
    if len(names) > 1 and "" in names:
        raise UsageError(f"{flag}: a name is empty")
    return names


def refuse_server_variables() -> None:
    """Raise UsageError if the environment names a server, which would override every context."""
    server_variable = next((name for name in _SERVER_VARIABLES if os.environ.get(name)), None)
    if server_variable is not None:
        raise UsageError(
            f"{server_variable} is set: it would override the server of every context and profile"
        )


def _list_system_names(flag: str) -> list[str]:
    """Return the names of systems that a flag accepts: contexts or profiles; none for accounts."""
    if flag == "--context":
        from natstui.config.contexts import list_contexts

        return list_contexts()
    if flag == _ACCOUNT_FLAG:
        # Only servers know their accounts; the screen of servers lists them.
        return []
    from natstui.config.load import load

    return sorted(load().settings.profiles)


def _remove_server_arguments(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of an engine without `--server` and its value."""
    kept_arguments, other_arguments = [], iter(arguments)
    for argument in other_arguments:
        if argument == "--server":
            next(other_arguments, None)
        elif not argument.startswith("--server="):
            kept_arguments.append(argument)
    return kept_arguments


class EngineStarter(Struct, frozen=True):
    """A callable that starts engines on one system; a server address with a secret is passed on
    stdin.
    """

    argv: list[str]
    first_stdin_line: bytes

    def __call__(self, *more_arguments: str) -> Link:
        """Start an engine with more arguments, and return the link to it."""
        from natstui.tui.app.link import Link

        return Link((*self.argv, *more_arguments), self.first_stdin_line)


def create_engine_starter(argv: Sequence[str]) -> EngineStarter:
    """Return a callable that starts engines with the command line `argv`."""
    return EngineStarter(*move_secrets_to_stdin(argv))


def _create_named_engine_starter(
    flag: str, name: str, other_arguments: Sequence[str]
) -> EngineStarter:
    """Return a callable that starts engines on the system `name`; `flag` selects it."""
    if flag == _ACCOUNT_FLAG:
        return create_engine_starter((*other_arguments, flag, name))
    refuse_server_variables()
    return create_engine_starter((*_remove_server_arguments(other_arguments), flag, name))


def open_viewer(engine_argv: Sequence[str], *, is_guided: bool = False) -> None:
    """Run the viewer until the user quits it, then exit with its code; never returns.

    `engine_argv` is the command line that starts an engine, with its connection flags; an engine
    is started for each system that they name. `is_guided` shows the guide for newcomers. Raises
    UsageError for invalid flags or without a terminal, and the error of an engine that does not
    start.
    """
    from natstui.tui.kit.terminal import is_in_browser, needs_ascii, require_terminal

    flag, names, other_arguments = parse_systems(engine_argv)
    require_terminal()

    def create_starter(name: str) -> EngineStarter:
        return _create_named_engine_starter(flag, name, other_arguments)

    system_starters = [create_starter(name) for name in names] if len(names) > 1 else []
    starters = system_starters or [create_engine_starter(engine_argv)]
    processes = _start_engines(starters)

    from natstui.tui.app.link import Link

    links = [
        Link(process, starter.first_stdin_line)
        for process, starter in zip(processes, starters, strict=True)
    ]
    try:
        from natstui.tui.app.app import NatstuiApp
        from natstui.tui.app.controls.systems import Contexts

        first_records = [link.wait_started(_print_stderr) for link in links]
    except BaseException:
        _close_engines(links)
        raise
    first_record = replace(
        first_records[0], ascii_only=first_records[0].ascii_only or needs_ascii()
    )
    app = NatstuiApp(
        first_record,
        starters[0],
        links[0],
        lambda folder: Link(replay_engine_command(folder)),
        is_guided=is_guided,
        other_systems=_other_systems(names, first_records, links, starters),
        contexts=Contexts(
            lambda: _list_system_names(flag), create_starter, names[0] if names else ""
        ),
        # Read-only on a terminal, the files are still those of whoever sits there.
        may_change_host=not (is_in_browser() and "--read-only" in engine_argv),
    )
    _run_app(app, uses_mouse=first_record.mouse)


def _print_stderr(text: str) -> None:
    sys.stderr.write(f"natstui: {clean_line(text)}\n")
    sys.stderr.flush()


def _other_systems(
    names: Sequence[str],
    first_records: Sequence[EngineStarted],
    links: Sequence[Link],
    starters: Sequence[EngineStarter],
) -> list[OpenSystem]:
    """Return all systems except the first."""
    from natstui.tui.app.live_system import OpenSystem

    systems = zip(names, first_records, links, starters, strict=False)
    return [OpenSystem(*parts) for parts in systems][1:]


def _start_engines(starters: Sequence[EngineStarter]) -> list[EngineProcess]:
    """Start an engine for each starter; called before the slow import of the viewer."""
    from natstui.tui.app.engine_process import start_engine

    return [start_engine(starter.argv) for starter in starters]


def _run_app(app: NatstuiApp, *, uses_mouse: bool) -> NoReturn:
    """Run the app, end every engine, and exit."""
    try:
        app_exit_code = app.run_guarded(mouse=uses_mouse)
    finally:
        exit_code = _close_engines(app.parts.engines.links)[0]
    engine = app.link.engine
    if app_exit_code == 0 and exit_code == SessionError.exit_code and engine.last_stderr_line():
        # A replay ended where its recording is damaged: the user sees why when the viewer ends.
        sys.stderr.write(f"natstui: {clean_line(engine.end_reason())}\n")
        app_exit_code = exit_code
    sys.exit(app_exit_code)


def _close_engines(links: Sequence[Link]) -> list[int]:
    """Close the engines in parallel, because a hanging engine needs seconds; return their exit
    codes.
    """
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max(1, len(links))) as executor:
        return list(executor.map(lambda link: link.close(), links))


def run_viewer(arguments: Sequence[str]) -> None:
    """Open the viewer with the flags `arguments`, which the engine parses, then exit.

    An error is one sentence on stderr and its exit code.
    """
    address = os.environ.pop(ADDRESS_VARIABLE, None)
    address_arguments = [] if address is None else ["--server", address]
    try:
        open_viewer((*ENGINE_COMMAND, *arguments, *address_arguments))
    except NatstuiError as error:
        sys.stderr.write(f"natstui: {clean_line(str(error))}\n")
        sys.exit(error.exit_code)
