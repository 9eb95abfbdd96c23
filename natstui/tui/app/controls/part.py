"""The base class of the app's parts that have keys."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType


class Part:
    """Keys, their actions, and when these are offered.

    A key names its action as `part('polling', 'faster')`: the name of the part in `Parts`, and the
    name of its method without `action_`.
    """

    BINDINGS: ClassVar[list[BindingType]] = []

    def may(self, action: str, *, typing: bool) -> bool:
        """Return whether an action is offered; `typing`: the screen in view takes letters
        as text.
        """
        return not typing
