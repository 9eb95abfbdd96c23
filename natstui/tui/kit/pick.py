"""Dialogs to pick one or several options from a list."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, SelectionList, Static
from textual.widgets.option_list import Option
from textual.widgets.selection_list import Selection

from natstui.tui.kit.lists import MultipleChoiceList, SingleChoiceList
from natstui.tui.kit.text import safe, safe_lines
from natstui.tui.kit.textual_fixes import TerminalSized

CANCEL_OPTION = ("leave it", "nothing is changed")
"""The first option before a change, so that an enter typed too early changes nothing."""


class PickDialog(TerminalSized, ModalScreen[str | None]):
    """A dialog to pick one of several options; dismisses with its label, or None after a
    cancellation.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss(None)", "Cancel", id="pick.cancel"),
    ]
    DEFAULT_CSS = """
    PickDialog > Vertical {
        width: 80%; max-width: 90; height: auto; max-height: 80%; padding: 1 2;
        background: $panel; border: round $primary;
    }
    PickDialog #told { padding: 1 2; }
    PickDialog OptionList {
        height: auto; max-height: 16; padding: 0; border: none !important; background: $panel;
    }
    """

    def __init__(
        self, title: str, options: Sequence[tuple[str, str]], lines: Sequence[str] = ()
    ) -> None:
        """Create the dialog; `options` have a label and an explanation, `lines` are shown above
        them.
        """
        super().__init__()
        self._title, self._options, self._lines = title, list(options), list(lines)

    def compose(self) -> ComposeResult:
        """Yield the title above the options with their explanations."""
        width = max((len(option) for option, _ in self._options), default=0) + 2
        options = [
            Option(Content.assemble(safe(option.ljust(width), "strong"), safe(text, "dim")))
            for option, text in self._options
        ]
        with Vertical():
            yield Static(safe(self._title, "title"), markup=False)
            if self._lines:
                yield Static(safe_lines("\n".join(self._lines)), id="told", markup=False)
            yield SingleChoiceList(*options)

    def on_mount(self) -> None:
        """Focus the list."""
        self.query_one(OptionList).focus()

    @on(OptionList.OptionSelected)
    def _dismiss_with_option(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._options[event.option_index][0])


class PickSeveralDialog(TerminalSized, ModalScreen[list[str] | None]):
    """A dialog to mark options; dismisses with their ids, or None after a cancellation."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "Take", id="pick.take", priority=True),
        Binding("escape,q", "dismiss(None)", "Cancel", id="pick.cancel"),
    ]
    DEFAULT_CSS = """
    PickSeveralDialog > Vertical {
        width: 90%; max-width: 100; height: auto; max-height: 90%; padding: 1 2;
        background: $panel; border: round $primary;
    }
    PickSeveralDialog SelectionList {
        height: auto; max-height: 30; padding: 0; border: none !important; background: $panel;
    }
    """

    def __init__(
        self, title: str, options: Sequence[tuple[str, str, str]], marked_ids: Collection[str]
    ) -> None:
        """Create the dialog; `options` have an id, a label and an explanation."""
        super().__init__()
        self._title, self._options, self._marked_ids = title, list(options), set(marked_ids)

    def compose(self) -> ComposeResult:
        """Yield the title above the options with their explanations."""
        width = max((len(label) for _, label, _ in self._options), default=0) + 2
        with Vertical():
            yield Static(safe(self._title, "title"), markup=False)
            yield MultipleChoiceList[str](
                *(
                    Selection(
                        Content.assemble(safe(label.ljust(width), "strong"), safe(help, "dim")),
                        option_id,
                        option_id in self._marked_ids,
                    )
                    for option_id, label, help in self._options
                )
            )

    def on_mount(self) -> None:
        """Focus the list."""
        self.query_one(SelectionList).focus()

    def action_take(self) -> None:
        """Dismiss with the marked options in the order of the list."""
        selected_ids = set(self.query_one(SelectionList).selected)
        self.dismiss([option_id for option_id, _, _ in self._options if option_id in selected_ids])
