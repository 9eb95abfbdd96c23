"""Recording without a viewer, as a service: until it is told to stop, or the time is up."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass

from natstui.config import Connection
from natstui.config.settings import Settings
from natstui.engine.live import watch_server
from natstui.engine.process import started_of
from natstui.engine.recording import EngineRecorder
from natstui.errors import ConnectionFailed
from natstui.feed import Feed
from natstui.jetstream.poll_control import PollControl
from natstui.model.record import LinkChanged, Record, Restored, Unavailable
from natstui.model.recording import RecordingChanged
from natstui.session.disk import RecorderSettings


@dataclass(slots=True)
class Told:
    """A sink that tells people what they should know, one sentence at a time."""

    tell: Callable[[str], None]
    was_connected: bool = False
    reason: str = "it was stopped before there was a connection"
    trouble: str | None = None

    def add(self, record: Record) -> None:
        """Tell what a record says about the connection or about what cannot be read."""
        match record:
            case LinkChanged():
                self.was_connected |= record.state == "connected"
                self.reason = record.reason or self.reason
                where = record.server_name or record.server_url or ""
                self.tell(" ".join(filter(None, (record.state, where, record.reason))))
            case Unavailable():
                self.tell(f"{record.what} cannot be read: {record.reason}")
            case Restored():
                self.tell(f"{record.what} can be read again")

    def change(self, change: RecordingChanged) -> None:
        """Tell trouble of the recorder, and its end."""
        if change.reason != self.trouble:
            self.trouble = change.reason
            self.tell(change.reason or "recording goes on")
        if not change.on:
            self.tell(f"recorded {change.size_bytes} bytes into {change.folder}")


async def record_server(
    settings: Settings,
    connection: Connection,
    recording: RecorderSettings,
    duration_s: float | None,
    told: Told,
    on_folder: Callable[[str], None],
) -> None:
    """Record until SIGTERM, SIGINT, or the time is up; goes on whatever server and disk do.

    Raises SessionError when it cannot begin, ConnectionFailed when there never was a connection.
    """
    recorder = EngineRecorder(recording.sessions, lambda _name: recording, told.change)
    feed = Feed([recorder, told])
    # Before the folder is made, so that its first line knows who records.
    feed.add(started_of(settings, connection))
    recorder.prepare()
    on_folder(str(recorder.start(recording.name).folder))
    try:
        await _watch(settings, connection, feed, duration_s)
    finally:
        await recorder.close()
    if not told.was_connected:
        raise ConnectionFailed(f"nothing was recorded: {told.reason}")


async def _watch(
    settings: Settings, connection: Connection, feed: Feed, duration_s: float | None
) -> None:
    """Watch the server until a signal, or the time is up."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    monitor = settings.monitor
    control, requests_per_s = PollControl(monitor.interval_s), int(monitor.max_requests_per_s)
    works = {
        asyncio.ensure_future(stop.wait()),
        asyncio.ensure_future(
            watch_server(connection, control, feed, requests_per_s, lambda _client: None)
        ),
    }
    ended, going = await asyncio.wait(
        works, timeout=duration_s, return_when=asyncio.FIRST_COMPLETED
    )
    for work in going:
        work.cancel()
    await asyncio.wait(going)
    for work in ended:
        work.result()
