"""An app that removes control characters from server text, and restores the terminal however it
ends.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import monotonic
from typing import ClassVar
from weakref import WeakSet

from rich.console import RenderableType
from textual import events
from textual.actions import ActionParseResult
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.command import CommandList, CommandPalette
from textual.dom import DOMNode
from textual.driver import Driver
from textual.filter import LineFilter
from textual.geometry import Size
from textual.message_pump import MessagePump
from textual.notifications import SeverityLevel
from textual.screen import ModalScreen
from textual.theme import ThemeProvider
from textual.widget import Widget
from textual.widgets import Static

from natstui.clean import clean_line, clean_text
from natstui.defects import crash_line, log_folder, report_defects, write_crash_log
from natstui.tui.kit.styles import THEMES, ThemedStylesheet, register_themes
from natstui.tui.kit.text import (
    ASCII_FILTER,
    HARMLESS_FILTER,
    SIXTEEN_COLORS_FILTER,
    safe_copy,
    safe_lines,
)
from natstui.tui.kit.textual_fixes import TerminalSized

_SAME_TOAST_PAUSE_S = 2.0
_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
MIN_TERMINAL_SIZE = Size(60, 20)


class Palette(TerminalSized, CommandPalette):
    """Textual's command palette, which does not fail on a very small terminal."""

    def _action_command_list(self, action: str) -> None:
        # An invisible list has no pages, and Textual (8.2) fails.
        if self.query_one(CommandList).scrollable_content_region:
            super()._action_command_list(action)


ORDERED_EVENTS = (events.Key, events.Paste, events.MouseDown, events.MouseUp)
"""Events whose order matters: they change the focus or depend on it."""
_MAX_WAITS_PER_INPUT = 200
"""Limit of waits for one input: a widget that is never idle must not block typing."""
_WIDGET_TIMEOUT_S = 5.0
"""How long to wait for a widget that does not respond."""


