"""A dialog with one line to type a text into."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from natstui.tui.kit.text import safe
from natstui.tui.kit.textual_fixes import TerminalSized

_DISCARD_WARNING = "Your text is not sent. Escape again discards it, enter sends it."


class Prompt(TerminalSized, ModalScreen[str | None]):
    """A prompt for one line of text; dismisses with the text, or None after a cancellation.

    A refused text stays in the line, with the reason above it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", id="prompt.cancel")
    ]
    DEFAULT_CSS = """
    Prompt > Vertical {
        width: 80%; max-width: 90; height: auto; padding: 1 2;
        background: $panel; border: round $primary;
    }
    """

    def __init__(
        self,
        sentence: str,
        text: str = "",
        *,
        text_to_type: str | None = None,
        refusal: Callable[[str], str] | None = None,
        refused_reason: str = "",
        meaning: Callable[[str], str] | None = None,
    ) -> None:
        """Create the prompt; `text_to_type`, if given, is the only accepted text.

        `refusal` returns the reason why a text is refused; empty if it is accepted.
        `refused_reason` is the reason why `text`, typed before, was refused. `meaning` returns the
        meaning of the text while it is typed; empty for no meaning.
        """
        super().__init__()
        self._sentence, self._text, self._text_to_type = sentence, text, text_to_type
        self._refusal, self._refused_reason, self._meaning = refusal, refused_reason, meaning
        self._text_to_discard = ""
        """The typed text that the next escape discards."""

    def compose(self) -> ComposeResult:
        """Yield the sentence above the input."""
        with Vertical():
            yield Static(safe(self._sentence), id="question", markup=False)
            yield Input(self._text, compact=True, select_on_focus=False)
            if self._meaning is not None:
                yield Static(id="meaning", markup=False)

    def on_mount(self) -> None:
        """Show the reason if the prompt appears again."""
        if self._refused_reason:
            self._show_refusal(self._refused_reason)

    @on(Input.Changed)
    def _show_meaning(self, event: Input.Changed) -> None:
        if self._meaning is not None:
            self.query_one("#meaning", Static).update(safe(self._meaning(event.value), "dim"))

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        if reason := self._find_refusal(event.value):
            self._show_refusal(reason)
        else:
            self.dismiss(event.value)

    def _find_refusal(self, text: str) -> str:
        if self._text_to_type is not None and text != self._text_to_type:
            return f"That is not {self._text_to_type}: nothing was changed"
        return self._refusal(text) if self._refusal is not None else ""

    def _show_refusal(self, reason: str) -> None:
        self._show_sentence(f"{reason.rstrip('.')}. {self._sentence}", "error")

    def _show_sentence(self, text: str, style_name: str) -> None:
        self.query_one("#question", Static).update(safe(text, style_name))

    def action_cancel(self) -> None:
        """Cancel; typed text is discarded only if escape is pressed twice."""
        typed_text = self.query_one(Input).value
        start_text = "" if self._refused_reason else self._text
        # A name that confirms a change is quickly typed again.
        if self._text_to_type is not None or typed_text in ("", start_text, self._text_to_discard):
            self.dismiss(None)
            return
        self._text_to_discard = typed_text
        self._show_sentence(f"{_DISCARD_WARNING} {self._sentence}", "warn")
