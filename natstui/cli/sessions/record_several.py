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
from natstui.cli.sessions.options import print_recorded
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


class Several:
    """The recordings of some systems: one that fails is told, and holds up no other."""

    def __init__(
        self,
        systems: Mapping[str, ConnectionFlags],
        tell: Callable[[str], None],
        sessions: str | None,
        limits: Mapping[str, Any],
        *,
        as_json: bool,
    ) -> None:
        """`tell` logs a sentence; `limits` are the recorder's settings."""
        self._systems, self._tell, self._sessions = systems, tell, sessions
        self._limits, self._as_json = limits, as_json
        self._every = {name: _One() for name in systems}

    def record(self, duration_s: float | None) -> int:
        """Record until a signal, or the time is up; return the code of the first that failed."""
        try:
            asyncio.run(self._record(duration_s))
        finally:
            # A recording that failed is told, too: its folder is there.
            for name, it in self._every.items():
                if self._as_json and it.folder is not None:
                    print_recorded(it.folder, system=name)
        failed = [(name, it.failed) for name, it in self._every.items() if it.failed is not None]
        for name, error in failed:
            click.echo(f"natstui: {clean_line(name)}: {clean_line(str(error))}", err=True)
        return next((error.exit_code for _, error in failed), 0)

    async def _record(self, duration_s: float | None) -> None:
        stop = stopped_after(duration_s)
        async with asyncio.TaskGroup() as group:
            for name in self._systems:
                group.create_task(self._record_one(name, stop))

    async def _record_one(self, name: str, stop: asyncio.Event) -> None:
        settings, connection = self._systems[name].resolve()
        folder = user_path(self._sessions) if self._sessions else sessions_folder(settings.session)
        # So that people can tell them apart in the library.
        named = {**self._limits, "name": f"{self._limits['name']} {name}".strip()}
        log = ConnectionLog(partial(self._say, name))
        recording, begun = RecorderSettings(folder, **named), partial(self._begun, name)
        try:
            await record_server(settings, connection, recording, stop, log, begun)
        except NatstuiError as error:
            self._every[name].failed = error
            self._say(name, str(error))

    def _begun(self, name: str, folder: str) -> None:
        self._every[name].folder = Path(folder)
        if self._as_json:
            self._say(name, f"recording into {folder}")
        else:
            click.echo(f"{clean_line(name)}: {folder}")

    def _say(self, name: str, text: str) -> None:
        self._tell(f"{name}: {text}")
