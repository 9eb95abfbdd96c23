"""Opening the viewer: engine first, so that it starts while the screen is imported."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

from natstui.children import own_program
from natstui.clean import clean_text
from natstui.errors import NatstuiError, SessionError, UsageError

if TYPE_CHECKING:
    from natstui.model.records.record import EngineStarted
    from natstui.tui.app.app import NatstuiApp
    from natstui.tui.app.engine_process import EngineProcess
    from natstui.tui.app.link import Link
    from natstui.tui.app.live_system import OpenSystem

ENGINE = tuple(own_program("natstui", "engine"))
_OVERRULING = ("NATS_URL", "NATSTUI_CONNECTION_SERVER")
_NAMING = ("--context", "--profile")
_ACCOUNT = "--account"
ACCOUNTS_OF_ONE = "--account names accounts of one system: give one --context or --profile"
FROM_STDIN = "-"
"""In place of a server address: it is the first line on stdin, a JSON string."""


def replay_engine(folder: str) -> tuple[str, ...]:
    """Return what starts an engine that replays a session."""
    return (*ENGINE[:-1], "replay-engine", folder)


def secrets_to_stdin(argv: Sequence[str]) -> tuple[list[str], bytes]:
    """Return a command line without secrets, and the first line of stdin, which has them.

    A server address with a user or token in it goes that way, because every user of a machine
    can list the command lines of all processes.
    """
    others, addresses = [], []
    words = iter(argv)
    for word in words:
        flag, sign, address = word.partition("=")
        if flag != "--server":
            others.append(word)
        elif sign or (address := next(words, "")):
            addresses.append(address)
        else:
            return list(argv), b""
    if "@" not in "".join(addresses):
        return list(argv), b""
    line = json.dumps(",".join(addresses)).encode() + b"\n"
    return [*others, "--server", FROM_STDIN], line


def named_systems(argv: Sequence[str]) -> tuple[str, list[str], list[str]]:
    """Return which flag names systems, their names, and the words that are those of every engine.

    Raises UsageError where several are named and they cannot all be meant.
    """
    accounts, argv = _taken_out(_ACCOUNT, argv)
    flag, value, others, servers = "--context", "", [], False
    words = iter(argv)
    for word in words:
        name, sign, text = word.partition("=")
        if name in _NAMING:
            if value:
                others += [flag, value]
            flag, value = name, text if sign else next(words, "")
            continue
        servers = servers or name == "--server"
        others.append(word)
    names = _names(flag, value) if value else []
    if accounts and len(names) > 1:
        raise UsageError(ACCOUNTS_OF_ONE)
    if accounts:
        return _ACCOUNT, _names(_ACCOUNT, accounts), argv
    if len(names) > 1:
        if servers:
            raise UsageError("--server names one system: leave it out to watch several")
        if set(_NAMING) & set(others):
            raise UsageError("--context and --profile: give one of them to watch several systems")
        refuse_one_for_all()
    return flag, names, others


def _taken_out(flag: str, argv: Sequence[str]) -> tuple[str, list[str]]:
    """Return the value of a flag, the last one where it is given again, and the other words."""
    value, others = "", []
    words = iter(argv)
    for word in words:
        name, sign, text = word.partition("=")
        if name == flag:
            value = text if sign else next(words, "")
        else:
            others.append(word)
    return value, others


def _names(flag: str, value: str) -> list[str]:
    names = list(dict.fromkeys(value.split(",")))
    if len(names) > 1 and "" in names:
        raise UsageError(f"{flag}: a name is empty")
    return names


def refuse_one_for_all() -> None:
    """Raise UsageError where the environment names a server, which overrules every context."""
    named = next((name for name in _OVERRULING if os.environ.get(name)), None)
    if named is not None:
        raise UsageError(
            f"{named} is set: it would override the server of every context and profile"
        )


def _known(flag: str) -> list[str]:
    """Return what could be watched besides, by the flag that names it."""
    if flag == "--context":
        from natstui.config.contexts import known_contexts

        return known_contexts()
    if flag == _ACCOUNT:
        # Servers tell which there are; the screen of servers lists them.
        return []
    from natstui.config.load import load

    return sorted(load().settings.profiles)


def _without_server(words: Sequence[str]) -> list[str]:
    """Return the words of an engine without those that name its server."""
    found, left = [], iter(words)
    for word in left:
        if word == "--server":
            next(left, None)
        elif not word.startswith("--server="):
            found.append(word)
    return found


@dataclass(frozen=True, slots=True)
class Start:
    """What starts engines on one system; a secret goes over stdin."""

    words: list[str]
    first_line: bytes

    def __call__(self, *more: str) -> Link:
        """Start another one, with more words."""
        from natstui.tui.app.link import Link

        return Link((*self.words, *more), self.first_line)


def starting(argv: Sequence[str]) -> Start:
    """Return what starts engines with these words."""
    return Start(*secrets_to_stdin(argv))


def _starting_named(flag: str, name: str, others: Sequence[str]) -> Start:
    """Return what starts engines on one of several systems."""
    if flag == _ACCOUNT:
        return starting((*others, flag, name))
    refuse_one_for_all()
    return starting((*_without_server(others), flag, name))


def open_viewer(engine_argv: Sequence[str], *, guided: bool = False) -> None:
    """Run the viewer on engines until the user leaves it, and exit with its code.

    `guided` shows a newcomer what to try.
    """
    from natstui.tui.kit.terminal import needs_ascii, require_terminal

    flag, names, others = named_systems(engine_argv)
    require_terminal()

    def starting_named(name: str) -> Start:
        return _starting_named(flag, name, others)

    several = [starting_named(name) for name in names] if len(names) > 1 else []
    starts = several or [starting(engine_argv)]
    processes = _engines_at_once(starts)

    from natstui.tui.app.link import Link

    links = [Link(it, start.first_line) for it, start in zip(processes, starts, strict=True)]
    try:
        from natstui.tui.app.app import NatstuiApp
        from natstui.tui.app.controls.systems import Contexts

        started = [link.wait_started(_tell) for link in links]
    except BaseException:
        _close_all(links)
        raise
    first = replace(started[0], ascii_only=started[0].ascii_only or needs_ascii())
    app = NatstuiApp(
        first,
        starts[0],
        links[0],
        lambda folder: Link(replay_engine(folder)),
        guided=guided,
        others=_others(names, started, links, starts),
        contexts=Contexts(lambda: _known(flag), starting_named, names[0] if names else ""),
    )
    _run(app, mouse=first.mouse)


def _tell(text: str) -> None:
    sys.stderr.write(f"natstui: {clean_text(text)}\n")
    sys.stderr.flush()


def _others(
    names: Sequence[str],
    started: Sequence[EngineStarted],
    links: Sequence[Link],
    starts: Sequence[Start],
) -> list[OpenSystem]:
    """Return all systems but the first."""
    from natstui.tui.app.live_system import OpenSystem

    every = zip(names, started, links, starts, strict=False)
    return [OpenSystem(*one) for one in every][1:]


def _engines_at_once(starts: Sequence[Start]) -> list[EngineProcess]:
    """Start the engines, before the many imports that follow."""
    from natstui.tui.app.engine_process import start_engine

    return [start_engine(start.words) for start in starts]


def _run(app: NatstuiApp, *, mouse: bool) -> NoReturn:
    """Run the app, end every engine, and exit."""
    try:
        code = app.run_guarded(mouse=mouse)
    finally:
        ended = _close_all(app.parts.engines.links)[0]
    if code == 0 and ended == SessionError.exit_code and app.link.parting_words:
        # A replay went as far as it can be read: whoever leaves it hears what is damaged.
        sys.stderr.write(f"natstui: {clean_text(app.link.parting_words)}\n")
        code = ended
    sys.exit(code)


def _close_all(links: Sequence[Link]) -> list[int]:
    """Close engines, all at the same time: one that hangs takes seconds. Return their codes."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max(1, len(links))) as threads:
        return list(threads.map(lambda link: link.close(), links))


def run_fast(arguments: Sequence[str]) -> None:
    """Open the viewer without parsing flags: the engine parses them and reports what is wrong."""
    try:
        open_viewer((*ENGINE, *arguments))
    except NatstuiError as error:
        sys.stderr.write(f"natstui: {clean_text(str(error))}\n")
        sys.exit(error.exit_code)
