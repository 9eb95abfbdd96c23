"""What every part of the app that has keys of its own is."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType


class Part:
    """Some keys, the actions they name, and when these are offered.

    A key names its action as `part('polling', 'faster')`: the name of the part among the `Parts`,
    and the name of its method without `action_`.
    """

    BINDINGS: ClassVar[list[BindingType]] = []

    def may(self, action: str, *, typing: bool) -> bool:
        """Tell whether an action is offered; `typing`: letters are text on the screen in view."""
        return not typing
