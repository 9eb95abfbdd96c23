"""The findings screen: open findings, worst first, and recently ended findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, ClassVar

from textual import getters, on
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget

from natstui.model.columns.view import View
from natstui.model.findings.causes.settings import (
    find_risky_consumer_settings,
    find_risky_stream_settings,
)
from natstui.model.findings.finding import Finding
from natstui.model.live.state import State
from natstui.model.live.table import Key
from natstui.tui.findings.cells import FINDING_COLUMNS, FindingView, SortedFindings
from natstui.tui.findings.detail import FindingDetail
from natstui.tui.findings.keys import FindingKeys
from natstui.tui.findings.text import (
    NO_FINDINGS_TEXT,
    brief_sections,
    counts_text,
    no_findings_sections,
)
from natstui.tui.frame.columns import ColumnSpec, Order
from natstui.tui.frame.systems import SystemState, find_system_row, join_views
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.frame.table_text import empty_text
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.sections import SectionText
from natstui.tui.kit.table.view import RowHighlighted, RowSelected

_NEXT_STEP_S = 0.05
"""Pause between two steps of evaluating settings."""
ROWS_AT_ONCE = 400
"""Number of rows evaluated in one step of a few milliseconds; keys are handled between steps."""
_REEVALUATE_AFTER_US = 60_000_000
"""Interval of evaluating unchanged settings: some become risky with time, such as an unused
consumer.
"""
_SettingsPair = tuple[object, object]
"""The settings of a row and of its stream when the row was last evaluated."""


class FindingsScreen(TableScreen):
    """The findings table; below it the text of the finding under the cursor."""

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
    ROW_ACTIONS: ClassVar[frozenset[str]] = frozenset({"describe"})
    DEFAULT_CSS = """
    FindingsScreen #brief {
        height: 35%; min-height: 6; max-height: 12;
        scrollbar-size: 1 1;
    }
    """

    finding_text = getters.query_one("#brief SectionText", SectionText)

    def __init__(self) -> None:
        super().__init__()
        self.finding = FindingKeys(self, self.find_finding)
        self.scope.get_target_keys = lambda: {self.table.cursor_key} if self.is_mounted else ()
        self._with_hints = self._with_ended = False
        self._is_folding = True
        self._key_conditions: tuple[bool, ...] = ()
        """The conditions by which keys are offered, when the keys were last drawn."""
        self._caches: dict[str, FindingsCache] = {}
        """System name → the findings of that system."""

    def body(self) -> Iterable[Widget]:
        """Yield the table, and the text of the finding under the cursor below it."""
        yield from super().body()
        yield VerticalScroll(SectionText(), id="brief", can_focus=False)

    def view(self) -> Any:
        """Return the findings of the current state, of all systems."""

        def create_view(system: SystemState) -> FindingView:
            cache = self._caches.setdefault(system.name, FindingsCache())
            systems_findings = cache.update(
                system.state,
                with_hints=self._with_hints,
                with_ended=self._with_ended,
                is_folding=self._is_folding and not self.ordering.order.pattern,
            )
            return FindingView(system.state, system.poll_age_us, systems_findings)

        return join_views(self.scope.shown_systems, create_view)

    def refresh_state(self) -> None:
        """Show newer findings; settings are evaluated in steps, one per call."""
        self._caches = {
            system.name: self._caches.get(system.name, FindingsCache())
            for system in self.scope.shown_systems
        }
        pending = [
            self._caches[system.name].hints.evaluate(system.state)
            for system in self.scope.shown_systems
        ]
        if any(pending):
            self.set_timer(_NEXT_STEP_S, self._evaluate_more)
        super().refresh_state()
        self._show_finding()

    def _evaluate_more(self) -> None:
        if self.is_current:
            self.refresh_state()

    def empty_text(self, total: int) -> str:
        """Return the text of an empty table: nothing was found, or nothing is known yet."""
        if total or not self.state.costs:
            return empty_text(self.state, self.NOUN, total)
        return NO_FINDINGS_TEXT

    def caption_text(self, shown: int, total: int) -> str:
        """Return the caption: the number of findings of each severity."""
        rest = super().caption_text(shown, total)
        if not self.state.costs:
            return rest
        counts = counts_text(
            [cache.sorted_findings for cache in self._caches.values()], self._with_ended
        )
        if any(cache.sorted_findings.is_folded for cache in self._caches.values()):
            counts += f"  ·  alike are folded: {key_of(self, 'finding.fold')} shows each"
        return counts if self.ordering.order == self.START else f"{counts}  ·  {rest}"

    def find_finding(self) -> Finding | None:
        """Return the finding under the cursor; None in an empty table."""
        rows, position = self.rows, self.table.cursor
        if rows is None or position >= len(rows.order):
            return None
        view, row = find_system_row(rows.view, rows.order[position])
        finding = view.at(row)
        assert isinstance(finding, Finding)
        return finding

    @on(RowHighlighted)
    def _show_finding(self) -> None:
        """Show the text of the finding under the cursor; without one, what previous checked."""
        finding, view = self.find_finding(), View(self.state, self.poll_age_us)
        systems_findings = [cache.sorted_findings for cache in self._caches.values()]
        before, self._key_conditions = (
            self._key_conditions,
            (
                finding is not None,
                finding is not None and finding.until_us is not None,
                finding is not None and bool(finding.entity.stream),
                any(sorted_findings.left_out_count for sorted_findings in systems_findings),
                any(sorted_findings.ended for sorted_findings in systems_findings),
            ),
        )
        if self._key_conditions != before:
            self.refresh_bindings()
        if finding is not None:
            self._set_title("Finding")
            self.finding_text.show(brief_sections(view, finding))
        elif self.state.costs:
            self._set_title("Read")
            self.finding_text.show(
                no_findings_sections([system.state for system in self.scope.shown_systems])
            )

    def _set_title(self, title: str) -> None:
        self.query_one("#brief").border_title = title

    @on(RowSelected)
    def _open_entity(self) -> None:
        self.finding.action_go()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether showing more or fewer findings is offered: where it changes the table."""
        systems_findings = [cache.sorted_findings for cache in self._caches.values()]
        if action == "hints":
            return self._with_hints or any(
                sorted_findings.left_out_count for sorted_findings in systems_findings
            )
        if action == "over":
            return self._with_ended or any(
                sorted_findings.ended for sorted_findings in systems_findings
            )
        if action == "fold":
            return not self._is_folding or any(
                sorted_findings.is_folded for sorted_findings in systems_findings
            )
        return super().check_action(action, parameters)

    def action_describe(self) -> None:
        """Show the details of the finding under the cursor."""
        if (finding := self.find_finding()) is not None:
            self.app.push_screen(FindingDetail(finding))

    def action_over(self) -> None:
        """Show or hide ended findings."""
        self._with_ended = not self._with_ended
        self.refresh_state()

    def action_fold(self) -> None:
        """Switch between a row for each finding, and one for similar findings."""
        self._is_folding = not self._is_folding
        self.refresh_state()

    def action_hints(self) -> None:
        """Show or hide informational findings about settings."""
        self._with_hints = not self._with_hints
        self.refresh_state()


