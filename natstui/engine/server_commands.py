"""Executes commands that change the server, read from it or send to it; each gets a reply."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Callable, Coroutine
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from natstui.config.template_files import save_template
from natstui.engine.file_commands import FileCommands
from natstui.engine.live import refuse_for_other_account
from natstui.errors import (
    ActionRefusal,
    ConnectionLost,
    PermissionDenied,
    RequestFailed,
)
from natstui.feed import Sink
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.journal import Journal
from natstui.jetstream.connection.writer import READ_ONLY, Writer
from natstui.jetstream.events.ack_tap import AckTap
from natstui.jetstream.managing.apply import apply, preview
from natstui.jetstream.managing.keys import (
    KeyChange,
    change_key,
    remaining_ttl,
    restored_headers,
)
from natstui.jetstream.managing.names_in_use import read_names_in_use
from natstui.jetstream.managing.objects import ObjectChange, delete_object
from natstui.jetstream.managing.undo import preview_undo, undo
from natstui.jetstream.messages.browse import browse, count_subjects, read_message
from natstui.jetstream.messages.copying.dead_letters import (
    account_text,
    find_dead_letters,
    preview_send_again,
    send_again,
)
from natstui.jetstream.messages.delivery_preview import preview_delivery
from natstui.jetstream.messages.keys import (
    read_key,
    read_named_keys,
    read_names,
    read_page,
    read_revisions,
)
from natstui.jetstream.messages.objects import (
    StoredObject,
    find_names_with_chunks,
    read_objects,
    read_store,
)
from natstui.jetstream.messages.publish import ack_text, publish, request_reply
from natstui.jetstream.messages.pull import describe_listening_loss, pull_identified, send_ack
from natstui.jetstream.messages.tail import MessageTail
from natstui.jetstream.messages.unfinished_objects import unfinished_text
from natstui.jetstream.system.clients import read_clients
from natstui.jetstream.system.connections import read_connection, read_connections
from natstui.jetstream.system.kicking import kick
from natstui.jetstream.system.meta import remove_server
from natstui.jetstream.system.requests import ServerRequests
from natstui.jetstream.system.servers import read_servers
from natstui.jetstream.system.source import SystemConnection
from natstui.model.clients.connection import busiest_connections
from natstui.model.records.copies import (
    CopyCommand,
    FindDroppedMessages,
    MaxDeliverDrop,
    PreviewResend,
    ResendMessages,
)
from natstui.model.records.journal import select_entries
from natstui.model.records.listening import (
    ListeningCommand,
    ReadListeningMessage,
    SetSubjectRowOptions,
    StartListening,
    StopListening,
)
from natstui.model.records.managing import (
    Change,
    ManagingCommand,
    ReadJournal,
    ReadNamesInUse,
    ReadServerIdentity,
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
from natstui.model.records.silences import Silenced
from natstui.model.records.stores import (
    ChangeKey,
    FileCommand,
    ObjectRow,
    ObjectsPage,
    ReadKeyNames,
    ReadKeys,
    ReadObjects,
    ReadRevisions,
    ReadTheseKeys,
    StoreCommand,
    StoreReading,
)
from natstui.model.records.system import (
    KickConnection,
    ReadClients,
    ReadConnection,
    ReadConnections,
    ReadServers,
    RemoveServer,
    StopReadingClients,
    SystemCommand,
)
from natstui.model.records.tap import StartTap, StopTap
from natstui.session.library import find_session
from natstui.session.read.max_deliver import read_dropped_messages
from natstui.session.read.recording import Recording
from natstui.units import counted, duration_text

if TYPE_CHECKING:
    from natstui.jetstream.messages.listening.listener import Listener

_LISTENER_MODULE = "natstui.jetstream.messages.listening.listener"

ReadingCommand = (
    BrowseMessages
    | ReadMessage
    | CountSubjects
    | PreviewDelivery
    | ReadJournal
    | ReadServerIdentity
    | ReadNamesInUse
)


async def execute_read(writer: Writer, command: ReadingCommand) -> tuple[str, object]:
    """Read what a command requests; return the sentence to show and the data of the reply.

    Raises the request errors.
    """
    match command:
        case BrowseMessages():
            message_page = await browse(writer.client, command)
            return (
                f"{counted(len(message_page.messages), 'message')} of {message_page.stream}",
                message_page,
            )
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
            journal_content = writer.journal.read()
            entries = select_entries(journal_content.entries, writer.server_identity)
            newest_entries = entries[::-1][: command.entries_count]
            count_text = f"{counted(len(entries), 'change')} on this server"
            texts = (count_text, journal_content.warning)
            return "; ".join(filter(None, texts)), newest_entries
        case ReadServerIdentity():
            return "the server identity", writer.server_identity
        case ReadNamesInUse():
            return "the names in use", await read_names_in_use(writer.client, command.stream)


SendingCommand = PublishMessage | RequestReply | PullNext | AnswerMessage


async def execute_send(writer: Writer, command: SendingCommand) -> tuple[str, object]:
    """Send a message or a request, or pull; return the sentence to show and the data of the reply.

    Raises ActionRefusal and the request errors.
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
            return await send_ack(writer, command), None


