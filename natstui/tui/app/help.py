"""Every key of a screen and what its columns mean: made from the bindings themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from natstui.model.findings.catalogue.every import KINDS
from natstui.tui.app.commands import COMMANDS
from natstui.tui.app.key_words import words_of
from natstui.tui.frame.detail.screen import ChartedScreen, DetailScreen
from natstui.tui.frame.head.status_text import STRIP_HELP
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.selection import SelectionScreen
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

    def __init__(self, keys: Mapping[str, Pairs], columns: Pairs, charts: Pairs) -> None:
        super().__init__()
        self._keys, self._columns, self._charts = keys, columns, charts

    @classmethod
    def of(cls, screen: Screen[object]) -> HelpScreen:
        """Return the help of a screen; its own keys come before those of others."""
        rows = screen.rows if isinstance(screen, TableScreen) else None
        specs = screen.SPECS if isinstance(screen, LiveScreen) else ()
        columns = [(spec.title, spec.help) for spec in (rows.specs if rows else specs)]
        charts = list(screen.CHART_HELP) if isinstance(screen, ChartedScreen) else []
        return cls(_keys_of(screen), columns, charts)

    def compose(self) -> ComposeResult:
        """Keys, columns, the figures of the top lines, commands, and what findings mean."""
        words = [(f":{w.names[0]} {w.usage}".strip(), w.help) for w in COMMANDS]
        found = [(kind.word, f"{kind.sentence} ({kind.code})") for kind in KINDS.values()]
        with VerticalScroll(id="help"):
            for title, keys in self._keys.items():
                yield Static(_section(title, keys), markup=False)
            if self._columns:
                yield Static(_section("COLUMNS", self._columns), markup=False)
            if self._charts:
                yield Static(_section("CHARTS", self._charts), markup=False)
            yield Static(_section("TOP LINES", list(STRIP_HELP)), markup=False)
            yield Static(_section("COMMANDS", words), markup=False)
            yield Static(_section("FINDINGS", found), markup=False)


_SHARED = (LiveScreen, TableScreen, SelectionScreen, ChartedScreen, DetailScreen)
"""What screens are made of: keys of these are alike on many of them."""
_OWN, _ALIKE, _APP = "KEYS OF THIS SCREEN", "KEYS OF SCREENS LIKE THIS", "KEYS EVERYWHERE"


def _keys_of(screen: Screen[object]) -> dict[str, Pairs]:
    """Return the keys that are active, and what each does; those of the screen alone first."""
    alike = {
        binding.id
        for base in _SHARED
        if isinstance(screen, base)
        for binding in base.BINDINGS
        if isinstance(binding, Binding)
    }
    keys: dict[str, dict[str, list[str]]] = {_OWN: {}, _ALIKE: {}, _APP: {}}
    for active in screen.active_bindings.values():
        binding = active.binding
        if not binding.description or not binding.id:
            continue
        shared = _ALIKE if binding.id in alike or active.node is not screen else _OWN
        place = _APP if active.node is screen.app else shared
        shown = binding.key_display or screen.app.get_key_display(binding)
        says = ": ".join(filter(None, (binding.description, words_of(binding))))
        texts = keys[place].setdefault(says, [])
        if shown not in texts:
            texts.append(shown)
    return {
        title: [(" ".join(shown), text) for text, shown in found.items()]
        for title, found in keys.items()
        if found
    }


def _section(title: str, pairs: list[tuple[str, str]]) -> Content:
    width = max((len(left) for left, _ in pairs), default=0) + 2
    lines = [safe(title, "title")]
    for left, right in pairs:
        lines.append(Content.assemble(safe(left.ljust(width), "strong"), right))
    return Content("\n").join([*lines, Content()])
