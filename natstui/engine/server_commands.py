"""Executes commands that change the server, read from it or send to it; each is answered."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Literal

import msgspec

from natstui.config.template_files import save_template
from natstui.engine.copy_commands import answer_copy
from natstui.engine.file_commands import FileCommands
from natstui.engine.listen_commands import ListenCommands
from natstui.engine.live import refuse_for_other_account
from natstui.engine.store_commands import answer_store
from natstui.engine.system_commands import SystemCommands
from natstui.errors import NatstuiError, PermissionDenied, Refused, ServerGone
from natstui.feed import Sink
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.journal import Journal
from natstui.jetstream.connection.writer import NotConfirmed, Writer
from natstui.jetstream.events.ack_tap import AckTap
from natstui.jetstream.managing.apply import apply, preview
from natstui.jetstream.managing.configure import EditConflict
from natstui.jetstream.managing.names_in_use import read_names_in_use
from natstui.jetstream.managing.undo import preview_undo, undo
from natstui.jetstream.messages.browse import browse, count_subjects, read_message
from natstui.jetstream.messages.delivery_preview import preview_delivery
from natstui.jetstream.messages.publish import ack_text, publish, request_reply
from natstui.jetstream.messages.pull import answer, pull_next
from natstui.jetstream.messages.tail import Tail
from natstui.model.records.copies import CopyCommand
from natstui.model.records.journal import done_here
from natstui.model.records.listening import ListeningCommand
from natstui.model.records.managing import (
    Change,
    ManagingCommand,
    ReadJournal,
    ReadNamesInUse,
    SaveTemplate,
    SilenceFinding,
    Undo,
)
from natstui.model.records.messages import (
    Answered,
    AnswerMessage,
    BrowseMessages,
    CountSubjects,
    PreviewDelivery,
    PublishMessage,
    PullNext,
    ReadMessage,
    RequestReply,
    StartTail,
    StopTail,
)
from natstui.model.records.record import Outcome
from natstui.model.records.silences import Silenced
from natstui.model.records.stores import FileCommand, StoreCommand
from natstui.model.records.system import SystemCommand
from natstui.model.records.tap import StartTap, StopTap
from natstui.units import counted, duration_text

ReadingCommand = (
    BrowseMessages | ReadMessage | CountSubjects | PreviewDelivery | ReadJournal | ReadNamesInUse
)


async def answer_read(writer: Writer, command: ReadingCommand) -> tuple[str, object]:
    """Return a sentence and the answer; raises the request errors."""
    match command:
        case BrowseMessages():
            page = await browse(writer.client, command)
            return f"{counted(len(page.messages), 'message')} of {page.stream}", page
        case ReadMessage():
            message = await read_message(writer.client, command)
            return f"message {command.stream_seq} of {command.stream}", message
        case CountSubjects():
            found = await count_subjects(writer.client, command.stream, command.filter_subject)
            return f"{counted(len(found), 'subject')} of {command.stream}", found
        case PreviewDelivery():
            return "the messages that it would deliver", await preview_delivery(
                writer.client, command
            )
        case ReadJournal():
            entries = done_here(writer.journal.entries(), writer.place)
            newest = entries[::-1][: command.entries_count]
            return f"{counted(len(entries), 'change')} on this server", newest
        case ReadNamesInUse():
            return "what a form needs", await read_names_in_use(writer.client, command.stream)


SendingCommand = PublishMessage | RequestReply | PullNext | AnswerMessage


async def answer_send(writer: Writer, command: SendingCommand) -> tuple[str, object]:
    """Return a sentence and what came back; raises Refused and the request errors."""
    match command:
        case PublishMessage():
            ack = await publish(writer, command)
            return await ack_text(writer.client, command.subject, ack), ack
        case RequestReply():
            return "the first reply", await request_reply(writer, command)
        case PullNext():
            return "one message, to be acknowledged", await pull_next(writer, command)
        case AnswerMessage():
            return await answer(writer, command), None


Status = Literal["done", "refused", "failed"]


class _Reading:
    """What is read until it ends or is stopped: one at a time."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def start(self, work: Coroutine[None, None, None]) -> None:
        """Begin; call `stop` before."""
        self._task = asyncio.create_task(work)

    async def stop(self) -> None:
        """End what runs, if anything does."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})


class ServerCommands:
    """Answers what the forms, the journal and the message browser ask."""

    def __init__(
        self, events: Sink, answers: Sink, client: Callable[[], Client | None], sessions: Path
    ) -> None:
        """`events` takes what was changed; `answers` goes to the viewer and is not recorded.

        `sessions` is the folder of all recordings.
        """
        self._sessions = sessions
        self._events = events
        self._answers = answers
        self._client = client
        self._tail, self._tap = _Reading(), _Reading()
        self._system, self._files = SystemCommands(), FileCommands(answers)
        self._listening = ListenCommands(answers)

    async def close(self) -> None:
        """End what was opened beside the connection."""
        await asyncio.gather(self._system.close(), self._listening.close())

    async def execute(self, command: ManagingCommand) -> None:
        """Execute a command, and answer it."""
        try:
            text, body = await self._do(command)
            self._answer(command, "done", text, msgspec.json.encode(body).decode())
        except EditConflict as error:
            versions = {"seen": error.seen, "current": error.current}
            self._answer(command, "failed", str(error), json.dumps(versions))
        except NotConfirmed as error:
            shown = msgspec.json.encode(error.confirmation).decode()
            self._answer(command, "refused", str(error), shown)
        except Refused as error:
            self._answer(command, "refused", str(error), None)
        except NatstuiError as error:
            self._answer(command, "failed", str(error), None)

    def fail(self, command: ManagingCommand, text: str) -> None:
        """Answer a command that could not be executed."""
        self._answer(command, "failed", text, None)

    def _answer(
        self, command: ManagingCommand, status: Status, text: str, body_json: str | None
    ) -> None:
        now_us = time.time_ns() // 1000
        self._answers.add(Answered(now_us, command.command_id, status, text, body_json))
        if isinstance(command, Change | Undo) and not command.dry_run:
            self._events.add(Outcome(now_us, command.command_id, status, text))

    def _silence(self, writer: Writer, command: SilenceFinding) -> str:
        """Keep a silence, and tell the viewer at once; others see it in the journal."""
        writer.silence(command)
        self._answers.add(Silenced(time.time_ns() // 1000, writer.silences))
        if command.for_s is None:
            return f"{command.code} is reported again"
        return f"{command.code} is silenced for {duration_text(command.for_s)}"

    async def _do(self, command: ManagingCommand) -> tuple[str, object]:
        client = self._client()
        if client is None:
            raise ServerGone("not connected yet")
        refuse_for_other_account(client.connection, command)
        writer = Writer(client, Journal())
        if isinstance(command, SystemCommand | StoreCommand | CopyCommand | ListeningCommand):
            return await self._answer_other(writer, command)
        match command:
            case SilenceFinding():
                return self._silence(writer, command), None
            case Change(dry_run=True):
                shown = await preview(writer, command)
                return shown.question, shown
            case Undo(dry_run=True):
                shown = await preview_undo(writer, command.entry, command.command_id)
                return shown.question, shown
            case Change():
                changed = await apply(writer, command)
                return changed.sentence, changed
            case Undo():
                changed = await undo(writer, command)
                return changed.sentence, changed
            case PublishMessage() | RequestReply() | PullNext() | AnswerMessage():
                return await answer_send(writer, command)
            case SaveTemplate():
                file = save_template(command.name, json.loads(command.config_json))
                return f"kept as {file}", None
            case StartTail() | StartTap():
                return await self._start(client, command)
            case StopTail() | StopTap():
                return await self._stop(command)
            case _:
                return await answer_read(writer, command)

    async def _answer_other(
        self,
        writer: Writer,
        command: SystemCommand | StoreCommand | CopyCommand | ListeningCommand,
    ) -> tuple[str, object]:
        if isinstance(command, ListeningCommand):
            denied = self._denial_of(command)
            return await self._listening.answer(writer.client, command, denied)
        if isinstance(command, FileCommand):
            return await self._files.answer(writer, command)
        if isinstance(command, StoreCommand):
            return await answer_store(writer, command)
        if isinstance(command, CopyCommand):
            return await answer_copy(writer, command, self._sessions)
        return await self._system.answer(writer.client, command)

    async def _stop(self, command: StopTail | StopTap) -> tuple[str, object]:
        if isinstance(command, StopTail):
            await self._tail.stop()
            return "natstui has stopped following", None
        await self._tap.stop()
        return "natstui has stopped reading acks", None

    async def _start(self, client: Client, command: StartTail | StartTap) -> tuple[str, object]:
        if isinstance(command, StartTail):
            return await self._start_tail(client, command)
        return await self._start_tap(client, command)

    async def _start_tail(self, client: Client, command: StartTail) -> tuple[str, object]:
        await self._tail.stop()
        following = Tail(command, self._answers.add)
        await following.begin(client, self._denial_of(command))
        self._tail.start(following.run())
        return f"following {', '.join(command.subjects)}", None

    def _denial_of(self, command: ManagingCommand) -> Callable[[PermissionDenied], None]:
        """Return what answers a command whose subscription is refused afterwards."""
        return lambda denied: self._answer(command, "failed", str(denied), None)

    async def _start_tap(self, client: Client, command: StartTap) -> tuple[str, object]:
        await self._tap.stop()
        reading = AckTap(command, self._answers.add)
        await reading.begin(client)
        self._tap.start(reading.run())
        name = f"{command.stream} > {command.consumer}"
        return f"reading the acks of {name} for {duration_text(command.for_s)}", None
