"""Requests that wait for their answer; each ends exactly once, whatever happens."""

from __future__ import annotations

import asyncio

from nats.aio.msg import Msg

from natstui.errors import NatstuiError, PermissionDenied
from natstui.jetstream.permissions import Violation


class Waiting:
    """The open requests of one connection, by the last word of their reply subject."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, asyncio.Future[Msg]]] = {}
        self._last = 0

    @property
    def count(self) -> int:
        """Return how many requests wait."""
        return len(self._open)

    def add(self, subject: str) -> tuple[str, asyncio.Future[Msg]]:
        """Begin to wait; return the word to end the reply subject with, and the answer to be."""
        self._last += 1
        word = str(self._last)
        future = asyncio.get_running_loop().create_future()
        self._open[word] = (subject, future)
        return word, future

    def remove(self, word: str) -> None:
        """Wait no longer."""
        _, future = self._open.pop(word, ("", None))
        if future is not None and future.done() and not future.cancelled():
            future.exception()  # nobody else may look at it, and Python would complain

    async def answer(self, message: Msg) -> None:
        """Hand an answer to whom it belongs; nobody may be waiting any more."""
        _, future = self._open.get(message.subject.rpartition(".")[2], ("", None))
        if future is not None and not future.done():
            future.set_result(message)

    def deny(self, violation: Violation) -> None:
        """Fail every request on a subject the server refused (compared without case)."""
        for subject, future in list(self._open.values()):
            if subject.lower() == violation.subject and not future.done():
                future.set_exception(PermissionDenied(subject))

    def fail_all(self, error: NatstuiError) -> None:
        """Fail every open request."""
        for _, future in list(self._open.values()):
            if not future.done():
                future.set_exception(error)
