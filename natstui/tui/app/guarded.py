"""An app that server text cannot control, and that restores the terminal however it ends."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from time import monotonic
from typing import ClassVar

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
from textual.notifications import SeverityLevel
from textual.screen import ModalScreen
from textual.theme import ThemeProvider
from textual.widget import Widget
from textual.widgets import Static

from natstui.clean import clean_line, clean_text
from natstui.defects import contained, crash_line, log_folder, write_crash_log
from natstui.tui.app.input_order import ORDERED, InputOrder
from natstui.tui.kit.looks import THEMES, ThemedStylesheet, register_themes
from natstui.tui.kit.text import ASCII, HARMLESS, SIXTEEN, safe_copy, safe_lines
from natstui.tui.kit.textual_fixes import TerminalSized

_SAME_TOAST_S = 2.0
_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
LEAST = Size(60, 20)


class Palette(TerminalSized, CommandPalette):
    """Textual's palette, on a terminal of any size."""

    def _action_command_list(self, action: str) -> None:
        # While it is not to be seen it has no pages, and Textual (8.2) fails.
        if self.query_one(CommandList).scrollable_content_region:
            super()._action_command_list(action)


class GuardedApp(App[int]):
    """Cleans the text that it shows and copies; writes crash reports to a private file."""

    def __init__(
        self, *, ascii_only: bool = False, log_to: Path | None = None, theme: str = ""
    ) -> None:
        """Create the app with `theme` from the first frame on; an unknown one is replaced by the
        default.
        """
        super().__init__()
        self._own_filters = (HARMLESS, ASCII) if ascii_only else (HARMLESS,)
        self._log_to = log_to
        self._crash_line = ""
        self._toasts: dict[str, float] = {}
        self._input = InputOrder(self, super().on_event)
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
        """Handle keys, pastes and clicks in their order."""
        if isinstance(event, ORDERED) and not event.is_forwarded:
            await self._input.take(event)
        else:
            await super().on_event(event)

    @property
    def waiting_count(self) -> int:
        """Return how many events wait for the app, including queued inputs."""
        return self.message_queue_size + self._input.held_count

    def action_command_palette(self) -> None:
        """Show the command palette, unless one is already open."""
        open_already = any(isinstance(screen, CommandPalette) for screen in self.screen_stack)
        if self.use_command_palette and not open_already:
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
        """Execute the action of a key; a defect in it is reported, and the app continues.

        On a screen that is still being created, the action waits until it exists: on a busy
        machine a key may come first.
        """
        screen = default_namespace.screen if isinstance(default_namespace, Widget) else None
        if screen is not None and not screen.is_mounted:
            retry = partial(self.run_action, action, default_namespace, namespaces)
            return screen.call_later(retry)
        with contained("the action of the key", self.report_defect):
            if not await super().run_action(action, default_namespace, namespaces):
                return False
        return True

    def report_defect(self, sentence: str) -> None:
        """Show the sentence of a defect long enough to be read."""
        self.notify(sentence, severity="error", timeout=15)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return Textual's filters, then natstui's."""
        # Only a terminal has few colours; a picture has all of them.
        has_few_colors = self.console.color_system == "standard" and not self.is_headless
        return (
            *super().get_line_filters(),
            *self._own_filters,
            *((SIXTEEN,) if has_few_colors else ()),
        )

    def clear_selection(self) -> None:
        """Deselect the text on the screen in view, if there is one.

        From Python 3.12 on, the inputs of the first screen call this before it is on the stack,
        and Textual (8.2) raises: https://github.com/Textualize/textual/issues/6444
        """
        if self.screen_stack:
            super().clear_selection()

    def copy_to_clipboard(self, text: str) -> None:
        """Copy text without characters that would act when it is pasted into a shell."""
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
        if (now_s := monotonic()) - self._toasts.get(message, -_SAME_TOAST_S) < _SAME_TOAST_S:
            return
        self._toasts = {
            text: shown_at_s
            for text, shown_at_s in self._toasts.items()
            if now_s - shown_at_s < _SAME_TOAST_S
        }
        self._toasts[message] = now_s
        super().notify(
            clean_text(message),
            title=clean_line(title),
            severity=severity,
            timeout=timeout,
            markup=False,
        )

    def action_help_quit(self) -> None:
        """Show which key quits after ctrl+c: Textual shows it as markup."""
        for key, active in self.active_bindings.items():
            if active.binding.action in ("quit", "app.quit"):
                self.notify(f"{key} leaves natstui")
                return

    def run_guarded(self, *, mouse: bool = True) -> int:
        """Run until the user leaves; return the exit code: 1 after a crash, 128 + signal."""
        self.run(mouse=mouse)
        sys.stderr.write(self._crash_line)
        return self.return_code or 0

    def _on_mount(self) -> None:
        """Restore the terminal also when a signal ends the app."""
        if not self.is_headless:
            loop = asyncio.get_running_loop()
            for number in _ENDING_SIGNALS:
                loop.add_signal_handler(number, self._leave, number)

    def on_resize(self, event: events.Resize) -> None:
        """Show a notice when the terminal is too small to be usable."""
        if too_small(event.size):
            self.call_after_refresh(self._say_too_small)

    def _say_too_small(self) -> None:
        if too_small(self.size) and not isinstance(self.screen, TooSmall):
            self.push_screen(TooSmall())

    def _leave(self, number: int) -> None:
        """Quit with the exit code that a shell expects after a signal."""
        self.exit(return_code=128 + number)

    def panic(self, *renderables: RenderableType) -> None:
        """Write a crash report; Textual would print all local variables."""
        self._fatal_error()

    def _fatal_error(self) -> None:
        """Write the crash to a log and print one line; Textual would print local variables."""
        error = self._exception or RuntimeError("panic without an exception")
        if self.is_web and isinstance(error, BrokenPipeError):
            # The page was closed, or what serves it was killed: as a terminal that hangs up.
            self._return_code = 128 + signal.SIGHUP
            self._close_messages_no_wait()
            return
        path = write_crash_log(error, self._log_to or log_folder())
        self._crash_line = clean_line(crash_line(error, path)) + "\n"
        # Textual sets it for an exception of a handler, not for a panic of its own.
        self._return_code = 1
        self._close_messages_no_wait()


def take_back(app: App[int], message: str) -> None:
    """Remove a toast whose text is no longer true."""
    for notification in list(app._notifications):
        if notification.message == clean_text(message):
            app._unnotify(notification)


def too_small(size: Size) -> bool:
    """Return whether a terminal of this size is too small."""
    return size.width < LEAST.width or size.height < LEAST.height


class TooSmall(TerminalSized, ModalScreen[None]):
    """A notice that the terminal is too small; it closes when it is large enough."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q", "app.quit", "Quit", show=False)]
    DEFAULT_CSS = """
    TooSmall Static { width: auto; height: auto; text-align: center; }
    """

    def compose(self) -> ComposeResult:
        """Yield the notice."""
        yield Static(markup=False)

    def on_resize(self) -> None:
        """Show the current size, or close."""
        self._look()

    def on_screen_resume(self) -> None:
        """Close if the terminal has become large enough below another screen."""
        self._look()

    def _look(self) -> None:
        size = self.app.size
        if not too_small(size):
            self.dismiss()
        else:
            least = f"{LEAST.width}×{LEAST.height}"
            text = f"{size.width}×{size.height} is too small:\nenlarge the terminal to {least}"
            self.query_one(Static).update(safe_lines(text))
