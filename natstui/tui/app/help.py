"""The help: every key of a screen and the meaning of its columns, generated from the bindings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, Static

from natstui.model.findings.catalogue.every import KINDS
from natstui.tui.app.commands import COMMANDS
from natstui.tui.app.key_descriptions import describe_key
from natstui.tui.frame.detail.screen import ChartedScreen, DetailScreen
from natstui.tui.frame.head.status_text import STRIP_HELP
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.selection import SelectionScreen
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.text import safe
from natstui.tui.kit.textual_fixes import TerminalSized

Pairs = list[tuple[str, str]]
"""Terms and their explanations."""


class HelpScreen(TerminalSized, ModalScreen[None]):
    """The help as a panel over the screen that it explains."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Close", id="help.leave"),
        Binding("q,question_mark,f1", "dismiss", "Close", id="help.close"),
        Binding("slash", "find", "Find", key_display="/", id="help.find"),
    ]
    DEFAULT_CSS = """
    HelpScreen #find { dock: top; display: none; }
    HelpScreen.-finding #find { display: block; }
    """

    def __init__(
        self, keys: Mapping[str, Pairs], columns: Pairs, charts: Pairs, figures: Pairs
    ) -> None:
        super().__init__()
        self._figures = figures
        self._keys, self._columns, self._charts = keys, columns, charts

    @classmethod
    def for_screen(cls, screen: Screen[object]) -> HelpScreen:
        """Return the help screen for a screen; the screen's own keys come first."""
        rows = screen.rows if isinstance(screen, TableScreen) else None
        specs = screen.SPECS if isinstance(screen, LiveScreen) else ()
        columns = [(spec.title, spec.help) for spec in (rows.specs if rows else specs)]
        charts = list(screen.CHART_HELP) if isinstance(screen, ChartedScreen) else []
        figures = list(screen.FIGURES) if isinstance(screen, LiveScreen) else []
        return cls(_keys_of(screen), columns, charts, figures)

    def compose(self) -> ComposeResult:
        """Yield keys, columns, the figures of the top lines, commands, and kinds of findings."""
        commands = [(f":{w.names[0]} {w.usage}".strip(), w.help) for w in COMMANDS]
        findings = [(kind.word, f"{kind.sentence} ({kind.code})") for kind in KINDS.values()]
        with VerticalScroll(id="help") as panel:
            panel.border_subtitle = "/ finds · esc closes"
            yield Input(placeholder="find", compact=True, id="find")
            for title, keys in self._keys.items():
                yield HelpSection(title, keys, _MIN_KEY_CELLS)
            if self._columns:
                yield HelpSection("COLUMNS", self._columns)
            if self._charts:
                yield HelpSection("CHARTS", self._charts)
            yield HelpSection("TOP LINES", [*self._figures, *STRIP_HELP])
            yield HelpSection("COMMANDS", commands)
            yield HelpSection("FINDINGS", findings)

    def on_mount(self) -> None:
        """Focus the panel, so that keys scroll it."""
        self.query_one("#help").focus()

    def action_find(self) -> None:
        """Show the search input."""
        self.add_class("-finding")
        self.query_one(Input).focus()

    @on(Input.Changed)
    def _filter_lines(self, event: Input.Changed) -> None:
        """Show only the lines that contain all search words."""
        for part in self.query(HelpSection):
            part.filter_pairs(event.value)

    @on(Input.Submitted)
    def _focus_panel(self) -> None:
        self.query_one("#help").focus()

    def action_leave(self) -> None:
        """Clear the search text; without text close the search input; without input the help."""
        line = self.query_one(Input)
        if line.value:
            line.value = ""
        elif self.has_class("-finding"):
            self.remove_class("-finding")
            self.query_one("#help").focus()
        else:
            self.dismiss()


_SHARED_BASES = (LiveScreen, TableScreen, SelectionScreen, ChartedScreen, DetailScreen)
"""Base classes of screens: their keys are common to many screens."""
_OWN_KEYS, _SHARED_KEYS, _APP_KEYS = (
    "KEYS OF THIS SCREEN",
    "KEYS OF SCREENS LIKE THIS",
    "KEYS EVERYWHERE",
)


