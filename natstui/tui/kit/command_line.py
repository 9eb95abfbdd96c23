"""The line at the bottom for `:` commands and `/` filters."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.suggester import Suggester
from textual.widgets import Input, Label, Static

from natstui.clean import clean_line
from natstui.tui.kit.text import safe

MAX_HISTORY_ENTRIES = 100
MAX_COUNTED_SUGGESTIONS = 1000
"""Maximum number of suggestions that are counted after each typed letter."""
_SUGGESTION_GAP = "  "
_SIDE_PADDING_CELLS = 1


def suggestions_text(suggestions: Sequence[str], width: int) -> str:
    """Return the suggestions that fit into `width` cells, then the number of the others."""
    texts = [clean_line(suggestion) for suggestion in suggestions]
    used_cells = list(
        accumulate(cell_len(suggestion) + len(_SUGGESTION_GAP) for suggestion in texts)
    )
    if not texts or used_cells[-1] - len(_SUGGESTION_GAP) <= width:
        return _SUGGESTION_GAP.join(texts)
    plus_sign = "+" if len(texts) == MAX_COUNTED_SUGGESTIONS else ""
    for fitting_count in reversed(range(bisect_right(used_cells, width) + 1)):
        more_text = f"… {len(texts) - fitting_count:,}{plus_sign} more, type to narrow"
        if (used_cells[fitting_count - 1] if fitting_count else 0) + len(more_text) <= width:
            break
    return _SUGGESTION_GAP.join([*texts[:fitting_count], more_text])


class LastWordSuggester(Suggester):
    """A suggester that completes the last word of a line, and lists all its completions."""

    @abstractmethod
    def suggestions(self, value: str, max_count: int) -> list[str]:
        """Return the completions of a line's last word, at most `max_count`."""


class CommandLine(Horizontal):
    """The command line: hidden until it is opened with its prefix, and focused while open."""

    DEFAULT_CSS = """
    CommandLine {
        dock: bottom; height: 1; display: none; background: $panel; margin: 0 0 1 0;
        layout: grid; grid-size: 2; grid-columns: 1 1fr; grid-rows: 1;
        Label { width: auto; color: $text-accent; text-style: bold; }
        Input { width: 1fr; }
        #offers {
            display: none; column-span: 2; padding: 0 1; color: $text-muted; text-wrap: nowrap;
        }
    }
    CommandLine.-open { display: block; }
    CommandLine.-offering { height: 2; }
    CommandLine.-offering #offers { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", id="line.cancel"),
        Binding("up", "older", "Older", show=False, id="line.older"),
        Binding("down", "newer", "Newer", show=False, id="line.newer"),
        Binding("tab", "complete", "Complete", show=False, id="line.complete", priority=True),
    ]

    @dataclass
    class Entered(Message):
        """The user entered a command after `:`."""

        text: str

    @dataclass
    class FilterChanged(Message):
        """The user typed in the filter after `/`, or cancelled it: the text is empty then."""

        text: str

    history: ClassVar[dict[str, list[str]]] = {":": [], "/": []}
    suggester: ClassVar[LastWordSuggester | None] = None
    """The suggester for `:`; set once by the app."""

    def __init__(self) -> None:
        super().__init__()
        self.prefix = ":"
        self._history_index = 0

    def compose(self) -> ComposeResult:
        """Yield the suggestions, then prefix and input."""
        yield Static(id="offers", markup=False)
        yield Label(":", markup=False)
        line = Input(compact=True, select_on_focus=False)
        # On a screen with nothing else to focus, the hidden line would receive the keys.
        line.can_focus = False
        yield line

    @property
    def is_open(self) -> bool:
        """Return whether the line is open."""
        return self.has_class("-open")

    def open(self, prefix: str, text: str = "") -> None:
        """Show the line with a prefix and focus it."""
        self.prefix = prefix
        self._history_index = len(self.history[prefix])
        self.query_one(Label).update(prefix)
        line = self.query_one(Input)
        line.suggester = self.suggester if prefix == ":" else None
        self.add_class("-open")
        self.set_class(prefix == ":", "-offering")
        self._show_suggestions(text)
        with line.prevent(Input.Changed):
            line.value = text
        line.cursor_position = len(text)
        line.can_focus = True
        # Not line.focus(), which is delayed: the line must receive the next key.
        self.screen.set_focus(line)

    def close(self) -> None:
        """Hide the line, and focus a widget of the screen."""
        self.remove_class("-open")
        self.screen.focus_next("BigTable, RawView, VerticalScroll, OptionList")
        line = self.query_one(Input)
        if self.screen.focused is line:
            self.screen.set_focus(None)
        line.can_focus = False

    def on_input_changed(self, event: Input.Changed) -> None:
        """Post the typed filter, and show the suggestions for a typed command."""
        event.stop()
        if self.is_open and self.prefix == "/":
            self.post_message(self.FilterChanged(event.value))
        self._show_suggestions(event.value)

    def _show_suggestions(self, text: str) -> None:
        """Show the completions of the last word that fit, and the number of the others."""
        if self.prefix != ":" or self.suggester is None:
            return
        suggestions = self.suggester.suggestions(text, MAX_COUNTED_SUGGESTIONS)
        line = suggestions_text(suggestions, self.screen.size.width - 2 * _SIDE_PADDING_CELLS)
        self.query_one("#offers", Static).update(safe(line))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Store the entry in the history, close the line, and post it."""
        event.stop()
        self._store_entry()
        self.close()
        message_class = self.FilterChanged if self.prefix == "/" else self.Entered
        self.post_message(message_class(event.value))

    def _store_entry(self) -> None:
        history, text = self.history[self.prefix], self.query_one(Input).value
        if text and history[-1:] != [text]:
            history.append(text)
            del history[:-MAX_HISTORY_ENTRIES]

    def on_descendant_blur(self, _event: events.DescendantBlur) -> None:
        """Close when another widget gets the focus, for example by a click."""
        if self.is_open:
            self._store_entry()
        self.remove_class("-open")
        self.query_one(Input).can_focus = False

    def action_cancel(self) -> None:
        """Close without entering the text; the up arrow shows it again later."""
        self._store_entry()
        self.close()
        if self.prefix == "/":
            self.post_message(self.FilterChanged(""))

    def action_complete(self) -> None:
        """Accept the suggestion."""
        self.query_one(Input).action_cursor_right()

    def action_older(self) -> None:
        """Show the previous entry."""
        self._show_history_entry(-1)

    def action_newer(self) -> None:
        """Show the next entry."""
        self._show_history_entry(1)

    def _show_history_entry(self, step: int) -> None:
        history = self.history[self.prefix]
        self._history_index = min(len(history), max(0, self._history_index + step))
        line = self.query_one(Input)
        line.value = history[self._history_index] if self._history_index < len(history) else ""
        line.cursor_position = len(line.value)
