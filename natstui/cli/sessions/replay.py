"""`natstui replay`: the screens on a recording; `replay-engine` is the process behind them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from natstui.cli.complete import session_argument
from natstui.cli.sections import command
from natstui.cli.sessions.options import library_options
from natstui.errors import DamagedSession, UsageError
from natstui.units import parse_moment


def _parse_time_us(text: str | None) -> int | None:
    """Return the time of a text in UTC µs: a time, in UTC unless it has a zone, or `10m ago`.

    Returns None for None. Raises UsageError for an invalid text.
    """
    if text is None:
        return None
    try:
        is_ago = text.strip().endswith("ago")
        moment = parse_moment(text) if is_ago else datetime.fromisoformat(text)
    except ValueError as error:
        hint = "write it as 2026-11-20T14:30:00 or 10m ago"
        raise UsageError(f"{text!r} is no time: {hint}") from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1e6)


@command()
@session_argument
@library_options
@click.option("--at", "at_text", metavar="TIME", help="Time to start at, as 2026-11-20T14:30:00.")
@click.option("--paused", is_flag=True, help="Start paused.")
def replay(sessions: Path, session: str, at_text: str | None, *, paused: bool) -> None:
    """Replay a recording in the screens. SESSION is a folder, an id, a name, or `last`."""
    from natstui.cli.open_viewer import open_viewer, replay_engine_command
    from natstui.session.library import find_session

    _parse_time_us(at_text)
    folder = find_session(sessions, session)
    arguments = [*replay_engine_command(str(folder.resolve())), "--sessions", str(sessions)]
    arguments += ["--at", at_text] if at_text else []
    open_viewer([*arguments, "--paused"] if paused else arguments)


@command(hidden=True)
@session_argument
@library_options
@click.option("--at", "at_text", metavar="TIME", help="Where to begin.")
@click.option("--paused", is_flag=True, help="Start paused.")
def replay_engine(sessions: Path, session: str, at_text: str | None, *, paused: bool) -> None:
    """Run the engine: replay a recording for a screen.

    Records are written to stdout, commands are read from stdin.
    """
    from natstui.config.load import load
    from natstui.engine.replay import ReplayProcess
    from natstui.session.library import find_session
    from natstui.session.read.recording import Recording

    recording = Recording(find_session(sessions, session), skips_unreadable_parts=True)
    process = ReplayProcess(recording, load().settings.viewer, sessions)
    process.run(playing=not paused, at_us=_parse_time_us(at_text))
    damage = "; ".join(mark.text for mark in recording.damage_marks())
    if damage:
        raise DamagedSession(recording.folder, damage)
