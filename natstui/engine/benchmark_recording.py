"""Recording of a server while a benchmark runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from natstui.config import Connection
from natstui.config.settings import Settings
from natstui.engine.live import watch_server
from natstui.engine.process import make_engine_started
from natstui.engine.record_server import ConnectionLog
from natstui.engine.recording import EngineRecorder
from natstui.feed import Feed, Sink
from natstui.jetstream.polling.control import PollControl
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.record import Record
from natstui.session.library import sessions_folder
from natstui.session.write.settings import RecorderSettings

_FIRST_POLL_TIMEOUT_S = 5.0


class _FirstPollEvent:
    """A sink that sets an event at the first snapshot."""

    def __init__(self) -> None:
        self.snapshot_event = asyncio.Event()

    def add(self, record: Record) -> None:
        if isinstance(record, Snapshot):
            self.snapshot_event.set()


class BenchmarkRecorder:
    """Records all repetitions of a benchmark in one session; add their records to its `feed`."""

    def __init__(
        self,
        settings: Settings,
        connection: Connection,
        name: str,
        report: Callable[[str], None],
        viewer: Sink,
    ) -> None:
        """Begin a session called `name`; `viewer` also receives every record.

        `report` is called with each sentence about the recording: notices, problems, and at the
        end its size and folder.

        Raises SessionError if the session cannot begin.
        """
        recordings_folder = sessions_folder(settings.session)
        self._settings, self._connection = settings, connection
        self._log = ConnectionLog(report)
        self._recorder = EngineRecorder(
            recordings_folder,
            lambda name: RecorderSettings(recordings_folder, name),
            self._log.on_recording_change,
        )
        self.feed = Feed([self._recorder, viewer])
        self.feed.add(make_engine_started(settings, connection))
        self._recorder.seal_unfinished_sessions()
        self.folder: Path = self._recorder.start(name).folder
        """The folder of the session."""

    @asynccontextmanager
    async def poll_server(self) -> AsyncIterator[None]:
        """Poll the server inside the block, which begins after the first poll, or after 5 s."""
        monitor, first_poll = self._settings.monitor, _FirstPollEvent()
        poll_control, requests_per_s = PollControl(monitor.interval_s), monitor.max_requests_per_s
        watch_coroutine = watch_server(
            self._connection,
            poll_control,
            self.feed,
            requests_per_s,
            lambda _client: None,
            polls_connections=self._settings.session.connections,
        )
        self.feed.add_sink(first_poll)
        watch_future = asyncio.ensure_future(watch_coroutine)
        poll_future = asyncio.ensure_future(first_poll.snapshot_event.wait())
        try:
            # If the server does not reply, the benchmark itself reports it.
            await asyncio.wait(
                (watch_future, poll_future),
                timeout=_FIRST_POLL_TIMEOUT_S,
                return_when=asyncio.FIRST_COMPLETED,
            )
            yield
        finally:
            self.feed.remove_sink(first_poll)
            watch_future.cancel()
            poll_future.cancel()
            await asyncio.wait((watch_future, poll_future))
        if not watch_future.cancelled():
            watch_future.result()

    def close(self) -> None:
        """Complete the session, and report its size and folder.

        Raises SessionError if the recording is not complete.
        """
        self._log.log(asyncio.run(self._recorder.stop()))
