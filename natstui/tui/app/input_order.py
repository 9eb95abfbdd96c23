"""Passes keys on one after the other: the next when the previous one has taken effect.

Textual passes a key to the widget that has the focus when the key is read, not when its turn
comes. Of keys in one burst (typed ahead, pasted, over a slow line) those after `:` would reach the
table below, and ctrl+s would send a form without the letters before it.
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
"""Events whose order matters: they change the focus or depend on it."""
_MOST_WAITS_COUNT = 200
"""Limit of waits for one input: a widget that is never idle must not block typing."""
_OVERDUE_S = 5.0
"""How long to wait for a widget that does not respond."""


class InputOrder:
    """Queues inputs until every widget between the focus and the app has handled the last one."""

    def __init__(self, app: App[int], handle: Callable[[events.Event], Awaitable[None]]) -> None:
        """Create with an empty queue; `handle` processes an input as Textual does."""
        self._app = app
        self._handle = handle
        self._held: deque[events.Event] = deque()
        self._number = 0
        """Number of the input that is handled now; results of older inputs are ignored."""
        self._text_goes_to: Widget | None = None
        self._path: list[MessagePump] = []
        self._waits_left = 0
        self._awaited: MessagePump | None = None
        """The widget of the path that must respond next."""
        self._silent = WeakSet[MessagePump]()
        """Parts that did not answer in time, and have not since: they are not waited for.

        With only the last of them, two would hold up every input in turn.
        """
        self._watch: asyncio.TimerHandle | None = None

    @property
    def held_count(self) -> int:
        """Return how many inputs are queued."""
        return len(self._held)

    async def take(self, event: events.Event) -> None:
        """Pass an input on now, or after the earlier ones have taken effect."""
        self._held.append(event)
        if self._watch is None or (len(self._held) == 1 and self._goes_on_with(event)):
            await self._next(self._number)

    async def _next(self, number: int) -> None:
        """Pass the oldest input on; `number` is the one that was awaited."""
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
        """Pass the next input on though the previous one has not taken effect everywhere."""
        if number == self._number:
            if self._awaited is not None:
                self._silent.add(self._awaited)
            await self._next(number)

    def _taker(self, event: events.Event) -> Widget | None:
        """Return the editor that takes a key as a letter of its text; None for other keys."""
        focus = self._app.focused
        if focus is None or not isinstance(event, events.Key):
            return None
        return focus if focus.check_consume_key(event.key, event.character) else None

    def _goes_on_with(self, event: events.Event) -> bool:
        """Return whether the event is another letter for the same editor, which keeps
        their order.
        """
        goes_to = self._text_goes_to
        return goes_to is not None and self._taker(event) is goes_to

    def _begin(self) -> None:
        """Wait for the focused widget, then for each of its parents up to the app."""
        self._path = self._present_path()
        self._wait_for(self._number, 0)

    def _present_path(self) -> list[MessagePump]:
        if not self._app.screen_stack:
            return [self._app]
        path: list[MessagePump] = [*(self._app.focused or self._app.screen).ancestors_with_self]
        # What is being removed has lost its ancestors; the app has to hand over the next input.
        return path if path[-1] is self._app else [*path, self._app]

    def _wait_for(self, number: int, index: int) -> None:
        """Wait until a widget of the path has handled all its messages."""
        while index < len(self._path):
            part = self._path[index]
            on_reached = partial(self._was_passed, number, index, part)
            if part not in self._silent and part.call_later(on_reached):
                self._awaited = part
                return
            # It is being removed, and does nothing any more; or it answers nobody.
            index += 1

    async def _was_passed(self, number: int, index: int, part: MessagePump) -> None:
        """Wait a second time: Textual has removed one more message from the queue than it has
        handled.

        So it is in no queue's size, and would be overlooked.
        """
        if number == self._number and part.call_later(self._was_reached, number, index, part):
            return
        await self._was_reached(number, index, part)

    async def _was_reached(self, number: int, index: int, part: MessagePump) -> None:
        self._silent.discard(part)
        if number != self._number:
            return
        self._waits_left -= 1
        if self._waits_left > 0 and part.message_queue_size > 0:
            # It posted itself a message meanwhile, for example that its text changed.
            self._wait_for(number, index)
        elif index + 1 < len(self._path):
            self._wait_for(number, index + 1)
        elif self._waits_left > 0 and not self._rests():
            self._begin()
        else:
            await self._next(number)

    def _rests(self) -> bool:
        """Return whether no message is left, and the focus is unchanged."""
        if any(part.message_queue_size for part in self._path):
            return False
        # Otherwise a screen came or went, or the focus moved: the next input belongs there.
        return self._present_path() == self._path