async def execute_copy(
    writer: Writer, command: CopyCommand, sessions_folder: Path
) -> tuple[str, object]:
    """Find the messages that a consumer dropped, preview sending messages again, or send them.

    Returns the sentence to show and the data of the reply. `sessions_folder` is the folder of all
    recordings. Raises ActionRefusal, SessionError and the request errors.
    """
    match command:
        case FindDroppedMessages():
            recorded_drops, unidentified_total = await asyncio.to_thread(
                _read_recorded_drops, command, sessions_folder
            )
            dead_letters = await find_dead_letters(writer.client, command, recorded_drops)
            text = (
                f"{counted(f'{len(dead_letters.sequences):,}', 'message')} of {command.consumer}"
            )
            text += (
                f"; {unidentified_total:,} more are only counted in recordings"
                if unidentified_total
                else ""
            )
            return text, dead_letters
        case PreviewResend():
            return "what would be sent", await preview_send_again(writer.client, command)
        case ResendMessages():
            copy_result = await send_again(writer, command)
            # What a confirmed limit removes is no failure.
            has_lost_messages = copy_result.not_kept and command.confirmed is None
            if copy_result.refused_msgs or copy_result.unknown_msgs or has_lost_messages:
                raise RequestFailed(account_text(copy_result))
            return account_text(copy_result), None
        case _:
            assert_never(command)


def _read_recorded_drops(
    command: FindDroppedMessages, sessions_folder: Path
) -> tuple[tuple[MaxDeliverDrop, ...], int]:
    drops_of_all_sessions, unidentified_total = list[MaxDeliverDrop](), 0
    for name in command.sessions:
        recording = Recording(find_session(sessions_folder, name))
        session_drops, unidentified_count = read_dropped_messages(
            recording, command.stream, command.consumer
        )
        drops_of_all_sessions, unidentified_total = (
            drops_of_all_sessions + session_drops,
            unidentified_total + unidentified_count,
        )
    return tuple(drops_of_all_sessions), unidentified_total


async def execute_store(writer: Writer, command: StoreReading | ChangeKey) -> tuple[str, object]:
    """Read a bucket or object store, or change a key or object.

    Returns the sentence to show and the data of the reply. Raises ActionRefusal and the request
    errors.
    """
    client = writer.client
    match command:
        case ReadKeys():
            page = await read_page(client, command)
            return f"{counted(len(page.rows), 'key')} of {command.bucket}", page
        case ReadKeyNames():
            names = await read_names(client, command)
            return f"{counted(len(names.names), 'key')} of {command.bucket}", names
        case ReadTheseKeys():
            page = await read_named_keys(client, command)
            return f"{counted(len(page.rows), 'key')} of {command.bucket}", page
        case ReadRevisions():
            page = await read_revisions(client, command)
            return f"{counted(len(page.rows), 'revision')} of {command.key}", page
        case ReadObjects():
            objects = await _read_objects(client, command)
            return f"{counted(len(objects.rows), 'file')} of {command.bucket}", objects
        case ChangeKey():
            return await _change_key(writer, command)
        case _:
            assert_never(command)


async def _read_objects(client: Client, command: ReadObjects) -> ObjectsPage:
    if not command.with_unfinished:
        store_content = await read_objects(client, command.bucket)
        return ObjectsPage(
            tuple(map(_object_row, store_content.objects)),
            None,
            tuple(store_content.error_by_name),
        )
    store_content = await read_store(client, command.bucket)
    now_us = store_content.server_at_us
    # Chunks of a running upload are not reported.
    stale_uploads = [
        upload for upload in store_content.unfinished if upload.may_be_running(now_us) is False
    ]
    return ObjectsPage(
        tuple(map(_object_row, store_content.objects)),
        unfinished_text(stale_uploads, now_us),
        tuple(store_content.error_by_name),
    )


