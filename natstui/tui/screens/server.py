"""Connection, account, permissions, what is unavailable and why, and what monitoring costs."""

from __future__ import annotations

from collections.abc import Iterable

from textual import getters
from textual.containers import VerticalScroll
from textual.widget import Widget

from natstui.tui.live import LiveScreen
from natstui.tui.present.server import server_sections
from natstui.tui.widgets.section_text import SectionText


class ServerScreen(LiveScreen):
    """The server screen."""

    text = getters.query_one(SectionText)

    def body(self) -> Iterable[Widget]:
        """One scrolling text."""
        yield VerticalScroll(SectionText())

    def refresh_state(self) -> None:
        """Show the newer state."""
        self.text.show(server_sections(self.state))