class FindingsCache:
    """The findings of one system, including those about its settings."""

    def __init__(self) -> None:
        self.hints = SettingsFindings()
        self.sorted_findings = SortedFindings(State())
        self._inputs: tuple[object, ...] = ()

    def update(
        self, state: State, *, with_hints: bool, with_ended: bool, is_folding: bool
    ) -> SortedFindings:
        """Return the sorted findings of a state; the same object while no input has changed."""
        inputs = (state.findings, self.hints.sorted_findings, with_hints, with_ended, is_folding)
        if not self._inputs or any(
            new is not old for new, old in zip(inputs, self._inputs, strict=True)
        ):
            self._inputs = inputs
            self.sorted_findings = SortedFindings(
                state,
                self.hints.sorted_findings,
                with_hints=with_hints,
                with_ended=with_ended,
                is_folding=is_folding,
            )
        return self.sorted_findings


class SettingsFindings:
    """The findings about settings of all streams and consumers, evaluated in steps."""

    def __init__(self) -> None:
        self.sorted_findings: tuple[Finding, ...] = ()
        """The findings so far; another object when any has changed."""
        self._results: dict[Key, tuple[_SettingsPair, tuple[Finding, ...]]] = {}
        self._complete_for: tuple[object, ...] = ()
        self._complete_at_us = 0

    def evaluate(self, state: State) -> bool:
        """Evaluate new and changed rows, at most a step of them; return whether any remain."""
        inputs = (
            state.streams.roster, state.consumers.roster,
            state.stream_configurations, state.consumer_configurations,
        )  # fmt: skip
        is_same = len(inputs) == len(self._complete_for) and all(
            new is old for new, old in zip(inputs, self._complete_for, strict=True)
        )
        if abs(state.now_at_us - self._complete_at_us) > _REEVALUATE_AFTER_US:
            if is_same:
                self._results = {
                    key: ((None, None), evaluated) for key, (_, evaluated) in self._results.items()
                }
            self._complete_at_us = state.now_at_us
        elif is_same:
            return False
        is_incomplete = self._evaluate_step(state)
        if not is_incomplete:
            self._complete_for = inputs
        return is_incomplete

    def _evaluate_step(self, state: State) -> bool:
        results, before = self._results, len(self._results)
        streams, consumers = state.stream_configurations, state.consumer_configurations
        keys = state.streams.roster.keys, state.consumers.roster.keys
        has_changed, evaluated_count, is_incomplete = False, 0, False
        for row, key in chain(enumerate(keys[0]), enumerate(keys[1])):
            name = str(key[0])
            of_consumer = len(key) == 3
            row_settings = consumers.get((name, str(key[1]))) if of_consumer else streams.get(name)
            settings_pair = (row_settings, streams.get(name))
            previous = results.get(key)
            if (
                previous is not None
                and previous[0][0] is row_settings
                and previous[0][1] is settings_pair[1]
            ):
                continue
            if evaluated_count == ROWS_AT_ONCE:
                is_incomplete = True
                break
            evaluated_count += 1
            findings = tuple(
                (find_risky_consumer_settings if of_consumer else find_risky_stream_settings)(
                    state, row
                )
            )
            has_changed = has_changed or findings != (previous[1] if previous else ())
            results[key] = (settings_pair, findings)
        if not is_incomplete and before > len(keys[0]) + len(keys[1]):
            existing_keys = {*keys[0], *keys[1]}
            self._results = results = {
                key: result for key, result in results.items() if key in existing_keys
            }
            has_changed = True
        if has_changed:
            self.sorted_findings = tuple(
                chain.from_iterable(findings for _, findings in results.values())
            )
        return is_incomplete