async def _change_key(writer: Writer, command: ChangeKey) -> tuple[str, object]:
    if command.action == "delete_object":
        deletion = ObjectChange(command.bucket, command.key, confirmed=command.confirmed)
        delete_result = await delete_object(writer, deletion, find_names_with_chunks)
        return delete_result.sentence, delete_result
    value, action, ttl = base64.b64decode(command.value_base64), command.action, None
    headers: tuple[tuple[str, str], ...] = ()
    if command.of_revision_seq is not None:
        revision = await read_key(
            writer.client, command.bucket, command.key, command.of_revision_seq
        )
        value = revision.value
        action = "put_key" if revision.operation == "PUT" else "delete_key"
        if action == "put_key":
            ttl = remaining_ttl(revision.ttl, revision.created_at_us, time.time_ns() // 1000)
            headers = restored_headers(revision.headers)
    change = KeyChange(
        action,
        command.bucket,
        command.key,
        value,
        command.if_revision_seq,
        command.if_stored_at_us,
        ttl,
        command.confirmed,
        command.created_at_us,
        headers,
    )
    change_result = await change_key(writer, change)
    return change_result.sentence, change_result


def _object_row(stored_object: StoredObject) -> ObjectRow:
    object_link_text = (
        f"{stored_object.link_bucket}/{stored_object.link_name}".rstrip("/")
        if stored_object.link_bucket
        else ""
    )
    return ObjectRow(
        stored_object.name,
        stored_object.size_bytes,
        stored_object.chunks_count,
        stored_object.digest,
        stored_object.stored_at_us,
        stored_object.description,
        object_link_text,
    )


async def _yield_to_new_tasks() -> None:
    """Yield to the event loop once, so that a new task starts.

    A task that is cancelled before its start does not run its cleanup.
    """
    await asyncio.sleep(0)


class _BackgroundReader:
    """Runs at most one reader task in the background, until the task ends or is stopped.

    A reader subscribes between `prepare` and `start`, which takes a while.
    """

    def __init__(self, viewer: Sink, kind: str) -> None:
        """Create without a task; `kind` names what the tasks read, as `tail`."""
        self._viewer, self._kind = viewer, kind
        self.command_id: int | None = None
        """The newest command that starts a reader; None after a stop."""
        self._task: asyncio.Task[None] | None = None

    async def prepare(self, command_id: int) -> None:
        """Stop the running reader task, and note that `command_id` starts the next one.

        The command that started the task gets the reply that another one has replaced it.
        """
        replaced_id, self.command_id = self.command_id, command_id
        if replaced_id is not None and not (self._task is not None and self._task.done()):
            text = f"another {self._kind} ended this one"
            now_us = time.time_ns() // 1000
            self._viewer.add(Answered(now_us, replaced_id, "replaced", text))
        await self._stop_task()

    async def start(
        self, command_id: int, coroutine: Coroutine[None, None, None], stopped_text: str
    ) -> None:
        """Run `coroutine` as the reader task of a command.

        If `stop` was called, or another command starts a reader, since `prepare`, the task is
        stopped at once, which ends its subscriptions. Raises ActionRefusal(`stopped_text`) then.
        """
        task = asyncio.create_task(coroutine)
        await _yield_to_new_tasks()
        if self.command_id != command_id:
            task.cancel()
            await asyncio.wait({task})
            raise ActionRefusal(stopped_text)
        self._task = task

    async def stop(self) -> None:
        """Stop the running reader task, if any, and the one that is being started."""
        self.command_id = None
        await self._stop_task()

    async def _stop_task(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})


async def _check_push_consumers(client: Client, subjects: tuple[str, ...]) -> str | None:
    """Return a note if it is unknown whether push consumers would lose messages; else None.

    Raises ActionRefusal in read-only mode if they would lose messages. Without read-only mode,
    nothing is checked: the screen has prompted before.
    """
    if not client.connection.read_only:
        return None
    try:
        loss_text = await describe_listening_loss(client, subjects, "")
    except RequestFailed as error:
        return f"unknown whether push consumers lose messages: {error}"
    if loss_text is not None:
        raise ActionRefusal(f"{READ_ONLY}: {loss_text}")
    return None


