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

TermsAndExplanations = list[tuple[str, str]]
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
        self,
        keys: Mapping[str, TermsAndExplanations],
        columns: TermsAndExplanations,
        charts: TermsAndExplanations,
        figures: TermsAndExplanations,
    ) -> None:
        super().__init__()
        self._figures = figures
        self._keys, self._columns, self._charts = keys, columns, charts

    @classmethod
    def for_screen(cls, screen: Screen[object]) -> HelpScreen:
        """Return the help screen for a screen; the screen's own keys come first."""
        rows = screen.rows if isinstance(screen, TableScreen) else None
        column_specs = screen.SPECS if isinstance(screen, LiveScreen) else ()
        columns = [(spec.title, spec.help) for spec in (rows.specs if rows else column_specs)]
        charts = list(screen.CHART_HELP) if isinstance(screen, ChartedScreen) else []
        figures = list(screen.SECOND_LINE_HELP) if isinstance(screen, LiveScreen) else []
        return cls(_explain_keys(screen), columns, charts, figures)

    def compose(self) -> ComposeResult:
        """Yield keys, columns, the figures of the top lines, commands, and kinds of findings."""
        commands = [
            (f":{command.names[0]} {command.usage}".strip(), command.help) for command in COMMANDS
        ]
        findings = [(kind.word, f"{kind.sentence} ({kind.code})") for kind in KINDS.values()]
        with VerticalScroll(id="help") as panel:
            panel.border_subtitle = "/ finds · esc closes"
            yield Input(placeholder="find", compact=True, id="find")
            for title, keys in self._keys.items():
                yield HelpSection(title, keys, _MIN_KEYS_COLUMN_CELLS)
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
            part.filter_terms(event.value)

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


_SHARED_SCREEN_CLASSES = (LiveScreen, TableScreen, SelectionScreen, ChartedScreen, DetailScreen)
"""Base classes of screens: their keys are common to many screens."""
_OWN_KEYS_TITLE, _SHARED_KEYS_TITLE, _APP_KEYS_TITLE = (
    "KEYS OF THIS SCREEN",
    "KEYS OF SCREENS LIKE THIS",
    "KEYS EVERYWHERE",
)


def _explain_keys(screen: Screen[object]) -> dict[str, TermsAndExplanations]:
    """Return the active keys and their descriptions by section title; the screen's own first."""
    shared_key_ids = {
        binding.id
        for screen_class in _SHARED_SCREEN_CLASSES
        if isinstance(screen, screen_class)
        for binding in screen_class.BINDINGS
        if isinstance(binding, Binding)
    }
    key_texts_by_section: dict[str, dict[str, list[str]]] = {
        _OWN_KEYS_TITLE: {},
        _SHARED_KEYS_TITLE: {},
        _APP_KEYS_TITLE: {},
    }
    for active_binding in screen.active_bindings.values():
        binding = active_binding.binding
        if not binding.description or not binding.id:
            continue
        section_title = (
            _SHARED_KEYS_TITLE
            if binding.id in shared_key_ids or active_binding.node is not screen
            else _OWN_KEYS_TITLE
        )
        title = _APP_KEYS_TITLE if active_binding.node is screen.app else section_title
        key_text = binding.key_display or screen.app.get_key_display(binding)
        label, description = binding.description, describe_key(binding)
        if (
            isinstance(screen, LiveScreen)
            and (current_label := screen.key_label(binding)) != label
        ):
            label, description = current_label, ""
        help_text = ": ".join(filter(None, (label, description)))
        texts = key_texts_by_section[title].setdefault(help_text, [])
        if key_text not in texts:
            texts.append(key_text)
    return {
        title: [(" ".join(key_texts), text) for text, key_texts in texts.items()]
        for title, texts in key_texts_by_section.items()
        if texts
    }


_MIN_KEYS_COLUMN_CELLS = 46
"""Minimum width of a column of keys in cells: most descriptions fit on a line."""
_MIN_SENTENCES_COLUMN_CELLS = 72
_COLUMN_GAP_CELLS = 3


class HelpSection(Static):
    """A title above terms and their explanations, in as many columns as fit."""

    def __init__(
        self,
        title: str,
        explained_terms: TermsAndExplanations,
        min_cells: int = _MIN_SENTENCES_COLUMN_CELLS,
    ) -> None:
        super().__init__(markup=False)
        self._title, self._explained_terms, self._min_cells = title, explained_terms, min_cells
        self._shown_terms = explained_terms
        self._drawn_width = 0

    def filter_terms(self, text: str) -> None:
        """Show only the explanations that contain all words of the search text."""
        search_words = text.lower().split()
        self._shown_terms = [
            term_and_explanation
            for term_and_explanation in self._explained_terms
            if all(
                search_word in " ".join(term_and_explanation).lower()
                for search_word in search_words
            )
        ]
        self.display = bool(self._shown_terms)
        self._drawn_width = 0
        self.on_resize()

    def on_resize(self) -> None:
        """Arrange the columns for the new width."""
        width = self.content_size.width
        if width == self._drawn_width or not self._shown_terms:
            return
        self._drawn_width = width
        columns_count = max(
            1,
            min(
                len(self._shown_terms),
                (width + _COLUMN_GAP_CELLS) // (self._min_cells + _COLUMN_GAP_CELLS),
            ),
        )
        cells = (width + _COLUMN_GAP_CELLS) // columns_count - _COLUMN_GAP_CELLS
        columns = _balance_columns(_wrap_terms(self._shown_terms, cells), columns_count)
        rows = [
            Content(" " * _COLUMN_GAP_CELLS).join(
                (line or Content()).pad_right(cells - (line.cell_length if line else 0))
                for line in row
            )
            for row in zip_longest(*columns)
        ]
        self.update(Content("\n").join([safe(self._title, "title"), *rows, Content()]))


def _wrap_terms(explained_terms: TermsAndExplanations, cells: int) -> list[list[Content]]:
    """Return the lines of each term and explanation, wrapped to a column of `cells` cells."""
    widest_term_cells = max((len(term) for term, _ in explained_terms), default=0)
    term_width = min(widest_term_cells, cells // 2) + 2
    blocks = []
    for term, explanation in explained_terms:
        term_text, text = safe(term.ljust(term_width), "strong"), safe(explanation)
        if len(term) + 2 > term_width:
            # The term has its own line; its explanation is aligned with the others.
            parts = [term_text, *text.wrap(cells - term_width)]
        else:
            first_line, *other_lines = list(text.wrap(cells - term_width)) or [Content()]
            parts = [Content.assemble(term_text, first_line), *other_lines]
        blocks.append([parts[0], *(Content(" " * term_width) + part for part in parts[1:])])
    return blocks


def _balance_columns(blocks: Sequence[Sequence[Content]], max_columns: int) -> list[list[Content]]:
    """Return the lines of at most `max_columns` columns of about the same height; the blocks stay
    in order, and no block is split.
    """
    max_lines = -(-sum(map(len, blocks)) // max_columns)
    while True:
        columns: list[list[Content]] = [[]]
        for block in blocks:
            if columns[-1] and len(columns[-1]) + len(block) > max_lines:
                columns.append([])
            columns[-1] += block
        if len(columns) <= max_columns:
            return columns
        max_lines += 1
