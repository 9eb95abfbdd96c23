"""What every part of a screen that has actions of its own is."""

from __future__ import annotations


class ScreenPart:
    """Actions that keys of a screen name, and when these are offered.

    A key names its action as `part('managing', 'manage', 'undo')`: the attribute of the screen
    that holds the part, the name of its method without `action_`, and the arguments. The screen
    lists the keys among its own.
    """

    def may(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Return whether an action is offered; None shows its key in grey."""
        return True


def part_of(screen: object, name: object) -> ScreenPart:
    """Return the part that a screen holds under a name."""
    part = getattr(screen, str(name))
    assert isinstance(part, ScreenPart)
    return part