class SystemCommands:
    """Reads servers and connections, and changes them, with requests to all servers and to the
    system account.
    """

    def __init__(self) -> None:
        self._client: Client | None = None
        self._system: SystemConnection | None = None
        self._server_requests: ServerRequests | None = None
        self._stop_event = asyncio.Event()

    async def _get_server_access(self, client: Client) -> tuple[ServerRequests, SystemConnection]:
        """Return the request sender of a client, and its connection to the system account.

        They are created once, and again for another client; the previous connection is closed.
        """
        server_requests, system = self._server_requests, self._system
        if server_requests is not None and system is not None and self._client is client:
            return server_requests, system
        self._client, previous_system = client, system
        # It remembers which servers replied, and waits only for these the next time.
        server_requests = self._server_requests = ServerRequests(client)
        system = self._system = SystemConnection(client.connection, client)
        if previous_system is not None:
            await previous_system.close()
        return server_requests, system

    async def execute(self, client: Client, command: SystemCommand) -> tuple[str, object]:
        """Execute a command about servers or connections.

        Returns the sentence to show and the data of the reply. Raises the request errors.
        """
        server_requests, system = await self._get_server_access(client)
        match command:
            case ReadConnections():
                connections = await read_connections(
                    client, ServerRequests(client), closed=command.closed
                )
                return "connections of the account", busiest_connections(
                    connections, command.rows_count
                )
            case ReadConnection():
                connection_key = command.server_id, command.connection_id
                return "the connection", await read_connection(
                    client, ServerRequests(client), *connection_key
                )
            case ReadClients():
                # One at a time: each of them is read by the server once more.
                self._stop_event.set()
                self._stop_event = stop = asyncio.Event()
                return "the clients", await read_clients(client, command, stop)
            case StopReadingClients():
                self._stop_event.set()
                return "natstui has stopped reading", None
            case ReadServers():
                return "the servers", await read_servers(server_requests, system)
            case KickConnection():
                return await kick(await self._writer(system, command), client, command), None
            case RemoveServer():
                writer = await self._writer(system, command)
                return await remove_server(writer, system, command), None
            case _:
                assert_never(command)

    async def _writer(
        self, system: SystemConnection, command: KickConnection | RemoveServer
    ) -> Writer:
        return Writer(await system.client(), Journal(), decided_on=command.decided_on)

    async def close(self) -> None:
        """Close the connections to the servers and the system account."""
        if self._system is not None:
            await self._system.close()


class ListenCommands:
    """Subscribes to the subjects of the listening screen, on a separate connection."""

    def __init__(self, viewer: Sink) -> None:
        """Create without a subscription; `viewer` receives what the screen shows."""
        self._viewer = viewer
        self._listener: Listener | None = None
        self._reader = _BackgroundReader(viewer, "subscription")

    async def execute(
        self,
        client: Client,
        command: ListeningCommand,
        on_denied: Callable[[PermissionDenied], None],
    ) -> tuple[str, object]:
        """Execute a listening command; return the sentence to show and the data of the reply.

        `on_denied` is called if the server denies a subscription later. Raises UsageError,
        ActionRefusal if a subscription is ended while it connects, and the request errors.
        """
        match command:
            case StartListening():
                self._listener = None
                await self._reader.prepare(command.command_id)
                loss_note = await _check_push_consumers(client, command.subjects)
                # In a thread: numpy takes longer to import than the loop may be blocked.
                module = await asyncio.to_thread(import_module, _LISTENER_MODULE)
                listener = module.Listener(command, self._viewer.add)
                await listener.begin(client.connection, on_denied)
                stopped_text = "natstui stopped listening while it connected"
                await self._reader.start(command.command_id, listener.run(), stopped_text)
                self._listener = listener
                return f"listening to {', '.join(command.subjects)}", loss_note
            case SetSubjectRowOptions():
                self._running_listener().set_row_options(command.look)
                return "the rows are changed", None
            case ReadListeningMessage():
                message = self._running_listener().find(command.heard_id)
                return f"message {command.heard_id:,}", message
            case StopListening():
                if self._reader.command_id == command.listening_id:
                    await self.close()
                return "natstui has stopped listening", None
            case _:
                assert_never(command)

    async def close(self) -> None:
        """Close the subscriptions and their connection."""
        self._listener = None
        await self._reader.stop()

    def _running_listener(self) -> Listener:
        if self._listener is None:
            raise RequestFailed("natstui is not listening to a subject")
        return self._listener


