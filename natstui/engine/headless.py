"""Recording without a viewer: as a service, or around benchmarks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from natstui.config import Connection
from natstui.config.settings import Settings
from natstui.engine.live import watch_server
from natstui.engine.process import started_of
from natstui.engine.recording import EngineRecorder
from natstui.errors import ConnectionFailed, SessionError
from natstui.feed import Feed, Sink
from natstui.jetstream.polling.control import PollControl
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.link import LinkChanged
from natstui.model.records.record import Record, Restored, Unavailable
from natstui.model.records.recording import RecordingChanged
from natstui.session.library import sessions_folder
from natstui.session.write.settings import RecorderSettings


@dataclass(slots=True)
class ConnectionLog:
    """A sink that logs each change of the connection and each failed read in one sentence."""

    tell: Callable[[str], None]
    was_connected: bool = False
    reason: str = "natstui was stopped before it was connected"
    problem: str | None = None

    def add(self, record: Record) -> None:
        """Log a record about the connection, or about what cannot be read."""
        match record:
            case LinkChanged():
                self.was_connected |= record.state == "connected"
                self.reason = record.reason or self.reason
                server = record.server_name or record.server_url or ""
                self.tell(" ".join(filter(None, (record.state, server, record.reason))))
            case Unavailable():
                self.tell(f"{record.what} cannot be read: {record.reason}")
            case Restored():
                self.tell(f"{record.what} can be read again")

    def change(self, change: RecordingChanged) -> None:
        """Log a problem of the recorder, what it deleted because of a limit, and its end."""
        if change.notice is not None:
            self.tell(change.notice)
        if change.reason != self.problem:
            self.problem = change.reason
            self.tell(change.reason or "recording goes on")
        if not change.on:
            self.tell(f"recorded {change.size_bytes} bytes into {change.folder}")


async def record_server(
    settings: Settings,
    connection: Connection,
    recording: RecorderSettings,
    stop: asyncio.Event,
    log: ConnectionLog,
    on_folder: Callable[[str], None],
    extra_sinks: Iterable[Sink] = (),
) -> None:
    """Record until `stop` is set; continues after failures of the server or the disk.

    `extra_sinks` also receive every record.

    Raises SessionError when the recording cannot begin or its end could not be written,
    ConnectionFailed when there never was a connection.
    """
    recorder = EngineRecorder(recording.sessions, lambda _name: recording, log.change)
    feed = Feed([recorder, log, *extra_sinks])
    # Before the folder is made, so that its first line knows who records.
    feed.add(started_of(settings, connection))
    recorder.prepare()
    on_folder(str(recorder.start(recording.name).folder))
    try:
        await _watch(settings, connection, feed, stop)
    finally:
        await recorder.close()
    if not log.was_connected:
        raise ConnectionFailed(f"nothing was recorded: {log.reason}")
    if log.problem is not None:
        raise SessionError(f"not everything was recorded: {log.problem}")


async def _watch(
    settings: Settings, connection: Connection, feed: Feed, stop: asyncio.Event
) -> None:
    """Poll a server until `stop` is set."""
    monitor = settings.monitor
    control, requests_per_s = PollControl(monitor.interval_s), monitor.max_requests_per_s
    works = {
        asyncio.ensure_future(stop.wait()),
        asyncio.ensure_future(
            watch_server(
                connection,
                control,
                feed,
                requests_per_s,
                lambda _client: None,
                connections=settings.session.connections,
            )
        ),
    }
    done, pending = await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
    for work in pending:
        work.cancel()
    await asyncio.wait(pending)
    for work in done:
        work.result()


_FIRST_POLL_S = 5.0


class _FirstPoll:
    """A sink that sets an event when the first poll is received."""

    def __init__(self) -> None:
        self.came = asyncio.Event()

    def add(self, record: Record) -> None:
        if isinstance(record, Snapshot):
            self.came.set()


class RecordedRuns:
    """Records every repetition of a benchmark in one session; its `feed` receives the records."""

    def __init__(
        self,
        settings: Settings,
        connection: Connection,
        name: str,
        report: Callable[[str], None],
        viewer: Sink,
    ) -> None:
        """Begin a session; `report` gets each problem of the recorder, `viewer` also gets every
        record.

        Raises SessionError when it cannot begin.
        """
        sessions = sessions_folder(settings.session)
        self._settings, self._connection = settings, connection
        self._recorder = EngineRecorder(
            sessions, lambda name: RecorderSettings(sessions, name), ConnectionLog(report).change
        )
        self.feed = Feed([self._recorder, viewer])
        self.feed.add(started_of(settings, connection))
        self._recorder.prepare()
        self.folder: Path = self._recorder.start(name).folder
        """The folder of the session."""

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Poll the server inside the block; the first poll is over when it begins."""
        monitor, first = self._settings.monitor, _FirstPoll()
        control, requests_per_s = PollControl(monitor.interval_s), monitor.max_requests_per_s
        watch_task = watch_server(
            self._connection,
            control,
            self.feed,
            requests_per_s,
            lambda _client: None,
            connections=self._settings.session.connections,
        )
        self.feed.join(first)
        watch, poll = asyncio.ensure_future(watch_task), asyncio.ensure_future(first.came.wait())
        try:
            # When the server does not answer, the benchmark itself reports it.
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
