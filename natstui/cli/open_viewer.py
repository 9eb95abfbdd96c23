"""Opening the viewer: engine first, so that it starts while the screen is imported."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from natstui.clean import clean_text
from natstui.errors import NatstuiError

ENGINE = (sys.executable, "-P", "-m", "natstui", "engine")
"""`-P`: a file in the current folder must not stand in for a module of ours."""


def replay_engine(folder: str) -> tuple[str, ...]:
    """Return what starts an engine that replays a session."""
    return (*ENGINE[:-1], "replay-engine", folder)


def open_viewer(engine_argv: Sequence[str]) -> None:
    """Run the viewer on an engine until it is left, and exit with its code."""
    from natstui.tui.link import Link
    from natstui.tui.terminal import needs_ascii, require_terminal

    require_terminal()
    link = Link(engine_argv)
    try:
        from natstui.tui.app import NatstuiApp

        started = link.wait_started()
    except BaseException:
        link.close()
        raise
    started = replace(started, ascii_only=started.ascii_only or needs_ascii())
    app = NatstuiApp(
        started, lambda: Link(engine_argv), link, lambda folder: Link(replay_engine(folder))
    )
    try:
        code = app.run_guarded(mouse=started.mouse)
    finally:
        app.link.close()
    sys.exit(code)


def run_fast(arguments: Sequence[str]) -> None:
    """Open the viewer without parsing: the engine reads the flags, and complains about them."""
    try:
        open_viewer((*ENGINE, *arguments))
    except NatstuiError as error:
        sys.stderr.write(f"natstui: {clean_text(str(error))}\n")
        sys.exit(error.exit_code)
