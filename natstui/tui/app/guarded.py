"""An app that server text cannot control, and that restores the terminal however it ends."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import KeysView, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from time import monotonic
from typing import Any

import textual._compositor
import textual.screen
import textual.strip
from rich.console import RenderableType
from textual import events
from textual._segment_tools import make_blank
from textual._styles_cache import StylesCache
from textual.actions import ActionParseResult
from textual.app import App
from textual.color import Color
from textual.command import CommandList, CommandPalette
from textual.css.scalar import Scalar
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode
from textual.driver import Driver
from textual.filter import LineFilter
from textual.geometry import Region
from textual.message_pump import MessagePump
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.strip import Strip
from textual.style import Style
from textual.theme import ThemeProvider
from textual.timer import Timer
from textual.widget import Widget

from natstui.clean import clean_line, clean_text
from natstui.defects import contained, crash_line, log_folder, write_crash_log
from natstui.tui.kit.input_order import ORDERED, InputOrder
from natstui.tui.kit.looks import THEMES, register_themes
from natstui.tui.kit.text import ASCII, HARMLESS, SIXTEEN, safe_copy
from natstui.tui.kit.too_small import TerminalSized, TooSmall, too_small

_SAME_TOAST_S = 2.0
_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@lru_cache(1024)
def _grounds(base: Color, ground: Color) -> tuple[Style, Style]:
    """Return the style inside a border and the one outside."""
    return Style(background=base + ground), Style(background=base)


# Textual (8.2) remembers these per widget: a thousand closed widgets stay in memory with every
# line that was drawn of them (its issue 6665).
StylesCache.get_inner_outer = staticmethod(_grounds)  # type: ignore[method-assign,assignment]


_make_timer = Timer.__init__


def _make_certain(timer: Timer, target: MessagePump, interval: float, **words: Any) -> None:
    """Make a timer that rings though it is due already."""
    rings_once = words.get("repeat") == 0
    _make_timer(timer, target, interval, **words | ({"skip": False} if rings_once else {}))


# Textual (8.2) skips what is overdue: a timer that rings once never does where the machine is busy
# at that moment, and the one of a toast that ran out while it was made turns round for ever, with
# everything else standing still.
Timer.__init__ = _make_certain  # type: ignore[method-assign,assignment]


_NOTHING: dict[Any, Any] = {}


class _Remembered:
    """The two newest of what a line was made into; costs next to nothing until there is one."""

    __slots__ = ("_kept",)

    def __init__(self, _maxsize: int) -> None:
        self._kept = _NOTHING

    def __len__(self) -> int:
        return len(self._kept)

    def keys(self) -> KeysView[Any]:
        """Return what it has a line for, the older one first."""
        return self._kept.keys()

    def get(self, key: Any) -> Any:
        """Return the line, or None."""
        return self._kept.get(key)

    def __setitem__(self, key: Any, line: Any) -> None:
        """Keep a line."""
        if self._kept is _NOTHING:
            self._kept = {}
        elif len(self._kept) == 2 and key not in self._kept:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = line


# Textual (8.2) gives each line on the screen seven caches of up to sixteen lines: of ten thousand
# lines, most stay empty, and most of the others are never asked for a third one.
textual.strip.FIFOCache = _Remembered  # type: ignore[attr-defined,assignment]


class _ScreensBelow:
    """The screens below the one that is being drawn, while it is drawn."""

    def __init__(self) -> None:
        self._screens: list[Screen[Any]] = []

    def set(self, screens: list[Screen[Any]]) -> None:
        """Keep them."""
        self._screens = screens

    def get(self) -> list[Screen[Any]]:
        """Return the list, from which the drawing takes one after the other."""
        return self._screens


_SCREENS_BELOW = _ScreensBelow()

# In Textual (8.2) they are a variable of the context: every task that begins later has a copy, and
# one that lives long keeps a closed form of hundreds of widgets.
for _module in (textual._compositor, textual.screen):
    _module.visible_screen_stack = _SCREENS_BELOW  # type: ignore[attr-defined]

# A layout asks for hundreds of lengths; Textual keeps four thousand.
Scalar.resolve = lru_cache(1024)(Scalar.resolve.__wrapped__)  # type: ignore[method-assign]

_KNOWN = (*vars(Region).values(), Scalar.resolve, make_blank, Strip.blank, Strip.render_ansi)
_OF_ONE_SIZE = tuple(found for found in _KNOWN if hasattr(found, "cache_clear"))


def _forget_sizes() -> None:
    """Let Textual forget what it knows of the old size: areas, lengths, lines and their styles.

    It would keep tens of thousands of them, and they come no more.
    """
    for found in _OF_ONE_SIZE:
        found.cache_clear()


class _Styles(Stylesheet):
    """The styles, parsed again only for another theme.

    Textual (8.2) also parses all of them for each mode that is new, and three times at the start.
    """

    def set_variables(self, variables: dict[str, str]) -> None:
        """Take the colours of a theme."""
        if variables != self._variables:
            super().set_variables(variables)
            self._require_parse = True

    def reparse(self) -> None:
        """Parse what was not parsed with these colours."""
        if self._require_parse:
            super().reparse()


class Palette(TerminalSized, CommandPalette):
    """Textual's palette, on a terminal of any size."""

    def _action_command_list(self, action: str) -> None:
        # While it is not to be seen it has no pages, and Textual (8.2) fails.
        if self.query_one(CommandList).scrollable_content_region:
            super()._action_command_list(action)


