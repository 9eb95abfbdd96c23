"""Opening the viewer: engine first, so that it starts while the screen is imported."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from natstui.children import own_program
from natstui.clean import clean_text
from natstui.errors import NatstuiError, SessionError

if TYPE_CHECKING:
    from natstui.tui.app.engine_process import EngineProcess

ENGINE = tuple(own_program("natstui", "engine"))
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


def open_viewer(engine_argv: Sequence[str], *, guided: bool = False) -> None:
    """Run the viewer on an engine until the user leaves it, and exit with its code.

    `guided` shows a newcomer what to try.
    """
    from natstui.tui.kit.terminal import needs_ascii, require_terminal

    require_terminal()
    words, first_line = secrets_to_stdin(engine_argv)
    process = _engine_at_once(words)

    from natstui.tui.app.link import Link

    link = Link(process, first_line)
    try:
        from natstui.tui.app.app import NatstuiApp

        started = link.wait_started()
    except BaseException:
        link.close()
        raise
    started = replace(started, ascii_only=started.ascii_only or needs_ascii())
    app = NatstuiApp(
        started,
        lambda *more: Link((*words, *more), first_line),
        link,
        lambda folder: Link(replay_engine(folder)),
        guided=guided,
    )
    try:
        code = app.run_guarded(mouse=started.mouse)
    finally:
        ended = app.link.close()
    if code == 0 and ended == SessionError.exit_code and app.link.parting_words:
        # A replay went as far as it can be read: whoever leaves it hears what is damaged.
        sys.stderr.write(f"natstui: {clean_text(app.link.parting_words)}\n")
        code = ended
    sys.exit(code)


def _engine_at_once(words: Sequence[str]) -> EngineProcess:
    """Start the engine, and prepare for the many imports that follow."""
    from natstui.tui.app.engine_process import start_engine

    process = start_engine(words)
    # What is imported stays, and collections of garbage would walk it again and again; the app
    # switches them on when it has shown itself.
    gc.disable()
    return process


def run_fast(arguments: Sequence[str]) -> None:
    """Open the viewer without parsing flags: the engine parses them and reports what is wrong."""
    try:
        open_viewer((*ENGINE, *arguments))
    except NatstuiError as error:
        sys.stderr.write(f"natstui: {clean_text(str(error))}\n")
        sys.exit(error.exit_code)
