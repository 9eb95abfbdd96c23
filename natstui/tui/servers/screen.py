"""Connection, account, permissions, what is unavailable and why, and what monitoring costs."""

from __future__ import annotations

from collections.abc import Iterable

from textual import getters
from textual.containers import Horizontal, VerticalScroll
from textual.widget import Widget

from natstui.tui.frame.live import LiveScreen
from natstui.tui.kit.sections import SectionText
from natstui.tui.servers.text import monitor_sections, server_sections


class ServerScreen(LiveScreen):
    """The server at the left, what we may and what we cost at the right."""

    server = getters.query_one("#server", SectionText)
    monitor = getters.query_one("#monitor", SectionText)

    def body(self) -> Iterable[Widget]:
        """Two texts side by side, one under the other where it is narrow."""
        texts = Horizontal(SectionText(id="server"), SectionText(id="monitor"), id="two-texts")
        yield VerticalScroll(texts)

    def refresh_state(self) -> None:
        """Show the newer state."""
        self.server.show(server_sections(self.state))
        self.monitor.show(monitor_sections(self.state))
