"""Requests that may stay open over several polls: a silent server delays no other request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from natstui.clock import steady_s
from natstui.errors import NatstuiError
from natstui.jetstream.polling.budget.requests import PollingApi, request_kind_of

_REPLY_LOST_AFTER_S = 4.5
"""Time after which a reply is lost: a server waits 4 s for silent others, and replies then."""


@dataclass(slots=True)
class WaitBudget:
    """The time that one poll may wait for replies to all its requests together."""

    left_s: float
    quiet_s: float = 0.25
    """Time to wait for one reply that a healthy server sends at once."""


class _OpenRequest(Struct, frozen=True):
    task: asyncio.Task[Any]
    requested_mono_s: float


class OpenRequests:
    """Open requests by name: no request is repeated until its reply is popped."""

    def __init__(self, api: PollingApi) -> None:
        self._api = api
        self._open_requests: dict[str, _OpenRequest] = {}
        self._newest_replied_request_mono_s: dict[str, float] = {}
        """Kind of request → when the newest request with a reply was sent."""

    def __contains__(self, name: str) -> bool:
        return name in self._open_requests

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of open requests, with or without a reply."""
        return tuple(self._open_requests)

    def send(self, name: str, make_request: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Send a request, unless one of the same name is open."""
        if name not in self._open_requests:
            task = asyncio.create_task(make_request())
            # Nobody pops the reply of a request that is open when polling ends.
            task.add_done_callback(_retrieve_error)
            self._open_requests[name] = _OpenRequest(task, steady_s())

    async def wait_for_reply(self, name: str, wait_budget: WaitBudget, max_wait_s: float) -> bool:
        """Wait for a reply, within `wait_budget` and `max_wait_s`; return whether it arrived.

        The time that the link needs for other bytes does not count: the reply may follow them.
        """
        task, limit_s = (
            self._open_requests[name].task,
            max(0.0, min(max_wait_s, wait_budget.left_s)),
        )
        began_s, arrived_before_bytes = steady_s(), self._api.arrived_bytes
        while not task.done():
            max_transfer_s = self._api.max_transfer_s(
                self._api.arrived_bytes - arrived_before_bytes
            )
            silent_s = steady_s() - began_s - max_transfer_s
            if silent_s >= limit_s:
                wait_budget.left_s -= silent_s
                return False
            await asyncio.wait({task}, timeout=limit_s - silent_s)
        return True

    def has_reply(self, name: str) -> bool:
        """Return whether an open request has a reply or has failed."""
        return name in self._open_requests and self._open_requests[name].task.done()

    def requested_mono_s(self, name: str) -> float:
        """Return when an open request was sent, by the monotonic clock."""
        return self._open_requests[name].requested_mono_s

    def pop_reply(self, name: str) -> Any:
        """Return the reply of a request, or raise its error; the request is no longer open."""
        open_request = self._open_requests.pop(name)
        reply = open_request.task.result()
        newest_replied_s = self._newest_replied_request_mono_s.get(request_kind_of(name), 0.0)
        self._newest_replied_request_mono_s[request_kind_of(name)] = max(
            newest_replied_s, open_request.requested_mono_s
        )
        return reply

    def is_reply_lost(self, name: str) -> bool:
        """Return whether a request will get no reply, though later ones of its kind did.

        A request during the election of its responder is lost.
        """
        requested_s = self._open_requests[name].requested_mono_s
        is_overtaken = requested_s < self._newest_replied_request_mono_s.get(
            request_kind_of(name), 0.0
        )
        return (
            is_overtaken
            and steady_s() > requested_s + _REPLY_LOST_AFTER_S
            and not self.has_reply(name)
        )

    def cancel(self, name: str) -> None:
        """Cancel a request, if it is open."""
        cancelled_request = self._open_requests.pop(name, None)
        if cancelled_request is not None:
            cancelled_request.task.cancel()

    async def close(self) -> None:
        """Cancel every open request."""
        tasks = {open_request.task for open_request in self._open_requests.values()}
        self._open_requests.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _retrieve_error(task: asyncio.Task[Any]) -> None:
    """Retrieve the error of a request, or Python would log it if nobody awaits the request."""
    if task.cancelled():
        return
    error = task.exception()
    if error is not None and not isinstance(error, NatstuiError):
        raise error
