"""An app that no server text steers, that leaves the terminal as it was, crashing in private."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

from rich.console import RenderableType
from textual import events
from textual.app import App
from textual.driver import Driver
from textual.filter import LineFilter
from textual.notifications import SeverityLevel

from natstui.clean import clean_line, clean_text
from natstui.tui.ascii import ASCII
from natstui.tui.crash_log import crash_line, log_folder, write_crash_log
from natstui.tui.text import HARMLESS, safe_copy
from natstui.tui.themes import register_themes
from natstui.tui.too_small import TooSmall, too_small

_SAME_TOAST_S = 2.0
_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class GuardedApp(App[int]):
    """Filters every line, cleans toasts and clipboard, and ends well on signals and crashes."""

    def __init__(self, *, ascii_only: bool = False, log_to: Path | None = None) -> None:
        super().__init__()
        self._own_filters = (HARMLESS, ASCII) if ascii_only else (HARMLESS,)
        self._log_to = log_to
        self._last_words = ""
        self._toasts: dict[str, float] = {}
        register_themes(self)

    def get_driver_class(self) -> type[Driver]:
        """Return Textual's driver, but ours where that is the one of a Unix terminal."""
        chosen = super().get_driver_class()
        if chosen.__name__ != "LinuxDriver":
            return chosen
        # It cannot be imported everywhere.
        from natstui.tui.terminal_driver import TerminalDriver

        return TerminalDriver

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return Textual's filters and, after them, ours."""
        return (*super().get_line_filters(), *self._own_filters)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy text without what would act when it is pasted into a shell."""
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
        """Show a toast, once in a while if it repeats itself; its text is never markup."""
        if (now_s := monotonic()) - self._toasts.get(message, -_SAME_TOAST_S) < _SAME_TOAST_S:
            return
        self._toasts = {
            text: at for text, at in self._toasts.items() if now_s - at < _SAME_TOAST_S
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
        """Say what leaves, to whoever presses ctrl+c by habit: Textual says it in markup."""
        for key, active in self.active_bindings.items():
            if active.binding.action in ("quit", "app.quit"):
                self.notify(f"{key} leaves natstui")
                return

    def run_guarded(self, *, mouse: bool = True) -> int:
        """Run until the user leaves; return the exit code: 1 after a crash, 128 + signal."""
        self.run(mouse=mouse)
        sys.stderr.write(self._last_words)
        return self.return_code or 0

    def _on_mount(self) -> None:
        """Leave through the front door when the system asks us to."""
        if not self.is_headless:
            loop = asyncio.get_running_loop()
            for number in _ENDING_SIGNALS:
                loop.add_signal_handler(number, self._leave, number)

    def on_resize(self, event: events.Resize) -> None:
        """Say so when the terminal is too small to be of use."""
        if too_small(event.size):
            self.call_after_refresh(self._say_too_small)

    def _say_too_small(self) -> None:
        if too_small(self.size) and not isinstance(self.screen, TooSmall):
            self.push_screen(TooSmall())

    def _leave(self, number: int) -> None:
        """End with the exit code a shell expects after a signal."""
        self.exit(return_code=128 + number)

    def panic(self, *renderables: RenderableType) -> None:
        """Treat what Textual would print, values and all, like any other crash."""
        self._fatal_error()

    def _fatal_error(self) -> None:
        """Write the crash to a log and leave one line; Textual's own shows local variables."""
        error = self._exception or RuntimeError("panic without an exception")
        path = write_crash_log(error, self._log_to or log_folder())
        self._last_words = clean_line(crash_line(error, path)) + "\n"
        self._close_messages_no_wait()