class InputQueue:
    """Queues inputs until every widget between the focus and the app has handled the last one.

    Textual passes a key to the widget that has the focus when the key is read, not when its turn
    comes. Of keys in one burst (typed ahead, pasted, over a slow line) those after `:` would reach
    the table below, and ctrl+s would send a form without the letters before it.
    """

    def __init__(self, app: App[int], handle: Callable[[events.Event], Awaitable[None]]) -> None:
        """Create an empty queue; `handle` passes an input to its widget, as Textual does."""
        self._app = app
        self._handle = handle
        self._queue: deque[events.Event] = deque()
        self._current_input_number = 0
        """Number of the input that is handled now; results of older inputs are ignored."""
        self._editor: Widget | None = None
        self._awaited_focus_path: list[MessagePump] = []
        self._remaining_waits_count = 0
        self._awaited_widget: MessagePump | None = None
        """The widget of the path that must respond next."""
        self._unresponsive_widgets = WeakSet[MessagePump]()
        """Widgets that did not respond in time: not waited for until they respond again.

        All of them are kept: two such widgets would delay every input in turn.
        """
        self._widget_timeout: asyncio.TimerHandle | None = None

    @property
    def queued_count(self) -> int:
        """Return how many inputs are queued."""
        return len(self._queue)

    async def handle_in_order(self, event: events.Event) -> None:
        """Handle an input now, or after the earlier inputs have taken effect."""
        self._queue.append(event)
        if self._widget_timeout is None or (
            len(self._queue) == 1 and self._can_handle_directly(event)
        ):
            await self._handle_next(self._current_input_number)

    async def _handle_next(self, input_number: int) -> None:
        """Handle the oldest queued input, unless another one was handled after input
        `input_number`.
        """
        if input_number != self._current_input_number:
            return
        self._current_input_number += 1
        if self._widget_timeout is not None:
            self._widget_timeout.cancel()
            self._widget_timeout = None
        if not self._queue:
            return
        self._widget_timeout = asyncio.get_running_loop().call_later(
            _WIDGET_TIMEOUT_S, self._app.call_later, self._skip_widget, self._current_input_number
        )
        self._remaining_waits_count = _MAX_WAITS_PER_INPUT
        self._editor = self._find_editor(self._queue[0])
        await self._handle(self._queue.popleft())
        while self._queue and self._can_handle_directly(self._queue[0]):
            await self._handle(self._queue.popleft())
        self._wait_for_focus_path()

    async def _skip_widget(self, input_number: int) -> None:
        """Handle the next input although the awaited widget has not responded in time."""
        if input_number == self._current_input_number:
            if self._awaited_widget is not None:
                self._unresponsive_widgets.add(self._awaited_widget)
            await self._handle_next(input_number)

    def _find_editor(self, event: events.Event) -> Widget | None:
        """Return the focused editor if a key is a letter of its text; None for other keys."""
        focus = self._app.focused
        if focus is None or not isinstance(event, events.Key):
            return None
        return focus if focus.check_consume_key(event.key, event.character) else None

    def _can_handle_directly(self, event: events.Event) -> bool:
        """Return whether the event is a letter for the editor that received the previous event.

        Such a letter needs no wait: the editor handles its events in order.
        """
        editor = self._editor
        return editor is not None and self._find_editor(event) is editor

    def _wait_for_focus_path(self) -> None:
        """Wait for the focused widget, then for each of its parents up to the app."""
        self._awaited_focus_path = self._focus_path()
        self._wait_for_widget(self._current_input_number, 0)

    def _focus_path(self) -> list[MessagePump]:
        if not self._app.screen_stack:
            return [self._app]
        path: list[MessagePump] = [*(self._app.focused or self._app.screen).ancestors_with_self]
        # A widget that is being removed has no ancestors; the app must pass the next input.
        return path if path[-1] is self._app else [*path, self._app]

    def _wait_for_widget(self, input_number: int, index: int) -> None:
        """Wait until the widget at `index` of the awaited focus path has handled all its messages;
        skip widgets that do not respond.
        """
        while index < len(self._awaited_focus_path):
            widget = self._awaited_focus_path[index]
            on_queue_reached = partial(self._wait_again, input_number, index, widget)
            if widget not in self._unresponsive_widgets and widget.call_later(on_queue_reached):
                self._awaited_widget = widget
                return
            # The widget is being removed, or did not respond before.
            index += 1

    async def _wait_again(self, input_number: int, index: int, widget: MessagePump) -> None:
        """Wait a second time for a widget.

        Textual has removed one more message from its queue than it has handled; no queue size
        counts that message.
        """
        if input_number == self._current_input_number and widget.call_later(
            self._check_idle, input_number, index, widget
        ):
            return
        await self._check_idle(input_number, index, widget)

    async def _check_idle(self, input_number: int, index: int, widget: MessagePump) -> None:
        self._unresponsive_widgets.discard(widget)
        if input_number != self._current_input_number:
            return
        self._remaining_waits_count -= 1
        if self._remaining_waits_count > 0 and widget.message_queue_size > 0:
            # The widget posted itself a message, for example that its text changed.
            self._wait_for_widget(input_number, index)
        elif index + 1 < len(self._awaited_focus_path):
            self._wait_for_widget(input_number, index + 1)
        elif self._remaining_waits_count > 0 and not self._is_idle():
            self._wait_for_focus_path()
        else:
            await self._handle_next(input_number)

    def _is_idle(self) -> bool:
        """Return whether no widget of the awaited focus path has a message, and the focus is
        unchanged.
        """
        if any(widget.message_queue_size for widget in self._awaited_focus_path):
            return False
        # Otherwise a screen came or went, or the focus moved: the next input belongs there.
        return self._focus_path() == self._awaited_focus_path


