"""`natstui record` of several systems: a recording for each, begun and ended together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from natstui.clean import clean_line
from natstui.cli.options import ConnectionFlags
from natstui.cli.sessions.told import print_recorded
from natstui.engine.headless import ConnectionLog, record_server
from natstui.engine.stopping import stopped_after
from natstui.errors import NatstuiError
from natstui.paths import user_path
from natstui.session.library import sessions_folder
from natstui.session.write.settings import RecorderSettings


@dataclass
class _One:
    """One of the recordings: where it is, and why it ended other than it should have."""

    folder: Path | None = None
    failed: NatstuiError | None = None


def record_several(
    systems: Mapping[str, ConnectionFlags],
    tell: Callable[[str], None],
    duration_s: float | None,
    sessions: str | None,
    limits: Mapping[str, Any],
    *,
    as_json: bool,
) -> int:
    """Record all until a signal, or the time is up; return the code of the first that failed.

    One that cannot begin, or never had a connection, is told and holds up no other.
    """
    every = {name: _One() for name in systems}

    async def one(name: str, stop: asyncio.Event) -> None:
        settings, connection = systems[name].resolve()
        folder = user_path(sessions) if sessions else sessions_folder(settings.session)
        # So that people can tell them apart in the library.
        named = {**limits, "name": f"{limits['name']} {name}".strip()}
        say = partial(_told, tell, name)

        def begun(folder: str) -> None:
            every[name].folder = Path(folder)
            if as_json:
                say(f"recording into {folder}")
            else:
                click.echo(f"{clean_line(name)}: {folder}")

        recording, log = RecorderSettings(folder, **named), ConnectionLog(say)
        try:
            await record_server(settings, connection, recording, stop, log, begun)
        except NatstuiError as error:
            every[name].failed = error
            say(str(error))

    async def work() -> None:
        stop = stopped_after(duration_s)
        async with asyncio.TaskGroup() as group:
            for name in systems:
                group.create_task(one(name, stop))

    try:
        asyncio.run(work())
    finally:
        # A recording that failed is told, too: its folder is there.
        for name, it in every.items():
            if as_json and it.folder is not None:
                print_recorded(it.folder, system=name)
    failed = [(name, it.failed) for name, it in every.items() if it.failed is not None]
    for name, error in failed:
        click.echo(f"natstui: {clean_line(name)}: {clean_line(str(error))}", err=True)
    return next((error.exit_code for _, error in failed), 0)


def _told(tell: Callable[[str], None], name: str, text: str) -> None:
    tell(f"{name}: {text}")
