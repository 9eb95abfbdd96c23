"""The findings screen: open findings, worst first, and recently ended ones; live."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, ClassVar

from textual import getters, on
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget

from natstui.model.columns.view import View
from natstui.model.findings.causes.settings import consumer_settings, stream_settings
from natstui.model.findings.finding import Finding
from natstui.model.live.state import State
from natstui.model.live.table import Key
from natstui.tui.findings.cells import FINDING_COLUMNS, FindingView, Found
from natstui.tui.findings.detail import FindingDetail
from natstui.tui.findings.keys import FindingKeys
from natstui.tui.findings.text import CALM, brief_sections, calm_sections, counts_text
from natstui.tui.frame.columns import ColumnSpec, Order
from natstui.tui.frame.systems import SystemState, joined, of_system
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.frame.table_text import empty_text
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.sections import SectionText
from natstui.tui.kit.table.view import RowHighlighted, RowSelected

_MORE_HINTS_AFTER_S = 0.05
ROWS_AT_ONCE = 400
"""Rows that are evaluated in one step of a few milliseconds, so that keys are handled in
between.
"""
_AGAIN_AFTER_US = 60_000_000
"""Interval of evaluating unchanged settings: some become risky by time alone, as an unused
consumer.
"""
_Seen = tuple[object, object]
"""The settings of a row and of its stream, at its last evaluation."""


class FindingsScreen(TableScreen):
    """The findings table, and the text of the finding under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "describe", "Describe", id="describe"),
        *FindingKeys.BINDINGS,
        Binding("i", "hints", "Hints", id="finding.hints"),
        Binding("f", "over", "Over", id="finding.over"),
        Binding("a", "fold", "Fold", id="finding.fold", show=False),
    ]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = FINDING_COLUMNS
    NOUN = "findings"
    START = Order("severity", reverse=True)
    OF_A_ROW: ClassVar[frozenset[str]] = frozenset({"describe"})
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
        self._folds = True
        self._offered_for: tuple[bool, ...] = ()
        """The last conditions that decide which keys are offered."""
        self._caches: dict[str, FindingsCache] = {}
        """System name → its findings."""

    def body(self) -> Iterable[Widget]:
        """Yield the table above, the finding under the cursor below."""
        yield from super().body()
        yield VerticalScroll(SectionText(), id="brief", can_focus=False)

    def view(self) -> Any:
        """Return the findings of the current state, of all systems."""

        def of_one(system: SystemState) -> FindingView:
            cache = self._caches.setdefault(system.name, FindingsCache())
            found_rows = cache.found_in(
                system.state,
                with_hints=self._with_hints,
                with_ended=self._with_over,
                folds=self._folds and not self.ordering.order.pattern,
            )
            return FindingView(system.state, system.late_us, found_rows)

        return joined(self.where.shown, of_one)

    def refresh_state(self) -> None:
        """Show the newer findings; those on settings of many rows come in steps."""
        self._caches = {
            system.name: self._caches.get(system.name, FindingsCache())
            for system in self.where.shown
        }
        pending = [
            self._caches[system.name].hints.look(system.state) for system in self.where.shown
        ]
        if any(pending):
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
        counts = counts_text([cache.found for cache in self._caches.values()], self._with_over)
        if any(cache.found.is_folded for cache in self._caches.values()):
            counts += f"  ·  alike are folded: {key_of(self, 'finding.fold')} shows each"
        return counts if self.ordering.order == self.START else f"{counts}  ·  {rest}"

    def chosen(self) -> Finding | None:
        """Return the finding under the cursor."""
        rows, position = self.rows, self.table.cursor
        if rows is None or position >= len(rows.order):
            return None
        view, row = of_system(rows.view, rows.order[position])
        finding = view.at(row)
        assert isinstance(finding, Finding)
        return finding

    @on(RowHighlighted)
    def _tell(self) -> None:
        """Show the text of the finding under the cursor; without one, what was checked."""
        finding, view = self.chosen(), View(self.state, self.late_us)
        found_rows = [cache.found for cache in self._caches.values()]
        before, self._offered_for = (
            self._offered_for,
            (
                finding is not None,
                finding is not None and finding.until_us is not None,
                finding is not None and bool(finding.entity.stream),
                any(system_found.left_out_count for system_found in found_rows),
                any(system_found.over for system_found in found_rows),
            ),
        )
        if self._offered_for != before:
            self.refresh_bindings()
        if finding is not None:
            self._frame("Finding")
            self.brief.show(brief_sections(view, finding))
        elif self.state.costs:
            self._frame("Read")
            self.brief.show(calm_sections([system.state for system in self.where.shown]))

    def _frame(self, title: str) -> None:
        self.query_one("#brief").border_title = title

    @on(RowSelected)
    def _go(self) -> None:
        self.finding.action_go()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether showing more or less is offered."""
        found_rows = [cache.found for cache in self._caches.values()]
        if action == "hints":
            return self._with_hints or any(
                system_found.left_out_count for system_found in found_rows
            )
        if action == "over":
            return self._with_over or any(system_found.over for system_found in found_rows)
        if action == "fold":
            return not self._folds or any(system_found.is_folded for system_found in found_rows)
        return super().check_action(action, parameters)

    def action_describe(self) -> None:
        """Open the finding under the cursor."""
        if (finding := self.chosen()) is not None:
            self.app.push_screen(FindingDetail(finding))

    def action_over(self) -> None:
        """Show or hide ended findings."""
        self._with_over = not self._with_over
        self.refresh_state()

    def action_fold(self) -> None:
        """Switch between a row per finding, and folded similar ones."""
        self._folds = not self._folds
        self.refresh_state()

    def action_hints(self) -> None:
        """Show or hide informational findings about settings."""
        self._with_hints = not self._with_hints
        self.refresh_state()


class FindingsCache:
    """The findings of one system, including those about its settings."""

    def __init__(self) -> None:
        self.hints = Hints()
        self.found = Found(State())
        self._made_for: tuple[object, ...] = ()

    def found_in(self, state: State, *, with_hints: bool, with_ended: bool, folds: bool) -> Found:
        """Return the findings of a state; the same object while they are unchanged."""
        made_for = (state.findings, self.hints.found, with_hints, with_ended, folds)
        if not self._made_for or any(
            new is not old for new, old in zip(made_for, self._made_for, strict=True)
        ):
            self._made_for = made_for
            self.found = Found(
                state, self.hints.found, with_hints=with_hints, with_ended=with_ended, folds=folds
            )
        return self.found


class Hints:
    """Evaluates the settings of every stream and consumer."""

    def __init__(self) -> None:
        self.found: tuple[Finding, ...] = ()
        """The findings; another object when any has changed."""
        self._known: dict[Key, tuple[_Seen, tuple[Finding, ...]]] = {}
        self._complete_for: tuple[object, ...] = ()
        self._complete_at_us = 0

    def look(self, state: State) -> bool:
        """Evaluate new and changed rows; return whether some are left for later."""
        inputs = (
            state.streams.roster, state.consumers.roster,
            state.stream_configurations, state.consumer_configurations,
        )  # fmt: skip
        is_same = len(inputs) == len(self._complete_for) and all(
            new is old for new, old in zip(inputs, self._complete_for, strict=True)
        )
        if abs(state.now_at_us - self._complete_at_us) > _AGAIN_AFTER_US:
            if is_same:
                self._known = {
                    key: ((None, None), evaluated) for key, (_, evaluated) in self._known.items()
                }
            self._complete_at_us = state.now_at_us
        elif is_same:
            return False
        is_incomplete = self._look_at_some(state)
        if not is_incomplete:
            self._complete_for = inputs
        return is_incomplete

    def _look_at_some(self, state: State) -> bool:
        results, before = self._known, len(self._known)
        streams, consumers = state.stream_configurations, state.consumer_configurations
        keys = state.streams.roster.keys, state.consumers.roster.keys
        has_changed, evaluated_count, is_incomplete = False, 0, False
        for row, key in chain(enumerate(keys[0]), enumerate(keys[1])):
            name = str(key[0])
            of_consumer = len(key) == 3
            row_settings = consumers.get((name, str(key[1]))) if of_consumer else streams.get(name)
            settings_pair = (row_settings, streams.get(name))
            was = results.get(key)
            if was is not None and was[0][0] is row_settings and was[0][1] is settings_pair[1]:
                continue
            if evaluated_count == ROWS_AT_ONCE:
                is_incomplete = True
                break
            evaluated_count += 1
            findings = tuple((consumer_settings if of_consumer else stream_settings)(state, row))
            has_changed = has_changed or findings != (was[1] if was else ())
            results[key] = (settings_pair, findings)
        if not is_incomplete and before > len(keys[0]) + len(keys[1]):
            alive = {*keys[0], *keys[1]}
            self._known = results = {
                key: result for key, result in results.items() if key in alive
            }
            has_changed = True
        if has_changed:
            self.found = tuple(chain.from_iterable(findings for _, findings in results.values()))
        return is_incomplete
