"""What is wrong now, worst first, and below it what was until a moment ago; live."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from textual import getters, on
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget

from natstui.model.findings.finding import Finding
from natstui.tui.findings.cells import FINDING_COLUMNS, FindingView, Found
from natstui.tui.findings.detail import FindingDetail
from natstui.tui.findings.hints import Hints
from natstui.tui.findings.keys import FindingKeys
from natstui.tui.findings.text import CALM, brief_sections, calm_sections, counts_text
from natstui.tui.frame.columns import ColumnSpec, Order
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.frame.table_text import empty_text
from natstui.tui.frame.view import View
from natstui.tui.kit.sections import SectionText
from natstui.tui.kit.table.view import RowHighlighted, RowSelected

_MORE_HINTS_AFTER_S = 0.05


class FindingsScreen(TableScreen):
    """The findings table, and the one under the cursor in words below it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "describe", "Describe", id="describe"),
        *FindingKeys.BINDINGS,
        Binding("i", "hints", "Hints", id="finding.hints"),
    ]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = FINDING_COLUMNS
    NOUN = "findings"
    START = Order("severity", reverse=True)
    DEFAULT_CSS = """
    FindingsScreen #brief {
        height: 35%; min-height: 6; max-height: 10; border-top: solid $panel;
        scrollbar-size: 1 1;
    }
    """

    brief = getters.query_one("#brief SectionText", SectionText)

    def __init__(self) -> None:
        super().__init__()
        self.finding = FindingKeys(self, self.chosen)
        self._hints = Hints()
        self._with_hints = False
        self._made_for: tuple[object, ...] = ()
        self._found = Found(self.state)

    def body(self) -> Iterable[Widget]:
        """The table above, the finding under the cursor below."""
        yield from super().body()
        yield VerticalScroll(SectionText(), id="brief", can_focus=False)

    def view(self) -> FindingView:
        """Return the findings of the present state."""
        made_for = (self.state.findings, self._hints.found, self._with_hints)
        if not self._made_for or any(
            new is not old for new, old in zip(made_for, self._made_for, strict=True)
        ):
            self._made_for = made_for
            self._found = Found(self.state, self._hints.found, with_hints=self._with_hints)
        return FindingView(self.state, self.late_us, self._found)

    def refresh_state(self) -> None:
        """Show the newer findings; those on settings of many rows come bit by bit."""
        if self._hints.look(self.state):
            self.set_timer(_MORE_HINTS_AFTER_S, self._look_further)
        super().refresh_state()
        self._tell()

    def _look_further(self) -> None:
        if self.is_current:
            self.refresh_state()

    def empty_text(self, total: int) -> str:
        """Return that nothing is wrong, or why nothing is known."""
        if total or not self.state.costs:
            return empty_text(self.state, self.NOUN, total)
        return CALM

    def caption_text(self, shown: int, total: int) -> str:
        """Return the line above the table: how many of each severity."""
        rest = super().caption_text(shown, total)
        if not self.state.costs:
            return rest
        counts = counts_text(self._found)
        return counts if self.ordering.order == self.START else f"{counts}  ·  {rest}"

    def chosen(self) -> Finding | None:
        """Return the finding under the cursor."""
        rows, at = self.rows, self.table.cursor
        if rows is None or at >= len(rows.order):
            return None
        finding = rows.view.at(rows.order[at])
        assert isinstance(finding, Finding)
        return finding

    @on(RowHighlighted)
    def _tell(self) -> None:
        """Show the finding under the cursor in words; without one, what was looked at."""
        finding, view = self.chosen(), View(self.state, self.late_us)
        if finding is not None:
            self.brief.show(brief_sections(view, finding))
        elif self.state.costs:
            self.brief.show(calm_sections(self.state))

    @on(RowSelected)
    def _go(self) -> None:
        self.finding.action_go()

    def action_describe(self) -> None:
        """Show everything about the finding under the cursor."""
        if (finding := self.chosen()) is not None:
            self.app.push_screen(FindingDetail(finding))

    def action_hints(self) -> None:
        """Show also what is only worth knowing of settings, or leave it out again."""
        self._with_hints = not self._with_hints
        self.refresh_state()
