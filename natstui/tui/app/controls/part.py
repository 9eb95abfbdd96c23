"""The base class of the app's parts that have keys."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType


class Part:
    """A part of the app with its own keys.

    A key names its action as `part('polling', 'faster')`: the name of the part in `Parts`, and the
    name of its method without `action_`.
    """

    BINDINGS: ClassVar[list[BindingType]] = []

    def is_offered(self, action: str, *, typing: bool) -> bool:
        """Return whether an action is offered; `typing`: letters are text on the screen in
        view.
        """
        return not typing
