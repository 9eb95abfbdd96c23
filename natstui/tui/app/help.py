"""Every key of a screen and what its columns mean: made from the bindings themselves."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from natstui.model.findings.catalogue.every import KINDS
from natstui.tui.app.commands import COMMANDS
from natstui.tui.frame.detail_screen import CHART_HELP, DetailScreen
from natstui.tui.frame.status_strip import STRIP_HELP
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.text import safe
from natstui.tui.kit.too_small import TerminalSized

Pairs = list[tuple[str, str]]
"""What is explained, and the explanation."""


class HelpScreen(TerminalSized, ModalScreen[None]):
    """A panel over the screen it explains."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1", "dismiss", "Close", id="help.close")
    ]

    def __init__(self, keys: Pairs, columns: Pairs, charts: Pairs) -> None:
        super().__init__()
        self._keys, self._columns, self._charts = keys, columns, charts

    @classmethod
    def of(cls, screen: Screen[object]) -> HelpScreen:
        """Return the help of a screen."""
        keys: dict[str, list[str]] = {}
        for active in screen.active_bindings.values():
            binding = active.binding
            if binding.description and binding.id:
                shown = binding.key_display or screen.app.get_key_display(binding)
                keys.setdefault(binding.description, [])
                if shown not in keys[binding.description]:
                    keys[binding.description].append(shown)
        columns = (
            [(s.title, s.help) for s in screen.SPECS] if isinstance(screen, TableScreen) else []
        )
        charts = list(CHART_HELP) if isinstance(screen, DetailScreen) else []
        return cls([(" ".join(shown), text) for text, shown in keys.items()], columns, charts)

    def compose(self) -> ComposeResult:
        """Keys, columns, the figures of the top lines, commands, and what findings mean."""
        words = [(f":{w.names[0]} {w.usage}".strip(), w.help) for w in COMMANDS]
        found = [(kind.word, f"{kind.sentence} ({kind.code})") for kind in KINDS.values()]
        with VerticalScroll(id="help"):
            yield Static(_section("KEYS", self._keys), markup=False)
            if self._columns:
                yield Static(_section("COLUMNS", self._columns), markup=False)
            if self._charts:
                yield Static(_section("CHARTS", self._charts), markup=False)
            yield Static(_section("TOP LINES", list(STRIP_HELP)), markup=False)
            yield Static(_section("COMMANDS", words), markup=False)
            yield Static(_section("FINDINGS", found), markup=False)


def _section(title: str, pairs: list[tuple[str, str]]) -> Content:
    width = max((len(left) for left, _ in pairs), default=0) + 2
    lines = [safe(title, "title")]
    for left, right in pairs:
        lines.append(Content.assemble(safe(left.ljust(width), "strong"), right))
    return Content("\n").join([*lines, Content()])