class ServerCommands:
    """Executes the commands that change the server, read from it or send to it."""

    def __init__(
        self,
        viewer: Sink,
        get_client: Callable[[], Client | None],
        sessions_folder: Path,
    ) -> None:
        """Create without a task; `viewer` receives what readers find, and silences.

        `get_client` returns the connection, None before there is one, and `sessions_folder` is the
        folder of all recordings.
        """
        self._sessions_folder = sessions_folder
        self._viewer = viewer
        self._get_client = get_client
        self._tail_reader = _BackgroundReader(viewer, "tail")
        self._ack_tap_reader = _BackgroundReader(viewer, "tap")
        self._system_commands, self._file_commands = SystemCommands(), FileCommands(viewer)
        self._listen_commands = ListenCommands(viewer)

    async def close(self) -> None:
        """Stop the reader tasks and transfers that commands started."""
        await asyncio.gather(self._system_commands.close(), self._listen_commands.close())

    def _store_silence(self, writer: Writer, command: SilenceFinding) -> str:
        """Write a silence to the journal, send all silences to the viewer; return a sentence."""
        writer.silence(command)
        self._viewer.add(Silenced(time.time_ns() // 1000, writer.silences))
        if command.for_s is None:
            return f"{command.code} is reported again"
        return f"{command.code} is silenced for {duration_text(command.for_s)}"

    async def execute(self, command: ManagingCommand) -> tuple[str, object]:
        """Execute a command; return the sentence to show and the data of the reply.

        Raises NatstuiError if the command is refused or fails.
        """
        client = self._get_client()
        if client is None:
            raise ConnectionLost("not connected yet")
        refuse_for_other_account(client.connection, command)
        writer = Writer(client, Journal(), decided_on=getattr(command, "decided_on", None))
        if isinstance(command, SystemCommand | StoreCommand | CopyCommand | ListeningCommand):
            return await self._execute_other_command(writer, command)
        match command:
            case SilenceFinding():
                return self._store_silence(writer, command), None
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
                return await execute_send(writer, command)
            case SaveTemplate():
                file = save_template(command.name, json.loads(command.config_json))
                return f"kept as {file}", None
            case StartTail() | StartTap():
                return await self._start_reader(client, command)
            case StopTail() | StopTap():
                return await self._stop_reader(command)
            case _:
                return await execute_read(writer, command)

    async def _execute_other_command(
        self,
        writer: Writer,
        command: SystemCommand | StoreCommand | CopyCommand | ListeningCommand,
    ) -> tuple[str, object]:
        if isinstance(command, ListeningCommand):
            on_denied = self._denial_callback(command)
            return await self._listen_commands.execute(writer.client, command, on_denied)
        if isinstance(command, FileCommand):
            return await self._file_commands.execute(writer, command)
        if isinstance(command, StoreCommand):
            return await execute_store(writer, command)
        if isinstance(command, CopyCommand):
            return await execute_copy(writer, command, self._sessions_folder)
        return await self._system_commands.execute(writer.client, command)

    async def _stop_reader(self, command: StopTail | StopTap) -> tuple[str, object]:
        if isinstance(command, StopTail):
            if self._tail_reader.command_id == command.tail_id:
                await self._tail_reader.stop()
            return "natstui has stopped following", None
        if self._ack_tap_reader.command_id == command.tap_id:
            await self._ack_tap_reader.stop()
        return "natstui has stopped reading acks", None

    async def _start_reader(
        self, client: Client, command: StartTail | StartTap
    ) -> tuple[str, object]:
        if isinstance(command, StartTail):
            return await self._start_tail(client, command)
        return await self._start_tap(client, command)

    async def _start_tail(self, client: Client, command: StartTail) -> tuple[str, object]:
        await self._tail_reader.prepare(command.command_id)
        tail = MessageTail(command, self._viewer.add)
        await tail.begin(client, self._denial_callback(command))
        stopped_text = "natstui stopped following while it subscribed"
        await self._tail_reader.start(command.command_id, tail.run(), stopped_text)
        return f"following {', '.join(command.subjects)}", None

    def _denial_callback(self, command: ManagingCommand) -> Callable[[PermissionDenied], None]:
        """Return a callback for a later denial of a command's subscription: it replies with the
        error.
        """

        def reply_denied(error: PermissionDenied) -> None:
            now_us = time.time_ns() // 1000
            self._viewer.add(Answered(now_us, command.command_id, "failed", str(error)))

        return reply_denied

    async def _start_tap(self, client: Client, command: StartTap) -> tuple[str, object]:
        await self._ack_tap_reader.prepare(command.command_id)
        ack_tap = AckTap(command, self._viewer.add)
        await ack_tap.begin(client)
        stopped_text = "natstui stopped reading acks while it subscribed"
        await self._ack_tap_reader.start(command.command_id, ack_tap.run(), stopped_text)
        name = f"{command.stream} > {command.consumer}"
        return f"reading the acks of {name} for {duration_text(command.for_s)}", None
