"""Lists in which j and k move like the arrows; every list of the viewer is one of these."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import OptionList, SelectionList
from textual.widgets.selection_list import SelectionType

_MOVES: list[BindingType] = [
    Binding("j", "cursor_down", "Down", show=False, id="list.down"),
    Binding("k", "cursor_up", "Up", show=False, id="list.up"),
]


class KeyList(OptionList):
    """Lines of which one is chosen."""

    BINDINGS: ClassVar[list[BindingType]] = _MOVES


class MarkList(SelectionList[SelectionType]):
    """Lines of which several are marked."""

    BINDINGS: ClassVar[list[BindingType]] = _MOVES
