"""Recording of a server without a viewer: as a service, or while a benchmark runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from natstui.config import Connection
from natstui.config.settings import Settings
from natstui.engine.live import watch_server
from natstui.engine.process import make_engine_started
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
    """A sink that logs changes of the connection, and what cannot be read, as sentences."""

    write_line: Callable[[str], None]
    was_connected: bool = False
    reason: str = "natstui was stopped before it was connected"
    problem: str | None = None

    def add(self, record: Record) -> None:
        """Log a record if it is about the connection, or about something that cannot be read."""
        match record:
            case LinkChanged():
                self.was_connected |= record.state == "connected"
                self.reason = record.reason or self.reason
                server = record.server_name or record.server_url or ""
                self.log(" ".join(filter(None, (record.state, server, record.reason))))
            case Unavailable():
                self.log(f"{record.what} cannot be read: {record.reason}")
            case Restored():
                self.log(f"{record.what} can be read again")

    def log(self, text: str) -> None:
        """Log a sentence; a recording continues without it if it cannot be written."""
        with suppress(OSError):
            self.write_line(text)

    def on_recording_change(self, change: RecordingChanged) -> None:
        """Log a notice or a new problem of the recorder, and the end of the recording."""
        if change.notice is not None:
            self.log(change.notice)
        if change.reason != self.problem:
            self.problem = change.reason
            self.log(change.reason or "recording continues")
        if not change.on:
            self.log(f"recorded {change.size_bytes} bytes into {change.folder}")


async def record_server(
    settings: Settings,
    connection: Connection,
    recording: RecorderSettings,
    stop: asyncio.Event,
    log: ConnectionLog,
    on_folder: Callable[[str], None],
    extra_sinks: Iterable[Sink] = (),
) -> None:
    """Record until `stop` is set; continue after failures of the server or the disk.

    `on_folder` gets the path of the recording, `extra_sinks` receive every record. Raises
    SessionError if the recording cannot begin or is not complete, and ConnectionFailed if there
    was never a connection.
    """
    recorder = EngineRecorder(recording.sessions, lambda _name: recording, log.on_recording_change)
    feed = Feed([recorder, log, *extra_sinks])
    # Before the folder is created, so that its first line names the recording engine.
    feed.add(make_engine_started(settings, connection))
    recorder.seal_unfinished_sessions()
    on_folder(str(recorder.start(recording.name).folder))
    try:
        await _poll_until_stopped(settings, connection, feed, stop)
    finally:
        await recorder.close()
    if not log.was_connected:
        raise ConnectionFailed(f"nothing was recorded: {log.reason}")
    if log.problem is not None:
        raise SessionError(f"not everything was recorded: {log.problem}")


async def _poll_until_stopped(
    settings: Settings, connection: Connection, feed: Feed, stop: asyncio.Event
) -> None:
    """Poll a server into the feed until `stop` is set."""
    monitor = settings.monitor
    poll_control, requests_per_s = PollControl(monitor.interval_s), monitor.max_requests_per_s
    tasks = {
        asyncio.ensure_future(stop.wait()),
        asyncio.ensure_future(
            watch_server(
                connection,
                poll_control,
                feed,
                requests_per_s,
                lambda _client: None,
                polls_connections=settings.session.connections,
            )
        ),
    }
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.wait(pending)
    for task in done:
        task.result()


_FIRST_POLL_TIMEOUT_S = 5.0


class _FirstPollEvent:
    """A sink that sets an event at the first snapshot."""

    def __init__(self) -> None:
        self.arrived = asyncio.Event()

    def add(self, record: Record) -> None:
        if isinstance(record, Snapshot):
            self.arrived.set()


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
        """Begin a session; `viewer` also receives every record, `report` the recorder's problems.

        Raises SessionError if the session cannot begin.
        """
        recordings_folder = sessions_folder(settings.session)
        self._settings, self._connection = settings, connection
        self._recorder = EngineRecorder(
            recordings_folder,
            lambda name: RecorderSettings(recordings_folder, name),
            ConnectionLog(report).on_recording_change,
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
        poll_future = asyncio.ensure_future(first_poll.arrived.wait())
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
        """Complete the session."""
        asyncio.run(self._recorder.close())
