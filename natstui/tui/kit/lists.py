"""Lists in which j and k move like the arrows; the base of all lists of the viewer."""

from __future__ import annotations

from typing import ClassVar, cast

from textual.binding import Binding, BindingType
from textual.widgets import OptionList, SelectionList
from textual.widgets.selection_list import SelectionType

_MOVE_BINDINGS: list[BindingType] = [
    Binding("j", "cursor_down", "Down", show=False, id="list.down"),
    Binding("k", "cursor_up", "Up", show=False, id="list.up"),
]


class _PageKeys:
    """The page up and page down keys of a list; they do nothing at a height of 0, where Textual
    (8.2) fails.
    """

    def action_page_up(self) -> None:
        """Move a page up."""
        super_list = cast("OptionList", super())
        if super_list.scrollable_content_region:
            super_list.action_page_up()  # type: ignore[no-untyped-call]

    def action_page_down(self) -> None:
        """Move a page down."""
        super_list = cast("OptionList", super())
        if super_list.scrollable_content_region:
            super_list.action_page_down()  # type: ignore[no-untyped-call]


class SingleChoiceList(_PageKeys, OptionList):
    """A list with one chosen line."""

    BINDINGS: ClassVar[list[BindingType]] = _MOVE_BINDINGS


class MultipleChoiceList(_PageKeys, SelectionList[SelectionType]):
    """A list with several marked lines."""

    BINDINGS: ClassVar[list[BindingType]] = _MOVE_BINDINGS
