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
from natstui.defects import contained
from natstui.engine.pipes import LineReader, LineWriter
from natstui.engine.stopping import ending_signals
from natstui.errors import NatstuiError
from natstui.feed import Feed, Sink
from natstui.lines import SCHEMA_VERSION, BadLine, decode_command
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.analysis import AnalysisCommand
from natstui.model.records.benchmark import BenchmarkCommand
from natstui.model.records.link import LinkChanged
from natstui.model.records.managing import ManagingCommand
from natstui.model.records.record import EngineCommand, EngineStarted, Record
from natstui.model.records.recording import RecordingChanged

if TYPE_CHECKING:
    from natstui.engine.analyzing import Analyzing
    from natstui.engine.benchmarking import Benchmarking
    from natstui.engine.commands import Commands
    from natstui.engine.recording import EngineRecorder
    from natstui.jetstream.connection.client import Client

_STDIN, _STDOUT = 0, 1
_LAST_WORDS_S = 1.0
_COMMANDS_WAIT_S = 0.3
"""How long the first commands wait for the first rows of the first poll."""


def run_engine(settings: Settings, connection: Connection, unfinished: Path | None = None) -> None:
    """Run until stdin ends, stdout has no reader, or a signal to end comes.

    `unfinished` is the recording of a killed engine, to be continued. Raises UsageError for a
    connection that cannot be tried.
    """
    with asyncio.Runner() as runner:
        runner.run(_Engine(settings, connection, unfinished).run())


def started_of(settings: Settings, connection: Connection) -> EngineStarted:
    """Return the first record of an engine."""
    viewer = settings.viewer
    return EngineStarted(
        at_us=time.time_ns() // 1000,
        natstui_version=__version__,
        schema_version=SCHEMA_VERSION,
        target=connection.target,
        read_only=connection.read_only,
        production=connection.production,
        interval_s=settings.monitor.interval_s,
        theme=viewer.theme,
        ascii_only=viewer.ascii,
        mouse=viewer.mouse,
        keys=viewer.keys,
        colour=connection.colour,
        account=connection.account,
    )


