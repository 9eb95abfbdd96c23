"""What a form will do, beside its fields or alone; its nats command can be copied."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget

from natstui.tui.frame.form.entries import Entries
from natstui.tui.frame.form.fields import FormFields
from natstui.tui.frame.screen_part import ScreenPart


class PlanView(ScreenPart):
    """Shows the preview without the fields, and the fields again."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+o", "part('plan', 'switch')", "Preview", id="form.preview", priority=True),
        Binding("ctrl+y", "part('plan', 'copy')", "Copy command", id="form.copy", priority=True),
    ]

    def __init__(self, screen: Screen[None], entries: Entries) -> None:
        self._screen, self._entries = screen, entries
        self._typed_in: Widget | None = None
        """What had the keys before the preview was shown alone."""

    @property
    def is_alone(self) -> bool:
        """Whether the preview hides the fields."""
        return self._screen.has_class("-preview")

    def show(self, *, alone: bool) -> None:
        """Show the preview without the fields, or the fields with the keys where they were."""
        if alone and self._screen.focused is not None:
            self._typed_in = self._screen.focused
            self._screen.set_focus(None)
        self._screen.set_class(alone, "-preview")
        # At once, not by the class: what is hidden cannot take the keys back.
        self._screen.query_one(FormFields).display = not alone
        if not alone and self._typed_in is not None:
            self._screen.set_focus(self._typed_in)

    def go_back_to(self, editor: Widget | None) -> None:
        """Show the fields, and let the keys go to one of them if there is one."""
        self._typed_in = editor or self._typed_in
        self.show(alone=False)

    def action_switch(self) -> None:
        """Show the preview alone, or the fields again."""
        self.show(alone=not self.is_alone)

    def action_copy(self) -> None:
        """Copy the equivalent nats command."""
        self._screen.app.copy_to_clipboard(self._entries.draft.command)
        self._screen.notify("copied the nats command", timeout=2)
