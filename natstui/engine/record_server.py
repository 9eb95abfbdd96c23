"""Recording of a server without a viewer, as a service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from natstui.config import Connection
from natstui.config.settings import Settings
from natstui.engine.live import watch_server
from natstui.engine.process import make_engine_started
from natstui.engine.recording import EngineRecorder
from natstui.errors import ConnectionFailed, SessionError
from natstui.feed import Feed, Sink
from natstui.jetstream.polling.control import PollControl
from natstui.model.records.link import LinkChanged
from natstui.model.records.record import Record, Restored, Unavailable
from natstui.model.records.recording import RecordingChanged
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
        """Log a notice or a new problem of the recorder."""
        if change.notice is not None:
            self.log(change.notice)
        if change.reason != self.problem:
            self.problem = change.reason
            self.log(change.reason or "recording continues")


async def record_server(
    settings: Settings,
    connection: Connection,
    recorder_settings: RecorderSettings,
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
    recorder = EngineRecorder(
        recorder_settings.sessions, lambda _name: recorder_settings, log.on_recording_change
    )
    feed = Feed([recorder, log, *extra_sinks])
    # Before the folder is created, so that its first line names the recording engine.
    feed.add(make_engine_started(settings, connection))
    recorder.seal_unfinished_sessions()
    folder = recorder.start(recorder_settings.name).folder
    try:
        on_folder(str(folder))
        await _poll_until_stopped(settings, connection, feed, stop)
    finally:
        log.log(await recorder.stop())
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
