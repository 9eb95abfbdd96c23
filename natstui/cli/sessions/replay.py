"""`natstui replay`: the screens on a recording; `replay-engine` is the process behind them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from natstui.cli.complete import session_name
from natstui.cli.sections import command
from natstui.cli.sessions.options import library_options
from natstui.errors import DamagedSession, UsageError
from natstui.units import parse_moment


def _at_us(text: str | None) -> int | None:
    """Return a moment as people write it, in UTC unless it says otherwise, or so long ago."""
    if text is None:
        return None
    try:
        ago = text.strip().endswith("ago")
        moment = parse_moment(text) if ago else datetime.fromisoformat(text)
    except ValueError as error:
        how = "write it as 2026-11-20T14:30:00 or 10m ago"
        raise UsageError(f"{text!r} is no time: {how}") from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1e6)


@command()
@session_name
@library_options
@click.option("--at", "at_text", metavar="TIME", help="Time to start at, as 2026-11-20T14:30:00.")
@click.option("--paused", is_flag=True, help="Start paused.")
def replay(sessions: Path, session: str, at_text: str | None, *, paused: bool) -> None:
    """Replay a recording in the screens. SESSION is a folder, an id, a name, or `last`."""
    from natstui.cli.open_viewer import open_viewer, replay_engine
    from natstui.session.library import find

    _at_us(at_text)
    folder = find(sessions, session)
    words = [*replay_engine(str(folder.resolve())), "--sessions", str(sessions)]
    words += ["--at", at_text] if at_text else []
    open_viewer([*words, "--paused"] if paused else words)


@command(hidden=True)
@session_name
@library_options
@click.option("--at", "at_text", metavar="TIME", help="Where to begin.")
@click.option("--paused", is_flag=True, help="Start paused.")
def replay_engine(sessions: Path, session: str, at_text: str | None, *, paused: bool) -> None:
    """Run the engine: replay a recording for a screen.

    Records are written to stdout, commands are read from stdin.
    """
    from natstui.config.load import load
    from natstui.engine.replay import ReplayProcess
    from natstui.session.library import find
    from natstui.session.read.recording import Recording

    recording = Recording(find(sessions, session), salvage=True)
    process = ReplayProcess(recording, load().settings.viewer, sessions)
    process.run(playing=not paused, at_us=_at_us(at_text))
    damage = "; ".join(mark.text for mark in recording.damage())
    if damage:
        raise DamagedSession(recording.folder, damage)
