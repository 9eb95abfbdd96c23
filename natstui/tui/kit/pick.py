"""A list to pick one thing from."""

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

from natstui.tui.kit.lists import KeyList, MarkList
from natstui.tui.kit.text import safe, safe_lines
from natstui.tui.kit.textual_fixes import TerminalSized


class Pick(TerminalSized, ModalScreen[str | None]):
    """Dismisses with the word picked, or None when it was cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss(None)", "Cancel", id="pick.cancel"),
    ]
    DEFAULT_CSS = """
    Pick > Vertical {
        width: 80%; max-width: 90; height: auto; max-height: 80%; padding: 1 2;
        background: $panel; border: round $primary;
    }
    Pick #told { padding: 1 2; }
    Pick OptionList {
        height: auto; max-height: 16; padding: 0; border: none !important; background: $panel;
    }
    """

    def __init__(
        self, title: str, words: Sequence[tuple[str, str]], told: Sequence[str] = ()
    ) -> None:
        """`told` are lines between the title and the words: what picking one does."""
        super().__init__()
        self._title, self._words, self._told = title, list(words), list(told)

    def compose(self) -> ComposeResult:
        """The title above the words, each with its explanation."""
        width = max((len(word) for word, _ in self._words), default=0) + 2
        options = [
            Option(Content.assemble(safe(word.ljust(width), "strong"), safe(text, "dim")))
            for word, text in self._words
        ]
        with Vertical():
            yield Static(safe(self._title, "title"), markup=False)
            if self._told:
                yield Static(safe_lines("\n".join(self._told)), id="told", markup=False)
            yield KeyList(*options)

    def on_mount(self) -> None:
        """Give the keys to the list."""
        self.query_one(OptionList).focus()

    @on(OptionList.OptionSelected)
    def _picked(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._words[event.option_index][0])


class PickSeveral(TerminalSized, ModalScreen[list[str] | None]):
    """Dismisses with the words that are marked, or None when it was cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "Take", id="pick.take", priority=True),
        Binding("escape,q", "dismiss(None)", "Cancel", id="pick.cancel"),
    ]
    DEFAULT_CSS = """
    PickSeveral > Vertical {
        width: 90%; max-width: 100; height: auto; max-height: 90%; padding: 1 2;
        background: $panel; border: round $primary;
    }
    PickSeveral SelectionList {
        height: auto; max-height: 30; padding: 0; border: none !important; background: $panel;
    }
    """

    def __init__(
        self, title: str, words: Sequence[tuple[str, str, str]], marked: Collection[str]
    ) -> None:
        """`words` are what is returned, how it is called, and what it is."""
        super().__init__()
        self._title, self._words, self._marked = title, list(words), set(marked)

    def compose(self) -> ComposeResult:
        """The title above the words, each with its explanation."""
        width = max((len(shown) for _, shown, _ in self._words), default=0) + 2
        with Vertical():
            yield Static(safe(self._title, "title"), markup=False)
            yield MarkList[str](
                *(
                    Selection(
                        Content.assemble(safe(shown.ljust(width), "strong"), safe(help, "dim")),
                        word,
                        word in self._marked,
                    )
                    for word, shown, help in self._words
                )
            )

    def on_mount(self) -> None:
        """Give the keys to the list."""
        self.query_one(SelectionList).focus()

    def action_take(self) -> None:
        """Return the marked words in the order of the list."""
        marked = set(self.query_one(SelectionList).selected)
        self.dismiss([word for word, _, _ in self._words if word in marked])
