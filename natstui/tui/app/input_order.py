"""One key after the other: the next is handed over when the one before has taken effect.

Textual hands a key to whatever has the focus when it is read, not when its turn comes. Of keys
that come in one burst (typed ahead, pasted, over a slow line) the ones behind `:` would go to
the table below, and ctrl+s would send a form without the letters before it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from weakref import WeakSet

from textual import events
from textual.app import App
from textual.message_pump import MessagePump
from textual.widget import Widget

ORDERED = (events.Key, events.Paste, events.MouseDown, events.MouseUp)
"""What decides where the next input belongs, or must not pass it."""
_MOST_WAITS_COUNT = 200
"""How often it waits for one input at most: a part that is never idle must not stop typing."""
_OVERDUE_S = 5.0
"""How long it waits for a part of the screen that does not answer."""


class InputOrder:
    """Holds inputs back until everything between the focus and the app is done with the last."""

    def __init__(self, app: App[int], handle: Callable[[events.Event], Awaitable[None]]) -> None:
        """`handle` does with one input what Textual does."""
        self._app = app
        self._handle = handle
        self._held: deque[events.Event] = deque()
        self._number = 0
        """Number of the input that is handled now; results of older inputs are ignored."""
        self._text_goes_to: Widget | None = None
        self._path: list[MessagePump] = []
        self._waits_left = 0
        self._awaited: MessagePump | None = None
        """The part of the path that has to answer now."""
        self._silent = WeakSet[MessagePump]()
        """Parts that did not answer in time, and have not since: they are not waited for.

        With only the last of them, two would hold up every input in turn.
        """
        self._watch: asyncio.TimerHandle | None = None

    @property
    def held_count(self) -> int:
        """How many inputs are held back."""
        return len(self._held)

    async def take(self, event: events.Event) -> None:
        """Hand an input over now, or when those before it have taken effect."""
        self._held.append(event)
        if self._watch is None or (len(self._held) == 1 and self._goes_on_with(event)):
            await self._next(self._number)

    async def _next(self, number: int) -> None:
        """Hand over the oldest input; `number` is the one that was waited for."""
        if number != self._number:
            return
        self._number += 1
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if not self._held:
            return
        self._watch = asyncio.get_running_loop().call_later(
            _OVERDUE_S, self._app.call_later, self._give_up, self._number
        )
        self._waits_left = _MOST_WAITS_COUNT
        self._text_goes_to = self._taker(self._held[0])
        await self._handle(self._held.popleft())
        while self._held and self._goes_on_with(self._held[0]):
            await self._handle(self._held.popleft())
        self._begin()

    async def _give_up(self, number: int) -> None:
        """Hand over the next input though the one before has not taken effect everywhere."""
        if number == self._number:
            if self._awaited is not None:
                self._silent.add(self._awaited)
            await self._next(number)

    def _taker(self, event: events.Event) -> Widget | None:
        """Return the editor that takes a key as a letter of its text, None for all else."""
        focused = self._app.focused
        if focused is None or not isinstance(event, events.Key):
            return None
        return focused if focused.check_consume_key(event.key, event.character) else None

    def _goes_on_with(self, event: events.Event) -> bool:
        """Return whether it is one more letter for the same editor, which keeps their order."""
        goes_to = self._text_goes_to
        return goes_to is not None and self._taker(event) is goes_to

    def _begin(self) -> None:
        """Wait for what has the keys now, then for everything around it, up to the app."""
        self._path = self._present_path()
        self._wait_for(self._number, 0)

    def _present_path(self) -> list[MessagePump]:
        if not self._app.screen_stack:
            return [self._app]
        path: list[MessagePump] = [*(self._app.focused or self._app.screen).ancestors_with_self]
        # What is being removed has lost its ancestors; the app has to hand over the next input.
        return path if path[-1] is self._app else [*path, self._app]

    def _wait_for(self, number: int, at: int) -> None:
        """Ask a part of the path to report when it has handled everything so far."""
        while at < len(self._path):
            part = self._path[at]
            reached = partial(self._was_passed, number, at, part)
            if part not in self._silent and part.call_later(reached):
                self._awaited = part
                return
            # It is being removed, and does nothing any more; or it answers nobody.
            at += 1

    async def _was_passed(self, number: int, at: int, part: MessagePump) -> None:
        """Ask a second time: Textual has taken one message more off the queue than it handles.

        So it is in no queue's size, and would be overlooked.
        """
        if number == self._number and part.call_later(self._was_reached, number, at, part):
            return
        await self._was_reached(number, at, part)

    async def _was_reached(self, number: int, at: int, part: MessagePump) -> None:
        self._silent.discard(part)
        if number != self._number:
            return
        self._waits_left -= 1
        if self._waits_left > 0 and part.message_queue_size > 0:
            # It posted itself a message meanwhile, for example that its text changed.
            self._wait_for(number, at)
        elif at + 1 < len(self._path):
            self._wait_for(number, at + 1)
        elif self._waits_left > 0 and not self._rests():
            self._begin()
        else:
            await self._next(number)

    def _rests(self) -> bool:
        """Return whether nothing is left to do, and the keys belong where they did before."""
        if any(part.message_queue_size for part in self._path):
            return False
        # Otherwise a screen came or went, or the focus moved: the next input belongs there.
        return self._present_path() == self._path
