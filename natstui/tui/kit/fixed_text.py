"""Text in a widget of a fixed height."""

from __future__ import annotations

from textual.content import Content
from textual.visual import VisualType
from textual.widgets import Static


class FixedText(Static):
    """Text whose height does not depend on it: a new one is drawn, and nothing else is moved.

    A `Static` lays out the screen with every update, also with the text that it already shows, and
    the lines at the top are updated with every poll and every list.
    """

    def update(self, content: VisualType = "", *, layout: bool = False) -> None:
        """Show a text, unless it is already shown."""
        before = self.content
        is_shown = (
            isinstance(before, Content)
            and isinstance(content, Content)
            and before.is_same(content)
        )
        if not is_shown:
            super().update(content, layout=layout)
