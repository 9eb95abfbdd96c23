"""Lists in which j and k move like the arrows; every list of the viewer is one of these."""

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
    """Moves by pages once it has one: Textual (8.2) fails where no line has any room."""

    def action_page_up(self) -> None:
        """Move a page up."""
        it = cast("OptionList", super())
        if it.scrollable_content_region:
            it.action_page_up()  # type: ignore[no-untyped-call]

    def action_page_down(self) -> None:
        """Move a page down."""
        it = cast("OptionList", super())
        if it.scrollable_content_region:
            it.action_page_down()  # type: ignore[no-untyped-call]


class KeyList(_Paged, OptionList):
    """Lines of which one is chosen."""

    BINDINGS: ClassVar[list[BindingType]] = _MOVES


class MarkList(_Paged, SelectionList[SelectionType]):
    """Lines of which several are marked."""

    BINDINGS: ClassVar[list[BindingType]] = _MOVES