class GuardedApp(App[int]):
    """Cleans what it shows and copies; keeps the report of a crash in a private file."""

    def __init__(
        self, *, ascii_only: bool = False, log_to: Path | None = None, theme: str = ""
    ) -> None:
        """`theme` is shown from the first frame on; one that is not known is our first."""
        super().__init__()
        self._own_filters = (HARMLESS, ASCII) if ascii_only else (HARMLESS,)
        self._log_to = log_to
        self._crash_line = ""
        self._toasts: dict[str, float] = {}
        self._input = InputOrder(self, super().on_event)
        register_themes(self)
        known = theme in self.available_themes
        # Not when it is mounted: all styles would be worked out twice before the first frame.
        self.set_reactive(GuardedApp.theme, theme if known else THEMES[0].name)
        self.stylesheet = _Styles(variables=self.get_css_variables())

    def get_driver_class(self) -> type[Driver]:
        """Return our terminal driver on Unix, else the one Textual chose."""
        chosen = super().get_driver_class()
        if chosen.__name__ != "LinuxDriver":
            return chosen
        # It cannot be imported everywhere.
        from natstui.tui.kit.terminal_driver import TerminalDriver

        return TerminalDriver

    async def on_event(self, event: events.Event) -> None:
        """Handle keys, pastes and clicks in the order they came."""
        if isinstance(event, events.Resize):
            _forget_sizes()
        if isinstance(event, ORDERED) and not event.is_forwarded:
            await self._input.take(event)
        else:
            await super().on_event(event)

    @property
    def waiting_count(self) -> int:
        """How many events wait for the app, the inputs it holds back included."""
        return self.message_queue_size + self._input.held_count

    def action_command_palette(self) -> None:
        """Show what can be done, to choose from; one palette only, also below another screen."""
        open_already = any(isinstance(screen, CommandPalette) for screen in self.screen_stack)
        if self.use_command_palette and not open_already:
            self.push_screen(Palette(id="--command-palette"))

    def search_themes(self) -> None:
        """Show the themes, to choose from."""
        words = "Search for themes…"
        self.push_screen(Palette(providers=[ThemeProvider], placeholder=words))

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Do what a key says; a defect in it is reported, and the app goes on.

        A screen that is still being made does it as soon as it is there: on a busy machine a key
        may come first.
        """
        screen = default_namespace.screen if isinstance(default_namespace, Widget) else None
        if screen is not None and not screen.is_mounted:
            later = partial(self.run_action, action, default_namespace, namespaces)
            return screen.call_later(later)
        with contained("what the key asked for", self.report_defect):
            if not await super().run_action(action, default_namespace, namespaces):
                return False
        return True

    def report_defect(self, sentence: str) -> None:
        """Show the sentence about a defect long enough to be read."""
        self.notify(sentence, severity="error", timeout=15)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return Textual's filters and, after them, ours."""
        # Only a terminal has few colours; a picture has all of them.
        few = self.console.color_system == "standard" and not self.is_headless
        return (*super().get_line_filters(), *self._own_filters, *((SIXTEEN,) if few else ()))

    def clear_selection(self) -> None:
        """Deselect the text on the screen in view, if there is one.

        From Python 3.12 on, the inputs of the first screen call this before it is on the stack,
        and Textual (8.2) raises: https://github.com/Textualize/textual/issues/6444
        """
        if self.screen_stack:
            super().clear_selection()

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
        """Show a toast, never as markup; the same text again within 2 s is not shown."""
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
        """Say which key quits when somebody presses ctrl+c: Textual says it in markup."""
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
        """End with the exit code a shell expects after a signal."""
        self.exit(return_code=128 + number)

    def panic(self, *renderables: RenderableType) -> None:
        """Write a crash report instead of what Textual would print with all values."""
        self._fatal_error()

    def _fatal_error(self) -> None:
        """Write the crash to a log and leave one line; Textual's own shows local variables."""
        error = self._exception or RuntimeError("panic without an exception")
        path = write_crash_log(error, self._log_to or log_folder())
        self._crash_line = clean_line(crash_line(error, path)) + "\n"
        # Textual sets it for an exception of a handler, not for a panic of its own.
        self._return_code = 1
        self._close_messages_no_wait()


def take_back(app: App[int], message: str) -> None:
    """Remove a toast that is no longer so."""
    for one in list(app._notifications):
        if one.message == clean_text(message):
            app._unnotify(one)
