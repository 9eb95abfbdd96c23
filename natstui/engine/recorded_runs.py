"""A recording around benchmarks without a viewer: what they did, and the server meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from natstui.config import Connection
from natstui.config.settings import Settings
from natstui.engine.headless import Told
from natstui.engine.live import watch_server
from natstui.engine.process import started_of
from natstui.engine.recording import EngineRecorder
from natstui.feed import Feed, Sink
from natstui.jetstream.poll_control import PollControl
from natstui.model.record import Record
from natstui.model.snapshot import Snapshot
from natstui.session.disk import RecorderSettings
from natstui.session.place import sessions_folder

_FIRST_POLL_S = 5.0


class _FirstPoll:
    """A sink that knows when the first poll came."""

    def __init__(self) -> None:
        self.came = asyncio.Event()

    def add(self, record: Record) -> None:
        if isinstance(record, Snapshot):
            self.came.set()


class RecordedRuns:
    """One session for every repetition of a benchmark; `feed` takes what is recorded."""

    def __init__(
        self,
        settings: Settings,
        connection: Connection,
        name: str,
        tell: Callable[[str], None],
        viewer: Sink,
    ) -> None:
        """`tell` gets the trouble of the recorder, `viewer` every record too.

        Raises SessionError when it cannot begin.
        """
        sessions = sessions_folder(settings.session)
        self._settings, self._connection = settings, connection
        self._recorder = EngineRecorder(
            sessions, lambda name: RecorderSettings(sessions, name), Told(tell).change
        )
        self.feed = Feed([self._recorder, viewer])
        self.feed.add(started_of(settings, connection))
        self._recorder.prepare()
        self.folder: Path = self._recorder.start(name).folder
        """Of the session."""

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Poll the server meanwhile, beginning with one poll before."""
        monitor, first = self._settings.monitor, _FirstPoll()
        control, requests_per_s = PollControl(monitor.interval_s), int(monitor.max_requests_per_s)
        watched = watch_server(
            self._connection, control, self.feed, requests_per_s, lambda _client: None
        )
        self.feed.join(first)
        watch, poll = asyncio.ensure_future(watched), asyncio.ensure_future(first.came.wait())
        try:
            # A server that does not answer is the benchmark's own to tell.
            await asyncio.wait(
                (watch, poll), timeout=_FIRST_POLL_S, return_when=asyncio.FIRST_COMPLETED
            )
            yield
        finally:
            self.feed.leave(first)
            watch.cancel()
            poll.cancel()
            await asyncio.wait((watch, poll))
        if not watch.cancelled():
            watch.result()

    def close(self) -> None:
        """Seal the session and end it."""
        asyncio.run(self._recorder.close())
