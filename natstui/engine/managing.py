"""Obeys the commands that change a server or look inside: each gets its Answered."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Literal

import msgspec

from natstui.engine.managing_read import read_things
from natstui.engine.managing_send import send_things
from natstui.errors import NatstuiError, Refused, ServerGone
from natstui.feed import Sink
from natstui.jetstream.admin import EditConflict
from natstui.jetstream.admin_apply import apply, undo
from natstui.jetstream.client import Client
from natstui.jetstream.journal import Journal
from natstui.jetstream.tailing import Tail
from natstui.jetstream.template_files import save_template
from natstui.jetstream.writer import Writer
from natstui.model.manage import Change, SaveTemplate, Undo
from natstui.model.managing import ManagingCommand
from natstui.model.record import Outcome
from natstui.model.send import AnswerMessage, PublishMessage, PullNext, RequestReply
from natstui.model.tail import Answered, StartTail, StopTail

Status = Literal["done", "refused", "failed"]


class Managing:
    """Answers what the forms, the journal and the message browser ask."""

    def __init__(self, events: Sink, answers: Sink, client: Callable[[], Client | None]) -> None:
        """`events` takes what was changed; `answers` goes to the viewer and is not recorded."""
        self._events = events
        self._answers = answers
        self._client = client
        self._tail: asyncio.Task[None] | None = None

    async def obey(self, command: ManagingCommand) -> None:
        """Do what a command says, and answer it."""
        try:
            text, body = await self._do(command)
            self._tell(command, "done", text, msgspec.json.encode(body).decode())
        except EditConflict as error:
            versions = {"seen": error.seen, "current": error.current}
            self._tell(command, "failed", str(error), json.dumps(versions))
        except Refused as error:
            self._tell(command, "refused", str(error), None)
        except NatstuiError as error:
            self._tell(command, "failed", str(error), None)

    def _tell(
        self, command: ManagingCommand, status: Status, text: str, body_json: str | None
    ) -> None:
        now_us = time.time_ns() // 1000
        self._answers.add(Answered(now_us, command.command_id, status, text, body_json))
        if isinstance(command, Change | Undo):
            self._events.add(Outcome(now_us, command.command_id, status, text))

    async def _do(self, command: ManagingCommand) -> tuple[str, object]:
        client = self._client()
        if client is None:
            raise ServerGone("not connected yet")
        writer = Writer(client, Journal())
        match command:
            case Change():
                changed = await apply(writer, command)
                return changed.text, changed
            case Undo():
                changed = await undo(writer, command)
                return changed.text, changed
            case PublishMessage() | RequestReply() | PullNext() | AnswerMessage():
                return await send_things(writer, command)
            case SaveTemplate():
                file = save_template(command.name, json.loads(command.config_json))
                return f"kept as {file}", None
            case StartTail():
                return await self._start_tail(client, command)
            case StopTail():
                await self._stop_tail()
                return "the tail has ended", None
            case _:
                return await read_things(writer, command)

    async def _start_tail(self, client: Client, command: StartTail) -> tuple[str, object]:
        await self._stop_tail()
        following = Tail(command, self._answers.add)
        await following.begin(
            client, lambda denied: self._tell(command, "failed", str(denied), None)
        )
        self._tail = asyncio.create_task(following.run())
        return f"following {', '.join(command.subjects)}", None

    async def _stop_tail(self) -> None:
        task, self._tail = self._tail, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
