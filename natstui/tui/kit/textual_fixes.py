"""Workarounds for hangs and crashes of Textual 8.2, each with its upstream issue.

Importing this module changes `textual.timer.Timer`; `TerminalSized` is a base of all screens. A
workaround is removed with the first required version of Textual in which its test passes without
it.
"""

from __future__ import annotations

from typing import Any, cast

from textual import events
from textual.await_complete import AwaitComplete
from textual.geometry import Offset
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget

_init_timer = Timer.__init__


def _init_timer_that_fires(
    timer: Timer, target: MessagePump, interval: float, **options: Any
) -> None:
    """Initialise a timer; a single-shot timer fires also if it is overdue."""
    is_single_shot = options.get("repeat") == 0
    _init_timer(timer, target, interval, **options | ({"skip": False} if is_single_shot else {}))


# Textual skips what is overdue: on a busy machine a timer that fires once never does, one of 0 s
# ends with ZeroDivisionError, and the one of a toast that has expired (a negative interval) loops
# for ever while everything else stands still. Textual makes these timers itself, so a subclass
# cannot help. https://github.com/Textualize/textual/issues/6370 is open as of 8.2.8.
Timer.__init__ = _init_timer_that_fires  # type: ignore[method-assign,assignment]


class TerminalSized(MessagePump):
    """A screen that is laid out for the current terminal size, not for an earlier one.

    With every layout, a screen of Textual posts its size to itself again. In a batch, two sizes in
    its queue are then posted alternately forever. There is no upstream issue; the test of resizing
    in a batch shows the defect.
    """

    _delayed_result: tuple[object] | None = None
    """The result to dismiss with once the screen is on top."""

    def dismiss(self, result: object = None) -> AwaitComplete:
        """Close this screen: at once if it is on top, else when it comes to the top.

        Textual would close the top screen, perhaps a form with typed text, and crash for a screen
        that is already closed: https://github.com/Textualize/textual/issues/4884
        """
        stack: list[Any] = self.app.screen_stack
        if stack and stack[-1] is self:
            awaitable: AwaitComplete = cast("Screen[Any]", super()).dismiss(result)
            return awaitable
        self._delayed_result = self._delayed_result or (result,)
        return AwaitComplete()

    def on_screen_resume(self) -> None:
        """Close this screen if `dismiss` was called while another screen was above it."""
        if (result := self._delayed_result) is not None:
            self._delayed_result = None
            self.dismiss(*result)

    async def _on_resize(self, event: events.Resize) -> None:
        """Ignore an outdated size: the app reports the newest size to every screen."""
        if event.size != self.app.size:
            event.stop()
            event.prevent_default()

    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        """Return the widget at a position; None if it was removed but is still drawn.

        Textual would select text in the missing parent of such a widget and crash, as for a click
        beside all widgets: https://github.com/Textualize/textual/issues/6596
        """
        widget, offset = cast("Screen[Any]", super()).get_widget_and_offset_at(x, y)
        if widget is None or not widget.is_attached:
            return None, None
        return widget, offset