def _keys_of(screen: Screen[object]) -> dict[str, Pairs]:
    """Return the active keys and their descriptions by section title; the screen's own first."""
    common_ids = {
        binding.id
        for base in _SHARED_BASES
        if isinstance(screen, base)
        for binding in base.BINDINGS
        if isinstance(binding, Binding)
    }
    keys: dict[str, dict[str, list[str]]] = {_OWN_KEYS: {}, _SHARED_KEYS: {}, _APP_KEYS: {}}
    for active in screen.active_bindings.values():
        binding = active.binding
        if not binding.description or not binding.id:
            continue
        section = (
            _SHARED_KEYS if binding.id in common_ids or active.node is not screen else _OWN_KEYS
        )
        title = _APP_KEYS if active.node is screen.app else section
        key_text = binding.key_display or screen.app.get_key_display(binding)
        label, description = binding.description, describe_key(binding)
        if isinstance(screen, LiveScreen) and (now := screen.key_label(binding)) != label:
            label, description = now, ""
        help_text = ": ".join(filter(None, (label, description)))
        texts = keys[title].setdefault(help_text, [])
        if key_text not in texts:
            texts.append(key_text)
    return {
        title: [(" ".join(key_texts), text) for text, key_texts in texts.items()]
        for title, texts in keys.items()
        if texts
    }


_MIN_KEY_CELLS = 46
"""Minimum width of a column of keys in cells: most descriptions fit on a line."""
_MIN_SENTENCE_CELLS = 72
_GAP_CELLS = 3


class HelpSection(Static):
    """A title over pairs, in as many columns as fit."""

    def __init__(self, title: str, pairs: Pairs, min_cells: int = _MIN_SENTENCE_CELLS) -> None:
        super().__init__(markup=False)
        self._title, self._pairs, self._min_cells = title, pairs, min_cells
        self._shown_pairs = pairs
        self._drawn_width = 0

    def filter_pairs(self, text: str) -> None:
        """Show only the pairs that contain all words of the search text."""
        search_words = text.lower().split()
        self._shown_pairs = [
            pair
            for pair in self._pairs
            if all(search_word in " ".join(pair).lower() for search_word in search_words)
        ]
        self.display = bool(self._shown_pairs)
        self._drawn_width = 0
        self.on_resize()

    def on_resize(self) -> None:
        """Change the columns to the new width."""
        width = self.content_size.width
        if width == self._drawn_width or not self._shown_pairs:
            return
        self._drawn_width = width
        count = max(
            1, min(len(self._shown_pairs), (width + _GAP_CELLS) // (self._min_cells + _GAP_CELLS))
        )
        cells = (width + _GAP_CELLS) // count - _GAP_CELLS
        columns = _balance_columns(_wrap_pairs(self._shown_pairs, cells), count)
        rows = [
            Content(" " * _GAP_CELLS).join(
                (line or Content()).pad_right(cells - (line.cell_length if line else 0))
                for line in row
            )
            for row in zip_longest(*columns)
        ]
        self.update(Content("\n").join([safe(self._title, "title"), *rows, Content()]))


def _wrap_pairs(pairs: Pairs, cells: int) -> list[list[Content]]:
    """Return the lines of each pair, wrapped to a column of `cells` cells."""
    widest = max((len(term) for term, _ in pairs), default=0)
    term_width = min(widest, cells // 2) + 2
    blocks = []
    for term, explanation in pairs:
        head, text = safe(term.ljust(term_width), "strong"), safe(explanation)
        if len(term) + 2 > term_width:
            # The term has its own line; its explanation is aligned with the others.
            parts = [head, *text.wrap(cells - term_width)]
        else:
            first, *other_lines = list(text.wrap(cells - term_width)) or [Content()]
            parts = [Content.assemble(head, first), *other_lines]
        blocks.append([parts[0], *(Content(" " * term_width) + part for part in parts[1:])])
    return blocks


def _balance_columns(blocks: Sequence[Sequence[Content]], count: int) -> list[list[Content]]:
    """Return the lines of at most `count` columns of about the same height; the blocks stay in
    order, and no block is split.
    """
    height = -(-sum(map(len, blocks)) // count)
    while True:
        columns: list[list[Content]] = [[]]
        for block in blocks:
            if columns[-1] and len(columns[-1]) + len(block) > height:
                columns.append([])
            columns[-1] += block
        if len(columns) <= count:
            return columns
        height += 1
