"""A question with one line to type the answer into."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from natstui.tui.text import safe


class Prompt(ModalScreen[str | None]):
    """Dismisses with the text, or None when it was cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Cancel", id="prompt.cancel")
    ]
    DEFAULT_CSS = """
    Prompt > Vertical {
        width: 80%; max-width: 90; height: auto; padding: 1 2;
        background: $panel; border: round $primary;
    }
    """

    def __init__(self, question: str, text: str = "") -> None:
        super().__init__()
        self._question, self._text = question, text

    def compose(self) -> ComposeResult:
        """The question above its line."""
        with Vertical():
            yield Static(safe(self._question), markup=False)
            yield Input(self._text, compact=True, select_on_focus=False)

    @on(Input.Submitted)
    def _answered(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)
