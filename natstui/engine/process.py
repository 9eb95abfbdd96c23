"""The engine process: records on stdout, commands on stdin; it ends with its stdin."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from natstui import __version__
from natstui.config import Connection
from natstui.config.settings import Settings
from natstui.engine.pipes import LineReader, LineWriter
from natstui.engine.stopping import ending_signals
from natstui.errors import NatstuiError
from natstui.feed import Feed, Sink
from natstui.lines import SCHEMA_VERSION, BadLine, decode_command
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.analysis import AnalysisCommand
from natstui.model.records.benchmark import BenchmarkCommand
from natstui.model.records.link import LinkChanged
from natstui.model.records.record import EngineStarted, Record
from natstui.model.records.recording import RecordingChanged

if TYPE_CHECKING:
    from natstui.engine.analyzing import AnalysisRunner
    from natstui.engine.benchmarking import BenchmarkRunner
    from natstui.engine.commands import EngineCommands
    from natstui.engine.recording import EngineRecorder
    from natstui.jetstream.connection.client import Client

_STDIN, _STDOUT = 0, 1
_CLOSE_TIMEOUT_S = 1.0
_FIRST_ROWS_TIMEOUT_S = 0.3
"""Maximum time for which the first commands wait for the first rows."""


def run_engine(
    settings: Settings, connection: Connection, unfinished_recording_folder: Path | None = None
) -> None:
    """Run an engine until stdin ends, stdout has no reader, or an ending signal is received.

    `unfinished_recording_folder` is the recording of a killed engine, which is continued. Raises
    UsageError for an invalid connection.
    """
    with asyncio.Runner() as runner:
        runner.run(_Engine(settings, connection, unfinished_recording_folder).run())


def make_engine_started(settings: Settings, connection: Connection) -> EngineStarted:
    """Return the first record of an engine."""
    viewer_settings = settings.viewer
    return EngineStarted(
        at_us=time.time_ns() // 1000,
        natstui_version=__version__,
        schema_version=SCHEMA_VERSION,
        target=connection.target,
        read_only=connection.read_only,
        production=connection.production,
        interval_s=settings.monitor.interval_s,
        theme=viewer_settings.theme,
        ascii_only=viewer_settings.ascii,
        mouse=viewer_settings.mouse,
        keys=viewer_settings.keys,
        colour=connection.colour,
        account=connection.account,
    )


class _Engine:
    def __init__(
        self, settings: Settings, connection: Connection, unfinished_recording_folder: Path | None
    ) -> None:
        self._settings = settings
        self._unfinished_recording_folder = unfinished_recording_folder
        self._connection = connection
        self._client: Client | None = None
        self._stop = asyncio.Event()
        self._benchmark_runner: BenchmarkRunner | None = None
        self._commands: EngineCommands | None = None

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        writer = LineWriter(_STDOUT, lambda: self._stop_from_thread(loop))
        feed = Feed([writer])
        # Sent before anything slow is imported: the viewer cannot draw its screen without it.
        engine_started = make_engine_started(self._settings, self._connection)
        feed.add(engine_started)
        for signal_number in ending_signals():
            loop.add_signal_handler(signal_number, self._stop.set)
        lines = LineReader(_STDIN, self._stop.set)
        try:
            await self._run_tasks(
                feed, writer, lines, self._add_recorder(engine_started, feed, writer)
            )
        finally:
            writer.close(_CLOSE_TIMEOUT_S)

    def _add_recorder(
        self, engine_started: EngineStarted, feed: Feed, writer: LineWriter
    ) -> EngineRecorder:
        """Add a recorder to the feed, and return it; start a recording if `session.record` is set.

        The recorder reports to the viewer from its own thread.
        """
        from natstui.engine.recording import EngineRecorder
        from natstui.session.library import sessions_folder
        from natstui.session.write.settings import RecorderSettings

        folder = sessions_folder(self._settings.session)
        recorder = EngineRecorder(folder, lambda name: RecorderSettings(folder, name), writer.add)
        recorder.add(engine_started)
        feed.add_sink(recorder, first=True)
        is_resumed = self._unfinished_recording_folder is not None and _resume_recording(
            recorder, self._unfinished_recording_folder, writer
        )
        if self._settings.session.record and not is_resumed:
            _start_recording(recorder, writer)
        return recorder

    async def _load_benchmark_runner(self, feed: Feed) -> BenchmarkRunner:
        """Return the runner of benchmarks; its module is imported at the first call."""
        if self._benchmark_runner is None:
            # In a thread: numpy takes longer to import than the loop may be blocked.
            module = await asyncio.to_thread(import_module, "natstui.engine.benchmarking")
            runs_folder = self._settings.benchmark.folder
            self._benchmark_runner = module.BenchmarkRunner(self._connection, feed, runs_folder)
        return self._benchmark_runner

    async def _run_tasks(
        self,
        feed: Feed,
        writer: LineWriter,
        lines: LineReader,
        recorder: EngineRecorder,
    ) -> None:
        # Imported here, because nats-py takes longer to import than the viewer may wait.
        from natstui.engine.live import refuse_for_other_account, watch_server
        from natstui.jetstream.polling.control import PollControl

        monitor = self._settings.monitor
        poll_control = PollControl(monitor.interval_s)

        def make_commands(commands_class: type[EngineCommands]) -> EngineCommands:
            async def load_runner(command: BenchmarkCommand) -> BenchmarkRunner:
                refuse_for_other_account(self._connection, command)
                return await self._load_benchmark_runner(feed)

            return commands_class(
                poll_control, feed, lambda: self._client, recorder, writer, load_runner
            )

        tasks = {
            asyncio.ensure_future(self._stop.wait()),
            asyncio.ensure_future(self._execute_commands(make_commands, feed, writer, lines)),
            asyncio.ensure_future(
                watch_server(
                    self._connection,
                    poll_control,
                    feed,
                    monitor.max_requests_per_s,
                    self._store_client,
                    polls_connections=self._settings.session.connections,
                )
            ),
        }
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.wait(pending)
        if self._commands is not None:
            await self._commands.close()
        await recorder.close()
        for task in done:
            task.result()

    async def _execute_commands(
        self,
        make_commands: Callable[[type[EngineCommands]], EngineCommands],
        feed: Feed,
        writer: LineWriter,
        lines: LineReader,
    ) -> None:
        """Execute the commands of the viewer, after its first rows were sent, or after 0.3 s."""
        first_rows = _FirstRowsEvent()
        feed.add_sink(first_rows)
        # Importing the commands takes as long as the entire first poll.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_ROWS_TIMEOUT_S):
                await first_rows.ready_event.wait()
        feed.remove_sink(first_rows)
        module = await asyncio.to_thread(import_module, "natstui.engine.commands")
        self._commands = make_commands(module.EngineCommands)
        analysis_runner = self._make_analysis_runner(writer)
        # One command does not wait for the reply to another.
        async with asyncio.TaskGroup() as tasks:
            while True:
                try:
                    command = decode_command(await lines.get())
                except BadLine as error:
                    _print_error(str(error))
                    continue
                if isinstance(command, AnalysisCommand):
                    analysis_runner.execute(command)
                else:
                    tasks.create_task(self._commands.execute(command))

    def _make_analysis_runner(self, writer: LineWriter) -> AnalysisRunner:
        from natstui.engine.analyzing import AnalysisRunner
        from natstui.session.library import sessions_folder

        return AnalysisRunner(sessions_folder(self._settings.session), writer)

    def _stop_from_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._stop.set)

    def _store_client(self, client: Client) -> None:
        self._client = client


class _FirstRowsEvent:
    """A sink that sets an event at the first snapshot, or when the connection is refused."""

    def __init__(self) -> None:
        self.ready_event = asyncio.Event()

    def add(self, record: Record) -> None:
        is_refused = isinstance(record, LinkChanged) and record.state == "failed"
        if is_refused or isinstance(record, Snapshot):
            self.ready_event.set()


def _resume_recording(recorder: EngineRecorder, folder: Path, viewer: Sink) -> bool:
    """Continue the recording of a killed engine; return whether that is possible.

    An error is reported to the viewer.
    """
    try:
        recorder.resume(folder)
    except NatstuiError as error:
        reason = f"the recording cannot be continued: {error}"
        viewer.add(RecordingChanged(time.time_ns() // 1000, False, str(folder), None, reason))
        return False
    return True


def _start_recording(recorder: EngineRecorder, viewer: Sink) -> None:
    """Start a recording; an error is reported to the viewer, and the engine continues."""
    try:
        recorder.seal_unfinished_sessions()
        recorder.start("")
    except NatstuiError as error:
        now_us = time.time_ns() // 1000
        viewer.add(RecordingChanged(now_us, False, None, None, str(error)))


def _print_error(sentence: str) -> None:
    sys.stderr.write(f"natstui engine: {sentence}\n")
