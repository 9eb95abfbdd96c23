"""Answers the screen that listens to subjects: one is listened to at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, assert_never

from natstui.errors import PermissionDenied, RequestFailed
from natstui.feed import Sink
from natstui.jetstream.connection.client import Client
from natstui.model.records.listening import (
    ListeningCommand,
    LookAtSubjects,
    ReadHeard,
    StartListening,
    StopListening,
)

if TYPE_CHECKING:
    from natstui.jetstream.messages.listening.listener import Listener

_LISTENER = "natstui.jetstream.messages.listening.listener"


class ListenCommands:
    """Listens, on a connection of its own."""

    def __init__(self, answers: Sink) -> None:
        """`answers` takes the pictures."""
        self._answers = answers
        self._listener: Listener | None = None
        self._task: asyncio.Task[None] | None = None

    async def answer(
        self,
        client: Client,
        command: ListeningCommand,
        on_denied: Callable[[PermissionDenied], None],
    ) -> tuple[str, object]:
        """Return a sentence and the answer; raises UsageError and the request errors."""
        match command:
            case StartListening():
                await self.close()
                # In a thread: numpy takes longer to import than the loop may be blocked.
                module = await asyncio.to_thread(import_module, _LISTENER)
                listener = module.Listener(command, self._answers.add)
                await listener.begin(client.connection, on_denied)
                # Two that were asked for at once: the newer one ends the older.
                await self.close()
                self._listener = listener
                self._task = asyncio.create_task(listener.run())
                return f"listening to {', '.join(command.subjects)}", None
            case LookAtSubjects():
                self._listening().look_at(command.look)
                return "shown as wanted", None
            case ReadHeard():
                found = self._listening().find(command.heard_id)
                return f"message {command.heard_id:,}", found
            case StopListening():
                if self._listener is not None and self._listener.number == command.listening_id:
                    await self.close()
                return "natstui has stopped listening", None
            case _:
                assert_never(command)

    async def close(self) -> None:
        """Listen no longer."""
        task, self._task, self._listener = self._task, None, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    def _listening(self) -> Listener:
        if self._listener is None:
            raise RequestFailed("natstui is not listening to a subject")
        return self._listener
