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

_AGAIN = "Your text is not sent. Escape again discards it, enter sends it."


class Prompt(TerminalSized, ModalScreen[str | None]):
    """A prompt; dismisses with the text, or None after a cancellation.

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
        question: str,
        text: str = "",
        *,
        word_to_type: str | None = None,
        refusal: Callable[[str], str] | None = None,
        refused_reason: str = "",
        meaning: Callable[[str], str] | None = None,
    ) -> None:
        """Create the prompt; `word_to_type`, if given, is the only accepted text.

        `refusal` returns why a text is refused; empty if it is accepted. `refused_reason` is why
        `text`, which was typed before, could not be used. `meaning` returns the meaning of the
        text while it is typed; empty without one.
        """
        super().__init__()
        self._question, self._text, self._word = question, text, word_to_type
        self._refusal, self._refused, self._meaning = refusal, refused_reason, meaning
        self._kept = ""
        """The text that the next escape drops."""

    def compose(self) -> ComposeResult:
        """Yield the question above its line."""
        with Vertical():
            yield Static(safe(self._question), id="question", markup=False)
            yield Input(self._text, compact=True, select_on_focus=False)
            if self._meaning is not None:
                yield Static(id="meaning", markup=False)

    def on_mount(self) -> None:
        """Show why the prompt appears again."""
        if self._refused:
            self._tell_refused(self._refused)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        if self._meaning is not None:
            self.query_one("#meaning", Static).update(safe(self._meaning(event.value), "dim"))

    @on(Input.Submitted)
    def _answered(self, event: Input.Submitted) -> None:
        if reason := self._why_not(event.value):
            self._tell_refused(reason)
        else:
            self.dismiss(event.value)

    def _why_not(self, text: str) -> str:
        if self._word is not None and text != self._word:
            return f"That is not {self._word}: nothing was changed"
        return self._refusal(text) if self._refusal is not None else ""

    def _tell_refused(self, reason: str) -> None:
        self._tell(f"{reason.rstrip('.')}. {self._question}", "error")

    def _tell(self, text: str, look: str) -> None:
        self.query_one("#question", Static).update(safe(text, look))

    def action_cancel(self) -> None:
        """Cancel; typed text is discarded only when escape is pressed twice."""
        typed_text = self.query_one(Input).value
        start_text = "" if self._refused else self._text
        # The name that confirms something is no work to type again.
        if self._word is not None or typed_text in ("", start_text, self._kept):
            self.dismiss(None)
            return
        self._kept = typed_text
        self._tell(f"{_AGAIN} {self._question}", "warn")
