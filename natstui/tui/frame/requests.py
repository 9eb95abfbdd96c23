"""Requests to the engine: a screen awaits the reply, or iterates over all that comes of one."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from functools import partial
from typing import Any, Protocol, TypeVarTuple, runtime_checkable

from textual.app import App
from textual.dom import DOMNode
from textual.notifications import SeverityLevel
from textual.worker import Worker

from natstui.defects import contained
from natstui.errors import NatstuiError
from natstui.model.records.listening import Listened
from natstui.model.records.messages import Answered, Tailed
from natstui.model.records.record import Command
from natstui.model.records.stores import FileMoved
from natstui.model.records.tap import Tapped
from natstui.tui.kit.text import safe_copy

ReplyRecord = Answered | Tailed | Tapped | FileMoved | Listened
"""What carries the id of a request: its reply, and what comes before or after that."""
_DEFECT_SHOWN_S = 15.0
_TOAST_S = 15.0
Arguments = TypeVarTuple("Arguments")
_numbers = itertools.count(2_000_000)
"""The ids of commands: no two of a viewer have the same."""


class PendingRequest:
    """A request without its reply yet: await it for that, or iterate over all that carries its id.

    It never raises for a request that fails: that is a reply with its reason. Iterating ends when
    nothing can come any more, as of an engine that ended; else whoever iterates leaves the loop.
    """

    def __init__(self, forget: Callable[[int], None] = lambda _: None) -> None:
        """`forget` is called with the id once nobody waits any more."""
        self.command_id = next(_numbers)
        self.system = ""
        """The name of the system it is sent to, where there are several."""
        self._forget = forget
        self._records: asyncio.Queue[ReplyRecord] = asyncio.Queue()
        self._is_over = False

    def add(self, record: ReplyRecord) -> None:
        """Take a record that carries the id."""
        self._records.put_nowait(record)

    def fail(self, reason: str) -> None:
        """Reply that it failed, after which nothing more comes."""
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
        """Yield every record that carries the id."""
        try:
            while not (self._is_over and self._records.empty()):
                yield await self._records.get()
        finally:
            self._forget(self.command_id)


class Engine(Protocol):
    """The engines behind an app."""

    def request(self, command: Command, system: str | None = None) -> PendingRequest:
        """Send a command, whose id is set here, to the engine of a system; None: the acting one.

        In a replay, what only a server can do fails at once.
        """

    def send(self, command: Command, system: str | None = None) -> None:
        """Send a command whose reply nobody waits for."""


@runtime_checkable
class HasEngine(Protocol):
    """An app that screens can send requests from."""

    @property
    def engine(self) -> Engine:
        """What takes them."""


class SystemEngine:
    """The engine of one system; None is the one that the screen in view acts on."""

    def __init__(self, app: App[Any], system: str | None) -> None:
        assert isinstance(app, HasEngine)
        self._app, self._engine, self.system = app, app.engine, system

    def request(self, command: Command) -> PendingRequest:
        """Send a command, whose id is set here; it fails where its system is not watched now."""
        try:
            return self._engine.request(command, self.system)
        except NatstuiError as error:
            request = PendingRequest()
            request.fail(str(error))
            return request

    def send(self, command: Command) -> None:
        """Send a command whose reply nobody waits for; show why that cannot be done."""
        try:
            self._engine.send(command, self.system)
        except NatstuiError as error:
            show_error(self._app, error)

    async def announce(self, command: Command, title: str) -> Answered:
        """Wait for the reply, show it as a toast, and return it."""
        request = self.request(command)
        reply = await request
        show_reply(self._app, reply, f"{request.system} {title}".strip())
        return reply

    def start(self, command: Command, title: str) -> None:
        """Send a command whose reply is a toast, also when the screen is closed by then."""
        run_task(self._app, self._announce, command, title)

    async def _announce(self, command: Command, title: str) -> None:
        await self.announce(command, title)


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
    """Run a coroutine function to its end, or until the screen or app it belongs to is closed.

    With `replaces`, what runs there under the same name is cancelled first.
    """
    group = replaces or "requests"
    # Not a coroutine: one that is cancelled before it begins would never be awaited.
    task = partial(_guard, node.app, function, arguments)
    return node.run_worker(task, group=group, exclusive=bool(replaces))


async def _guard(
    app: App[Any], function: Callable[..., Coroutine[Any, Any, None]], arguments: tuple[Any, ...]
) -> None:
    def tell(sentence: str) -> None:
        app.notify(sentence, severity="error", timeout=_DEFECT_SHOWN_S)

    with contained("the requested data", tell):
        try:
            await function(*arguments)
        except NatstuiError as error:
            show_error(app, error)
