"""Requests to the engine: a screen awaits the reply, or iterates over all records of a request."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVarTuple, runtime_checkable

from textual.app import App
from textual.css.query import NoMatches
from textual.dom import DOMNode, NoScreen
from textual.notifications import SeverityLevel
from textual.worker import Worker

from natstui.defects import contained
from natstui.errors import NatstuiError
from natstui.model.records.listening import Listened
from natstui.model.records.messages import Answered, Tailed
from natstui.model.records.record import Command
from natstui.model.records.stores import FileMoved
from natstui.model.records.tap import TapResults
from natstui.tui.kit.text import safe_copy

ReplyRecord = Answered | Tailed | TapResults | FileMoved | Listened
"""The records with the id of a request: its reply, and records before or after it."""
ENGINE_ENDED = "the engine ended before it replied"
ENGINE_GONE = "the engine has ended"
ENGINE_SILENT_S = 30.0
"""How long a change waits for an engine that writes nothing at all."""
_CHECK_S = 1.0
HOST_REFUSED = (
    "this page changes nothing on the machine that serves it: natstui serve --allow-changes "
    "allows it"
)
"""The refusal of a `HostCommand`, and of a file that a screen itself would write."""
_NOT_CONFIRMED = "the screen was closed before its confirmation: nothing was changed"
_DEFECT_SHOWN_S = 15.0
_TOAST_S = 15.0
Arguments = TypeVarTuple("Arguments")
_numbers = itertools.count(2_000_000)
"""Ids of commands: unique within a viewer."""


class PendingRequest:
    """A request without its reply yet: await the reply, or iterate over all records with its id.

    It never raises for a failed request: the reply has the reason. Iteration ends when no record
    can follow, as after the end of the engine; else the caller must break.
    """

    def __init__(
        self,
        forget: Callable[[int], None] = lambda _: None,
        received_count: Callable[[], int] = lambda: 0,
    ) -> None:
        """Create a request; `forget` is called with its id once its result is not awaited any
        more. `received_count` returns how often the engine has written something.
        """
        self.received_count = received_count
        self.command_id = next(_numbers)
        self.system = ""
        """The name of the system it is sent to, where there are several."""
        self._forget = forget
        self._records: asyncio.Queue[ReplyRecord] = asyncio.Queue()
        self._is_over = False

    def add(self, record: ReplyRecord) -> None:
        """Add a record with the id."""
        self._records.put_nowait(record)

    def fail(self, reason: str) -> None:
        """Add a failure as the reply, after which no record follows."""
        self._is_over = True
        self.add(Answered(time.time_ns() // 1000, self.command_id, "failed", reason))

    def __await__(self) -> Generator[Any, None, Answered]:
        """Wait for the reply."""
        return self._reply().__await__()

    async def _reply(self) -> Answered:
        try:
            while True:
                if isinstance(record := await self._records.get(), Answered):
                    return record
        finally:
            self._forget(self.command_id)

    async def __aiter__(self) -> AsyncIterator[ReplyRecord]:
        """Yield every record with the id."""
        try:
            while not (self._is_over and self._records.empty()):
                yield await self._records.get()
        finally:
            self._forget(self.command_id)


class Engine(Protocol):
    """The engines behind an app."""

    def request(self, command: Command, system: str | None = None) -> PendingRequest:
        """Send a command, whose id is set here, to a system's engine; None: the acting one.

        In a replay, a command that needs a server fails at once.
        """

    def send(self, command: Command, system: str | None = None) -> None:
        """Send a command whose reply is ignored."""

    def check_host_change(self) -> None:
        """Raise Refused if screens may change nothing on the machine of natstui."""


@runtime_checkable
class HasEngine(Protocol):
    """An app that screens can send requests from."""

    @property
    def engine(self) -> Engine:
        """Return the engines of the app."""


class SystemEngine:
    """The engine of one system; None means the acting one of the screen in view."""

    def __init__(self, app: App[Any], system: str | None) -> None:
        assert isinstance(app, HasEngine)
        self._app, self._engine, self.system = app, app.engine, system

    def request(self, command: Command) -> PendingRequest:
        """Send a command, whose id is set here; it fails when its system is not watched now."""
        try:
            return self._engine.request(command, self.system)
        except NatstuiError as error:
            request = PendingRequest()
            request.fail(str(error))
            return request

    def send(self, command: Command) -> None:
        """Send a command whose reply is ignored; show an error if it cannot be sent."""
        try:
            self._engine.send(command, self.system)
        except NatstuiError as error:
            show_error(self._app, error)

    def check_host_change(self) -> None:
        """Raise Refused if screens may change nothing on the machine of natstui."""
        self._engine.check_host_change()

    async def change(self, command: Command, title: str = "") -> Answered:
        """Send a change and return its reply, which becomes a toast if the screen is closed first.

        Closing a screen does not stop what was sent.
        """
        reply: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        run_task(self._app, self._deliver, self.request(command), reply, title)
        return await reply

    async def _deliver(
        self, request: PendingRequest, reply: asyncio.Future[Answered], title: str
    ) -> None:
        answered = await _reply_of_change(request)
        if not reply.cancelled():
            reply.set_result(answered)
            return
        if answered.status == "refused" and answered.body_json is not None:
            answered = replace(answered, text=_NOT_CONFIRMED)
        show_reply(self._app, answered, f"{request.system} {title}".strip())

    def start(self, command: Command, title: str) -> None:
        """Send a command and show its reply as a toast, also after the screen was closed."""
        run_task(self._app, self._announce, command, title)

    async def _announce(self, command: Command, title: str) -> None:
        request = self.request(command)
        reply = await _reply_of_change(request)
        show_reply(self._app, reply, f"{request.system} {title}".strip())


async def _reply_of_change(request: PendingRequest) -> Answered:
    """Return the reply to a change, or that there is none: an engine that hangs writes nothing.

    What it replies later is not shown, so that nothing is reported twice.
    """
    reply = asyncio.ensure_future(request)
    received_count, silent_s = request.received_count(), 0.0
    try:
        while not (await asyncio.wait([reply], timeout=_CHECK_S))[0]:
            # Not the clock: a viewer that was suspended has read nothing meanwhile.
            is_silent = request.received_count() == received_count
            received_count, silent_s = (
                request.received_count(),
                silent_s + _CHECK_S if is_silent else 0.0,
            )
            if silent_s >= ENGINE_SILENT_S:
                text = (
                    f"the engine has not replied for {ENGINE_SILENT_S:.0f} s: the change may have"
                    " been made, or is made when the engine goes on"
                )
                return Answered(time.time_ns() // 1000, request.command_id, "failed", text)
        return as_of_change(await reply)
    finally:
        reply.cancel()


def as_of_change(reply: Answered) -> Answered:
    """Return the reply to a change; of an engine that ended, with what that means for it."""
    meanings = {
        ENGINE_ENDED: "it is not known whether that was done",
        ENGINE_GONE: "nothing was sent",
    }
    meaning = meanings.get(reply.text)
    return reply if meaning is None else replace(reply, text=f"{reply.text}: {meaning}")


def show_reply(app: App[Any], reply: Answered, title: str = "") -> None:
    """Show a reply as a toast."""
    severity: SeverityLevel = "information" if reply.status == "done" else "error"
    text = safe_copy(reply.text)
    app.notify(text, title=title, severity=severity, timeout=_TOAST_S, markup=False)


def show_error(app: App[Any], error: NatstuiError) -> None:
    """Show an error as a toast."""
    app.notify(safe_copy(str(error)), severity="error", markup=False)


def run_task(
    node: DOMNode,
    function: Callable[[*Arguments], Coroutine[Any, Any, None]],
    *arguments: *Arguments,
    replaces: str = "",
) -> Worker[None]:
    """Run a coroutine function until it ends, or its screen or app is closed.

    With `replaces`, a task of the same name is cancelled first.
    """
    group = replaces or "requests"
    # Not a coroutine: one that is cancelled before it begins would never be awaited.
    task = partial(_guard, node, function, arguments)
    return node.run_worker(task, group=group, exclusive=bool(replaces))


async def _guard(
    node: DOMNode, function: Callable[..., Coroutine[Any, Any, None]], arguments: tuple[Any, ...]
) -> None:
    app = node.app

    def tell(sentence: str) -> None:
        app.notify(sentence, severity="error", timeout=_DEFECT_SHOWN_S)

    with contained("the requested data", tell):
        try:
            await function(*arguments)
        except NatstuiError as error:
            show_error(app, error)
        except NoMatches:
            # A screen that closes loses its widgets before its tasks are cancelled.
            if not _is_closed(node):
                raise


def _is_closed(node: DOMNode) -> bool:
    try:
        return node.screen not in node.app.screen_stack
    except NoScreen:
        return True
