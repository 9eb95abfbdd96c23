"""Lists in which j and k move like the arrows; the base of all lists of the viewer."""

from __future__ import annotations

from typing import ClassVar, cast

from textual.binding import Binding, BindingType
from textual.widgets import OptionList, SelectionList
from textual.widgets.selection_list import SelectionType

_MOVES: list[BindingType] = [
    Binding("j", "cursor_down", "Down", show=False, id="list.down"),
    Binding("k", "cursor_up", "Up", show=False, id="list.up"),
]


class _Paged:
    """A list that moves by pages only with a height: Textual (8.2) fails for zero lines."""

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


class KeyList(_Paged, OptionList):
    """A list with one chosen line."""

    BINDINGS: ClassVar[list[BindingType]] = _MOVES


class MarkList(_Paged, SelectionList[SelectionType]):
    """A list with several marked lines."""

    BINDINGS: ClassVar[list[BindingType]] = _MOVES