class GuardedApp(App[int]):
    """Cleans the text that it shows and copies; writes crash reports to a private file."""

    def __init__(
        self, *, ascii_only: bool = False, crash_log_folder: Path | None = None, theme: str = ""
    ) -> None:
        """Create the app; it shows `theme`, or the default if the theme is unknown, from the first
        frame on.
        """
        super().__init__()
        self._line_filters = (HARMLESS_FILTER, ASCII_FILTER) if ascii_only else (HARMLESS_FILTER,)
        self._crash_log_folder = crash_log_folder
        self._crash_line = ""
        self._shown_at_s_by_toast: dict[str, float] = {}
        self._input = InputQueue(self, super().on_event)
        register_themes(self)
        is_known_theme = theme in self.available_themes
        # Not on mount: the first frame would be drawn in Textual's own theme.
        self.set_reactive(GuardedApp.theme, theme if is_known_theme else THEMES[0].name)
        self.stylesheet = ThemedStylesheet(variables=self.get_css_variables())

    def get_driver_class(self) -> type[Driver]:
        """Return natstui's terminal driver on Unix, else the one of Textual."""
        driver_class = super().get_driver_class()
        if driver_class.__name__ != "LinuxDriver":
            return driver_class
        # It cannot be imported everywhere.
        from natstui.tui.app.terminal_driver import TerminalDriver

        return TerminalDriver

    async def on_event(self, event: events.Event) -> None:
        """Handle an event; keys, pastes and clicks in their order."""
        if isinstance(event, ORDERED_EVENTS) and not event.is_forwarded:
            await self._input.handle_in_order(event)
        else:
            await super().on_event(event)

    @property
    def waiting_event_count(self) -> int:
        """Return the number of events that wait for the app, including queued inputs."""
        return self.message_queue_size + self._input.queued_count

    def action_command_palette(self) -> None:
        """Show the command palette, unless one is already open."""
        is_already_open = any(isinstance(screen, CommandPalette) for screen in self.screen_stack)
        if self.use_command_palette and not is_already_open:
            self.push_screen(Palette(id="--command-palette"))

    def search_themes(self) -> None:
        """Show the themes to choose from."""
        placeholder = "Search for themes…"
        self.push_screen(Palette(providers=[ThemeProvider], placeholder=placeholder))

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Execute the action of a key; return whether it was executed or has to wait.

        An exception in the action is reported, and the app continues. The action waits for a
        screen that is still being created: on a busy machine a key may come first.
        """
        screen = default_namespace.screen if isinstance(default_namespace, Widget) else None
        if screen is not None and not screen.is_mounted:
            retry = partial(self.run_action, action, default_namespace, namespaces)
            return screen.call_later(retry)
        with report_defects("the action of the key", self.report_defect):
            if not await super().run_action(action, default_namespace, namespaces):
                return False
        return True

    def report_defect(self, sentence: str) -> None:
        """Show a sentence about a defect of natstui for 15 s."""
        self.notify(sentence, severity="error", timeout=15)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return the filters for drawn lines: those of Textual, then those of natstui."""
        # Only a terminal has few colours; a picture has all of them.
        has_few_colors = self.console.color_system == "standard" and not self.is_headless
        return (
            *super().get_line_filters(),
            *self._line_filters,
            *((SIXTEEN_COLORS_FILTER,) if has_few_colors else ()),
        )

    def clear_selection(self) -> None:
        """Deselect the text on the screen in view, if there is one.

        From Python 3.12 on, the inputs of the first screen call this before it is on the stack,
        and Textual (8.2) raises: https://github.com/Textualize/textual/issues/6444
        """
        if self.screen_stack:
            super().clear_selection()

    def copy_to_clipboard(self, text: str) -> None:
        """Copy text without control characters, which a shell would execute when pasted."""
        super().copy_to_clipboard(safe_copy(text))

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Show a toast, never as markup; the same text is not shown again within 2 s."""
        if (now_s := monotonic()) - self._shown_at_s_by_toast.get(
            message, -_SAME_TOAST_PAUSE_S
        ) < _SAME_TOAST_PAUSE_S:
            return
        self._shown_at_s_by_toast = {
            text: shown_at_s
            for text, shown_at_s in self._shown_at_s_by_toast.items()
            if now_s - shown_at_s < _SAME_TOAST_PAUSE_S
        }
        self._shown_at_s_by_toast[message] = now_s
        super().notify(
            clean_text(message),
            title=clean_line(title),
            severity=severity,
            timeout=timeout,
            markup=False,
        )

    def action_help_quit(self) -> None:
        """Show which key quits, after ctrl+c; Textual would show the text as markup."""
        for key, active_binding in self.active_bindings.items():
            if active_binding.binding.action in ("quit", "app.quit"):
                self.notify(f"{key} leaves natstui")
                return

    def run_guarded(self, *, mouse: bool = True) -> int:
        """Run until the user leaves; return the exit code: 0, 1 after a crash, or 128 + the number
        of the signal that ended the app.
        """
        self.run(mouse=mouse)
        sys.stderr.write(self._crash_line)
        return self.return_code or 0

    def _on_mount(self) -> None:
        """Make signals quit the app normally, so that the terminal is restored."""
        if not self.is_headless:
            loop = asyncio.get_running_loop()
            for signal_number in _ENDING_SIGNALS:
                loop.add_signal_handler(signal_number, self._quit_after_signal, signal_number)

    def on_resize(self, event: events.Resize) -> None:
        """Show a notice if the terminal is too small."""
        if is_too_small(event.size):
            self.call_after_refresh(self._show_too_small)

    def _show_too_small(self) -> None:
        if is_too_small(self.size) and not isinstance(self.screen, TooSmallNotice):
            self.push_screen(TooSmallNotice())

    def _quit_after_signal(self, signal_number: int) -> None:
        """Quit with the exit code that a shell expects after a signal."""
        self.exit(return_code=128 + signal_number)

    def panic(self, *renderables: RenderableType) -> None:
        """Write a crash report; Textual would print all local variables."""
        self._fatal_error()

    def _fatal_error(self) -> None:
        """Write the crash to a log and print one line; Textual would print local variables."""
        error = self._exception or RuntimeError("panic without an exception")
        if self.is_web and isinstance(error, BrokenPipeError):
            # The page was closed, or its server was killed: as a terminal that hangs up.
            self._return_code = 128 + signal.SIGHUP
            self._close_messages_no_wait()
            return
        log_path = write_crash_log(error, self._crash_log_folder or log_folder())
        self._crash_line = clean_line(crash_line(error, log_path)) + "\n"
        # Textual sets it for an exception of a handler, not for a panic of its own.
        self._return_code = 1
        self._close_messages_no_wait()


def remove_toast(app: App[int], message: str) -> None:
    """Remove every toast with the text `message`, for example if it is no longer true."""
    for notification in list(app._notifications):
        if notification.message == clean_text(message):
            app._unnotify(notification)


def is_too_small(size: Size) -> bool:
    """Return whether a terminal of this size is too small."""
    return size.width < MIN_TERMINAL_SIZE.width or size.height < MIN_TERMINAL_SIZE.height


class TooSmallNotice(TerminalSized, ModalScreen[None]):
    """A notice that the terminal is too small; it closes when it is large enough."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q", "app.quit", "Quit", show=False)]
    DEFAULT_CSS = """
    TooSmallNotice Static { width: auto; height: auto; text-align: center; }
    """

    def compose(self) -> ComposeResult:
        """Yield the notice."""
        yield Static(markup=False)

    def on_resize(self) -> None:
        """Show the current terminal size, or close if it is large enough."""
        self._check_size()

    def on_screen_resume(self) -> None:
        """Close if the terminal has become large enough below another screen."""
        self._check_size()

    def _check_size(self) -> None:
        size = self.app.size
        if not is_too_small(size):
            self.dismiss()
        else:
            min_size = f"{MIN_TERMINAL_SIZE.width}×{MIN_TERMINAL_SIZE.height}"
            text = f"{size.width}×{size.height} is too small:\nenlarge the terminal to {min_size}"
            self.query_one(Static).update(safe_lines(text))
