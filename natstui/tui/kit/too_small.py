"""Screens as large as the terminal, and what stands on one that is too small."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from textual import events
from textual.app import App, ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.geometry import Offset, Size
from textual.message_pump import MessagePump
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Static

from natstui.tui.kit.text import safe_lines

LEAST = Size(60, 20)
HIDDEN_S = 5.0
"""So long a screen that is not on top keeps what was drawn of it."""


def too_small(size: Size) -> bool:
    """Tell whether a terminal of this size cannot be used."""
    return size.width < LEAST.width or size.height < LEAST.height


def _forget_hidden(app: App[Any]) -> None:
    """Let go of what was drawn of screens that are not on top: every line keeps its cuts."""
    for stack in app._screen_stacks.values():
        for screen in stack:
            if not screen.is_active:
                for widget in screen.walk_children(Widget):
                    widget._styles_cache.clear()


class TerminalSized(MessagePump):
    """A screen that is laid out for the terminal as it is now, for no size it had before.

    With every layout a screen of Textual tells itself its new size once more. While nothing is
    drawn, as in a batch, two sizes that wait in its queue are told in turn for ever.
    """

    _result: tuple[object] | None = None
    """With what it is to be closed once it lies on top."""

    def dismiss(self, result: object = None) -> AwaitComplete:
        """Close this screen and no other: at once on top, else as soon as it comes to the top.

        Textual (8.2) closes whatever lies on top, perhaps a form with typed text, and fails for a
        screen that is closed already.
        """
        stack: list[Any] = self.app.screen_stack
        if stack and stack[-1] is self:
            closed: AwaitComplete = cast("Screen[Any]", super()).dismiss(result)
            return closed
        self._result = self._result or (result,)
        return AwaitComplete()

    def on_screen_resume(self) -> None:
        """Close, if that was asked for while something else lay on it; what is hidden may go."""
        app = self.app
        app.set_timer(HIDDEN_S, lambda: _forget_hidden(app))
        if (result := self._result) is not None:
            self._result = None
            self.dismiss(*result)

    async def _on_resize(self, event: events.Resize) -> None:
        """Leave a size out that is outdated: the app tells every screen the newest."""
        if event.size != self.app.size:
            event.stop()
            event.prevent_default()

    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        """Return what a click is on; nothing, when that was removed and is only still drawn.

        Textual (8.2) would begin to select text in the parent it no longer has, and crash.
        """
        widget, offset = cast("Screen[Any]", super()).get_widget_and_offset_at(x, y)
        if widget is None or not widget.is_attached:
            return None, None
        return widget, offset


class TooSmall(TerminalSized, ModalScreen[None]):
    """Says how large the terminal must be, and goes when it is."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q", "app.quit", "Quit", show=False)]
    DEFAULT_CSS = """
    TooSmall Static { width: auto; height: auto; text-align: center; }
    """

    def compose(self) -> ComposeResult:
        """Yield the sentence."""
        yield Static(markup=False)

    def on_resize(self) -> None:
        """Say the present size, or give the screen back."""
        self._look()

    def on_screen_resume(self) -> None:
        """Go when the terminal has become large enough below another screen."""
        self._look()

    def _look(self) -> None:
        size = self.app.size
        if not too_small(size):
            self.dismiss()
        else:
            least = f"{LEAST.width}×{LEAST.height}"
            text = f"{size.width}×{size.height} is too small:\nenlarge the terminal to {least}"
            self.query_one(Static).update(safe_lines(text))