class _Engine:
    def __init__(
        self, settings: Settings, connection: Connection, unfinished: Path | None
    ) -> None:
        self._settings = settings
        self._unfinished = unfinished
        self._connection = connection
        self._client: Client | None = None
        self._stop = asyncio.Event()
        self._benchmarking: Benchmarking | None = None
        self._commands: Commands | None = None

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        writer = LineWriter(_STDOUT, lambda: self._stop_from_thread(loop))
        feed = Feed([writer])
        # Sent before anything slow is imported: the viewer cannot draw its screen without it.
        engine_started = started_of(self._settings, self._connection)
        feed.add(engine_started)
        for number in ending_signals():
            loop.add_signal_handler(number, self._stop.set)
        lines = LineReader(_STDIN, self._stop.set)
        try:
            await self._work(feed, writer, lines, self._recorder(engine_started, feed, writer))
        finally:
            writer.close(_LAST_WORDS_S)

    def _recorder(
        self, engine_started: EngineStarted, feed: Feed, writer: LineWriter
    ) -> EngineRecorder:
        """Add a recorder to the feed; it reports to the viewer from its own thread."""
        from natstui.engine.recording import EngineRecorder
        from natstui.session.library import sessions_folder
        from natstui.session.write.settings import RecorderSettings

        folder = sessions_folder(self._settings.session)
        recorder = EngineRecorder(folder, lambda name: RecorderSettings(folder, name), writer.add)
        recorder.add(engine_started)
        feed.join(recorder, first=True)
        is_resumed = self._unfinished is not None and _resume(recorder, self._unfinished, writer)
        if self._settings.session.record and not is_resumed:
            _start(recorder, writer)
        return recorder

    async def _bench(self, feed: Feed) -> Benchmarking:
        """Return the benchmark commands, importing their module at the first use."""
        if self._benchmarking is None:
            # In a thread: numpy takes longer to import than the loop may be blocked.
            module = await asyncio.to_thread(import_module, "natstui.engine.benchmarking")
            runs_folder = self._settings.benchmark.folder
            self._benchmarking = module.Benchmarking(self._connection, feed, runs_folder)
        return self._benchmarking

    async def _work(
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
        control = PollControl(monitor.interval_s)

        def make_commands(kind: type[Commands]) -> Commands:
            async def bench(command: BenchmarkCommand) -> Benchmarking:
                refuse_for_other_account(self._connection, command)
                return await self._bench(feed)

            return kind(control, feed, lambda: self._client, recorder, writer, bench)

        works = {
            asyncio.ensure_future(self._stop.wait()),
            asyncio.ensure_future(self._execute(make_commands, feed, writer, lines)),
            asyncio.ensure_future(
                watch_server(
                    self._connection,
                    control,
                    feed,
                    monitor.max_requests_per_s,
                    self._keep_client,
                    connections=self._settings.session.connections,
                )
            ),
        }
        done, pending = await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
        for work in pending:
            work.cancel()
        await asyncio.wait(pending)
        if self._commands is not None:
            await self._commands.close()
        await recorder.close()
        for work in done:
            work.result()

    async def _execute(
        self,
        make_commands: Callable[[type[Commands]], Commands],
        feed: Feed,
        writer: LineWriter,
        lines: LineReader,
    ) -> None:
        """Execute the commands of the viewer, after it has its first rows."""
        news = _News()
        feed.join(news)
        # What commands need takes as long to import as the first poll takes altogether.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_COMMANDS_WAIT_S):
                await news.came.wait()
        feed.leave(news)
        module = await asyncio.to_thread(import_module, "natstui.engine.commands")
        self._commands = make_commands(module.Commands)
        analyzing = self._analyzing(writer)
        # One command does not wait for the answer to another.
        async with asyncio.TaskGroup() as tasks:
            while True:
                try:
                    command = decode_command(await lines.get())
                except BadLine as error:
                    _complain(str(error))
                    continue
                if isinstance(command, AnalysisCommand):
                    with contained("the analysis", _complain):
                        analyzing.execute(command)
                else:
                    tasks.create_task(_execute_one(self._commands, command))

    def _analyzing(self, writer: LineWriter) -> Analyzing:
        from natstui.engine.analyzing import Analyzing
        from natstui.session.library import sessions_folder

        return Analyzing(sessions_folder(self._settings.session), writer)

    def _stop_from_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._stop.set)

    def _keep_client(self, client: Client) -> None:
        self._client = client


class _News:
    """A sink that sets an event when the first rows, or the reason for their absence, are sent."""

    def __init__(self) -> None:
        self.came = asyncio.Event()

    def add(self, record: Record) -> None:
        is_refused = isinstance(record, LinkChanged) and record.state == "failed"
        if is_refused or isinstance(record, Snapshot):
            self.came.set()


def _resume(recorder: EngineRecorder, folder: Path, viewer: Sink) -> bool:
    """Continue the recording of a killed engine; return whether it worked, and report why not."""
    try:
        recorder.resume(folder)
    except NatstuiError as error:
        reason = f"the recording cannot be continued: {error}"
        viewer.add(RecordingChanged(time.time_ns() // 1000, False, str(folder), None, reason))
        return False
    return True


def _start(recorder: EngineRecorder, viewer: Sink) -> None:
    """Start a recording at the start of the engine; a failure is reported, and the engine
    continues.
    """
    try:
        recorder.prepare()
        recorder.start("")
    except NatstuiError as error:
        now_us = time.time_ns() // 1000
        viewer.add(RecordingChanged(now_us, False, None, None, str(error)))


def _complain(sentence: str) -> None:
    sys.stderr.write(f"natstui engine: {sentence}\n")


async def _execute_one(commands: Commands, command: EngineCommand | ManagingCommand) -> None:
    """Execute a command; a defect in it becomes its reply, and the engine continues."""
    with contained("the command", lambda sentence: commands.fail(command, sentence)):
        await commands.execute(command)
