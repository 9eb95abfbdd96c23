"""Executes commands that change the server, read from it or send to it; each gets a reply."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, assert_never

import msgspec

from natstui.config.template_files import save_template
from natstui.engine.file_commands import FileCommands
from natstui.engine.live import refuse_for_other_account
from natstui.engine.store_commands import answer_store
from natstui.engine.system_commands import SystemCommands
from natstui.errors import NatstuiError, PermissionDenied, Refused, RequestFailed, ServerGone
from natstui.feed import Sink
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.journal import Journal
from natstui.jetstream.connection.writer import READ_ONLY, NotConfirmed, Writer
from natstui.jetstream.events.ack_tap import AckTap
from natstui.jetstream.managing.apply import apply, preview
from natstui.jetstream.managing.configure import EditConflict
from natstui.jetstream.managing.names_in_use import read_names_in_use
from natstui.jetstream.managing.undo import preview_undo, undo
from natstui.jetstream.messages.browse import browse, count_subjects, read_message
from natstui.jetstream.messages.copying.dead_letters import (
    account_text,
    count_again,
    find_given_up,
    send_again,
)
from natstui.jetstream.messages.delivery_preview import preview_delivery
from natstui.jetstream.messages.publish import ack_text, publish, request_reply
from natstui.jetstream.messages.pull import answer, listening_loss, pull_identified
from natstui.jetstream.messages.tail import Tail
from natstui.model.records.copies import CopyCommand, CountAgain, Drop, FindGivenUp, SendAgain
from natstui.model.records.journal import done_here
from natstui.model.records.listening import (
    ListeningCommand,
    LookAtSubjects,
    ReadHeard,
    StartListening,
    StopListening,
)
from natstui.model.records.managing import (
    Change,
    ManagingCommand,
    ReadJournal,
    ReadNamesInUse,
    ReadPlace,
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
from natstui.session.library import find
from natstui.session.read.given_up import recorded_give_ups
from natstui.session.read.recording import Recording
from natstui.units import counted, duration_text

if TYPE_CHECKING:
    from natstui.jetstream.messages.listening.listener import Listener

_LISTENER = "natstui.jetstream.messages.listening.listener"

ReadingCommand = (
    BrowseMessages
    | ReadMessage
    | CountSubjects
    | PreviewDelivery
    | ReadJournal
    | ReadPlace
    | ReadNamesInUse
)


async def answer_read(writer: Writer, command: ReadingCommand) -> tuple[str, object]:
    """Return a sentence and the reply data; raises the request errors."""
    match command:
        case BrowseMessages():
            page = await browse(writer.client, command)
            return f"{counted(len(page.messages), 'message')} of {page.stream}", page
        case ReadMessage():
            message = await read_message(writer.client, command)
            return f"message {command.stream_seq} of {command.stream}", message
        case CountSubjects():
            counts = await count_subjects(writer.client, command.stream, command.filter_subject)
            return f"{counted(len(counts), 'subject')} of {command.stream}", counts
        case PreviewDelivery():
            return "the messages that it would deliver", await preview_delivery(
                writer.client, command
            )
        case ReadJournal():
            content = writer.journal.read()
            entries = done_here(content.entries, writer.place)
            newest = entries[::-1][: command.entries_count]
            parts = (f"{counted(len(entries), 'change')} on this server", content.warning)
            return "; ".join(filter(None, parts)), newest
        case ReadPlace():
            return "where changes are made", writer.place
        case ReadNamesInUse():
            return "what a form needs", await read_names_in_use(writer.client, command.stream)


SendingCommand = PublishMessage | RequestReply | PullNext | AnswerMessage


async def answer_send(writer: Writer, command: SendingCommand) -> tuple[str, object]:
    """Send a message or request; return a sentence and the result. Raises Refused, request
    errors.
    """
    match command:
        case PublishMessage():
            ack = await publish(writer, command)
            return await ack_text(writer.client, command.subject, ack), ack
        case RequestReply():
            return "the first reply", await request_reply(writer, command)
        case PullNext():
            return "one message, to be acknowledged", await pull_identified(writer, command)
        case AnswerMessage():
            return await answer(writer, command), None


async def answer_copy(writer: Writer, command: CopyCommand, sessions: Path) -> tuple[str, object]:
    """Return a sentence and the reply data; raises Refused, SessionError and the request errors.

    `sessions` is the folder of all recordings.
    """
    match command:
        case FindGivenUp():
            recorded, left_out = await asyncio.to_thread(_recorded, command, sessions)
            dead_letters = await find_given_up(writer.client, command, recorded)
            text = (
                f"{counted(f'{len(dead_letters.sequences):,}', 'message')} of {command.consumer}"
            )
            text += f"; {left_out:,} more are only counted in recordings" if left_out else ""
            return text, dead_letters
        case CountAgain():
            return "what would be sent", await count_again(writer.client, command)
        case SendAgain():
            account = await send_again(writer, command)
            # What a confirmed limit removes is no failure.
            is_lost = account.not_kept and command.confirmed is None
            if account.refused_msgs or account.unknown_msgs or is_lost:
                raise RequestFailed(account_text(account))
            return account_text(account), None
        case _:
            assert_never(command)


def _recorded(command: FindGivenUp, sessions: Path) -> tuple[tuple[Drop, ...], int]:
    dropped, left_out = list[Drop](), 0
    for name in command.sessions:
        recording = Recording(find(sessions, name))
        recorded, uncounted = recorded_give_ups(recording, command.stream, command.consumer)
        dropped, left_out = dropped + recorded, left_out + uncounted
    return tuple(dropped), left_out


Status = Literal["done", "refused", "failed"]


async def _first_step() -> None:
    """Let a new task begin: cancelled before, it would not close what it was given."""
    await asyncio.sleep(0)


class _Reading:
    """A background reader of messages that runs until it ends or is stopped: one at a time."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    async def start(self, work: Coroutine[None, None, None]) -> None:
        """Start a reader task; call `stop` before."""
        self._task = asyncio.create_task(work)
        await _first_step()

    async def stop(self) -> None:
        """Stop the running reader task, if any."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})


async def _check_listening(client: Client, subjects: tuple[str, ...]) -> str | None:
    """Return a note where it is not known what listening takes from push consumers.

    Raises Refused in read-only mode if it takes their messages for good; elsewhere the screen
    asks before.
    """
    if not client.connection.read_only:
        return None
    try:
        loses = await listening_loss(client, subjects, "")
    except RequestFailed as error:
        return f"not known whether this takes messages of push consumers: {error}"
    if loses is not None:
        raise Refused(f"{READ_ONLY}: {loses}")
    return None


class ListenCommands:
    """Subscribes to the subjects of the listening screen, on a connection of its own."""

    def __init__(self, viewer: Sink) -> None:
        """Create without a subscription; `viewer` receives what the screen shows."""
        self._answers = viewer
        self._listener: Listener | None = None
        self._task: asyncio.Task[None] | None = None

    async def answer(
        self,
        client: Client,
        command: ListeningCommand,
        on_denied: Callable[[PermissionDenied], None],
    ) -> tuple[str, object]:
        """Return a sentence and the reply data; raises UsageError and the request errors."""
        match command:
            case StartListening():
                await self.close()
                note = await _check_listening(client, command.subjects)
                # In a thread: numpy takes longer to import than the loop may be blocked.
                module = await asyncio.to_thread(import_module, _LISTENER)
                listener = module.Listener(command, self._answers.add)
                await listener.begin(client.connection, on_denied)
                # Two that were asked for at once: the newer one ends the older.
                await self.close()
                self._listener = listener
                self._task = asyncio.create_task(listener.run())
                await _first_step()
                return f"listening to {', '.join(command.subjects)}", note
            case LookAtSubjects():
                self._listening().look_at(command.look)
                return "shown as wanted", None
            case ReadHeard():
                message = self._listening().find(command.heard_id)
                return f"message {command.heard_id:,}", message
            case StopListening():
                if self._listener is not None and self._listener.number == command.listening_id:
                    await self.close()
                return "natstui has stopped listening", None
            case _:
                assert_never(command)

    async def close(self) -> None:
        """Close the subscriptions and their connection."""
        task, self._task, self._listener = self._task, None, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    def _listening(self) -> Listener:
        if self._listener is None:
            raise RequestFailed("natstui is not listening to a subject")
        return self._listener


class ServerCommands:
    """Answers the requests of forms, the journal and the message browser."""

    def __init__(
        self, events: Sink, viewer: Sink, client: Callable[[], Client | None], sessions: Path
    ) -> None:
        """Create without a task; `events` receives changes, `viewer` the replies, which are not
        recorded.

        `sessions` is the folder of all recordings.
        """
        self._sessions = sessions
        self._events = events
        self._answers = viewer
        self._client = client
        self._tail, self._tap = _Reading(), _Reading()
        self._system, self._files = SystemCommands(), FileCommands(viewer)
        self._listening = ListenCommands(viewer)

    async def close(self) -> None:
        """Stop the reader tasks and transfers that commands started."""
        await asyncio.gather(self._system.close(), self._listening.close())

    async def execute(self, command: ManagingCommand) -> None:
        """Execute a command, and reply to it."""
        try:
            text, body = await self._do(command)
            self._answer(command, "done", text, msgspec.json.encode(body).decode())
        except EditConflict as error:
            versions = {"seen": error.seen, "current": error.current}
            self._answer(command, "failed", str(error), json.dumps(versions))
        except NotConfirmed as error:
            confirmation_json = msgspec.json.encode(error.confirmation).decode()
            self._answer(command, "refused", str(error), confirmation_json)
        except Refused as error:
            self._answer(command, "refused", str(error), None)
        except NatstuiError as error:
            self._answer(command, "failed", str(error), None)

    def fail(self, command: ManagingCommand, text: str) -> None:
        """Reply with an error to a command that could not be executed."""
        self._answer(command, "failed", text, None)

    def _answer(
        self, command: ManagingCommand, status: Status, text: str, body_json: str | None
    ) -> None:
        now_us = time.time_ns() // 1000
        self._answers.add(Answered(now_us, command.command_id, status, text, body_json))
        if isinstance(command, Change | Undo) and not command.dry_run:
            self._events.add(Outcome(now_us, command.command_id, status, text))

    def _silence(self, writer: Writer, command: SilenceFinding) -> str:
        """Store a silence, and update the viewer at once; other viewers read it in the journal."""
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
        writer = Writer(client, Journal(), decided_on=getattr(command, "decided_on", None))
        if isinstance(command, SystemCommand | StoreCommand | CopyCommand | ListeningCommand):
            return await self._answer_other(writer, command)
        match command:
            case SilenceFinding():
                return self._silence(writer, command), None
            case Change(dry_run=True):
                preview_result = await preview(writer, command)
                return preview_result.question, preview_result
            case Undo(dry_run=True):
                preview_result = await preview_undo(writer, command.entry, command.command_id)
                return preview_result.question, preview_result
            case Change():
                change_result = await apply(writer, command)
                return change_result.sentence, change_result
            case Undo():
                change_result = await undo(writer, command)
                return change_result.sentence, change_result
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
            on_denied = self._denial_of(command)
            return await self._listening.answer(writer.client, command, on_denied)
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
        await self._tail.start(following.run())
        return f"following {', '.join(command.subjects)}", None

    def _denial_of(self, command: ManagingCommand) -> Callable[[PermissionDenied], None]:
        """Return a callback that replies when the server denies the subscription of a command
        later.
        """
        return lambda error: self._answer(command, "failed", str(error), None)

    async def _start_tap(self, client: Client, command: StartTap) -> tuple[str, object]:
        await self._tap.stop()
        reading = AckTap(command, self._answers.add)
        await reading.begin(client)
        await self._tap.start(reading.run())
        name = f"{command.stream} > {command.consumer}"
        return f"reading the acks of {name} for {duration_text(command.for_s)}", None
