"""Requests that may stay open over several polls: a silent server delays no other request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from natstui.clock import steady_s
from natstui.errors import NatstuiError
from natstui.jetstream.polling.budget.asking import PollingApi

_LOST_S = 4.5
"""A server waits 4 s for others that do not answer it, and answers then."""


@dataclass(slots=True)
class Patience:
    """How long one poll may wait for its requests, all together."""

    left_s: float
    quiet_s: float = 0.25
    """How long to wait for one request that a healthy server answers at once."""


@dataclass(frozen=True, slots=True)
class _Open:
    task: asyncio.Task[Any]
    asked_mono_s: float


class Questions:
    """Open requests by name; each is sent once until its answer was taken."""

    def __init__(self, api: PollingApi) -> None:
        self._api = api
        self._open: dict[str, _Open] = {}
        self._answered_mono_s: dict[str, float] = {}
        """Kind of question → when the newest that was answered had been asked."""

    def __contains__(self, name: str) -> bool:
        return name in self._open

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of open requests, answered or not."""
        return tuple(self._open)

    def ask(self, name: str, make: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Ask, unless the same request is open."""
        if name not in self._open:
            self._open[name] = _Open(asyncio.create_task(make()), steady_s())

    async def wait(self, name: str, patience: Patience, at_most_s: float) -> bool:
        """Wait for an answer as long as there is patience; tell whether it is there.

        Only time in which nothing came counts. The time that a slow link needs for other bytes
        does not: the answer may follow them.
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
        """Return whether an open request has been answered."""
        return name in self._open and self._open[name].task.done()

    def asked_mono_s(self, name: str) -> float:
        """Return when an open request was sent."""
        return self._open[name].asked_mono_s

    def take(self, name: str) -> Any:
        """Return an answer that has come, or raise the error of the request."""
        one = self._open.pop(name)
        answer = one.task.result()
        newest_s = self._answered_mono_s.get(_kind(name), 0.0)
        self._answered_mono_s[_kind(name)] = max(newest_s, one.asked_mono_s)
        return answer

    def is_lost(self, name: str) -> bool:
        """Return whether nobody will answer a request, though others of its kind are answered.

        What is sent while servers elect who answers goes nowhere.
        """
        asked_s = self._open[name].asked_mono_s
        is_overtaken = asked_s < self._answered_mono_s.get(_kind(name), 0.0)
        return is_overtaken and steady_s() > asked_s + _LOST_S and not self.is_answered(name)

    def drop(self, name: str) -> None:
        """Cancel an open request."""
        given_up = self._open.pop(name, None)
        if given_up is not None:
            given_up.task.cancel()
            given_up.task.add_done_callback(_retrieve_error)

    async def close(self) -> None:
        """Cancel every open request."""
        tasks = {each.task for each in self._open.values()}
        self._open.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for task in tasks:
            _retrieve_error(task)


def _kind(name: str) -> str:
    """Return the verb of a question, as `CONSUMER.LIST`."""
    return ".".join(name.split(".", 2)[:2])


def _retrieve_error(task: asyncio.Task[Any]) -> None:
    """Retrieve the error of a request that nobody awaits, or Python would complain."""
    if task.cancelled():
        return
    error = task.exception()
    if error is not None and not isinstance(error, NatstuiError):
        raise error
