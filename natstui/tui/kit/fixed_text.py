"""Text in a widget of a fixed height."""

from __future__ import annotations

from textual.content import Content
from textual.visual import VisualType
from textual.widgets import Static


class FixedText(Static):
    """A text in a widget of fixed height, which is updated without a new layout of the screen.

    A `Static` lays out the screen with every update, even of an equal text, and the lines at the
    top are updated with every poll and every list.
    """

    def update(self, content: VisualType = "", *, layout: bool = False) -> None:
        """Show a text, unless an equal text is shown."""
        previous_content = self.content
        is_shown = (
            isinstance(previous_content, Content)
            and isinstance(content, Content)
            and previous_content.is_same(content)
        )
        if not is_shown:
            super().update(content, layout=layout)
