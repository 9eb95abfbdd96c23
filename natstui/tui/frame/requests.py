"""Requests of screens to the engine: await the reply, or iterate over all records of a request."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from functools import partial
from typing import Any, Protocol, TypeVarTuple, runtime_checkable

from textual.app import App
from textual.css.query import NoMatches
from textual.dom import DOMNode, NoScreen
from textual.notifications import SeverityLevel
from textual.worker import Worker

from natstui.defects import report_defects
from natstui.errors import NatstuiError
from natstui.model.records.analysis import AnalysisProgress
from natstui.model.records.listening import Listened
from natstui.model.records.messages import Answered, Tailed
from natstui.model.records.record import Command
from natstui.model.records.stores import FileMoved
from natstui.model.records.tap import TapResults
from natstui.tui.kit.text import safe_copy
from natstui.values import replace

ReplyRecord = Answered | Tailed | TapResults | FileMoved | Listened | AnalysisProgress
"""The records with the id of a request: its reply, and the records before or after the reply."""
ENGINE_ENDED = "the engine ended before it replied"
ENGINE_NOT_RUNNING = "the engine has ended"
MAX_ENGINE_SILENCE_S = 30.0
"""Maximum time that a change waits for an engine that writes nothing."""
_SILENCE_CHECK_INTERVAL_S = 1.0
HOST_CHANGE_REFUSED = (
    "this page changes nothing on the machine that serves it: natstui serve --allow-changes "
    "allows it"
)
"""The reason why a `HostCommand`, or a file that a screen would write, is refused."""
_NOT_CONFIRMED = "the screen was closed before its confirmation: nothing was changed"
_DEFECT_TOAST_S = 15.0
_TOAST_S = 15.0
Arguments = TypeVarTuple("Arguments")
_command_ids = itertools.count(2_000_000)
"""Ids of commands: unique within a viewer."""


class PendingRequest:
    """A request that may still get a reply: await the reply, or iterate over all records with its
    id.

    Nothing is raised for a failed request: the reply has the reason. The iteration ends after the
    end of the engine; otherwise the caller must break.
    """

    def __init__(
        self,
        on_end: Callable[[int], None] = lambda _: None,
        count_engine_reads: Callable[[], int] = lambda: 0,
    ) -> None:
        """Create a request; `on_end` is called with the request's id when nothing awaits it any
        more.

        `count_engine_reads` returns how often the engine's output was read.
        """
        self.count_engine_reads = count_engine_reads
        self.command_id = next(_command_ids)
        self.command: Command | None = None
        """The command of the request; None if it was not sent."""
        self.system = ""
        """The name of the system that the request is sent to; empty with a single system."""
        self._on_end = on_end
        self._records: asyncio.Queue[ReplyRecord] = asyncio.Queue()
        self._has_ended = False

    def add(self, record: ReplyRecord) -> None:
        """Add a record with the id of the request."""
        self._records.put_nowait(record)

    def fail(self, reason: str) -> None:
        """Add a failure as the reply; no record follows it."""
        self._has_ended = True
        self.add(Answered(time.time_ns() // 1000, self.command_id, "failed", reason))

    def close(self) -> None:
        """Stop receiving records; required if the task that awaits the request may be cancelled
        before it starts.
        """
        self._on_end(self.command_id)

    def __await__(self) -> Generator[Any, None, Answered]:
        """Wait for the reply."""
        return self._wait_for_reply().__await__()

    async def _wait_for_reply(self) -> Answered:
        try:
            while True:
                if isinstance(record := await self._records.get(), Answered):
                    return record
        finally:
            self._on_end(self.command_id)

    async def __aiter__(self) -> AsyncIterator[ReplyRecord]:
        """Yield every record with the id of the request."""
        try:
            while not (self._has_ended and self._records.empty()):
                yield await self._records.get()
        finally:
            self._on_end(self.command_id)


class Engines(Protocol):
    """The engines of an app: a process for each watched system, which talks to its servers."""

    def request(self, command: Command, system: str | None = None) -> PendingRequest:
        """Send a command with a new id to the engine of a system; None: the one on which keys act.

        In a replay, a command that needs a server fails at once.
        """

    def send(self, command: Command, system: str | None = None) -> None:
        """Send a command whose reply is ignored."""

    def check_host_change(self) -> None:
        """Raise ActionRefusal if screens may change nothing on the machine of natstui."""

    def is_watched(self, system: str) -> bool:
        """Return whether a system is watched; its screens may be open after it was removed."""


@runtime_checkable
class HasEngine(Protocol):
    """An app that screens can send requests from."""

    @property
    def engine(self) -> Engines:
        """Return the engines of the app."""


class SystemEngine:
    """The engine of a system; system None is the one on which keys of the screen in view act."""

    def __init__(self, app: App[Any], system: str | None) -> None:
        assert isinstance(app, HasEngine)
        self._app, self._engine, self.system = app, app.engine, system

    @property
    def is_watched(self) -> bool:
        """Return whether the system is still watched."""
        return self.system is None or self._engine.is_watched(self.system)

    def request(self, command: Command) -> PendingRequest:
        """Send a command with a new id; the request fails if the system is not watched any
        more.
        """
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
        """Raise ActionRefusal if screens may change nothing on the machine of natstui."""
        self._engine.check_host_change()

    async def change(self, command: Command, title: str = "") -> Answered:
        """Send a change and return its reply; show the reply as a toast if the screen was closed.

        Closing a screen does not stop a change that was sent.
        """
        reply: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        run_task(self._app, self._return_or_show_reply, self.request(command), reply, title)
        return await reply

    async def _return_or_show_reply(
        self, request: PendingRequest, reply: asyncio.Future[Answered], title: str
    ) -> None:
        change_reply = await _reply_of_change(request)
        if not reply.cancelled():
            reply.set_result(change_reply)
            return
        if change_reply.status == "refused" and change_reply.body_json is not None:
            change_reply = replace(change_reply, text=_NOT_CONFIRMED)
        show_reply(self._app, change_reply, f"{request.system} {title}".strip())

    def start(self, command: Command, title: str) -> None:
        """Send a command and show its reply as a toast, also after the screen was closed."""
        run_task(self._app, self._send_and_show_reply, command, title)

    async def _send_and_show_reply(self, command: Command, title: str) -> None:
        request = self.request(command)
        reply = await _reply_of_change(request)
        show_reply(self._app, reply, f"{request.system} {title}".strip())


async def _reply_of_change(request: PendingRequest) -> Answered:
    """Return the reply to a change, or a failure if the engine writes nothing for 30 s.

    A later reply is not shown, so that nothing is reported twice.
    """
    reply = asyncio.ensure_future(request)
    reads_count, silent_s = request.count_engine_reads(), 0.0
    try:
        while not (await asyncio.wait([reply], timeout=_SILENCE_CHECK_INTERVAL_S))[0]:
            # Not by the clock: a suspended viewer has read nothing meanwhile.
            is_silent = request.count_engine_reads() == reads_count
            reads_count, silent_s = (
                request.count_engine_reads(),
                silent_s + _SILENCE_CHECK_INTERVAL_S if is_silent else 0.0,
            )
            if silent_s >= MAX_ENGINE_SILENCE_S:
                text = (
                    f"the engine has not replied for {MAX_ENGINE_SILENCE_S:.0f} s: the change may"
                    " have been made, or is made when the engine goes on"
                )
                return Answered(time.time_ns() // 1000, request.command_id, "failed", text)
        return explain_change_reply(await reply)
    finally:
        reply.cancel()


def explain_change_reply(reply: Answered) -> Answered:
    """Return the reply to a change; if the engine ended, the text also says what that means."""
    consequence_by_error = {
        ENGINE_ENDED: "it is not known whether that was done",
        ENGINE_NOT_RUNNING: "nothing was sent",
    }
    consequence = consequence_by_error.get(reply.text)
    return reply if consequence is None else replace(reply, text=f"{reply.text}: {consequence}")


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
    repeat_defect_after_s: float = 0,
) -> Worker[None]:
    """Run a coroutine function until it ends or `node`, its screen or app, is closed.

    With `replaces`, a running task of that name is cancelled first. The same defect is reported
    again after `repeat_defect_after_s` seconds.
    """
    group = replaces or "requests"
    # Not a coroutine: if cancelled before its start, it would never be awaited.
    task = partial(_run_and_report_errors, node, function, arguments, repeat_defect_after_s)
    return node.run_worker(task, group=group, exclusive=bool(replaces))


async def _run_and_report_errors(
    node: DOMNode,
    function: Callable[..., Coroutine[Any, Any, None]],
    arguments: tuple[Any, ...],
    repeat_defect_after_s: float,
) -> None:
    app = node.app

    def show_defect(sentence: str) -> None:
        app.notify(sentence, severity="error", timeout=_DEFECT_TOAST_S)

    with report_defects("the requested data", show_defect, repeat_after_s=repeat_defect_after_s):
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
