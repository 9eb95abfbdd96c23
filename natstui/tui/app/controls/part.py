"""The base class of the app's parts that have keys."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType


class AppPart:
    """A part of the app with its own keys.

    A key names its action as `part('polling', 'faster')`: the name of the part in `AppParts`, and
    the name of its method without `action_`.
    """

    BINDINGS: ClassVar[list[BindingType]] = []

    def is_offered(self, action: str, *, is_typing: bool) -> bool:
        """Return whether an action is offered; `is_typing` means that letters are text on the
        screen in view.
        """
        return not is_typing
