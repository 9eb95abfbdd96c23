"""The notice on a terminal that is too small."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.screen import ModalScreen
from textual.widgets import Static

from natstui.tui.kit.text import safe_lines
from natstui.tui.kit.textual_fixes import TerminalSized

LEAST = Size(60, 20)


def too_small(size: Size) -> bool:
    """Return whether a terminal of this size cannot be used."""
    return size.width < LEAST.width or size.height < LEAST.height


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
