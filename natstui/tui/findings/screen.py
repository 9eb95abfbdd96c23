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
from natstui.model.findings.causes.risky_settings import (
    find_risky_consumer_settings,
    find_risky_stream_settings,
)
from natstui.model.findings.finding import Finding
from natstui.model.live.known_rows import RowKey
from natstui.model.live.state import State
from natstui.tui.findings.cells import FINDING_COLUMNS, FindingView, SortedFindings
from natstui.tui.findings.detail import FindingDetail
from natstui.tui.findings.keys import FindingKeys
from natstui.tui.findings.text import (
    NO_FINDINGS_TEXT,
    brief_sections,
    counts_text,
    no_findings_sections,
)
from natstui.tui.frame.columns import ColumnSpec, SortAndFilter
from natstui.tui.frame.row_order import empty_text
from natstui.tui.frame.systems import find_system_row, join_views
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.keys import key_of, user_keys
from natstui.tui.kit.sections import SectionText
from natstui.tui.kit.table.view import RowHighlighted, RowSelected

_STEP_PAUSE_S = 0.05
"""Pause between two steps of evaluating settings."""
MAX_ROWS_PER_STEP = 400
"""Number of rows evaluated in one step of a few milliseconds; keys are handled between steps."""
_REEVALUATE_AFTER_US = 60_000_000
"""Interval of evaluating unchanged settings: some become risky with time, such as an unused
consumer.
"""
_RowAndStreamSettings = tuple[object, object]
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
    DEFAULT_ORDER = SortAndFilter("severity", reverse=True)
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
        self._drawn_key_conditions: tuple[bool, ...] = ()
        """The conditions by which keys are offered, when the keys were last drawn."""
        self._cache_by_system: dict[str, FindingsCache] = {}
        """System name → the findings of that system."""

    def body(self) -> Iterable[Widget]:
        """Yield the table, and the text of the finding under the cursor below it."""
        yield from super().body()
        yield VerticalScroll(SectionText(), id="brief", can_focus=False)

    def view(self) -> Any:
        """Return the findings of the current state, of all systems."""
        systems, views = self.scope.shown_systems, list[FindingView]()
        for system in systems:
            cache = self._cache_by_system.setdefault(system.name, FindingsCache())
            sorted_findings = cache.update(
                system.state,
                with_hints=self._with_hints,
                with_ended=self._with_ended,
                is_folding=self._is_folding and not self.ordering.order.pattern,
            )
            views.append(FindingView(system.state, system.poll_age_us, sorted_findings))
        return join_views(systems, views)

    def refresh_state(self) -> None:
        """Show newer findings; settings are evaluated in steps, one per call."""
        self._cache_by_system = {
            system.name: self._cache_by_system.get(system.name, FindingsCache())
            for system in self.scope.shown_systems
        }
        have_remaining_rows = [
            self._cache_by_system[system.name].hints.evaluate(system.state)
            for system in self.scope.shown_systems
        ]
        if any(have_remaining_rows):
            self.set_timer(_STEP_PAUSE_S, self._evaluate_next_step)
        super().refresh_state()
        self._show_finding()

    def _evaluate_next_step(self) -> None:
        if self.is_current:
            self.refresh_state()

    def empty_text(self, total: int) -> str:
        """Return the text of an empty table: nothing was found, or nothing is known yet."""
        if total or not self.state.costs:
            return empty_text(self.state, self.NOUN, total)
        return NO_FINDINGS_TEXT

    def caption_text(self, shown: int, total: int) -> str:
        """Return the caption: the number of findings of each severity."""
        table_caption = super().caption_text(shown, total)
        if not self.state.costs:
            return table_caption
        over_key = "" if self._with_ended else key_of(self, "finding.over")
        counts = counts_text(
            [cache.sorted_findings for cache in self._cache_by_system.values()],
            over_key,
            key_of(self, "finding.hints"),
        )
        if any(cache.sorted_findings.is_folded for cache in self._cache_by_system.values()):
            counts += f"  ·  alike are folded: {key_of(self, 'finding.fold')} shows each"
        return (
            counts
            if self.ordering.order == self.DEFAULT_ORDER
            else f"{counts}  ·  {table_caption}"
        )

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
        """Show the text of the finding under the cursor; without a finding, show what was
        checked.
        """
        finding, view = self.find_finding(), View(self.state, self.poll_age_us)
        systems_findings = [cache.sorted_findings for cache in self._cache_by_system.values()]
        previous_conditions, self._drawn_key_conditions = (
            self._drawn_key_conditions,
            (
                finding is not None,
                finding is not None and finding.until_us is not None,
                finding is not None and bool(finding.entity.stream),
                any(sorted_findings.hidden_hints_count for sorted_findings in systems_findings),
                any(sorted_findings.ended for sorted_findings in systems_findings),
            ),
        )
        if self._drawn_key_conditions != previous_conditions:
            self.refresh_bindings()
        if finding is not None:
            self._set_title("Finding")
            self.finding_text.show(brief_sections(view, finding, user_keys(self)))
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
        systems_findings = [cache.sorted_findings for cache in self._cache_by_system.values()]
        if action == "hints":
            return self._with_hints or any(
                sorted_findings.hidden_hints_count for sorted_findings in systems_findings
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
        inputs = (state.findings, self.hints.findings, with_hints, with_ended, is_folding)
        if not self._inputs or any(
            new_input is not old_input
            for new_input, old_input in zip(inputs, self._inputs, strict=True)
        ):
            self._inputs = inputs
            self.sorted_findings = SortedFindings(
                state,
                self.hints.findings,
                with_hints=with_hints,
                with_ended=with_ended,
                is_folding=is_folding,
            )
        return self.sorted_findings


class SettingsFindings:
    """The findings about settings of all streams and consumers, evaluated in steps."""

    def __init__(self) -> None:
        self.findings: tuple[Finding, ...] = ()
        """The findings so far; another object when any has changed."""
        self._settings_and_findings_by_key: dict[
            RowKey, tuple[_RowAndStreamSettings, tuple[Finding, ...]]
        ] = {}
        self._evaluated_inputs: tuple[object, ...] = ()
        self._evaluated_at_us = 0

    def evaluate(self, state: State) -> bool:
        """Evaluate the settings of new and changed rows, at most `MAX_ROWS_PER_STEP`; return
        whether rows remain.
        """
        inputs = (
            state.streams.roster, state.consumers.roster,
            state.stream_configurations, state.consumer_configurations,
        )  # fmt: skip
        has_same_inputs = len(inputs) == len(self._evaluated_inputs) and all(
            new_input is old_input
            for new_input, old_input in zip(inputs, self._evaluated_inputs, strict=True)
        )
        if abs(state.now_at_us - self._evaluated_at_us) > _REEVALUATE_AFTER_US:
            if has_same_inputs:
                self._settings_and_findings_by_key = {
                    key: ((None, None), findings)
                    for key, (_, findings) in self._settings_and_findings_by_key.items()
                }
            self._evaluated_at_us = state.now_at_us
        elif has_same_inputs:
            return False
        has_remaining_rows = self._evaluate_step(state)
        if not has_remaining_rows:
            self._evaluated_inputs = inputs
        return has_remaining_rows

    def _evaluate_step(self, state: State) -> bool:
        entry_by_key, previous_count = (
            self._settings_and_findings_by_key,
            len(self._settings_and_findings_by_key),
        )
        streams, consumers = state.stream_configurations, state.consumer_configurations
        keys = state.streams.roster.keys, state.consumers.roster.keys
        has_changed, evaluated_count, has_remaining_rows = False, 0, False
        for row, key in chain(enumerate(keys[0]), enumerate(keys[1])):
            name = str(key[0])
            is_consumer = len(key) == 3
            row_settings = consumers.get((name, str(key[1]))) if is_consumer else streams.get(name)
            row_and_stream_settings = (row_settings, streams.get(name))
            previous_entry = entry_by_key.get(key)
            if (
                previous_entry is not None
                and previous_entry[0][0] is row_settings
                and previous_entry[0][1] is row_and_stream_settings[1]
            ):
                continue
            if evaluated_count == MAX_ROWS_PER_STEP:
                has_remaining_rows = True
                break
            evaluated_count += 1
            findings = tuple(
                (find_risky_consumer_settings if is_consumer else find_risky_stream_settings)(
                    state, row
                )
            )
            has_changed = has_changed or findings != (previous_entry[1] if previous_entry else ())
            entry_by_key[key] = (row_and_stream_settings, findings)
        if not has_remaining_rows and previous_count > len(keys[0]) + len(keys[1]):
            existing_keys = {*keys[0], *keys[1]}
            self._settings_and_findings_by_key = entry_by_key = {
                key: entry for key, entry in entry_by_key.items() if key in existing_keys
            }
            has_changed = True
        if has_changed:
            self.findings = tuple(
                chain.from_iterable(findings for _, findings in entry_by_key.values())
            )
        return has_remaining_rows
