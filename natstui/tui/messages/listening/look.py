"""How subjects are shown: as a tree or a list, in which order, which of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, cast

from textual.binding import Binding, BindingType

from natstui.errors import UsageError
from natstui.model.live.row_filter import compiled
from natstui.model.records.listening import SubjectOrder, SubjectsLook
from natstui.tui.frame.screen_part import ScreenPart

_DEEPEST_LEVEL = 16


class LookKeys(ScreenPart):
    """The look that is wanted, and the keys that change it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "part('looking', 'filter')", "Filter", key_display="/", id="sub.filter"),
        Binding("t", "part('looking', 'tree')", "Tree/list", id="sub.tree"),
        Binding(
            "right_square_bracket", "part('looking', 'deeper', 1)", "Deeper",
            key_display="]", id="sub.deeper",
        ),
        Binding(
            "left_square_bracket", "part('looking', 'deeper', -1)", "Less deep",
            key_display="[", id="sub.shallower",
        ),
        Binding("i", "part('looking', 'internal')", "Internal", id="sub.internal"),
    ]  # fmt: skip

    def __init__(
        self,
        look: SubjectsLook,
        ask_pattern: Callable[[str], None],
        changed: Callable[[], None],
    ) -> None:
        """`ask_pattern` lets the user edit the filter, `changed` has the rows shown anew."""
        self.look = look
        self.wrong = ""
        """Why the last filter was not taken, until there is another."""
        self._ask_pattern, self._changed = ask_pattern, changed

    def may(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Grey what only a tree has, in a list."""
        return True if action != "deeper" or self.look.as_tree else None

    def change(self, look: SubjectsLook) -> None:
        """Show it so from now on; a bad expression is reported and not used."""
        try:
            compiled(look.pattern)
        except UsageError as error:
            self.wrong = str(error)
        else:
            self.wrong, self.look = "", look
        self._changed()

    def filter_by(self, pattern: str) -> None:
        """Keep the subjects that match a regular expression; empty keeps all."""
        self.change(replace(self.look, pattern=pattern))

    def show_all(self) -> bool:
        """Take the filter away; return whether there was one."""
        if not (self.look.pattern or self.wrong):
            return False
        self.filter_by("")
        return True

    def sort_by(self, column: str) -> None:
        """Sort by a column; by the present one in the other direction."""
        by = cast("SubjectOrder", column)
        again = by == self.look.by
        reverse = not self.look.reverse if again else by != "subject"
        self.change(replace(self.look, by=by, reverse=reverse))

    def open_or_close(self, path: str) -> None:
        """Open a token, or close it."""
        toggled = tuple(sorted({*self.look.toggled} ^ {path}))
        self.change(replace(self.look, toggled=toggled))

    def action_filter(self) -> None:
        """Filter by a regular expression; `!` in front keeps what does not match."""
        self._ask_pattern(self.look.pattern)

    def action_tree(self) -> None:
        """Show tokens below each other, or every subject in a row of its own."""
        self.change(replace(self.look, as_tree=not self.look.as_tree))

    def action_deeper(self, step: int) -> None:
        """Open one level more, or one less; what was opened by hand is forgotten."""
        level = max(1, min(_DEEPEST_LEVEL, self.look.open_level + step))
        self.change(replace(self.look, open_level=level, toggled=()))

    def action_internal(self) -> None:
        """Show also what servers and clients send among themselves, or not."""
        self.change(replace(self.look, internal=not self.look.internal))
