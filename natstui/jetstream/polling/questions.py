"""Requests that may stay open over several polls: a silent server delays no other request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from natstui.clock import steady_s
from natstui.errors import NatstuiError
from natstui.jetstream.polling.budget.asking import PollingApi, kind_of

_LOST_S = 4.5
"""Time after which a reply is lost: a server waits 4 s for silent others, and replies then."""


@dataclass(slots=True)
class Patience:
    """How long one poll may wait for its requests, all together."""

    left_s: float
    quiet_s: float = 0.25
    """How long to wait for one request to which a healthy server replies at once."""


@dataclass(frozen=True, slots=True)
class _Open:
    task: asyncio.Task[Any]
    asked_mono_s: float


class Questions:
    """Open requests by name; each is sent once until its reply was taken."""

    def __init__(self, api: PollingApi) -> None:
        self._api = api
        self._open: dict[str, _Open] = {}
        self._answered_mono_s: dict[str, float] = {}
        """Kind of request → when the newest one with a reply was sent."""

    def __contains__(self, name: str) -> bool:
        return name in self._open

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of open requests, with or without a reply."""
        return tuple(self._open)

    def ask(self, name: str, make: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Send a request, unless the same one is open."""
        if name not in self._open:
            self._open[name] = _Open(asyncio.create_task(make()), steady_s())

    async def wait(self, name: str, patience: Patience, at_most_s: float) -> bool:
        """Wait for a reply as long as there is patience; return whether it came.

        Only time without any byte counts. The time that a slow link needs for other bytes does
        not: the reply may follow them.
        """
        task, limit_s = self._open[name].task, max(0.0, min(at_most_s, patience.left_s))
        began_s, before_bytes = steady_s(), self._api.arrived_bytes
        while not task.done():
            carried_s = self._api.carried_s(self._api.arrived_bytes - before_bytes)
            silent_s = steady_s() - began_s - carried_s
            if silent_s >= limit_s:
                patience.left_s -= silent_s
                return False
            await asyncio.wait({task}, timeout=limit_s - silent_s)
        return True

    def is_answered(self, name: str) -> bool:
        """Return whether an open request has a reply."""
        return name in self._open and self._open[name].task.done()

    def asked_mono_s(self, name: str) -> float:
        """Return when an open request was sent."""
        return self._open[name].asked_mono_s

    def take(self, name: str) -> Any:
        """Return the reply of a request, or raise its error."""
        open_request = self._open.pop(name)
        reply = open_request.task.result()
        newest_s = self._answered_mono_s.get(kind_of(name), 0.0)
        self._answered_mono_s[kind_of(name)] = max(newest_s, open_request.asked_mono_s)
        return reply

    def is_lost(self, name: str) -> bool:
        """Return whether a request will get no reply, though others of its kind do.

        A request during the election of its responder is lost.
        """
        asked_s = self._open[name].asked_mono_s
        is_overtaken = asked_s < self._answered_mono_s.get(kind_of(name), 0.0)
        return is_overtaken and steady_s() > asked_s + _LOST_S and not self.is_answered(name)

    def drop(self, name: str) -> None:
        """Cancel an open request."""
        cancelled = self._open.pop(name, None)
        if cancelled is not None:
            cancelled.task.cancel()
            cancelled.task.add_done_callback(_retrieve_error)

    async def close(self) -> None:
        """Cancel every open request."""
        tasks = {open_request.task for open_request in self._open.values()}
        self._open.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for task in tasks:
            _retrieve_error(task)


def _retrieve_error(task: asyncio.Task[Any]) -> None:
    """Retrieve the error of a request that is not awaited, or Python would log it."""
    if task.cancelled():
        return
    error = task.exception()
    if error is not None and not isinstance(error, NatstuiError):
        raise error
