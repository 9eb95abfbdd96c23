"""Executes the commands of the viewer; each gets a reply, except hints such as SetViewedRows."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, assert_never

import msgspec

from natstui.defects import report_defects
from natstui.engine.live import refuse_for_other_account
from natstui.engine.recording import EngineRecorder
from natstui.engine.server_commands import ServerCommands
from natstui.errors import ActionRefusal, ConnectionLost, NatstuiError
from natstui.feed import Sink
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.writer import MissingConfirmation
from natstui.jetstream.events.api_audit import read_api_audit
from natstui.jetstream.managing.configure import EditConflict
from natstui.jetstream.polling.control import PollControl
from natstui.model.records.benchmark import BenchmarkCommand
from natstui.model.records.managing import Change, ManagingCommand, Undo
from natstui.model.records.messages import Answered
from natstui.model.records.record import (
    Describe,
    EngineCommand,
    Noted,
    Outcome,
    PollNow,
    ReadApiAudit,
    SetInterval,
    SetPolling,
    SetPriorityConsumers,
    SetViewedRows,
    WriteNote,
)
from natstui.model.records.recording import (
    ChangeSession,
    ChangeSpeed,
    ExportSelection,
    ListSessions,
    PauseReplay,
    Play,
    SeekMark,
    SeekTo,
    StartRecording,
    Step,
    StopRecording,
)
from natstui.session.library import execute_change, summaries_json
from natstui.session.share.export_tables import execute_export
from natstui.units import duration_text

if TYPE_CHECKING:
    from natstui.engine.benchmarking import BenchmarkRunner

ReplyStatus = Literal["done", "refused", "failed"]
ReplyTextAndJson = tuple[str, str | None]
"""The reply to a command: a sentence for people, and the requested data as JSON if any."""
ViewerCommand = (
    SetViewedRows
    | SetPriorityConsumers
    | ReadApiAudit
    | ListSessions
    | ExportSelection
    | ChangeSession
)


class EngineCommands:
    """Executes the commands of one engine, and replies to them."""

    def __init__(
        self,
        poll_control: PollControl,
        sink: Sink,
        get_client: Callable[[], Client | None],
        recorder: EngineRecorder,
        viewer: Sink,
        load_benchmark_runner: Callable[[BenchmarkCommand], Awaitable[BenchmarkRunner]],
    ) -> None:
        """Create for an engine; `get_client` returns the connection, None before there is one.

        `sink` receives records, and `viewer` replies, which are not recorded.
        `load_benchmark_runner` returns the runner of benchmarks, or raises ActionRefusal.
        """
        self._recorder = recorder
        self._load_benchmark_runner = load_benchmark_runner
        self._viewer = viewer
        self._server_commands = ServerCommands(viewer, get_client, recorder.sessions_folder)
        self._poll_control = poll_control
        self._sink = sink
        self._get_client = get_client

    async def execute(self, command: EngineCommand | ManagingCommand) -> None:
        """Execute a command, reply to it, and add its Outcome to the records.

        An unexpected exception becomes the reply, and the engine continues.
        """
        with report_defects("the command", lambda text: self._reply(command, "failed", text)):
            try:
                if isinstance(command, ManagingCommand):
                    text, body = await self._server_commands.execute(command)
                    self._reply(command, "done", text, msgspec.json.encode(body).decode())
                elif (reply := await self._dispatch_command(command)) is not None:
                    self._reply(command, "done", *reply)
            except EditConflict as error:
                versions = {"seen": error.seen, "current": error.current}
                self._reply(command, "failed", str(error), json.dumps(versions))
            except MissingConfirmation as error:
                confirmation_json = msgspec.json.encode(error.confirmation).decode()
                self._reply(command, "refused", str(error), confirmation_json)
            except ActionRefusal as error:
                self._reply(command, "refused", str(error))
            except NatstuiError as error:
                self._reply(command, "failed", str(error))

    async def close(self) -> None:
        """Close the subscriptions, tasks and processes that commands started."""
        await self._server_commands.close()

    async def _execute_for_viewer(self, command: ViewerCommand) -> None:
        """Execute a command, and reply to the viewer only.

        No Outcome is recorded: screens send many such commands, and each would be an event.
        """
        if isinstance(command, SetViewedRows):
            self._poll_control.set_visible(command.streams, command.consumers)
            return
        if isinstance(command, SetPriorityConsumers):
            self._poll_control.set_preferred(frozenset(command.consumers))
            return
        text, body_json = "listed", None
        if isinstance(command, ExportSelection):
            text = await asyncio.to_thread(execute_export, command, self._recorder.current_records)
        elif isinstance(command, ChangeSession):
            text = await asyncio.to_thread(execute_change, command)
        elif isinstance(command, ReadApiAudit):
            text, body_json = "read", await self._read_audit(command)
        else:
            body_json = await asyncio.to_thread(summaries_json, self._recorder.sessions_folder)
        now_us = time.time_ns() // 1000
        self._viewer.add(Answered(now_us, command.command_id, "done", text, body_json))

    def _reply(
        self,
        command: EngineCommand | ManagingCommand,
        status: ReplyStatus,
        text: str,
        body_json: str | None = None,
    ) -> None:
        """Reply to a command, and add its Outcome to the records.

        Of a `ManagingCommand` only a change has an Outcome, without configurations. A command that
        lacks a confirmation has none: the viewer prompts for the name, and sends it again.
        """
        now_us, command_id = time.time_ns() // 1000, command.command_id
        self._viewer.add(Answered(now_us, command_id, status, text, body_json))
        if isinstance(command, ManagingCommand):
            if isinstance(command, Change | Undo) and not command.dry_run:
                self._sink.add(Outcome(now_us, command_id, status, text))
        elif status != "refused" or body_json is None:
            self._sink.add(Outcome(now_us, command_id, status, text, body_json))

    async def _dispatch_command(self, command: EngineCommand) -> ReplyTextAndJson | None:
        """Execute a command; return its reply, or None if it was sent to the viewer already."""
        if isinstance(command, BenchmarkCommand):
            return await (await self._load_benchmark_runner(command)).execute(command)
        match command:
            case (
                SetViewedRows() | SetPriorityConsumers() | ReadApiAudit() | ListSessions()
                | ExportSelection() | ChangeSession()
            ):  # fmt: skip
                await self._execute_for_viewer(command)
                return None
            case SetInterval():
                self._poll_control.set_interval(command.interval_s)
                return f"polling every {duration_text(self._poll_control.interval_s)}", None
            case SetPolling():
                self._poll_control.set_polling(command.on)
                return "polling continues" if command.on else "polling is paused", None
            case PollNow():
                self._poll_control.poll_now()
                return "polling now", None
            case Describe():
                return await self._read_configuration(command)
            case WriteNote():
                self._sink.add(Noted(time.time_ns() // 1000, command.text))
                return "noted", None
            case Play() | PauseReplay() | Step() | SeekTo() | SeekMark() | ChangeSpeed():
                raise ActionRefusal("this is a live server: only a recording can be played")
            case StartRecording() | StopRecording():
                return await self._start_or_stop_recording(command)
            case _:
                assert_never(command)

    async def _start_or_stop_recording(
        self, command: StartRecording | StopRecording
    ) -> ReplyTextAndJson:
        if isinstance(command, StartRecording):
            # In a thread: a folder of many sessions takes longer than the loop may be blocked.
            await asyncio.to_thread(self._recorder.seal_unfinished_sessions)
            recorder = self._recorder.start(command.name, command.findings)
            return f"recording into {recorder.folder}", None
        return await self._recorder.stop(), None

    async def _read_audit(self, command: ReadApiAudit) -> str:
        client = self._get_client()
        if client is None:
            raise ConnectionLost("not connected yet")
        refuse_for_other_account(client.connection, command)
        # Nothing of ours polls meanwhile: its requests would be most of those that it reads.
        with self._poll_control.pause():
            audit = await read_api_audit(client, command.for_s)
        return msgspec.json.encode(audit).decode()

    async def _read_configuration(self, command: Describe) -> ReplyTextAndJson:
        client = self._get_client()
        if client is None:
            raise ConnectionLost("not connected yet")
        refuse_for_other_account(client.connection, command)
        if command.consumer is None:
            api_subject, asset_text = f"STREAM.INFO.{command.stream}", f"stream {command.stream}"
        else:
            api_subject = f"CONSUMER.INFO.{command.stream}.{command.consumer}"
            asset_text = f"consumer {command.consumer} on {command.stream}"
        reply = await client.request(api_subject)
        return f"{asset_text}, the reply of the server", reply.decode(errors="replace")
