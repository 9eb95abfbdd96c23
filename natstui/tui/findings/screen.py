"""What is wrong now, worst first, and below it what was until a moment ago; live."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from textual import getters, on
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget

from natstui.model.findings.finding import Finding
from natstui.tui.findings.cells import FINDING_COLUMNS, FindingView
from natstui.tui.findings.detail import FindingDetail
from natstui.tui.findings.keys import FindingKeys
from natstui.tui.findings.looked import Looked
from natstui.tui.findings.text import CALM, brief_sections, calm_sections, counts_text
from natstui.tui.frame.columns import ColumnSpec, Order
from natstui.tui.frame.systems import SystemState, joined, of_system
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
        Binding("f", "over", "Over", id="finding.over"),
    ]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = FINDING_COLUMNS
    NOUN = "findings"
    START = Order("severity", reverse=True)
    DEFAULT_CSS = """
    FindingsScreen #brief {
        height: 35%; min-height: 6; max-height: 12;
        scrollbar-size: 1 1;
    }
    """

    brief = getters.query_one("#brief SectionText", SectionText)

    def __init__(self) -> None:
        super().__init__()
        self.finding = FindingKeys(self, self.chosen)
        self.where.meant = lambda: {self.table.cursor_key} if self.is_mounted else ()
        self._with_hints = self._with_over = False
        self._looked: dict[str, Looked] = {}
        """What was found in each system, by its name."""

    def body(self) -> Iterable[Widget]:
        """The table above, the finding under the cursor below."""
        yield from super().body()
        yield VerticalScroll(SectionText(), id="brief", can_focus=False)

    def view(self) -> Any:
        """Return the findings of the present state, of all systems."""

        def of_one(one: SystemState) -> FindingView:
            looked = self._looked.setdefault(one.name, Looked())
            found = looked.found_in(
                one.state, with_hints=self._with_hints, with_over=self._with_over
            )
            return FindingView(one.state, one.late_us, found)

        return joined(self.where.shown, of_one)

    def refresh_state(self) -> None:
        """Show the newer findings; those on settings of many rows come bit by bit."""
        self._looked = {one.name: self._looked.get(one.name, Looked()) for one in self.where.shown}
        left = [self._looked[one.name].hints.look(one.state) for one in self.where.shown]
        if any(left):
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
        counts = counts_text([one.found for one in self._looked.values()], self._with_over)
        return counts if self.ordering.order == self.START else f"{counts}  ·  {rest}"

    def chosen(self) -> Finding | None:
        """Return the finding under the cursor."""
        rows, at = self.rows, self.table.cursor
        if rows is None or at >= len(rows.order):
            return None
        view, row = of_system(rows.view, rows.order[at])
        finding = view.at(row)
        assert isinstance(finding, Finding)
        return finding

    @on(RowHighlighted)
    def _tell(self) -> None:
        """Show the finding under the cursor in words; without one, what was looked at."""
        finding, view = self.chosen(), View(self.state, self.late_us)
        if finding is not None:
            self._frame("Finding")
            self.brief.show(brief_sections(view, finding))
        elif self.state.costs:
            self._frame("Read")
            self.brief.show(calm_sections([one.state for one in self.where.shown]))

    def _frame(self, title: str) -> None:
        self.query_one("#brief").border_title = title

    @on(RowSelected)
    def _go(self) -> None:
        self.finding.action_go()

    def action_describe(self) -> None:
        """Show everything about the finding under the cursor."""
        if (finding := self.chosen()) is not None:
            self.app.push_screen(FindingDetail(finding))

    def action_over(self) -> None:
        """Show also what is over, or fold it away again."""
        self._with_over = not self._with_over
        self.refresh_state()

    def action_hints(self) -> None:
        """Show also what is only worth knowing of settings, or leave it out again."""
        self._with_hints = not self._with_hints
        self.refresh_state()
